"""The pool of Jobs against a real API server, with the rights that the project's roles give, and
real processes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from controlplane.core.errors import LogGone, PoolUnavailable
from controlplane.core.model.drivers import Driver
from controlplane.drivers import manifests
from controlplane.drivers.kubernetes import KubernetesPool
from controlplane.drivers.manifests import Launch
from controlplane.drivers.pools import Executors
from tests.cluster.faults import Between
from tests.cluster.kubelet import ProcessKubelet
from tests.cluster.site import Site, drivers, only
from tests.e2e.workspace import until


def running(pool: KubernetesPool, n: int) -> list[str]:
    """Ids, once so many run."""
    found = drivers(
        pool, lambda ds: sum(not d.ended and not d.reason for d in ds) == n and not pool_waits(pool)
    )
    return sorted(d.id for d in found if not d.ended)


def pool_waits(pool: KubernetesPool) -> bool:
    return any(s.verdict.state == "waiting" for s in pool.seen_jobs())


def ended(n: int) -> Callable[[tuple[Driver, ...]], bool]:
    return lambda ds: sum(d.ended for d in ds) == n


def test_pods_get_an_address_and_a_token(site: Site) -> None:
    kubelet, pool = site.node(), site.pool()
    pool.scale("worker", 1)
    (id,) = running(pool, 1)
    (job,) = site.jobs()
    assert job == "headgate-worker-0-1"
    assert site.secrets() == {job: f"token of {id}"}
    kubelet.started(job)
    (folder,) = (site.folder / kubelet.name).iterdir()
    seen = folder / "home" / "seen"
    until(lambda: seen.exists() and seen.read_text(), lambda: "it does not begin")
    kind, token, url, name = seen.read_text().split("\n")
    assert (kind, token, url) == ("worker", f"token of {id}", "http://127.0.0.1:1")
    assert name == folder.name


def test_scaling_is_a_level(site: Site) -> None:
    site.node()
    pool = site.pool()
    for _ in range(3):
        pool.scale("driver", 2)
    assert len(running(pool, 2)) == 2
    pool.scale("driver", 9)
    assert len(running(pool, 3)) == 3
    pool.scale("driver", 1)
    pool.scale("driver", 1)
    found = drivers(pool, ended(2))
    assert {d.reason for d in found if d.ended} == {"ended as asked"}
    pool.scale("driver", 0)
    drivers(pool, lambda ds: all(d.ended for d in ds))
    assert (site.jobs(), site.pods(), site.secrets()) == ([], [], {})


def test_a_pod_that_waits_for_its_secret_can_be_ended(site: Site) -> None:
    def nobody(driver: str) -> str:
        raise PoolUnavailable(f"no token for {driver}")

    site.node()
    pool = site.pool(mint_token=nobody)
    with pytest.raises(PoolUnavailable):
        pool.scale("driver", 1)
    until(lambda: site.scheduled(), lambda: "no node takes the pod")
    pool.scale("driver", 0)
    drivers(pool, ended(1))
    assert (site.jobs(), site.pods()) == ([], [])


def test_after_a_job_that_was_deleted_by_hand_comes_one_of_another_name_with_a_token_of_its_own(
    site: Site,
) -> None:
    """The Secret of the one that has gone is still there for a moment."""
    site.node()
    pool = site.pool()
    pool.scale("driver", 1)
    running(pool, 1)
    site.plane.kubectl(
        "delete", "job", "headgate-driver-standard-0-1", "-n", site.namespace, "--wait=false"
    )
    drivers(pool, ended(1))
    pool.scale("driver", 1)
    assert (
        site.secrets()["headgate-driver-standard-0-2"] == f"token of {only(tuple(pool.poll())).id}"
    )


def test_who_comes_after_adopts_what_runs(site: Site) -> None:
    site.node()
    first = site.pool()
    first.scale("driver", 2)
    before = running(first, 2)
    first.close()
    second = site.pool()
    second.scale("driver", 2)
    assert running(second, 2) == before
    assert len(site.jobs()) == 2


def test_a_launch_that_nobody_finished_is_finished_by_the_next(site: Site) -> None:
    """Dead between the Job and the token of its pod."""
    site.node()

    def die(_: str) -> str:
        raise SystemError("killed here")

    with pytest.raises(SystemError):
        site.pool(mint_token=die).scale("driver", 1)
    assert (len(site.jobs()), site.secrets()) == (1, {})
    pool = site.pool()
    pool.scale("driver", 1)
    running(pool, 1)
    assert len(site.jobs()) == 1


def test_however_many_launch_there_are_never_more_than_slots(site: Site) -> None:
    site.node()
    pools = [site.pool() for _ in range(4)]
    threads = [threading.Thread(target=p.scale, args=("driver", 3)) for p in pools]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert site.jobs() == [f"headgate-driver-standard-{slot}-1" for slot in range(3)]
    ids = [running(p, 3) for p in pools]
    assert ids == [ids[0]] * 4
    tokens = set(site.secrets().values())
    assert tokens == {f"token of {id}" for id in ids[0]}


def test_slots_come_free_again(site: Site) -> None:
    site.node("fail")
    now = [0.0]
    pool = site.pool(site.cluster(maximum=1), monotonic=lambda: now[0])
    for number in (1, 2, 3):
        now[0] += 100.0
        pool.scale("driver", 1)
        drivers(pool, ended(number))
    assert site.jobs() == [f"headgate-driver-standard-0-{n}" for n in (1, 2, 3)]
    pool.scale("driver", 1)
    assert len(site.jobs()) == 3, "three young deaths in a row, and no pause"


def test_a_failed_list_is_no_empty_one(site: Site) -> None:
    site.node()
    way = Between(site.settings.host, site.authority)
    pool = site.pool(api=site.api(way.url))
    pool.scale("driver", 1)
    before = running(pool, 1)
    for fault in ("429", "500", "unheard"):
        way.fault = fault
        with pytest.raises(PoolUnavailable):
            pool.poll()
    way.fault = "500"
    with pytest.raises(PoolUnavailable):
        pool.scale("driver", 0)
    way.fault = ""
    assert running(pool, 1) == before
    way.close()


def test_a_create_that_nobody_heard_of_is_found(site: Site) -> None:
    site.node()
    way = Between(site.settings.host, site.authority)
    pool = site.pool(api=site.api(way.url))
    pool.poll()
    way.fault, way.only = "unheard", "POST"
    with pytest.raises(PoolUnavailable):
        pool.scale("driver", 1)
    assert (len(site.jobs()), site.secrets()) == (1, {})
    way.fault = ""
    drivers(pool, lambda ds: len(ds) == 1)
    pool.scale("driver", 1)
    running(pool, 1)
    assert len(site.jobs()) == 1
    way.close()


def unfinished(site: Site, way: Between, pool: KubernetesPool, wanted: int) -> None:
    """One Job more, whose pod was not given its token."""
    way.fault, way.only = "unheard", "POST"
    with pytest.raises(PoolUnavailable):
        pool.scale("driver", wanted)
    way.fault, way.only = "", ""


def test_a_secret_that_meets_a_quota_being_counted_is_made_later(site: Site) -> None:
    """409 is not always that there is one of its name."""
    site.node()
    way = Between(site.settings.host, site.authority)
    pool = site.pool(api=site.api(way.url))
    unfinished(site, way, pool, 1)
    way.fault, way.only = "409", "POST"
    pool.poll()
    assert site.secrets() == {}
    way.fault = ""
    running(pool, 1)
    way.close()


def test_what_cannot_be_given_keeps_no_end_from_being_told(site: Site) -> None:
    site.node()
    way = Between(site.settings.host, site.authority)
    pool = site.pool(api=site.api(way.url))
    pool.scale("driver", 1)
    (first,) = running(pool, 1)
    unfinished(site, way, pool, 2)
    site.plane.kubectl("delete", "job", "headgate-driver-standard-0-1", "-n", site.namespace)
    way.fault, way.only = "429", "POST"
    told = {d.id: d for d in pool.poll()}
    assert (told[first].ended, told[first].reason) == (True, "its Job was deleted")
    way.fault = ""
    running(pool, 1)
    way.close()


def test_a_driver_has_one_token_however_often_it_is_refused(site: Site) -> None:
    site.node()
    site.quota("none", {"count/secrets": "0"})
    minted: list[str] = []

    def mint(id: str) -> str:
        minted.append(id)
        return f"token of {id}"

    pool = site.pool(mint_token=mint)
    pool.scale("driver", 1)
    for _ in range(5):
        pool.poll()
    assert site.secrets() == {}
    site.core.delete_namespaced_resource_quota("none", site.namespace)
    assert running(pool, 1) == minted
    assert list(site.secrets().values()) == [f"token of {id}" for id in minted]


def test_a_watch_hints_and_may_break(site: Site) -> None:
    site.node()
    way = Between(site.settings.host, site.authority)
    hinted = threading.Event()
    pool = site.pool(api=site.api(way.url), nudge=hinted.set)
    pool.scale("driver", 1)
    assert hinted.wait(60)
    way.drop_watches()
    running(pool, 1)
    way.close()


def test_the_api_server_may_be_away(site: Site) -> None:
    kubelet, pool = site.node(), site.pool()
    pool.scale("driver", 1)
    before = running(pool, 1)
    (job,) = site.jobs()
    site.plane.kill()
    try:
        with pytest.raises(PoolUnavailable):
            pool.poll()
        kubelet.kill(job)  # nobody is told for now
    finally:
        site.plane.start()
    found = only(drivers(pool, ended(1)))
    assert [found.id] == before
    assert found.reason.startswith("killed by signal 9")


def say(site: Site, kubelet: ProcessKubelet, text: bytes) -> None:
    """In place of all that the process of the only Job has said."""
    (job,) = site.jobs()
    kubelet.started(job).log.write_bytes(text)


def test_of_a_long_log_the_end_is_read(site: Site) -> None:
    """What the server cuts off is the end."""
    kubelet, pool = site.node(), site.pool()
    pool.scale("driver", 1)
    (id,) = running(pool, 1)
    way = Between(site.settings.host, site.authority)
    reading = site.pool(api=site.api(way.url))
    say(
        site,
        kubelet,
        b"".join(b"%06d %s\n" % (n, b"x" * 20_000) for n in range(400)) + "ö".encode() + b"\xff",
    )
    last = reading.log(id, 400).splitlines()
    assert (last[-1], last[0][:6]) == ("ö\ufffd", "000376"), "25 lines of 400"
    assert sum("/log?" in asked for asked in way.asked) == 3
    assert [line[:6] for line in reading.log(id, 2).splitlines()] == ["000399", "ö\ufffd"]
    way.close()


def test_a_log_that_cannot_be_had_is_told_apart_from_one_that_is_gone(site: Site) -> None:
    kubelet, pool = site.node(), site.pool()
    pool.scale("driver", 1)
    (id,) = running(pool, 1)
    (job,) = site.jobs()
    way = Between(site.settings.host, site.authority)
    reading = site.pool(api=site.api(way.url))
    assert reading.log(id, 1) == "I am a driver\n"
    for fault in ("429", "500", "unheard"):
        way.fault = fault
        with pytest.raises(PoolUnavailable):
            reading.log(id, 1)
    way.close()
    site.plane.kubectl("delete", "role", "headgate-pool", "-n", site.namespace)
    with pytest.raises(PoolUnavailable, match="forbidden"):
        pool.log(id, 1)
    site.plane.kubectl("apply", "-f", "-", stdin=site.roles())
    until(lambda: pool.log(id, 1), lambda: "no right again")
    kubelet.hide()
    with pytest.raises(PoolUnavailable, match=r"API server answers 5\d\d"):
        pool.log(id, 1)
    site.plane.kubectl("delete", "job", job, "-n", site.namespace, "--wait=false")
    # Unless it is gone
    site.plane.kubectl("delete", "pods", "--all", "-n", site.namespace, "--force", "--wait=false")
    until(lambda: not site.pods(), lambda: "the pod stays")
    with pytest.raises(LogGone, match=f"the pod of {id} is gone, and its log with it"):
        pool.log(id, 1)


def test_manifests_are_accepted_to_the_letter(site: Site) -> None:
    """By the server, strictly, in a namespace that takes only what needs no privilege."""
    pool = site.cluster()
    for executors in (None, Executors()):
        cluster = replace(site.cluster(executors=executors), secrets=("warehouse.prod", "x" * 253))
        launch = Launch("driver-x", "driver", "standard", 0, 1)
        made = [
            manifests.job(cluster, launch),
            manifests.secret(cluster, launch, "t", {"name": "x", "uid": "u"}),
        ]
        pod = manifests.executor(cluster, Executors())
        pod["metadata"] |= {"name": "executor", "namespace": site.namespace}
        template = made[0]["spec"]["template"]
        alone = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]}
        alone["metadata"] = {"name": "alone", "namespace": site.namespace}
        everything = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*made, pod, alone]})
        site.plane.kubectl(
            "apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=everything
        )
    assert pool.namespace == site.namespace
