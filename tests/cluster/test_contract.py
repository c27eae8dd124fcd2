"""What every pool of drivers does alike: child processes of this one, Jobs of a cluster."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane.core.errors import LogGone
from controlplane.core.model.drivers import Driver
from controlplane.drivers.local_pool import LocalPool
from controlplane.ports.pool import DriverPool
from tests.cluster.site import POD, Site
from tests.e2e.workspace import until

Kill = Callable[[], None]


def local(folder: Path) -> tuple[DriverPool, Kill]:
    command = (sys.executable, str(POD))
    pool = LocalPool("http://127.0.0.1:1", folder, lambda id: f"token of {id}", command=command)

    def kill() -> None:
        (child,) = pool._children.values()  # whoever kills is outside of it
        os.kill(child.process.pid, signal.SIGKILL)

    return pool, kill


def kubernetes(site: Site) -> tuple[DriverPool, Kill]:
    kubelet = site.node()
    return site.pool(keep=False), lambda: kubelet.kill(site.jobs()[-1])


@pytest.fixture(params=["local", "kubernetes"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[DriverPool, Kill]]:
    pool, kill = (
        local(tmp_path) if request.param == "local" else kubernetes(request.getfixturevalue("site"))
    )
    yield pool, kill
    pool.close()


def told(pool: DriverPool, are: Callable[[dict[str, Driver]], bool]) -> dict[str, Driver]:
    """All that it tells until it is as expected, by id."""
    found: dict[str, Driver] = {}

    def look() -> bool:
        found.update({d.id: d for d in pool.poll()})
        return are(found)

    until(look, lambda: f"never: {found}")
    return found


def test_scaling_is_a_level(made: tuple[DriverPool, Kill]) -> None:
    pool, _ = made
    for _ in range(3):
        pool.scale("worker", 1)
        pool.scale("driver", 1)
    found = told(pool, lambda ds: len(ds) == 2)
    assert sorted((d.pool, d.kind, d.ended) for d in found.values()) == [
        (pool.name, "driver", False),
        (pool.name, "worker", False),
    ]
    pool.scale("driver", 0)
    pool.scale("driver", 0)
    found = told(pool, lambda ds: any(d.ended for d in ds.values()))
    (ended,) = [d for d in found.values() if d.ended]
    assert (ended.kind, ended.reason) == ("driver", "ended as asked")


@pytest.mark.parametrize("which", [0, 1])
def test_who_is_busy_goes_on_and_who_is_idle_ends(
    made: tuple[DriverPool, Kill], which: int
) -> None:
    pool, _ = made
    pool.scale("driver", 2)
    both = sorted(told(pool, lambda ds: len(ds) == 2))
    busy, idle = both[which], both[1 - which]
    pool.scale("driver", 1, busy={busy})
    pool.scale("driver", 0, busy={busy})
    assert not told(pool, lambda ds: ds[idle].ended)[busy].ended
    pool.scale("driver", 0)
    told(pool, lambda ds: busy in ds and ds[busy].ended)


def test_an_end_is_told_and_made_good(made: tuple[DriverPool, Kill]) -> None:
    pool, kill = made
    pool.scale("driver", 1)
    (before,) = told(pool, lambda ds: len(ds) == 1)
    kill()
    ended = told(pool, lambda ds: ds[before].ended)[before]
    assert ended.reason.startswith("killed by ")

    def replaced(ds: dict[str, Driver]) -> bool:
        pool.scale("driver", 1)
        return any(not d.ended for d in ds.values())

    assert set(told(pool, replaced)) - {before}


def test_what_was_said_can_be_read_also_after_the_end(made: tuple[DriverPool, Kill]) -> None:
    pool, kill = made
    pool.scale("driver", 1)
    (driver,) = told(pool, lambda ds: len(ds) == 1)
    until(lambda: said(pool, driver, 10) == "I am a driver\n", lambda: "it says nothing")
    kill()
    told(pool, lambda ds: ds[driver].ended)
    assert pool.log(driver, 1) == "I am a driver\n"
    assert pool.log(driver, 10_000) == "I am a driver\n"


def said(pool: DriverPool, driver: str, lines: int) -> str:
    """Nothing, as long as it has not begun."""
    try:
        return pool.log(driver, lines)
    except LogGone:
        return ""


def test_what_nobody_of_this_pool_said(made: tuple[DriverPool, Kill]) -> None:
    pool, _ = made
    for odd in ("driver-0123456789ab", "", "../x", "a b"):
        with pytest.raises(LogGone):
            pool.log(odd, 1)


def test_nothing_is_started_that_nobody_wants(made: tuple[DriverPool, Kill]) -> None:
    pool, _ = made
    for share in pool.shares:
        pool.scale(share.kind, 0, share.size)
    assert pool.poll() == ()


def test_closing_ends_all(made: tuple[DriverPool, Kill]) -> None:
    pool, _ = made
    pool.scale("worker", 1)
    told(pool, lambda ds: len(ds) == 1)
    pool.close()
    assert pool.outlives is False
