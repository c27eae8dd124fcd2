"""Spark sessions in pods: opened, read by a real client, found by another process, and ended with
their Jobs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.client import ApiError, Headgate
from controlplane.core.errors import EngineUnavailable, QueriesBusy
from controlplane.drivers.pools import Cluster, NodePlace, SessionsPod
from controlplane.services.sessions.adapter.kubernetes_session_pods import (
    LOST_S,
    KubernetesSessionPods,
)
from controlplane.services.sessions.port import SessionNote, SessionPod
from tests.cluster.kubelet import Image
from tests.cluster.site import IMAGE, Site
from tests.cluster.test_queries import SHOP, settings, stays
from tests.e2e.conftest import closing
from tests.e2e.workspace import Workspace, until
from tests.servers.ports import free_port
from tests.slices import takes_turns

CLIENT = """
import json, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).create()
print(json.dumps([list(row) for row in spark.table("`shop.orders`").orderBy("id").collect()]))
"""


def rows(url: str) -> Any:
    found = subprocess.run(
        [sys.executable, "-c", CLIENT, url], stdout=subprocess.PIPE, check=True, timeout=120
    )
    return json.loads(found.stdout)


def code(client: Headgate) -> str:
    with pytest.raises(ApiError) as error:
        client.open_spark_session()
    return error.value.code


# With that of queries: what is said to a pod and the Jobs of each have tests of their own
@takes_turns(0, 2)
def test_sessions_of_a_service_whose_pods_are_in_a_cluster(site: Site, tmp_path: Path) -> None:
    node = site.node(images={IMAGE: Image((sys.executable, "-P", "-m", "dataplane"))})
    with closing(Workspace(tmp_path / "shop")) as workspace:
        workspace.write("shop.yaml", SHOP)
        workspace.write("orders/a.csv", "id,price\n1,10\n2,20\n")
        workspace.run("shop.yaml")
        pod = {
            "cpu": "100m",
            "memory": "1700Mi",
            "place": "site",
            "port": free_port(),
            "maximum": 1,
        }
        given = settings(site, tmp_path, sessions=pod)
        with workspace.serving(0, **given) as service, service.client() as client:
            opened = client.open_spark_session(ttl_s=3000)
            (job,) = site.jobs()
            process = node.started(job).process
            assert opened["forward"] is not None
            assert opened["forward"].startswith(
                f"kubectl --namespace {site.namespace} port-forward pod/{job}-"
            )
            assert rows(opened["url"]) == [[1, 10], [2, 20]]
            with pytest.raises(subprocess.CalledProcessError):
                rows(opened["url"].replace("token=", "token=x"))
            assert code(client) == "queries-busy"
            secret = site.secrets()[job]
            manifest = json.dumps(
                site.batch.read_namespaced_job(job, site.namespace).to_dict(), default=str
            )
            for hidden in (secret, opened["url"].partition("token=")[2].partition(";")[0]):
                assert hidden not in manifest
            service.stop(signal.SIGTERM)
        with workspace.serving(0, **given) as service, service.client() as client:
            (found,) = client.spark_sessions()
            assert (found["id"], found["views"]) == (
                opened["id"],
                [{"name": "shop.orders", "generation": 1}],
            )
            assert rows(opened["url"]) == [[1, 10], [2, 20]], "it outlives who opened it"
            client.end_spark_session(opened["id"])
            assert client.spark_sessions() == []
            until(lambda: not site.jobs() and not site.secrets(), lambda: "Job and Secret go")
            assert process.wait(60) is not None
            token = client.create_token("short", ["edit"])
            with Headgate(service.url, token["token"]) as other:
                other.open_spark_session(ttl_s=3000)
            (second,) = site.jobs()
            service.stop(signal.SIGTERM)
        with workspace.serving(0, **given) as service, service.client() as client:
            assert site.jobs() == [second]
            client.revoke_token(token["id"])
            until(
                lambda: not site.jobs(),
                lambda: "it ends with its token, though another process opened it",
            )
            service.stop(signal.SIGTERM)
        with (
            workspace.serving(0, **settings(site, tmp_path)) as service,
            service.client() as client,
        ):
            assert code(client) == "engine-unavailable"


# --- pods, without Spark ----------------------------------------------------------------------------


def cluster(site: Site, **changes: Any) -> Cluster:
    asked = SessionsPod("100m", "64Mi", place=NodePlace({"site": site.name}), maximum=2)
    return replace(site.cluster(**changes), sessions=asked)


def note(id: str) -> SessionNote:
    return SessionNote(
        "default",
        "t",
        {"id": id, "branch": "main", "by": "ada", "at": 1.0, "expires": 2.0, "views": []},
    )


def pods(site: Site, **changes: Any) -> KubernetesSessionPods:
    return KubernetesSessionPods(cluster(site, **changes), "/lake", site.api)


def test_slots_are_shared_by_replicas(site: Site) -> None:
    site.node(images={IMAGE: stays(site)})
    first, second = pods(site), pods(site)
    first.start(note("aa"), 60.0)
    second.start(note("bb"), 60.0)
    with pytest.raises(QueriesBusy, match="2 Spark sessions"):
        first.start(note("cc"), 60.0)
    until(lambda: isinstance(first.look("aa"), SessionPod), lambda: f"never: {first.look('aa')}")
    assert {one.entry["id"] for one in second.notes()} == {"aa", "bb"}
    second.end("aa")
    until(lambda: {one.entry["id"] for one in first.notes()} == {"bb"}, lambda: "its Job goes")
    first.start(note("cc"), 60.0)
    with pytest.raises(EngineUnavailable, match=r"is being ended|its Job was deleted"):
        first.look("aa")


def test_what_keeps_a_pod_is_told(site: Site) -> None:
    of = pods(site)
    of.start(note("aa"), 60.0)
    until(lambda: "waits for a node: " in str(of.look("aa")), lambda: f"never: {of.look('aa')}")
    of.start(note("bb"), 60.0)
    later = KubernetesSessionPods(
        cluster(site), "/lake", site.api, now=lambda: time.time() + LOST_S + 1.0
    )
    later.start(note("cc"), 60.0)
    until(
        lambda: {one.entry["id"] for one in of.notes()} == {"bb", "cc"},
        lambda: "what came to nothing keeps no place",
    )


def test_an_image_that_is_missing_ends_the_wait(site: Site) -> None:
    site.node(images={})
    of = pods(site)
    of.start(note("aa"), 60.0)

    def refused() -> str:
        try:
            of.look("aa")
        except EngineUnavailable as e:
            return str(e)
        return ""

    assert "image test/dataplane cannot be had" in until(refused, lambda: "never refused")
