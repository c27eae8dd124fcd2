"""Why a driver ended, or does not begin: real verdicts of API server, controllers and scheduler,
told in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from controlplane.core.model.drivers import Driver
from controlplane.drivers.kubernetes import START_S
from controlplane.drivers.pools import NodePlace
from tests.cluster.faults import Between
from tests.cluster.kubelet import ProcessKubelet
from tests.cluster.site import Site, drivers, only
from tests.e2e.workspace import until

JOB = "headgate-driver-standard-0-1"
Happen = Callable[[Site, ProcessKubelet], object]


@dataclass(frozen=True)
class End:
    """What happens to a pod, and what is told of it."""

    reason: str | tuple[str, ...]  # its beginning
    fault: str
    happen: Happen = lambda site, kubelet: None
    orders: str = "stay"
    deadline_s: int = 600


def evict(site: Site, _: ProcessKubelet) -> None:
    """As `kubectl drain` does."""
    (pod,) = site.pods()
    site.core.create_namespaced_pod_eviction(pod, site.namespace, {"metadata": {"name": pod}})


GONE = "the cluster took its pod away"  # where the pod has gone before anybody looked
ENDS = {
    "done": End("exited with code 0", "", orders="end"),
    "failed": End("exited with code 1: and the last line", "crashed", orders="fail"),
    "heap": End("ran out of memory (exited with code 1)", "memory", orders="memory"),
    "limit": End(
        "ran out of memory: killed at its limit of 64Mi",
        "memory",
        lambda _, k: k.out_of_memory(JOB),
    ),
    "killed": End("killed by signal 9", "crashed", lambda _, k: k.kill(JOB)),
    "pressure": End(
        "evicted: The node was low on resource: ephemeral-storage.",
        "evicted",
        lambda _, k: k.evict(JOB),
    ),
    "drained": End(("evicted: its node is being emptied", GONE), "disrupted", evict),
    "deadline": End("ran for longer than its deadline of 1 s", "deadline", deadline_s=1),
    "by hand": End(
        "its Job was deleted",
        "disrupted",
        lambda site, _: site.plane.kubectl(
            "delete", "job", JOB, "-n", site.namespace, "--wait=false"
        ),
    ),
    "pod by hand": End(
        "its pod was deleted",
        "disrupted",
        lambda site, _: site.plane.kubectl(
            "delete", "pod", "-n", site.namespace, "--all", "--wait=false"
        ),
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_ends(site: Site, name: str) -> None:
    end = ENDS[name]
    kubelet = site.node(end.orders)
    pool = site.pool(site.cluster(deadline_s=end.deadline_s))
    pool.scale("driver", 1)
    if name not in ("done", "failed", "heap", "deadline"):
        kubelet.started(JOB)
        drivers(pool, lambda ds: len(ds) == 1)
        end.happen(site, kubelet)
    found = only(drivers(pool, lambda ds: any(d.ended for d in ds)))
    assert found.reason.startswith(end.reason)
    assert found.fault == end.fault


def waits(site: Site, words: str, **changes: Any) -> Driver:
    pool = site.pool(site.cluster(**changes))
    pool.scale("driver", 1)
    return only(drivers(pool, lambda ds: any(words in d.reason for d in ds)))


def test_preempted(site: Site) -> None:
    """By the scheduler, for a pod of higher priority, on a node that has room for one."""
    kubelet = site.node(capacity={"cpu": "150m", "memory": "1Gi", "pods": "9"})
    priority = f"{site.name}-high"
    site.plane.kubectl("create", "priorityclass", priority, "--value=1000")
    pool = site.pool()
    pool.scale("driver", 1)
    kubelet.started(JOB)
    drivers(pool, lambda ds: len(ds) == 1)
    place = NodePlace({"site": site.name}, (), priority)
    other = site.pool(replace(site.cluster(place=place), instance="other"))
    other.scale("driver", 1)
    ended = only(drivers(pool, lambda ds: any(d.ended for d in ds)))
    assert (ended.reason, ended.fault) == (
        "preempted: a pod of higher priority took its place",
        "disrupted",
    )
    kubelet.started("other-driver-standard-0-1")
    site.plane.kubectl("delete", "priorityclass", priority)


def test_no_node_has_room(site: Site) -> None:
    site.node(labels={"site": "elsewhere"})
    driver = waits(site, "waits for a node: 0/")
    assert (driver.ended, driver.fault) == (False, "unschedulable")
    assert "didn't match Pod's node affinity/selector" in driver.reason


def test_an_image_is_missing(site: Site) -> None:
    site.node()
    driver = waits(site, "cannot be had", image="test/nowhere")
    assert (
        driver.reason == "image test/nowhere cannot be had: nothing stands for image test/nowhere"
    )
    assert (driver.ended, driver.fault) == (False, "image")


def test_a_full_quota_is_waited_out(site: Site) -> None:
    """Visibly, and then what waited begins."""
    site.node()
    site.quota("small", {"pods": "1"})
    pool = site.pool()
    pool.scale("driver", 2)
    found = drivers(pool, lambda ds: any("waits for room in a quota" in d.reason for d in ds))
    waiting = only(tuple(d for d in found if d.reason))
    assert (waiting.ended, waiting.fault) == (False, "quota")
    site.core.delete_namespaced_resource_quota("small", site.namespace)
    drivers(pool, lambda ds: len(ds) == 2 and not any(d.reason for d in ds))


def test_a_pod_that_is_refused_keeps_its_job_waiting_until_it_is_given_up(site: Site) -> None:
    """The Job is active for ever: only its events tell, and a new launch takes what was mended
    meanwhile."""
    site.node()
    site.core.create_namespaced_limit_range(
        site.namespace,
        {
            "metadata": {"name": "tiny"},
            "spec": {"limits": [{"type": "Pod", "max": {"memory": "1Mi"}}]},
        },
    )
    now = [0.0]
    pool = site.pool(monotonic=lambda: now[0])
    pool.scale("driver", 1)
    driver = only(drivers(pool, lambda ds: any(d.reason for d in ds)))
    assert driver.reason.startswith("the cluster refuses its pod: ")
    assert "maximum memory usage per Pod is 1Mi" in driver.reason
    assert (driver.ended, driver.fault) == (False, "refused")
    site.core.delete_namespaced_limit_range("tiny", site.namespace)
    now[0] += START_S + 1
    drivers(pool, lambda ds: any(d.ended for d in ds))
    pool.scale("driver", 1)
    drivers(pool, lambda ds: any(not d.ended and not d.reason for d in ds))


def test_a_launch_that_is_refused_is_told_as_well(site: Site) -> None:
    site.quota("none", {"count/jobs.batch": "0"})
    now = [0.0]
    pool = site.pool(monotonic=lambda: now[0])

    def refused(ds: tuple[Driver, ...]) -> bool:
        now[0] += 100.0
        pool.scale("driver", 1)
        return any("cannot be launched" in d.reason for d in ds)

    driver = next(d for d in drivers(pool, refused) if d.id.endswith("-refused"))
    assert "exceeded quota: none" in driver.reason
    site.core.delete_namespaced_resource_quota("none", site.namespace)

    def launched(ds: tuple[Driver, ...]) -> bool:
        now[0] += 100.0
        pool.scale("driver", 1)
        return any(d.reason == "launched after all" for d in ds)

    drivers(pool, launched)
    assert len(site.jobs()) == 1


def test_a_refused_launch_that_nobody_wants_any_more_is_not_told_on(site: Site) -> None:
    site.quota("none", {"count/jobs.batch": "0"})
    pool = site.pool()
    pool.scale("driver", 1, "large")
    refused = only(pool.poll())
    assert (refused.id, refused.size, refused.ended) == ("driver-large-refused", "large", False)
    pool.scale("driver", 0, "large")
    assert only(pool.poll()).ended
    assert pool.poll() == ()


def test_a_server_that_fails_at_launches_is_told_as_well(site: Site) -> None:
    """As where a webhook that is asked about each Job does not answer: everything else goes on."""
    site.node()
    way = Between(site.settings.host, site.authority)
    now = [0.0]
    pool = site.pool(api=site.api(way.url), monotonic=lambda: now[0])
    way.fault, way.only = "500", "POST"
    pool.scale("driver", 1)
    assert only(pool.poll()).reason == "cannot be launched: the API server answers 500: as told"
    way.fault, now[0] = "", 100.0
    pool.scale("driver", 1)
    drivers(pool, lambda ds: {d.reason for d in ds} == {"", "launched after all"})
    way.close()


def test_a_pod_that_its_node_cannot_make_says_what_the_node_says(site: Site) -> None:
    """A node without a kubelet: the event is put by hand, as one puts it."""
    room = {"cpu": "1", "memory": "1Gi", "pods": "9"}
    site.core.create_node({"metadata": {"name": site.name, "labels": {"site": site.name}}})
    site.core.patch_node(site.name, {"spec": {"taints": None}})
    ready = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "capacity": room,
        "allocatable": room,
    }
    site.core.patch_node_status(site.name, {"status": ready})
    pool = site.pool()
    pool.scale("driver", 1)
    until(lambda: site.pods(), lambda: "no pod")
    words = 'MountVolume.SetUp failed for volume "secret-0" : secret "warehouse" not found'
    about = {"kind": "Pod", "name": site.pods()[0], "namespace": site.namespace}
    event = {
        "metadata": {"name": "e"},
        "involvedObject": about,
        "type": "Warning",
        "reason": "FailedMount",
    }
    site.core.create_namespaced_event(site.namespace, {**event, "message": words})
    driver = only(
        drivers(pool, lambda ds: any(d.reason.startswith("cannot be started") for d in ds))
    )
    assert (driver.reason, driver.fault, driver.ended) == (
        f"cannot be started: {words}",
        "refused",
        False,
    )
    site.core.delete_node(site.name)
