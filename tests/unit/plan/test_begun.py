"""Runs under way are finished on what they were begun with, unless that makes no sense any more
(SEMANTICS 2.11)."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.plan.unfinished import LATER
from controlplane.operations.desired import controls
from controlplane.operations.upkeep.collect import GRACE_S, collect
from dataplane.contract.results import TaskResult
from tests.property.engine import Taken, user_error
from tests.unit.expectations.world import BRANCH, World

TOTAL = "  total: {transform: {sql: 'SELECT sum(v) AS v FROM orders'}}\n"
CHECKED = TOTAL.replace("}}", "}, expect: [{check: v < 100}]}")
COPY = "  to_orders: {write: {connector: files, from: orders, path: '%s/out', format: json}}\n"
PLUS = "  plus: {transform: {sql: 'SELECT k, v + 1 AS v FROM orders'}}\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.put("a.csv", (1, 10))
    made.apply(TOTAL)
    made.settle()
    return made


def arrive(world: World, dataset: str) -> Taken:
    """Lists and goes on until somebody has taken a task of the dataset."""
    world.refresh()
    for _ in range(20):
        world.once()
        while (taken := world.engine._take()) is not None:
            if taken.claim["dataset"] == dataset and taken.claim["kind"] in ("parse", "transform"):
                return taken
            end(world, taken)
    raise AssertionError(f"nobody asked for {dataset}")


def go_on(world: World) -> None:
    """All that can be done without whoever has taken a task."""
    for _ in range(20):
        if not (world.once().changed or world.work()):
            return
    raise AssertionError("no rest")


def end(world: World, taken: Taken, results: list[TaskResult] | None = None) -> None:
    if results is None:
        [results] = world.engine._carry_out([taken.claim])
    world.engine._finish(taken, results, "none")


def overtaken(
    world: World, dataset: str, name: str = "c.csv", row: tuple[int, int] = (3, 30)
) -> Taken:
    """Somebody has taken a task of the dataset, and one more file was found since."""
    taken = arrive(world, dataset)
    more(world, name, row)
    return taken


def more(world: World, name: str = "c.csv", row: tuple[int, int] = (3, 30)) -> None:
    world.put(name, row)
    world.refresh()
    go_on(world)


def under_way(world: World) -> int:
    with world.store.read() as tx:
        return len(tx.states.unfinished(BRANCH)[1])


def test_a_run_ends_on_its_cut_and_the_next_takes_what_is_new(world: World) -> None:
    world.put("b.csv", (2, 20))
    taken = overtaken(world, "shop.total")
    decision = world.decision("shop.total")
    assert (decision.status, decision.reason) == ("building", LATER)
    end(world, taken)
    world.once()
    assert world.rows("shop.total") == [(30,)]
    assert world.settle() == {"transform": 1}
    assert world.rows("shop.total") == [(60,)]
    assert under_way(world) == 0


def test_nothing_is_finished_that_is_not_wanted_any_more(world: World) -> None:
    """The file was withdrawn: what there is is right."""
    before = world.dataset("shop.total")["generation"]
    world.put("b.csv", (2, 20))
    taken = arrive(world, "shop.total")
    (world.home / "orders" / "b.csv").unlink()
    world.refresh()
    go_on(world)
    assert world.decision("shop.total").status == "up_to_date"
    assert under_way(world) == 0
    end(world, taken)
    world.settle()
    assert world.dataset("shop.total")["generation"] == before


def test_what_failed_is_given_up_for_what_is_new(world: World) -> None:
    world.put("b.csv", (2, 20))
    taken = overtaken(world, "shop.total")
    [task] = taken.claim["tasks"]
    error = user_error("division by zero")
    end(
        world,
        taken,
        [{"task": task["task"], "epoch": task["epoch"], "state": "failed", "error": error}],
    )
    assert world.settle() == {"transform": 1}
    assert world.rows("shop.total") == [(60,)]


def test_what_is_not_as_expected_is_given_up_for_what_is_new(world: World) -> None:
    world.apply(CHECKED)
    world.settle()
    world.put("b.csv", (2, 200))
    taken = overtaken(world, "shop.total", "c.csv", (3, -150))
    end(world, taken)
    world.settle()
    assert world.rows("shop.total") == [(60,)]
    assert world.decision("shop.total").status == "up_to_date"


def test_after_a_pause_the_newest_is_taken(world: World) -> None:
    world.put("b.csv", (2, 20))
    taken = arrive(world, "shop.total")
    controls.pause(world.ctx, BRANCH, "shop.total")
    more(world)
    controls.resume(world.ctx, BRANCH, "shop.total")
    world.once()
    assert world.decision("shop.total").reason != LATER
    world.settle()
    assert world.rows("shop.total") == [(60,)]
    end(world, taken)


def test_other_code_is_begun_anew(world: World) -> None:
    world.put("b.csv", (2, 20))
    taken = overtaken(world, "shop.total")
    world.apply(TOTAL.replace("sum(v)", "sum(v + 1)"))
    assert world.settle()["transform"] == 1
    assert world.rows("shop.total") == [(63,)]
    end(world, taken)
    assert world.settle() == {}


def test_a_removed_component_leaves_nothing_behind(world: World) -> None:
    world.put("b.csv", (2, 20))
    arrive(world, "shop.total")
    assert under_way(world) == 1
    world.apply("")
    assert under_way(world) == 0


def test_a_source_ends_on_its_listing_where_files_are_only_added(world: World) -> None:
    world.put("b.csv", (2, 20))
    taken = overtaken(world, "shop.orders")
    assert world.decision("shop.orders").reason == LATER
    end(world, taken)
    world.once()
    assert len(world.rows()) == 2
    world.settle()
    assert len(world.rows()) == 3


@pytest.mark.parametrize("name", ["a.csv", "b.csv"])
def test_a_source_does_not_read_what_is_gone(world: World, name: str) -> None:
    """A file that was read before may change meanwhile, but not one that is read."""
    world.put("b.csv", (2, 20))
    taken = overtaken(world, "shop.orders", name, (4, 40))
    assert (world.decision("shop.orders").reason == LATER) is (name == "a.csv")
    end(world, taken)
    world.settle()
    assert world.rows() == sorted([(4, 40), (1, 10) if name == "b.csv" else (2, 20)])
    with world.store.read() as tx:
        assert tx.states.newest(BRANCH)["shop.orders"].seq == (2 if name == "b.csv" else 3)


def test_a_collection_takes_nothing_from_a_run(world: World) -> None:
    """What its listing was made of is in use by nothing else."""
    for n in range(5):
        world.put(f"b{n}.csv", (2, 20 + n))
    taken = overtaken(world, "shop.orders")
    collect(world.store, world.ctx.namespace, now=world.now + 2 * GRACE_S)
    world.settling._planner.forget()
    end(world, taken)
    world.once()
    assert len(world.rows()) == 6
    world.settle()
    assert len(world.rows()) == 7


def test_a_copy_of_what_came_back_rests(tmp_path: Path) -> None:
    """While it was paused, its source changed and changed back: another generation of the same
    rows."""
    world = World(tmp_path)
    world.put("a.csv", (1, 10))
    world.apply(COPY % tmp_path)
    world.settle()
    controls.pause(world.ctx, BRANCH, "shop.to_orders")
    world.put("a.csv", (1, 20))
    world.settle()
    world.put("a.csv", (1, 10))
    world.settle()
    controls.resume(world.ctx, BRANCH, "shop.to_orders")
    generations = []
    for _ in range(6):
        world.once()
        with world.store.read() as tx:
            generations.append(tx.projections.targets(BRANCH)["shop.to_orders"].generation)
    assert generations == sorted(generations)
    assert generations[-1] == world.dataset()["generation"]
    assert not world.once().changed
