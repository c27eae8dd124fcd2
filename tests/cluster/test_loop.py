"""The loop and the pool together: as many drivers as the work is worth, and what becomes of work
whose driver ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.core.model.scaling import PoolLimits
from controlplane.core.model.tasks import Size, Task
from controlplane.drivers.kubernetes import KubernetesPool
from controlplane.drivers.pools import Cluster
from controlplane.lake.lake_objects import open_lake
from controlplane.lake.publisher import DeltaPublisher
from controlplane.operations.context import Context
from controlplane.operations.work import claims
from controlplane.ports.store import Store
from controlplane.reconciler.fleet import Fleet
from controlplane.reconciler.loop import Reconciler
from controlplane.reconciler.wake import WakeCounter
from controlplane.store import open_store, upgrade
from dataplane.contract.claims import CONTRACT
from tests.cluster.faults import Between
from tests.cluster.site import Site
from tests.e2e.workspace import until
from tests.store.examples import d, stored_job, task

DAILY = "flights.daily"
JOB = "headgate-driver-standard-0-1"


@contextmanager
def looping(pool: KubernetesPool, folder: Path) -> Iterator[tuple[Reconciler, Store]]:
    """A loop over a database of its own, in which nothing is declared."""
    url = f"sqlite:///{folder / 'metadata.db'}"
    upgrade(url)
    store, lake = open_store(url), folder.as_uri()
    publisher = DeltaPublisher(lake)
    loop = Reconciler(store, Fleet(Context(store), open_lake(lake), pool), publisher, WakeCounter())
    try:
        yield loop, store
    finally:
        loop.close()
        publisher.close()
        store.close()


def ask(store: Store, *tasks: Task) -> None:
    with store.begin("default") as tx:
        tx.queue.put_job(d(0), stored_job(shared={}))
        tx.queue.enqueue("main", DAILY, tasks)


def jobs(site: Site, loop: Reconciler, *names: str) -> None:
    """Passes until these are there."""

    def there() -> bool:
        loop.tick()
        return site.jobs() == sorted(names)

    until(there, lambda: f"there are {site.jobs()}")


def only_drivers(cluster: Cluster) -> Cluster:
    worker = replace(cluster.pools["worker"], limits=PoolLimits(0, 0))
    return replace(cluster, pools={**cluster.pools, "worker": worker})


def test_waiting_work_raises_drivers_and_none_lets_them_go(site: Site, tmp_path: Path) -> None:
    site.node()
    with looping(site.pool(only_drivers(site.cluster(maximum=3))), tmp_path) as (loop, store):
        ask(store, *(task(n) for n in range(200)))
        jobs(site, loop, *(f"headgate-driver-standard-{slot}-1" for slot in range(3)))
        with store.begin("default") as tx:
            tx.queue.drop_demands("main", DAILY)
        jobs(site, loop)
        until(lambda: site.pods() == [], lambda: f"there are {site.pods()}")


def test_each_size_has_its_own_drivers(site: Site, tmp_path: Path) -> None:
    site.node()
    cluster = only_drivers(site.cluster())
    nobody = replace(cluster.pools["small"], limits=PoolLimits(0, 0))
    cluster = replace(cluster, pools={**cluster.pools, "small": nobody})
    sizes: tuple[Size, ...] = ("small", "large")
    with looping(site.pool(cluster), tmp_path) as (loop, store):
        ask(store, *(task(n, size=size) for n, size in enumerate(sizes)))
        jobs(site, loop, JOB, "headgate-driver-large-0-1")


def test_drivers_of_a_size_that_is_to_have_none_any_more_end(site: Site, tmp_path: Path) -> None:
    """They outlived the control plane whose pools had some."""
    site.node()
    cluster = only_drivers(site.cluster())
    with looping(site.pool(cluster), tmp_path) as (loop, store):
        ask(store, task(1, size="large"))
        jobs(site, loop, "headgate-driver-large-0-1")
    none = replace(cluster.pools["large"], limits=PoolLimits(0, 0))
    with looping(site.pool(replace(cluster, pools={**cluster.pools, "large": none})), tmp_path) as (
        loop,
        _,
    ):
        jobs(site, loop, JOB)


def test_a_pool_that_cannot_be_launched_into_keeps_no_other_from_shrinking(
    site: Site, tmp_path: Path
) -> None:
    site.node()
    way = Between(site.settings.host, site.authority)
    cluster = only_drivers(site.cluster())
    with looping(site.pool(cluster), tmp_path) as (loop, store):
        ask(store, task(1))
        jobs(site, loop, JOB)
        with store.begin("default") as tx:
            tx.queue.drop_demands("main", DAILY)
    worker = replace(cluster.pools["worker"], limits=PoolLimits(1, 1))
    pools = replace(cluster, pools={**cluster.pools, "worker": worker})
    with looping(site.pool(pools, site.api(way.url)), tmp_path) as (loop, _):
        way.fault, way.only = "429", "POST"
        jobs(site, loop)
        way.fault = ""
        jobs(site, loop, "headgate-worker-0-1")
    way.close()


ENDS = {
    "memory": (
        "driver-out-of-memory",
        "its driver ended: ran out of memory: killed at its limit of 64Mi",
        1,
    ),
    "pod by hand": ("driver-lost", "its driver ended: its pod was deleted", 0),
    "killed": ("driver-lost", "its driver ended: killed by signal 9", 1),
    "asked": ("driver-lost", "its driver ended: ended as asked", 0),
}


@pytest.mark.parametrize("end", ENDS)
def test_work_of_a_driver_that_ended_is_given_back(site: Site, tmp_path: Path, end: str) -> None:
    """With what it ended of, and counted only where it may have been the task's doing."""
    kubelet = site.node()
    with looping(site.pool(only_drivers(site.cluster(maximum=1))), tmp_path) as (loop, store):
        ask(store, task(1, spec={}))
        jobs(site, loop, JOB)
        kubelet.started(JOB)
        (driver,) = loop.fleet.pool.poll()
        claim = claims.claim(Context(store), driver.id, CONTRACT, ["transform"])
        assert claim is not None
        match end:
            case "memory":
                kubelet.out_of_memory(JOB)
            case "killed":
                kubelet.kill(JOB)
            case "asked":
                loop.fleet.pool.scale("driver", 0)
            case _:
                site.plane.kubectl("delete", "pod", "-n", site.namespace, "--all", "--wait=false")

        def given_back() -> Task | None:
            loop.tick()
            with store.read("default") as tx:
                found = tx.queue.tasks([d(1)])[d(1)]
            return found if found.state == "queued" else None

        found = until(given_back, lambda: "it is not given back")
        assert found is not None
        assert found.error is not None
        condition, message, failures = ENDS[end]
        assert (found.error["condition"], found.failures) == (condition, failures)
        assert found.error["message"].startswith(message)


def test_passes_go_on_while_the_cluster_is_away(site: Site, tmp_path: Path) -> None:
    """Nothing is concluded of drivers that nobody can see."""
    site.node()
    way = Between(site.settings.host, site.authority)
    with looping(site.pool(only_drivers(site.cluster(maximum=1)), site.api(way.url)), tmp_path) as (
        loop,
        store,
    ):
        way.fault = "500"
        ask(store, task(1))
        loop.tick()
        way.fault = ""
        jobs(site, loop, JOB)
        loop.tick()
        with store.read("default") as tx:
            before = [x.id for x in tx.drivers.running()]
        assert len(before) == 1
        for fault in ("429", "500", "unheard"):
            way.fault = fault
            loop.tick()
        way.fault = ""
        loop.tick()
        with store.read("default") as tx:
            assert [x.id for x in tx.drivers.running()] == before
        assert site.jobs() == [JOB]
    way.close()
