"""Drivers and workers that live and say nothing: they are killed and replaced, and what they held
is done by others."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from controlplane.core.model import driver_ends
from controlplane.core.model.drivers import Driver
from controlplane.drivers.liveness import Liveness
from controlplane.drivers.local_pool import AWAY_S, START_S, LocalPool
from tests.e2e.workspace import Workspace, until
from tests.slices import takes_turns

FLOW = """\
dataflow: shop
components:
  orders: {read: {connector: files, path: orders/*.csv, format: csv, schema: id BIGINT}}
"""
SILENT_S = 90.0
SLEEPS = (sys.executable, "-c", "import signal; signal.pause()")


@dataclass
class Place:
    """A pool of real processes that say nothing, whose clock the test sets."""

    home: Path
    now: float = 1000.0
    pool: LocalPool = field(init=False)

    def __post_init__(self) -> None:
        self.liveness = Liveness(lambda: self.now)
        self.pool = LocalPool(
            "http://127.0.0.1:1",
            self.home,
            lambda id: f"token of {id}",
            command=SLEEPS,
            monotonic=lambda: self.now,
            liveness=self.liveness,
            silent_s=SILENT_S,
        )

    def pass_by(self, seconds: float) -> tuple[Driver, ...]:
        """The pool is looked at every few seconds meanwhile."""
        end, step = self.now + seconds, AWAY_S / 2
        while self.now < end:
            found = self.pool.poll()
            self.now = min(end, self.now + step)
        return found

    def worker(self) -> str:
        self.pool.scale("worker", 1)
        (driver,) = [d for d in self.pool.poll() if not d.ended]
        return driver.id

    def end_of(self, id: str) -> Driver:
        """Once it was reaped."""
        (driver,) = until(
            lambda: [d for d in self.pool.poll() if d.id == id and d.ended], lambda: "it lives"
        )
        return driver


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    found = Place(tmp_path)
    yield found
    found.pool.close()


def test_a_silent_child_is_killed_shown_and_replaced(place: Place) -> None:
    first = place.worker()
    place.liveness.note(first)
    place.pass_by(SILENT_S)
    assert [d.ended for d in place.pool.poll()] == [False]
    place.now += 1
    assert place.end_of(first).reason == driver_ends.SILENT
    assert place.worker() != first


def test_who_calls_stays(place: Place) -> None:
    first = place.worker()
    for _ in range(10):
        place.liveness.note(first)
        place.pass_by(SILENT_S)
    assert place.worker() == first


def test_one_that_never_calls_has_time_to_start(place: Place) -> None:
    first = place.worker()
    place.pass_by(START_S + SILENT_S)
    assert place.worker() == first
    place.now += 1
    assert place.end_of(first).reason == driver_ends.SILENT


@pytest.mark.parametrize("why", ["paused", "outage"])
def test_nobody_is_silent_while_we_do_not_listen(place: Place, why: str) -> None:
    """This process was stopped for an hour, or cannot tell who calls because the database is
    away."""
    first = place.worker()
    place.liveness.note(first)
    place.pass_by(SILENT_S - 5)
    if why == "outage":
        place.liveness.note_unknown_call()
        place.pass_by(10)
    else:
        place.pool.poll()
        place.now += 3600
    assert [d.ended for d in place.pool.poll()] == [False]
    place.pass_by(SILENT_S)
    place.now += 1
    assert place.end_of(first).reason == driver_ends.SILENT


def test_one_that_was_told_to_end_and_hangs(place: Place) -> None:
    first = place.worker()
    place.liveness.note(first)
    os.kill(place.pool._children[first].process.pid, signal.SIGSTOP)
    place.pool.scale("worker", 0)
    place.pass_by(SILENT_S)
    place.now += 1
    assert place.end_of(first).reason == driver_ends.SILENT


def test_ending_a_named_child_is_harmless_to_repeat(place: Place) -> None:
    first = place.worker()
    place.pool.end("driver-000000000000", driver_ends.SILENT)
    place.pool.end(first, driver_ends.SILENT)
    place.pool.end(first, "something else")
    assert place.end_of(first).reason == driver_ends.SILENT
    place.pool.end(first, driver_ends.SILENT)


@takes_turns(0, 3)  # it waits for half a minute; the tests above set the clock
def test_a_stopped_worker_is_replaced_and_its_listing_done(tmp_path: Path) -> None:
    """As a user would see it: the worker is stopped where it waits, and a listing is asked for."""
    workspace = Workspace(tmp_path)
    workspace.write("shop.yaml", FLOW)
    workspace.write("orders/1.csv", "1\n")
    try:
        with workspace.serving(HEADGATE_SILENT_S="30") as service:
            workspace.ask("apply", "shop.yaml")
            until(lambda: workspace.listed() >= 1, lambda: "nothing is listed")
            (worker,) = [
                pid for pid, line in workspace.processes().items() if "dataplane worker" in line
            ]
            os.kill(worker, signal.SIGSTOP)
            workspace.ask("refresh", "shop")
            until(lambda: workspace.listed() >= 2, lambda: "the listing is never done")
            until(lambda: not Path(f"/proc/{worker}").exists(), lambda: "the stopped worker stays")
            ended = "SELECT reason FROM drivers WHERE ended"
            until(
                lambda: (driver_ends.SILENT,) in workspace.query(ended),
                lambda: "its end is not shown",
            )
            assert service.stop(signal.SIGTERM) == 0
    finally:
        workspace.end_all()
