"""A report makes the pass that follows it, in its own thread, while the loop waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controlplane.operations.desired import controls
from controlplane.reconciler.fleet import Fleet
from controlplane.reconciler.leader import FencedStore
from controlplane.reconciler.loop import Reconciler
from controlplane.reconciler.wake import WakeCounter
from tests.property.model import File, Pick, Read
from tests.property.world import BRANCH, World
from tests.unit.reconciler.nowhere import Nowhere
from tests.unit.reconciler.test_reasons import Pool

COLUMNS = ("k", "v")


class OneWait(WakeCounter):
    """The loop waits once, until the test is over: what happens meanwhile is not its doing."""

    def __init__(self) -> None:
        super().__init__()
        self.is_waiting, self.over = threading.Event(), threading.Event()
        self.notices = 0

    def wait(self, timeout_s: float, count: int | None = None) -> None:
        self.notices = self.count
        self.is_waiting.set()
        self.over.wait()


class SlowPool(Pool):
    """It answers the loop when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.is_polled, self.answers = threading.Event(), threading.Event()

    def poll(self) -> tuple[()]:
        self.is_polled.set()
        self.answers.wait()
        return ()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A late file that a worker is to list."""
    world = World(tmp_path, f"sqlite:///{tmp_path}/metadata.db")
    world.put("files", "1.csv", File(COLUMNS, ((1, 1),)))
    world.apply({"a": {"x": Read("files", declared=COLUMNS), "y": Pick("x"), "z": Pick("y")}}, {})
    world.settle()
    world.put("files", "late.csv", File(COLUMNS, ((1, 99),)))
    controls.refresh(world.ctx, BRANCH, None)
    world.once()
    yield world
    world.close()


@contextmanager
def looping(
    world: World, wake: OneWait, pool: Pool | None = None, epoch: int = 0
) -> Iterator[None]:
    """A loop over the world in a thread of its own. `epoch`: of its lease."""
    store = FencedStore(world.store, epoch) if epoch else world.store
    loop = Reconciler(store, Fleet(world.ctx, world.lake, pool or Pool()), Nowhere(), wake)
    thread = threading.Thread(target=loop.run, args=[wake.over])
    thread.start()
    try:
        yield
    finally:
        wake.over.set()
        thread.join()
        loop.close()


def generations(world: World) -> dict[str, int]:
    with world.store.read() as tx:
        return {name: state.generation for name, state in tx.states.newest(BRANCH).items()}


def test_a_report_commits_and_requests_while_the_loop_waits(world: World) -> None:
    wake, before = OneWait(), generations(world)
    world.pass_of_report = lambda: wake.make_pass()
    with looping(world, wake):
        wake.is_waiting.wait()
        assert world.engine.step(), "the file is listed"
        assert world.engine.step(), "and read: the pass of the listing's report requested it"
        after = generations(world)
    assert after == {name: number + 1 for name, number in before.items()}


def test_a_report_waits_for_no_pass_of_the_loop(world: World) -> None:
    wake, pool, made = OneWait(), SlowPool(), list[bool]()
    world.pass_of_report = lambda: made.append(wake.make_pass())
    with looping(world, wake, pool):
        pool.is_polled.wait()
        assert world.engine.step()
        assert not world.engine.step(), "nothing was requested"
        pool.answers.set()
    assert made == [False]


def test_the_loop_is_woken_unless_tasks_are_all_that_is_left(world: World) -> None:
    wake = OneWait()
    with looping(world, wake):
        wake.is_waiting.wait()
        world.engine.step()
        assert not wake.make_pass(), "a task was requested: claims wait for it"
        assert wake.make_pass(), "it is under way"
        world.engine.step()
        assert not wake.make_pass(), "datasets were committed"
        assert not wake.make_pass(), "nothing is under way: the loop says so"


def test_a_report_counts_where_the_pass_after_it_fails(world: World) -> None:
    with world.store.begin() as tx:
        epoch = tx.leases.take("loop", "this", 60.0).epoch
    wake, made = OneWait(), list[bool]()
    world.pass_of_report = lambda: made.append(wake.make_pass())
    with looping(world, wake, epoch=epoch):
        wake.is_waiting.wait()
        with world.store.begin() as tx:
            tx.leases.end("loop", epoch)
            tx.leases.take("loop", "another", 60.0)
        assert world.engine.step()
    assert made == [False], "another process leads by now"
    with world.store.read() as tx:
        assert not tx.queue.attempts()
    world.pass_of_report = None
    world.settle()


def test_a_request_that_knows_an_earlier_loop_makes_no_pass(world: World) -> None:
    wake = OneWait()
    with looping(world, wake):
        wake.is_waiting.wait()
        of_earlier_loop = wake.make_pass
    wake.over.clear()
    wake.is_waiting.clear()
    before = generations(world)
    with looping(world, wake):
        wake.is_waiting.wait()
        for _ in range(2):
            world.engine.step()
            assert not of_earlier_loop()
    assert generations(world) == before


def test_no_pass_is_made_where_no_loop_runs() -> None:
    wake = OneWait()
    assert not wake.make_pass()
