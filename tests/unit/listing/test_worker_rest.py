"""A worker that has loaded Arrow and has nothing to do ends, so that a fresh one takes its
place."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Iterable
from contextlib import closing
from pathlib import Path

import pytest

from dataplane.contract.claims import Claim
from dataplane.contract.kinds import Kind
from dataplane.listing.version_cache import Versions
from dataplane.runtime.worker import WRITES, WorkerState
from dataplane.runtime.worker_rest import PATIENCE_S, Rest, rest_of
from dataplane.runtime.worker_slots import Slots
from tests.unit.listing.test_worker import Script, claim, listing_job

IDLE_S = 60.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def rest_after(modules: Collection[str], clock: Clock) -> Rest:
    return Rest(IDLE_S, clock, modules)


@pytest.mark.parametrize(
    ("modules", "is_over"), [((), False), (("json",), False), (("json", "pyarrow"), True)]
)
def test_only_a_worker_that_has_grown_ends_and_only_after_a_rest(
    modules: Collection[str], is_over: bool
) -> None:
    clock = Clock()
    rest = rest_after(modules, clock)
    clock.now = IDLE_S - 1
    assert not rest.is_over()
    clock.now = IDLE_S
    assert rest.is_over() is is_over


def test_work_under_way_and_work_of_late_put_the_rest_off() -> None:
    clock = Clock()
    rest = rest_after(("pyarrow",), clock)
    with rest.broken(is_heavy=True):
        clock.now = 10 * IDLE_S
        assert not rest.is_over()
    assert not rest.is_over()
    clock.now += IDLE_S
    assert rest.is_over()


def test_listings_of_files_do_not_keep_what_a_write_has_loaded() -> None:
    clock = Clock()
    rest = rest_after(("pyarrow",), clock)
    for _ in range(3):
        with rest.broken(is_heavy=False):
            clock.now += IDLE_S / 3
            assert not rest.is_over()
    assert rest.is_over()


def test_claims_are_short_once_it_has_grown() -> None:
    modules: set[str] = set()
    rest = rest_after(modules, Clock())
    assert rest.wait_s(20.0) == 20.0
    modules.add("numpy")
    assert (rest.wait_s(20.0), rest.wait_s(1.0)) == (PATIENCE_S, 1.0)


def test_a_pool_that_does_not_ask_for_it_keeps_its_worker() -> None:
    rest = rest_of({})
    assert not rest.is_over()
    assert rest.wait_s(20.0) == 20.0


def test_a_pool_that_asks_for_it_is_heeded() -> None:
    code = (
        "import numpy; from dataplane.runtime.worker_rest import rest_of; "
        "print(rest_of().is_over(), rest_of({'HEADGATE_WORKER_REST_S': '60'}).is_over())"
    )
    environment = {"HEADGATE_WORKER_REST_S": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True False\n"


class Quiet(Script):
    """Has nothing for who writes; time goes on while that one waits."""

    def __init__(self, clock: Clock, *claims: Claim) -> None:
        super().__init__(*claims)
        self.clock, self.waits = clock, 0

    def claim(
        self, kinds: Iterable[Kind], wait_s: float, without: Collection[str] = ()
    ) -> Claim | None:
        if set(kinds) != WRITES:
            return super().claim(kinds, wait_s, without)
        self.clock.now += wait_s
        self.waits += 1
        return None


def test_its_loops_end_and_what_was_claimed_meanwhile_is_done(tmp_path: Path) -> None:
    clock = Clock()
    script = Quiet(clock, claim("list", listing_job(tmp_path)))
    work = WorkerState(script, Versions(), Slots(2), rest_after(("pyarrow",), clock))
    with closing(work.beats):
        work.write()
        assert script.waits == IDLE_S / PATIENCE_S
        work.look()  # does not ask any more
    assert script.reported == []
