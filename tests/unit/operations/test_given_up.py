"""Work that waits for a component that an edit takes away, or pauses."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from controlplane.operations.desired import blueprints, controls
from controlplane.ports.store import Tx
from tests.unit.expectations.world import BRANCH, World

MORE = "  more: {{transform: {{sql: '{sql}'}}{rest}}}\n"
PLUS = MORE.format(sql="SELECT k, v + 1 AS v FROM orders", rest="")
PAUSED = MORE.format(sql="SELECT k, v + 1 AS v FROM orders", rest=", paused: true")
OTHER = "  other: {transform: {sql: 'SELECT k, v + 1 AS v FROM orders'}}\n"


@pytest.fixture
def unfinished(tmp_path: Path) -> World:
    """The next pass asks for two tasks of `more`."""
    world = World(tmp_path)
    world.put("a.csv", (1, 10))
    world.put("b.csv", (2, 20))
    world.apply("")
    world.settle()
    world.apply(PLUS)
    world.once()
    world.work()  # Spark is asked for the columns
    return world


@pytest.fixture
def world(unfinished: World) -> World:
    """Two tasks of `more` wait for a driver."""
    unfinished.once()
    assert waiting(unfinished) == 2
    return unfinished


def waiting(world: World) -> int:
    with world.store.read() as tx:
        return sum(tx.queue.backlog().values())


@pytest.mark.parametrize("rest", ["", PAUSED])
def test_what_nobody_wants_any_more_is_not_begun(world: World, rest: str) -> None:
    world.apply(rest)
    assert waiting(world) == 0
    assert not world.settle()["transform"]


def test_what_somebody_else_wants_as_well_stays(world: World) -> None:
    world.apply(PLUS + OTHER)
    world.once()
    world.apply(OTHER)
    assert waiting(world) == 2
    assert world.settle()["transform"] == 2


def test_a_pause_that_ends_goes_on(world: World) -> None:
    world.apply(PAUSED)
    world.apply(PLUS)
    assert world.settle()["transform"] == 2


def test_a_dry_run_changes_nothing(world: World) -> None:
    text = "dataflow: shop\ncomponents:\n  one: {read: {connector: files, path: /nowhere/*.csv, format: csv}}\n"
    blueprints.apply(
        world.ctx, BRANCH, [blueprints.SentBlueprint("/shop.yaml", text, {})], dry_run=True
    )
    assert waiting(world) == 2


@pytest.mark.parametrize("wish", ["delete", "edit", "pause"])
def test_a_plan_of_before_asks_for_nothing_that_is_given_up_meanwhile(
    unfinished: World, wish: str
) -> None:
    """The loop has planned, and an operator is faster than its transaction."""
    give_up: dict[str, Callable[[], object]] = {
        "delete": lambda: blueprints.delete(unfinished.ctx, BRANCH, "shop"),
        "edit": lambda: unfinished.apply(""),
        "pause": lambda: controls.pause(unfinished.ctx, BRANCH, "shop.more"),
    }
    begin, meanwhile = unfinished.store.begin, [give_up[wish]]

    def slow(namespace: str = "default") -> AbstractContextManager[Tx]:
        while meanwhile:
            meanwhile.pop()()
        return begin(namespace)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(unfinished.store, "begin", slow)
        assert unfinished.settling.settle().changed  # so that the loop looks again at once
    for _ in range(2):
        assert waiting(unfinished) == 0
        unfinished.settling.settle()
    assert not meanwhile


QUARANTINING = "    expect: [{name: positive, check: v > 0, on_fail: quarantine}]\n"


def test_a_pause_holds_for_rows_that_are_taken_out_as_well(unfinished: World) -> None:
    """They are a dataset of their own, which the same tasks make."""
    unfinished.apply(QUARANTINING)
    unfinished.settle()
    unfinished.put("c.csv", (3, -30))
    unfinished.refresh()
    unfinished.work()
    unfinished.once()
    assert waiting(unfinished) == 1
    controls.pause(unfinished.ctx, BRANCH, "shop.orders")
    unfinished.check_kept_plan()
    assert waiting(unfinished) == 0
    assert not unfinished.settle()["parse"]
    controls.resume(unfinished.ctx, BRANCH, "shop.orders")
    unfinished.check_kept_plan()
    assert unfinished.settle()["parse"] == 1
    assert unfinished.rows("shop.orders__quarantine") == [(3, -30, "positive")]
