"""Where branches, holds, renames and merges meet."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.errors import GenerationGone
from controlplane.core.model.addresses import Generation, Moment
from controlplane.core.model.answers import PlanAnswer
from controlplane.core.model.answers.data_diff import RowDifference
from controlplane.core.model.branches import MAIN
from controlplane.operations.desired import blueprints, branches, controls, merging, rollback
from controlplane.operations.inspect import branch_diff, data_diff, time_travel
from controlplane.operations.planning.snapshot import plan_now
from controlplane.operations.upkeep.collect import DAY_S, collect
from controlplane.ports.row_diff import ComparedFiles
from tests.unit.branches.world import BranchWorld
from tests.unit.expectations.world import HEAD

DOUBLED = "  doubled:\n    transform: {{sql: 'SELECT k, {factor} * v AS v FROM orders'}}\n"
SUMS = "  sums:\n    transform: {sql: 'SELECT k, sum(v) AS v FROM doubled GROUP BY k'}\n"
OTHER = "  other:\n    transform: {{sql: 'SELECT k, v + {more} AS v FROM orders'}}\n"
REST = DOUBLED.format(factor=2) + SUMS + OTHER.format(more=1)
EDITED = DOUBLED.format(factor=3) + SUMS + OTHER.format(more=1)
RENAMED = REST.replace("  other:", "  another:")
SHORT = "defaults: {retention: {generations: 1, days: 1}}\n"


@pytest.fixture
def world(tmp_path: Path) -> BranchWorld:
    """Main at rest, with two generations of each dataset."""
    made = BranchWorld(tmp_path)
    made.apply(REST)
    for name, row in (("a.csv", (1, 10)), ("b.csv", (2, 20))):
        made.put(name, row)
        made.refresh()
        made.ran()
    return made


def planned(world: BranchWorld, rest: str) -> PlanAnswer:
    source = blueprints.SentBlueprint("/shop.yaml", HEAD.format(home=world.home) + rest, {})
    return blueprints.apply(world.ctx, MAIN, [source], dry_run=True)["plan"]


def roll_back(world: BranchWorld, dataset: str, branch: str = MAIN) -> None:
    before = world.generations(branch)[dataset] - 1
    rollback.rollback(world.ctx, branch, dataset, Generation(before))


def text(world: BranchWorld, branch: str, flow: str = "shop") -> str:
    with world.store.read() as tx:
        return tx.blueprints.revisions(branch)[flow].text


def check(world: BranchWorld, branch: str = "dev") -> None:
    """A planner that is kept says what planning from nothing says."""
    with world.ctx.read_plan(branch) as (kept, facts):
        fresh, _ = plan_now(facts.tx, branch, None)
        assert facts.owned(kept).decisions == fresh.decisions


# --- edits of what is held -------------------------------------------------------------------------


def test_a_plan_of_an_edit_knows_that_it_ends_the_hold(world: BranchWorld) -> None:
    roll_back(world, "shop.doubled")
    world.ran()
    plan = planned(world, EDITED)
    assert plan["state"] == "work"
    assert not plan.get("held")
    world.apply(EDITED)
    assert world.ran() == {"analyse": 1, "transform": 3}


def test_a_plan_of_an_edit_keeps_other_holds(world: BranchWorld) -> None:
    roll_back(world, "shop.sums")
    world.ran()
    assert [hold["dataset"] for hold in planned(world, EDITED)["held"]] == ["shop.sums"]


def test_an_edit_of_what_main_holds_is_ready_to_merge(world: BranchWorld) -> None:
    world.create()
    world.apply_in("dev", EDITED)
    world.ran()
    roll_back(world, "shop.doubled")
    branches.protect(world.ctx, MAIN, protected=True)
    world.ran()
    merging.merge_branch(world.ctx, "dev")
    assert not world.ran()
    assert world.values(MAIN, "shop.doubled") == [(1, 30), (2, 60)]


# --- renames -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("branch", [MAIN, "dev"])
def test_a_pause_goes_along_with_a_rename(world: BranchWorld, branch: str) -> None:
    world.create()
    controls.pause(world.ctx, MAIN, "shop.other")
    world.apply_in(branch, RENAMED)
    world.put("c.csv", (3, 1))
    world.settle()
    assert world.decided(branch, "shop.another").status == "paused"
    if branch != MAIN:
        merging.merge_branch(world.ctx, branch)
        assert not world.ran()
    with world.store.read() as tx:
        assert tx.blueprints.paused(MAIN) == {"shop.another"}
    world.apply(REST)
    world.ran()
    with world.store.read() as tx:
        assert tx.blueprints.paused(MAIN) == {"shop.other"}


def test_a_plan_of_a_rename_knows_what_goes_along(world: BranchWorld) -> None:
    controls.refresh(world.ctx, MAIN, "shop.other", force=True)
    world.ran()
    assert planned(world, RENAMED)["certain"] == 0
    world.apply(RENAMED)
    assert not world.ran()
    controls.pause(world.ctx, MAIN, "shop.another")
    world.put("c.csv", (3, 1))
    world.settle()
    assert planned(world, REST)["certain"] == 0


# --- merges of and into pinned branches -----------------------------------------------------------------


def test_a_pinned_branch_gets_what_it_has_not_seen_of_main(world: BranchWorld) -> None:
    branches.create(world.ctx, "old", pinned=True)
    world.apply(REST.replace("+ 1", "+ 2"))
    world.apply_in(MAIN, OTHER.format(more=4), flow="more")
    world.ran()
    world.create()
    world.apply_in("dev", REST.replace("+ 1", "+ 3"))
    world.apply_in("dev", OTHER.format(more=5), flow="more")
    merging.merge_branch(world.ctx, "dev", "old")
    assert "v + 3" in text(world, "old")
    assert "v + 5" in text(world, "old", "more")
    world.apply_in("dev", REST.replace("+ 1", "+ 6"))
    merging.merge_branch(world.ctx, "dev", "old")
    assert "v + 6" in text(world, "old")


def test_a_pinned_branch_is_edited_and_merged_again(world: BranchWorld) -> None:
    branches.create(world.ctx, "dev", pinned=True)
    world.apply_in("dev", EDITED)
    merging.merge_branch(world.ctx, "dev")
    world.apply(EDITED.replace("v + 1", "v + 7"))
    world.apply_in("dev", EDITED.replace("3 *", "4 *"))
    merging.merge_branch(world.ctx, "dev")
    assert "4 * v" in text(world, MAIN)
    assert "v + 7" in text(world, MAIN)


# --- holds of main and of branches -----------------------------------------------------------------------


def test_holds_of_main_are_told_where_they_reach(world: BranchWorld) -> None:
    branches.create(world.ctx, "old", pinned=True)
    world.create()
    roll_back(world, "shop.other")
    assert "still_held" not in controls.resume(world.ctx, "old", "shop")
    assert controls.resume(world.ctx, "dev", "shop")["still_held"] == ["shop.other"]
    rollback.rollback(world.ctx, "dev", "shop.other", Generation(2))
    told = controls.resume(world.ctx, "dev", "shop")
    assert (told["released"], told["still_held"]) == (["shop.other"], ["shop.other"])
    world.apply_in("dev", REST.replace("+ 1", "+ 2"))
    assert "still_held" not in controls.resume(world.ctx, "dev", "shop")


def test_holds_of_a_pinned_branch_and_of_main_meet(world: BranchWorld) -> None:
    branches.create(world.ctx, "dev", pinned=True)
    roll_back(world, "shop.doubled")
    world.ran()
    assert world.values("dev", "shop.sums") == [(1, 20), (2, 40)]
    roll_back(world, "shop.doubled", "dev")
    world.ran()
    check(world)
    branches.update(world.ctx, "dev")
    controls.resume(world.ctx, MAIN, "shop")
    world.ran()
    check(world)
    assert world.values(MAIN, "shop.sums") == [(1, 20), (2, 40)]
    assert world.values("dev", "shop.sums") == [(1, 20)]
    controls.resume(world.ctx, "dev", "shop")
    branches.update(world.ctx, "dev")
    world.ran()
    check(world)
    assert world.values("dev", "shop.sums") == [(1, 20), (2, 40)]
    with world.store.read() as tx:
        assert not tx.branches.own_datasets("dev")
        assert not tx.states.holds("dev")


def test_a_rollback_just_before_its_dataset_is_given_back_stays(world: BranchWorld) -> None:
    world.create()
    roll_back(world, "shop.other", "dev")
    world.ran()
    controls.resume(world.ctx, "dev", "shop.other")
    line = world.branching._lines["dev"]
    line.planner.plan()
    rollback.rollback(world.ctx, "dev", "shop.other", Generation(1))
    world.branching._give_back("dev", line.view)
    world.ran()
    assert world.values("dev", "shop.other") == [(1, 11)]
    check(world)


@pytest.mark.parametrize("text", [RENAMED, DOUBLED.format(factor=2) + SUMS])
def test_what_main_renames_or_deletes_is_held_no_more(world: BranchWorld, text: str) -> None:
    """Nobody could resume it, and it would be held again once its name comes back."""
    world.create()
    roll_back(world, "shop.other", "dev")
    world.ran()
    world.apply(text)
    world.ran()
    with world.store.read() as tx:
        assert tx.states.holds("dev") == {}
        assert tx.branches.own_datasets("dev") == frozenset()
    world.apply(REST)
    world.ran()
    check(world)
    assert (
        world.values("dev", "shop.other") == world.values(MAIN, "shop.other") == [(1, 11), (2, 21)]
    )


def test_a_dataflow_that_does_not_compile_for_a_while_stays_held(world: BranchWorld) -> None:
    """It reads what main has deleted, and what main brings back."""
    world.apply_in(MAIN, OTHER.format(more=4), flow="more")
    world.create()
    reading = REST + "  last:\n    transform: {sql: 'SELECT k, v FROM more.other'}\n"
    world.apply_in("dev", reading)
    world.ran()
    roll_back(world, "shop.other", "dev")
    world.ran()
    blueprints.delete(world.ctx, MAIN, "more")
    world.ran()
    world.apply_in(MAIN, OTHER.format(more=4), flow="more")
    world.ran()
    with world.store.read() as tx:
        assert tx.states.holds("dev").keys() == {"shop.other"}
    assert world.values("dev", "shop.other") == [(1, 11)]
    check(world)


# --- collecting -------------------------------------------------------------------------------------------


def collected(world: BranchWorld) -> None:
    """A branch is pinned, and main has gone on so far that what came right after is gone."""
    world.apply(REST + SHORT)
    world.ran()
    branches.create(world.ctx, "dev", pinned=True, days=None)
    for n in range(12):
        world.put("a.csv", (1, 100 + n))
        world.settle()
        world.now += 2 * DAY_S
    assert collect(world.store, "default").states


def test_an_edit_in_a_pinned_branch_after_a_collection(world: BranchWorld) -> None:
    collected(world)
    assert world.values("dev", "shop.sums") == [(1, 20), (2, 40)]
    roll_back(world, "shop.sums", MAIN)
    world.apply_in("dev", EDITED + SHORT)
    world.ran()
    assert world.values("dev", "shop.sums") == [(1, 30), (2, 60)]
    check(world)


def test_times_between_what_a_pinned_branch_sees_and_what_is_kept_are_gone(
    world: BranchWorld,
) -> None:
    pinned_at = world.now
    collected(world)
    point = Moment.of(pinned_at + 3 * DAY_S)
    with world.store.read() as tx:
        with pytest.raises(GenerationGone):
            time_travel.state_of(tx, MAIN, "shop.sums", point)
        kept = time_travel.state_of(tx, MAIN, "shop.sums", Generation(2))
        assert time_travel.state_of(tx, MAIN, "shop.sums", Moment.of(kept.at)) == kept
        assert time_travel.state_of(tx, MAIN, "shop.sums", Moment.of(world.now)).generation == 14
        assert time_travel.state_of(tx, "dev", "shop.sums", point).generation == 2


# --- differences ---------------------------------------------------------------------------------------------


def no_rows(files: ComparedFiles, *, timeout_s: float) -> RowDifference:
    raise AssertionError("no rows are asked for")


def test_a_pinned_branch_is_compared_as_it_sees_main(world: BranchWorld) -> None:
    branches.create(world.ctx, "dev", pinned=True)
    world.put("a.csv", (1, 11))
    world.settle()
    world.put("a.csv", (1, 12))
    world.settle()
    found = data_diff.of_branches(
        world.ctx, no_rows, MAIN, "dev", "shop.sums", data_diff.DiffRequest()
    )
    assert (found["one"]["generation"], found["other"]["generation"], found["state"]) == (
        2,
        2,
        "equal",
    )


def test_what_main_has_edited_since_is_a_difference(world: BranchWorld) -> None:
    branches.create(world.ctx, "dev", pinned=True)
    world.apply(EDITED)
    world.ran()
    told = branch_diff.difference(world.ctx, "dev", MAIN)
    assert [one["component"] for one in told["components"]] == ["doubled"]
    assert {d["dataset"]: d["state"] for d in told["datasets"]} == {
        "shop.doubled": "changed",
        "shop.sums": "changed",
    }
    assert told["shared"] == 2
    branches.update(world.ctx, "dev")
    told = branch_diff.difference(world.ctx, "dev", MAIN)
    assert (told["components"], told["datasets"], told["shared"]) == ([], [], 4)
