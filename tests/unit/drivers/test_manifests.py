"""Manifests, byte by byte: what a cluster is asked for changes on purpose only."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.core.model.answers.spark_sessions import SparkView
from controlplane.core.model.tasks import Size
from controlplane.drivers import manifests, pod_kinds
from controlplane.drivers.manifests import Launch
from controlplane.drivers.pools import NAME, BadPools, Cluster, read
from controlplane.services.queries.adapter import query_pod_manifest
from controlplane.services.sessions.adapter import session_pod_manifest
from controlplane.services.sessions.port import SessionNote

GOLDEN = Path(__file__).with_name("manifests")
POOLS = {
    "namespace": "data",
    "image": "registry.test/headgate/dataplane:1",
    "url": "http://headgate.control.svc:8420",
    "secrets": ["warehouse"],
    "env_secrets": ["lake"],
    "env": {"AWS_REGION": "eu-1"},
    "conf": {"spark.sql.shuffle.partitions": "64"},
    "places": {
        "spot": {
            "selector": {"nodes": "spot"},
            "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
            "priority_class": "headgate-executor",
        },
        "steady": {"selector": {"nodes": "steady"}, "priority_class": "headgate-driver"},
    },
    "pools": {
        "worker": {"maximum": 2},
        "large": {
            "cpu": "4",
            "memory": "16Gi",
            "maximum": 3,
            "idle_s": 60,
            "deadline_s": 3600,
            "place": "steady",
            "executors": {"maximum": 8, "cpu": 4, "memory": "8Gi", "place": "spot"},
        },
    },
}


@pytest.fixture
def cluster() -> Cluster:
    return read(json.dumps(POOLS))


def golden(name: str, value: object) -> None:
    assert json.dumps(value, indent=1, sort_keys=True) + "\n" == (
        GOLDEN / f"{name}.json"
    ).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("kind", "size"), [("worker", "standard"), ("driver", "small"), ("driver", "large")]
)
def test_jobs(cluster: Cluster, kind: str, size: Size) -> None:
    golden(
        f"{kind}-{size}", manifests.job(cluster, Launch("driver-0123456789ab", kind, size, 1, 7))
    )


@pytest.mark.parametrize(
    ("age_s", "is_alive"), [(0, True), (100, True), (150, False), (None, False)]
)
def test_a_process_that_calls_no_more_is_not_alive(
    tmp_path: Path, age_s: float | None, is_alive: bool
) -> None:
    calls = tmp_path / "calls"
    if age_s is not None:
        calls.touch()
        os.utime(calls, (time.time() - age_s, time.time() - age_s))
    command = [
        str(calls) if part == manifests.CALLS else part
        for part in manifests.LIVENESS["exec"]["command"]
    ]
    assert (subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0) == is_alive


def test_what_a_pod_is_given_stays_out_of_its_manifest(cluster: Cluster) -> None:
    launch = Launch("driver-0123456789ab", "driver", "large", 0, 1)
    secret = manifests.secret(
        cluster, launch, "hg_token", {"name": "headgate-driver-large-0-1", "uid": "u"}
    )
    given = {name: base64.b64decode(value).decode() for name, value in secret.pop("data").items()}
    assert given["token"] == "hg_token"
    golden("secret", secret)
    golden("executor", json.loads(given["executor.json"]))
    assert "hg_token" not in json.dumps(manifests.job(cluster, launch))


def test_names_are_those_of_slots(cluster: Cluster) -> None:
    one, other = (Launch(id, "driver", "small", 0, 3) for id in ("driver-a", "driver-b"))
    assert (
        manifests.job(cluster, one)["metadata"]["name"]
        == manifests.job(cluster, other)["metadata"]["name"]
    )


def test_the_pod_of_queries(cluster: Cluster) -> None:
    given = read(
        json.dumps(
            POOLS
            | {"queries": {"memory": "4Gi", "place": "steady", "env_secrets": ["lake-read-only"]}}
        )
    )
    secret, nonce = b"of the installation", "nonce"
    token, made_of = (
        query_pod_manifest.token(secret, nonce),
        query_pod_manifest.settings(given, "s3://lake/x", secret),
    )
    job = query_pod_manifest.job(given, "s3://lake/x", made_of, 7, nonce)
    assert token not in json.dumps(job)
    golden("query", job)
    with_other = (given, "s3://lake/y", secret), (given, "s3://lake/x", b"of another one")
    others = {query_pod_manifest.settings(*other) for other in with_other}
    others.add(query_pod_manifest.settings(replace(given, image="another"), "s3://lake/x", secret))
    assert len(others - {made_of}) == 3, "a pod of these is another one"
    assert query_pod_manifest.token(b"of another one", nonce) != token
    assert cluster.queries is None


def test_the_pod_of_a_session(cluster: Cluster) -> None:
    given = read(
        json.dumps(POOLS | {"sessions": {"place": "steady", "env_secrets": ["lake-read-only"]}})
    )
    view: SparkView = {"name": "shop.orders", "generation": 3}
    note = SessionNote(
        "ada",
        "t1",
        {"id": "0a", "branch": "main", "by": "ada", "at": 1.0, "expires": 3601.0, "views": [view]},
    )
    job = session_pod_manifest.job(given, "s3://lake/x", note, (2, 7), 4200.0)
    golden("session", job)
    assert session_pod_manifest.note_of(job) == note
    assert (session_pod_manifest.slot_of(job), pod_kinds.number_of(job)) == (2, 7)
    assert cluster.sessions is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"namespace": ""}, "`namespace` is missing"),
        ({"namespace": "a/b"}, "`namespace` is 'a/b'"),
        ({"instance": "x" * 40}, "`instance` is"),
        ({"colour": 1}, "`the whole` knows .*; not 'colour'"),
        ({"pools": {"huge": {}}}, "`pools` knows worker, small, standard, large; not 'huge'"),
        ({"pools": {"small": {"memory": "4GB"}}}, "memory is '4GB'"),
        ({"pools": {"small": {"memory": 4}}}, "memory is 4"),
        ({"pools": {"small": {"cpu": "two"}}}, "cpu is 'two'"),
        ({"pools": {"small": {"cpu": "0m"}}}, "cpu is '0m'"),
        ({"pools": {"large": {"executors": {"cpu": 0.5}}}}, "`pools.large.executors.cpu` is 0.5"),
        ({"secrets": "shop"}, "`secrets` is 'shop'; it must be a list"),
        ({"pools": {"small": {"maximum": "3"}}}, "`pools.small.maximum` is '3'"),
        (
            {"pools": {"small": {"minimum": 3, "maximum": 2}}},
            "`pools.small`: minimum 3 and maximum 2",
        ),
        (
            {"pools": {"small": {"place": "moon"}}},
            "`pools.small.place` knows spot, steady; not 'moon'",
        ),
        ({"pools": []}, "`pools` must be an object"),
        ({"pools": {"small": {"tasks_each": 0}}}, "`pools.small.tasks_each` is 0"),
        ({"pools": {"small": {"deadline_s": 0}}}, "`pools.small.deadline_s` is 0"),
        ({"pools": {"small": {"maximum": 2.5}}}, "`pools.small.maximum` is 2.5"),
        ({"pools": {"small": {"idle_s": float("inf")}}}, "`pools.small.idle_s` is inf"),
        (
            {"pools": {"large": {"executors": {"maximum": 0}}}},
            "`pools.large.executors.maximum` is 0",
        ),
        ({"keep_s": 0.5}, "`keep_s` is 0.5"),
        ({"namespace": 5}, "`namespace` is 5; it must be a text"),
        ({"url": None}, "`url` is None; it must be a text"),
        ({"env": ["A"]}, "`env` must be an object"),
        ({"env": {"A": 1}}, "`env.A` is 1; it must be a text"),
        ({"conf": ["spark.x"]}, "`conf` must be an object"),
        ({"conf": {"spark.x": {}}}, "`conf.spark.x` is {}"),
        ({"places": {"spot": {"selector": {"spot": True}}}}, "`places.spot.selector.spot` is True"),
        (
            {"places": {"spot": {"tolerations": {"key": "spot"}}}},
            "`places.spot.tolerations` is .*a list of objects",
        ),
        (
            {"places": {"spot": {"tolerations": ["spot"]}}},
            "`places.spot.tolerations` is .*a list of objects",
        ),
        ({"places": {"spot": {"priority_class": 3}}}, "`places.spot.priority_class` is 3"),
        ({"queries": []}, "`queries` must be an object"),
        (
            {"sessions": {"maximum": -1}},
            "`sessions.maximum` is -1; it must be a whole number from 0 on",
        ),
        ({"sessions": {"size": "large"}}, "`sessions` knows .*; not 'size'"),
        ({"queries": {"maximum": 3}}, "`queries` knows .*; not 'maximum'"),
        ({"queries": {"memory": "4GB"}}, "memory is '4GB'"),
        ({"queries": {"cpu": 0}}, "cpu is 0"),
        ({"queries": {"place": "moon"}}, "`queries.place` knows spot, steady; not 'moon'"),
        ({"queries": {"port": 80}}, "`queries.port` is 80; it must be a whole number from 1024 on"),
        ({"queries": {"idle_s": -1}}, "`queries.idle_s` is -1"),
        (
            {"queries": {"env_secrets": "lake"}},
            "`queries.env_secrets` is 'lake'; it must be a list",
        ),
    ],
)
def test_bad_settings_are_told_with_their_place(change: dict, words: str) -> None:
    with pytest.raises(BadPools, match=words):
        read(json.dumps(POOLS | change))
    with pytest.raises(BadPools, match="no JSON"):
        read("{")


def test_whole_numbers_may_be_written_as_fractions() -> None:
    pools = {"small": {"maximum": 3.0, "idle_s": 0.5, "deadline_s": 1e6, "grace_s": 30.0}}
    cluster = read(
        json.dumps(
            POOLS | {"keep_s": 60.0, "conf": {"spark.sql.shuffle.partitions": 8}, "pools": pools}
        )
    )
    made = manifests.job(cluster, Launch("driver-0", "driver", "small", 0, 1))["spec"]
    pod = made["template"]["spec"]
    numbers = (
        made["activeDeadlineSeconds"],
        made["ttlSecondsAfterFinished"],
        pod["terminationGracePeriodSeconds"],
    )
    assert json.dumps(numbers) == "[1000000, 60, 30]"
    assert list(range(cluster.pool("driver", "small").limits.maximum)) == [0, 1, 2]


def test_secrets_may_have_any_name_that_the_cluster_takes() -> None:
    """Volumes are named more strictly than Secrets: no dots, 63 characters."""
    secrets = ["warehouse.prod", "x" * 253]
    cluster = read(json.dumps(POOLS | {"secrets": secrets}))
    pod = manifests.job(cluster, Launch("driver-0", "driver", "small", 0, 1))["spec"]["template"][
        "spec"
    ]
    volumes = {
        v["name"]: v["secret"]["secretName"]
        for v in pod["volumes"]
        if v["name"].startswith("secret-")
    }
    assert list(volumes.values()) == secrets
    assert all(NAME.fullmatch(name) for name in volumes)
    mounts = {m["name"]: m["mountPath"] for m in pod["containers"][0]["volumeMounts"]}
    assert [mounts[name] for name in volumes] == [f"{manifests.SECRETS}/{name}" for name in secrets]


@pytest.mark.parametrize(
    ("cpu", "threads"), [(2, 2), ("2", 2), (0.5, 1), ("1.5", 1), ("2500m", 2), ("250m", 1)]
)
def test_cpu_is_any_quantity_of_the_clusters(cpu: object, threads: int) -> None:
    cluster = read(json.dumps(POOLS | {"pools": {"small": {"cpu": cpu}}}))
    (container,) = manifests.job(cluster, Launch("driver-0", "driver", "small", 0, 1))["spec"][
        "template"
    ]["spec"]["containers"]
    conf = next(e["value"] for e in container["env"] if e["name"] == "HEADGATE_SPARK_CONF")
    assert json.loads(conf)["spark.master"] == f"local[{threads}]"
    assert container["resources"]["requests"]["cpu"] == str(cpu)
