"""A branch that is deleted and made again under its name is another branch: nothing of the first is
left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from controlplane.operations.desired import branches
from controlplane.operations.planning.apply_plan import PlanExecutor
from controlplane.operations.planning.branch_view import BranchView, Planners
from controlplane.operations.planning.planner import Planner
from tests.unit.branches.test_overlay import EDITED
from tests.unit.branches.test_overlay import world as world
from tests.unit.branches.world import BranchWorld


def planned_for(world: BranchWorld, branch: str) -> set[str]:
    with world.ctx.read_plan(branch) as (_, facts):
        assert facts.own is not None
        return set(facts.own)


def test_what_was_edited_before_is_mains_again(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    world.ran()
    assert planned_for(world, "dev") == {"shop.doubled", "shop.sums"}
    branches.delete(world.ctx, "dev")
    world.create()
    assert planned_for(world, "dev") == set()
    assert not world.ran()
    with world.store.read() as tx:
        assert tx.branches.own_datasets("dev") == frozenset()


def test_the_same_edit_is_adopted_again(world: BranchWorld) -> None:
    for _ in range(2):
        world.apply_in("dev", EDITED)
        world.ran()
        assert world.values("dev", "shop.sums") == [(1, 120), (2, 60)]
        branches.delete(world.ctx, "dev")
        world.create()


class EndedBetween:
    """A store whose branch ends after a plan was made, and before it is carried out."""

    def __init__(self, world: BranchWorld) -> None:
        self._world, self._ended = world, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world.store, name)

    @contextmanager
    def begin(self, namespace: str = "default") -> Iterator[Any]:
        if not self._ended:
            self._ended = True
            branches.delete(self._world.ctx, "dev")
        with self._world.store.begin(namespace) as tx:
            yield tx


def test_nothing_is_written_for_one_that_has_ended(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    store: Any = EndedBetween(world)
    planner = BranchView(Planner(world.store), "default", "dev").planner(store)
    executor = PlanExecutor(store, planner, "default", "dev")
    executor.settle()
    with world.store.read() as tx:
        assert tx.queue.demands("dev", "shop.doubled") == {}
    world.create()  # the name is free


@pytest.mark.parametrize("others", [0, 3])
def test_a_planner_goes_with_its_branch(world: BranchWorld, others: int) -> None:
    planners = Planners()
    first = planners.of(world.store, "default", "dev")
    first.plan()
    branches.delete(world.ctx, "dev")
    for number in range(others):
        world.create(f"dev{number}")
        planners.of(world.store, "default", f"dev{number}").plan()
    assert (planners.of(world.store, "default", "dev") is first) == (others == 0)
