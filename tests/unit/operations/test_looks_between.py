"""A look at the plan between passes of the loop takes nothing away from them, and decides nothing
again that stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.plan import Commit, Decision
from controlplane.core.tree import NodeCache
from controlplane.operations.desired import controls
from controlplane.operations.planning import planner as planners
from controlplane.operations.planning.apply_plan import PlanExecutor
from controlplane.operations.planning.planner import Planner
from tests.unit.expectations.world import BRANCH, World

SUMS = "  sums:\n    transform: {sql: 'SELECT k, sum(v) AS v FROM orders GROUP BY k'}\n"


def test_tree_nodes_of_decisions_that_another_look_made_are_stored(tmp_path: Path) -> None:
    world = World(tmp_path)
    # Merged in steps, over trees
    planner = Planner(world.store, branch=BRANCH, window=20_000, fewest=2, widest=2)
    world.settling = PlanExecutor(world.store, planner, "default", BRANCH)
    for n in range(7):
        world.put(f"{n}.csv", (1, n), (n, 1))
    world.apply(SUMS)
    world.refresh()
    for _ in range(12):
        planner.plan()  # as the watch for alerts looks, or a branch that reads main
        world.once()
        world.work()
    assert dict(world.rows("shop.sums"))[1] == 22
    world.store.close()


def with_a_planned_commit(home: Path) -> World:
    """All of `orders` is read, and no pass has committed it."""
    world = World(home)
    world.put("a.csv", (1, 2), (3, 4))
    world.apply(SUMS)
    world.refresh()
    world.work()
    world.once()
    world.work()
    return world


def decisions(planner: Planner) -> dict[str, Decision]:
    return {decision.dataset: decision for decision in planner.plan().decisions}


def test_a_planned_commit_stands_until_it_is_carried_out(tmp_path: Path) -> None:
    world = with_a_planned_commit(tmp_path)
    viewer = Planner(world.store, branch=BRANCH)
    first = decisions(viewer)
    commit = first["shop.orders"].step
    assert isinstance(commit, Commit)

    before = world.store.statements
    again = decisions(viewer)
    assert all(again[dataset] is first[dataset] for dataset in first)
    assert world.store.statements - before <= 1, "whether there are new marks"
    viewer.cache = NodeCache(0)
    with viewer.read_plan() as (_, facts):
        assert commit.state.root in facts.nodes.get_nodes([commit.state.root])
        facts.overlay.put_nodes({b"of an edit": b""})
    with viewer.read_plan() as (_, facts):
        assert b"of an edit" not in facts.overlay.staged

    controls.pause(world.ctx, BRANCH, "shop.orders")
    with viewer.read_plan() as (_, facts):
        assert not facts.overlay.staged, "no commit is planned"
    controls.resume(world.ctx, BRANCH, "shop.orders")
    assert isinstance(decisions(viewer)["shop.orders"].step, Commit)
    world.once()
    assert not isinstance(decisions(viewer)["shop.orders"].step, Commit)
    world.store.close()


def test_commits_with_too_many_tree_nodes_are_planned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = with_a_planned_commit(tmp_path)
    monkeypatch.setattr(planners, "STAGED_BYTES", 0)
    viewer = Planner(world.store, branch=BRANCH)
    first, again = decisions(viewer)["shop.orders"], decisions(viewer)["shop.orders"]
    assert again is not first
    assert again == first
    with viewer.read_plan() as (_, facts):
        assert isinstance(again.step, Commit)
        assert again.step.state.root in facts.nodes.get_nodes([again.step.state.root])
    world.store.close()
