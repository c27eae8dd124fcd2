"""Idle costs nothing: a local driver without work ends, and the next work starts another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.core.model.drivers import Driver
from controlplane.core.model.scaling import DriverKeep
from controlplane.drivers.local_pool import WORKER_REST_S
from controlplane.operations.context import Context
from controlplane.reconciler.fleet import Fleet
from tests.property.engine import MemoryLake
from tests.store.examples import task
from tests.stores import new_store
from tests.unit.drivers.test_local import World, wait_for_end

IDLE_S = 300.0


class Place:
    """A fleet over a pool of real processes, which share a clock that stands still."""

    def __init__(self, folder: Path) -> None:
        self.world, self.store = World(folder), new_store()
        self.pool = self.world.pool("stay", driver_idle_s=IDLE_S)
        context = Context(self.store)
        self.fleet = Fleet(context, MemoryLake(), self.pool, monotonic=lambda: self.world.now)

    def look(self, *keeps: DriverKeep) -> list[Driver]:
        """One pass beside dataflows with these settings; the drivers with Spark that go on."""
        self.fleet.look_after()
        self.fleet.scale({"small": keeps})
        with self.store.read() as tx:
            return [d for d in tx.drivers.running() if d.kind == "driver"]

    def queue(self, number: int) -> None:
        with self.store.begin() as tx:
            tx.queue.enqueue("main", "flights.daily", [task(number)])

    def done(self) -> None:
        """Nobody wants it any more."""
        with self.store.begin() as tx:
            tx.queue.drop_demands("main", "flights.daily")

    def pid(self, kind: str) -> int:
        """Of the next child to come."""
        seen = self.world.report()
        assert seen["kind"] == kind
        return int(seen["pids"][0])

    def pids(self) -> dict[str, int]:
        """Of the next two children to come, by kind."""
        reports = [self.world.report() for _ in range(2)]
        return {report["kind"]: int(report["pids"][0]) for report in reports}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.world.close()


def test_a_driver_without_work_ends_and_the_next_work_starts_another(place: Place) -> None:
    assert place.look() == []
    place.pid("worker")
    place.queue(1)
    place.look()
    first = place.pid("driver")
    place.world.now += 10 * IDLE_S
    assert len(place.look()) == 1  # there is work

    place.done()
    place.world.now += IDLE_S
    assert len(place.look()) == 1  # not for longer than that
    place.world.now += 1.0
    place.look()
    assert not place.fleet.has_warm_drivers
    wait_for_end(first)
    assert place.look() == []

    place.queue(2)
    place.look()
    assert place.pid("driver") != first
    assert len(place.look()) == 1


def test_a_warm_driver_starts_before_there_is_work_and_stays(place: Place) -> None:
    cold, warm = DriverKeep("cold"), DriverKeep("warm")
    place.look(cold, warm)
    first = place.pids()["driver"]
    place.world.now += 100 * IDLE_S
    assert len(place.look(cold, warm)) == 1
    place.world.now += 1.0
    place.look(cold)
    wait_for_end(first)


def test_the_longest_stay_of_all_dataflows_counts(place: Place) -> None:
    cold, long = DriverKeep("cold"), DriverKeep("idle", 3 * IDLE_S)
    place.queue(1)
    place.look(cold)
    first = place.pids()["driver"]
    place.done()
    place.world.now += 2 * IDLE_S
    assert len(place.look(cold, long)) == 1
    place.world.now += 2 * IDLE_S
    place.look(cold, long)
    wait_for_end(first)


def test_a_worker_is_told_when_to_make_room_for_a_fresh_one(place: Place) -> None:
    place.look()
    environment = place.world.report()["environment"]
    assert float(environment["HEADGATE_WORKER_REST_S"]) == WORKER_REST_S
