"""What the pool says of its drivers reaches whoever asks: status, why, events."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from controlplane.core.errors import LogGone
from controlplane.core.model.drivers import Driver
from controlplane.core.model.scaling import PoolLimits, PoolShare
from controlplane.core.model.tasks import SIZES, Size
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints, tokens
from controlplane.operations.inspect import causes, overview
from controlplane.operations.work import claims, reports
from controlplane.reconciler.fleet import Fleet
from controlplane.reconciler.loop import Reconciler
from controlplane.reconciler.wake import WakeCounter
from dataplane.contract.claims import CONTRACT
from dataplane.contract.results import TaskResult
from dataplane.contract.schemas import Json
from dataplane.listing.files import list_files
from dataplane.listing.version_cache import Versions
from tests.property.engine import MemoryLake
from tests.stores import new_store
from tests.there import there
from tests.unit.reconciler.nowhere import Nowhere

SHOP = """\
dataflow: shop
components:
  orders:
    read: {{connector: files, path: {folder}/*.csv, format: csv, options: {{header: true}}, schema: id BIGINT}}
"""
QUOTA = "waits for room in a quota: exceeded quota: team"
ENDS = (  # as the pools say it, with what it counts as
    ("preempted: a pod of higher priority took its place", "disrupted"),
    ("evicted: The node was low on resource: memory", "evicted"),
    ("ran out of memory: killed at its limit of 64Mi", "memory"),
    ("ran for longer than its deadline of 5 s", "deadline"),
    ("exited with code 3: no such bucket", "crashed"),
)


@dataclass
class Pool:
    """Says what it is told to."""

    drivers: tuple[Driver, ...] = ()
    name: str = "kubernetes"
    outlives: bool = True
    busy: set[str] = field(default_factory=set)
    scaled_to: int | None = None
    shares: tuple[PoolShare, ...] = (PoolShare("driver", "standard", SIZES, PoolLimits(0, 1)),)

    def scale(
        self, kind: str, wanted: int, size: Size = "standard", busy: Collection[str] = ()
    ) -> None:
        """As many as there are."""
        self.busy, self.scaled_to = set(busy), wanted

    def end(self, driver: str, reason: str) -> None:
        """None of them is a process."""

    def poll(self) -> tuple[Driver, ...]:
        return self.drivers

    def log(self, driver: str, lines: int) -> str:
        raise LogGone("it says nothing")

    def close(self) -> None:
        """Nothing to end."""


@dataclass
class Place:
    folder: Path
    pool: Pool = field(default_factory=Pool)
    now: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.lake, self.ctx = MemoryLake(), Context(new_store(lambda: self.now))
        self.loop = Reconciler(
            self.ctx.store, Fleet(self.ctx, self.lake, self.pool), Nowhere(), WakeCounter()
        )
        (self.folder / "1.csv").write_text("id\n1\n")
        text = SHOP.format(folder=self.folder)
        blueprints.apply(self.ctx, "main", [blueprints.SentBlueprint("/shop.yaml", text, {})])

    def listed(self) -> None:
        """What a worker does."""
        self.loop.tick()
        claim = claims.claim(self.ctx, "worker", CONTRACT, ["list"])
        assert claim is not None
        assert claim["kind"] == "list"
        (task,) = claim["tasks"]
        found = list_files(claim["job"], Versions())
        result: TaskResult = {
            "task": task["task"],
            "epoch": task["epoch"],
            "state": "done",
            "result": found,
        }
        reports.report(self.ctx, "worker", claim["attempt"], [result], lake=self.lake)
        self.loop.tick()

    def told(self) -> list[Json]:
        with self.ctx.store.read() as tx:
            return [e.body for e in tx.events.newer("main", 0) if e.kind == "driver.ended"]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def driver(name: str, reason: str = "", fault: str = "") -> Driver:
    return Driver(name, "kubernetes", "driver", 1.0, 2.0, bool(fault), reason, fault)  # type: ignore[arg-type]  # any text


def test_a_dataset_whose_tasks_wait_says_what_its_drivers_wait_for(place: Place) -> None:
    place.pool.drivers = (driver("d", QUOTA), driver("works"))
    place.listed()
    (shown,) = causes.why(place.ctx, "main", "shop.orders")["drivers"]
    assert (shown["state"], shown["reason"]) == ("waiting", QUOTA)
    assert [(d["state"], d["reason"]) for d in overview.status(place.ctx, "main")["drivers"]] == [
        ("waiting", QUOTA),
        ("running", ""),
    ]


def test_a_driver_whose_end_was_told_in_a_pass_that_failed_has_ended(place: Place) -> None:
    """Pools tell an end once."""
    place.pool.drivers = (driver("d"), driver("stays"))
    place.listed()
    text, _ = tokens.create(place.ctx, "of d", ("driver",), subject="d")
    claim = claims.claim(place.ctx, "d", CONTRACT, ["parse"])
    assert claim is not None
    place.pool.drivers = (driver("stays"),)
    place.loop.tick()
    with place.ctx.store.read() as tx:
        assert [d.id for d in tx.drivers.running()] == ["stays"]
        assert tx.queue.attempts() == {}
    assert tokens.authenticate(place.ctx.store, text) is None
    assert [(e["driver"], e["reason"]) for e in place.told()] == [("d", "it is not there any more")]


@pytest.mark.parametrize(("reason", "fault"), ENDS, ids=[fault for _, fault in ENDS])
def test_what_a_driver_ended_of_is_told_once_everywhere(
    place: Place, reason: str, fault: str
) -> None:
    place.pool.drivers = (driver("d"),)
    place.listed()
    claim = claims.claim(place.ctx, "d", CONTRACT, ["parse"])
    assert claim is not None
    place.pool.drivers = (driver("d", reason, fault),)
    place.loop.tick()
    place.loop.tick()
    assert [(e["driver"], e["reason"], e["fault"]) for e in place.told()] == [("d", reason, fault)]
    (shown,) = overview.status(place.ctx, "main")["drivers"]
    assert (shown["state"], shown["reason"]) == ("ended", reason)
    why = causes.why(place.ctx, "main", "shop.orders")
    assert [d["reason"] for d in why["drivers"]] == [reason]
    assert there(why["error"])["message"] == f"its driver ended: {reason}"


def test_a_pool_is_told_who_is_busy(place: Place) -> None:
    place.pool.drivers = (driver("d"), driver("idle"))
    place.listed()
    assert place.pool.busy == set()
    assert claims.claim(place.ctx, "d", CONTRACT, ["parse"]) is not None
    place.loop.tick()
    assert place.pool.busy == {"d"}


def test_the_next_leader_does_not_tell_it_again(place: Place) -> None:
    place.pool.drivers = (driver("d"),)
    place.loop.tick()
    place.pool.drivers = (driver("d", *ENDS[0]),)
    place.loop.tick()
    Reconciler(
        place.ctx.store, Fleet(place.ctx, place.lake, place.pool), Nowhere(), WakeCounter()
    ).tick()
    assert len(place.told()) == 1


def test_what_is_left_of_a_driver_that_ended_is_not_let_in(place: Place) -> None:
    """A pod whose Job was deleted goes on until its grace is over."""
    texts = {
        name: tokens.create(place.ctx, name, ["driver"], subject=name)[0]
        for name in ("gone", "works")
    }
    place.pool.drivers = (driver("gone"), driver("works"))
    place.loop.tick()
    place.pool.drivers = (driver("gone", *ENDS[1]), driver("works"))
    place.loop.tick()
    assert [name for name, text in texts.items() if tokens.authenticate(place.ctx.store, text)] == [
        "works"
    ]


def test_what_a_driver_claims_after_its_end_is_taken_from_it_at_once(place: Place) -> None:
    """It had asked before it ended; the pool tells of an end once."""
    place.pool.drivers = (driver("d"),)
    place.listed()
    place.pool.drivers = (driver("d", *ENDS[0]),)
    place.loop.tick()
    assert claims.claim(place.ctx, "d", CONTRACT, ["parse"]) is not None
    place.pool.drivers = ()
    place.loop.tick()
    why = causes.why(place.ctx, "main", "shop.orders")
    assert there(why["error"])["message"] == f"its driver ended: {ENDS[0][0]}"
    with place.ctx.store.read() as tx:
        assert tx.queue.attempts() == {}
