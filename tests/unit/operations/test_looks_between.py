"""A look at the plan between passes of the loop takes nothing away from them."""

from __future__ import annotations

from pathlib import Path

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
