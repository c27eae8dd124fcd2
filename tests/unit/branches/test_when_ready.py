"""A merge that waits until it leaves nothing to compute, and branches that change by such merges
alone."""

from __future__ import annotations

import pytest

from controlplane.core.errors import BranchProtected, MergeNotReady
from controlplane.core.model.branches import MAIN
from controlplane.operations.desired import blueprints, branches, controls, merging
from tests.unit.branches.test_merging import text
from tests.unit.branches.test_overlay import COPY, DOUBLED, EDITED, OTHER, REST, SUMS
from tests.unit.branches.test_overlay import world as world
from tests.unit.branches.world import BranchWorld
from tests.unit.expectations.world import HEAD

CHECKED = (
    DOUBLED.format(factor=3) + "    expect: [{{check: v < 70}}]\n".format() + SUMS + OTHER + COPY
)


def refused(world: BranchWorld, *, when_ready: bool = False) -> list[str]:
    """What a merge says is missing; nothing is stored."""
    before = text(world, MAIN)
    with pytest.raises(MergeNotReady) as found:
        merging.merge_branch(world.ctx, "dev", when_ready=when_ready)
    assert text(world, MAIN) == before
    assert branches.branch_named(world.ctx, "dev")["dataflows"] == ["shop"]
    return [problem.message for problem in found.value.problems]


def test_a_merge_that_is_not_ready_tells_what_is_missing_and_where(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    assert refused(world, when_ready=True) == [
        "shop.doubled is not up to date: analysis",
        "shop.sums is not up to date: waits for shop.doubled",
    ]
    world.once()
    assert refused(world, when_ready=True)[0] == "shop.doubled is being computed: analysis"
    world.ran()
    merging.merge_branch(world.ctx, "dev", when_ready=True)
    assert world.ran() == {"write": 2}  # main's copy; nothing is computed


def test_data_that_came_to_main_is_waited_for(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    world.ran()
    world.put("c.csv", (3, 1))
    world.refresh()
    for _ in range(2):  # listed, and read
        while world.engine.step():
            pass
        world.settling.settle()
    assert "shop.doubled" in refused(world, when_ready=True)[0]
    world.ran()
    merging.merge_branch(world.ctx, "dev", when_ready=True)
    assert world.ran() == {"write": 3}
    assert world.values(MAIN, "shop.sums") == [(1, 120), (2, 60), (3, 3)]


def test_work_that_the_merge_has_nothing_to_do_with_is_not_waited_for(world: BranchWorld) -> None:
    world.apply_in("dev", DOUBLED.format(factor=5), flow="more")
    world.ran()
    world.apply(REST.replace("v + 1", "v + 4"))
    merging.merge_branch(world.ctx, "dev", when_ready=True)
    assert world.ran() == {"analyse": 1, "transform": 2}  # all of it for other


def test_a_forced_result_is_waited_for(world: BranchWorld) -> None:
    controls.refresh(world.ctx, "dev", "shop.other", force=True)
    with pytest.raises(MergeNotReady):
        merging.merge_branch(world.ctx, "dev", when_ready=True)
    world.ran()
    merging.merge_branch(world.ctx, "dev", when_ready=True)
    assert not world.ran()


def test_main_is_protected_by_choice(world: BranchWorld) -> None:
    assert branches.protect(world.ctx, MAIN, protected=True)["protected"]
    assert [found["name"] for found in branches.listing(world.ctx)["items"]] == ["dev"]
    with pytest.raises(BranchProtected):
        world.apply(EDITED)
    with pytest.raises(BranchProtected):
        blueprints.delete(world.ctx, MAIN, "shop")
    world.apply_in("dev", EDITED)
    refused(world)
    world.ran()
    merging.merge_branch(world.ctx, "dev")
    assert text(world, MAIN) == HEAD.format(home=world.home) + EDITED
    branches.protect(world.ctx, MAIN, protected=False)
    world.apply(REST)


def test_a_failed_check_keeps_a_merge_out_of_a_protected_branch(world: BranchWorld) -> None:
    branches.protect(world.ctx, MAIN, protected=True)
    world.apply_in("dev", CHECKED)
    world.ran()
    missing = refused(world)
    assert missing[0].startswith("shop.doubled ")
    assert {one.partition(" ")[0] for one in missing} == {"shop.doubled", "shop.sums"}
    world.apply_in("dev", CHECKED.replace("v < 70", "v < 700"))
    world.ran()
    merging.merge_branch(world.ctx, "dev")
    assert world.ran() == {"write": 2}
