"""Queries by Spark in a pod: one for all replicas, found again by its Job; and what the cluster
says where there is none."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.client import ApiError, Headgate
from controlplane.core.errors import EngineUnavailable
from controlplane.drivers.pools import Cluster, NodePlace, QueriesPod
from controlplane.services.queries.adapter.kubernetes_query_pods import KubernetesQueryPods
from controlplane.services.queries.port import PodPlace
from tests.cluster.kubelet import Image
from tests.cluster.site import IMAGE, POD, Site
from tests.e2e.conftest import closing
from tests.e2e.workspace import Workspace, until
from tests.servers.ports import free_port
from tests.slices import takes_turns

SECRET = b"of the installation"
ID = "0123456789abcdef"
ENDLESS = "SELECT count(*) FROM range(10000000000000) WHERE hash(id) = id"
SHOP = """
dataflow: shop
components:
  orders:
    read:
      connector: files
      path: orders/*.csv
      format: csv
      options: {header: true}
      schema: id INT, price INT
"""


def settings(site: Site, folder: Path, **queries: Any) -> dict[str, str]:
    """Of a service without drivers and workers."""
    none = {"minimum": 0, "maximum": 0}
    said: dict[str, Any] = {
        "namespace": site.namespace,
        "image": IMAGE,
        "places": {"site": {"selector": {"site": site.name}}},
        "pools": dict.fromkeys(("worker", "small", "standard", "large"), none),
        **queries,
    }
    (folder / "pools.json").write_text(json.dumps(said))
    return {
        "HEADGATE_POOL": "kubernetes",
        "HEADGATE_POOLS": str(folder / "pools.json"),
        "HEADGATE_KUBECONFIG": str(site.kubeconfig(folder)),
    }


def cancelled(client: Headgate, other: Headgate) -> str:
    """What a query was told that was cancelled while it ran."""
    told = list[str]()

    def ask() -> None:
        with pytest.raises(ApiError) as error:
            client.query(ENDLESS, engine="spark", id=ID, timeout_s=500)
        told.append(error.value.code)

    asking = threading.Thread(target=ask)
    asking.start()
    while not _is_cancelled(other):
        pass
    asking.join()
    return told[0]


def _is_cancelled(client: Headgate) -> bool:
    try:
        client.cancel_query(ID)
    except ApiError as error:
        if error.code != "not-found":
            raise
        return False
    return True


# With that of sessions: what is said to a pod and the Jobs of each have tests of their own
@takes_turns(1, 2)
def test_queries_of_a_service_whose_pods_are_in_a_cluster(site: Site, tmp_path: Path) -> None:
    node = site.node(images={IMAGE: Image((sys.executable, "-P", "-m", "dataplane"))})
    with closing(Workspace(tmp_path / "shop")) as workspace:
        workspace.write("shop.yaml", SHOP)
        workspace.write(
            "orders/a.csv", "id,price\n" + "".join(f"{n},{n * 7 % 90}\n" for n in range(500))
        )
        workspace.run("shop.yaml")
        pod = {"cpu": "100m", "memory": "1700Mi", "place": "site", "port": free_port()}
        given = settings(site, tmp_path, queries=pod)
        sql = "SELECT price % 7 AS k, count(*) AS n, sum(id) AS s FROM shop.orders GROUP BY price % 7 ORDER BY 1"
        with (
            workspace.serving(0, **given) as service,
            service.client() as client,
            service.client() as other,
        ):
            assert site.jobs() == [], "none before there is a query"
            found = client.query(sql, engine="spark")
            assert len(found["rows"]) == 7
            assert found["rows"] == client.query(sql)["rows"]
            (job,) = site.jobs()
            assert cancelled(client, other) == "query-cancelled"
            assert client.query("SELECT 41", engine="spark")["rows"] == [[41]]
            service.stop(signal.SIGTERM)
        with workspace.serving(0, **given) as service, service.client() as client:
            assert client.query("SELECT 42", engine="spark")["rows"] == [[42]]
            assert site.jobs() == [job], "it outlives who started it"
            node.kill(job)
            assert client.query("SELECT 43", engine="spark")["rows"] == [[43]]
            assert site.jobs() == [job, f"{job[:-1]}2"]
            service.stop(signal.SIGTERM)
        with (
            workspace.serving(0, **settings(site, tmp_path)) as service,
            service.client() as client,
            pytest.raises(ApiError, match="add `queries` to the pools file") as refused,
        ):
            client.query("SELECT 44", engine="spark")
        assert refused.value.code == "engine-unavailable"


# --- the pod, without Spark -------------------------------------------------------------------------


def cluster(site: Site, **changes: Any) -> Cluster:
    asked = QueriesPod("100m", "64Mi", place=NodePlace({"site": site.name}))
    return replace(site.cluster(), queries=asked, **changes)


@pytest.fixture
def opened() -> Iterator[list[KubernetesQueryPods]]:
    found = list[KubernetesQueryPods]()
    yield found
    for pods in found:
        pods.close()


def pods(site: Site, opened: list[KubernetesQueryPods], **changes: Any) -> KubernetesQueryPods:
    opened.append(KubernetesQueryPods(cluster(site, **changes), "/lake", SECRET, site.api))
    return opened[-1]


def place(of: KubernetesQueryPods) -> PodPlace:
    def look() -> PodPlace | None:
        found = of.look()
        return found if isinstance(found, PodPlace) else None

    found = until(look, lambda: "it never runs")
    assert found is not None
    return found


def stays(site: Site, orders: str = "stay") -> Image:
    return Image(
        (sys.executable, str(POD)),
        {"ORDERS": orders, "HEADGATE_URL": "", "HEADGATE_HOME": os.fspath(site.folder)},
    )


def test_replicas_ask_for_one_and_know_its_token(
    site: Site, opened: list[KubernetesQueryPods]
) -> None:
    node = site.node(images={IMAGE: stays(site)})
    replicas = [pods(site, opened) for _ in range(3)]
    asking = [threading.Thread(target=replica.look) for replica in replicas]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    places = {place(replica) for replica in replicas}
    (found,) = places
    (job,) = site.jobs()
    assert site.secrets() == {job: found.token}
    assert (found.host, found.port) == ("127.0.0.1", 7070)
    assert found.token not in str(node.started(job).pod)
    assert "token" not in repr(found)


def test_it_has_neither_an_account_nor_secrets_of_others(
    site: Site, opened: list[KubernetesQueryPods]
) -> None:
    node = site.node(images={IMAGE: stays(site)})
    place(pods(site, opened, secrets=("warehouse",)))
    (job,) = site.jobs()
    spec = node.started(job).pod["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert "warehouse" not in str(spec)
    assert "HEADGATE_URL" not in str(spec)


def test_pods_of_other_settings_are_left_to_end(
    site: Site, opened: list[KubernetesQueryPods]
) -> None:
    site.node(images={IMAGE: stays(site), "another": stays(site)})
    first, second = pods(site, opened), pods(site, opened, image="another")
    assert place(first).token != place(second).token
    assert len(site.jobs()) == 2
    assert place(first) == place(first)
    assert len(site.jobs()) == 2


def words(of: KubernetesQueryPods, expected: str) -> str:
    """Once it says so."""

    def look() -> str:
        found = of.look()
        return found if isinstance(found, str) and expected in found else ""

    return until(look, lambda: f"never: {expected}")


def test_without_a_node_that_is_told(site: Site, opened: list[KubernetesQueryPods]) -> None:
    assert words(pods(site, opened), "waits for a node: ")


def test_without_room_that_is_told(site: Site, opened: list[KubernetesQueryPods]) -> None:
    site.quota("none", {"pods": "0"})
    assert words(pods(site, opened), "waits for room in a quota: ")


def refused(of: KubernetesQueryPods) -> str:
    def look() -> str:
        try:
            of.look()
        except EngineUnavailable as e:
            return str(e)
        return ""

    return until(look, lambda: "never refused")


def test_an_image_that_is_missing_ends_the_wait(
    site: Site, opened: list[KubernetesQueryPods]
) -> None:
    site.node(images={})
    assert "image test/dataplane cannot be had" in refused(pods(site, opened))
    until(lambda: not site.jobs(), lambda: "the next query asks anew")


def test_one_that_fails_again_is_not_started_a_third_time(
    site: Site, opened: list[KubernetesQueryPods]
) -> None:
    site.node(images={IMAGE: stays(site, "fail")})
    assert "the last line" in refused(pods(site, opened))
    assert len(site.jobs()) == 2


def test_a_cluster_that_is_away_is_told(site: Site, opened: list[KubernetesQueryPods]) -> None:
    away = KubernetesQueryPods(
        cluster(site), "/lake", SECRET, lambda: site.api("http://127.0.0.1:1")
    )
    opened.append(away)
    assert "the cluster cannot be asked" in words(away, "does not answer")
