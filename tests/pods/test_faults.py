"""What befalls pods while a task runs in them. The rows are right all the same, come in one commit,
and what has happened is said in words.

Does not belong here: every verdict of a cluster by itself (`tests/cluster/test_reasons.py`), losing
the control plane.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pytest

from controlplane.client import Headgate
from tests.cluster.images import reference
from tests.pods import node
from tests.pods.cluster import DATA, Cluster, Json
from tests.pods.gated import IN_AN_EXECUTOR, Gated, job_of

Happen = Callable[[Cluster, Json], object]


# --- while it runs --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class End:
    """What happens to the pod of a driver, and what is told of it."""

    words: str
    happen: Happen


def delete_job(cluster: Cluster, pod: Json) -> None:
    cluster.kubectl("delete", "job", job_of(pod), "--namespace", DATA, "--wait=false")


def delete_pod(cluster: Cluster, pod: Json) -> None:
    cluster.kubectl("delete", "pod", pod["metadata"]["name"], "--namespace", DATA, "--wait=false")


def evict(cluster: Cluster, pod: Json) -> None:
    """As `kubectl drain` asks for: refused by the budget of drivers, until somebody takes that
    away."""
    name = pod["metadata"]["name"]
    wish = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": DATA},
    }
    asks = ("create", "--raw", f"/api/v1/namespaces/{DATA}/pods/{name}/eviction", "--filename=-")
    assert "disruption budget" in cluster.refusal(*asks, stdin=json.dumps(wish))
    with without_budget(cluster):
        cluster.kubectl(*asks, stdin=json.dumps(wish))


@contextmanager
def without_budget(cluster: Cluster) -> Iterator[None]:
    budget = cluster.get("poddisruptionbudget", "drivers", "--namespace", DATA)
    kept = {name: budget["metadata"][name] for name in ("name", "namespace", "labels")}
    cluster.kubectl("delete", "poddisruptionbudget", "drivers", "--namespace", DATA)
    try:
        yield
    finally:
        cluster.kubectl(
            "create", "--filename=-", stdin=json.dumps({**budget, "metadata": kept, "status": {}})
        )


def shorten(cluster: Cluster, pod: Json) -> None:
    """Its time is over now."""
    spec = json.dumps({"spec": {"activeDeadlineSeconds": 1}})
    cluster.kubectl(
        "patch", "job", job_of(pod), "--namespace", DATA, "--type=merge", f"--patch={spec}"
    )


ENDS = {
    "killed": End("killed by signal 9", lambda _, pod: node.kill(pod)),
    "job_deleted": End("its Job was deleted", delete_job),
    "pod_deleted": End("its pod was deleted", delete_pod),
    "evicted": End("evicted: its node is being emptied", evict),
    "deadline": End("ran for longer than its deadline of 1 s", shorten),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_driver_ends_and_another_one_does_its_task(
    installed: Cluster, client: Headgate, airlines: pa.Table, name: str
) -> None:
    flow = Gated(installed, client, name)
    flow.apply("standard")
    pod = flow.unfinished()
    ENDS[name].happen(installed, pod)
    flow.ended(ENDS[name].words, pod)
    flow.let_go()
    flow.assert_right(airlines)


# --- before another one begins --------------------------------------------------------------------


@contextmanager
def limited(cluster: Cluster, kind: str, spec: Json) -> Iterator[None]:
    """More of what the namespace of the data plane is limited by."""
    more = {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "more", "namespace": DATA},
        "spec": spec,
    }
    cluster.kubectl("create", "--filename=-", stdin=json.dumps(more))
    try:
        yield
    finally:
        cluster.kubectl("delete", kind, "more", "--namespace", DATA)


def refused(cluster: Cluster) -> AbstractContextManager[None]:
    return limited(cluster, "LimitRange", {"limits": [{"type": "Pod", "max": {"memory": "1Mi"}}]})


def missing(cluster: Cluster) -> AbstractContextManager[None]:
    return node.without_image(cluster, reference("dataplane"))


HURDLES = {
    "refused": ("the cluster refuses its pod: ", refused),
    "image": (f"image {reference('dataplane')} cannot be had", missing),
}


@pytest.mark.parametrize("name", HURDLES)
def test_a_pod_that_cannot_begin_does_once_it_may(
    installed: Cluster, client: Headgate, airlines: pa.Table, name: str
) -> None:
    words, hurdle = HURDLES[name]
    flow = Gated(installed, client, name)
    flow.apply("standard")
    pod = flow.unfinished()
    with hurdle(installed):
        node.kill(pod)
        flow.held_up(words)
    flow.let_go()
    flow.assert_right(airlines)


def test_an_executor_is_killed_and_its_driver_goes_on(
    installed: Cluster, client: Headgate, airlines: pa.Table
) -> None:
    flow = Gated(installed, client, "executor")
    flow.apply("large", IN_AN_EXECUTOR)
    node.kill(flow.unfinished("executor"))
    flow.let_go("executor")
    flow.assert_right(airlines)
    assert installed.query(
        "SELECT sum(n) FROM events WHERE kind = 'task.retried' AND dataset = 'executor.named'"
    ) == [(None,)]
