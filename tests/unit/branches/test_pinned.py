"""A pinned branch is a snapshot of main: it computes what was edited in it over that, and nothing
else."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from controlplane.cli import views
from controlplane.core.compile.nodes import Source
from controlplane.core.errors import BranchFollows
from controlplane.core.model.addresses import Generation
from controlplane.core.model.answers.status import LeaderStatus
from controlplane.operations.desired import branches, controls, merging, rollback
from controlplane.operations.inspect import overview
from controlplane.operations.planning.pinned import NOT_THERE
from controlplane.operations.planning.snapshot import plan_now
from tests.unit.branches.world import BranchWorld

DOUBLED = "  doubled:\n    transform: {{sql: 'SELECT k, {factor} * v AS v FROM orders'}}\n"
SUMS = "  sums:\n    transform: {sql: 'SELECT k, sum(v) AS v FROM doubled GROUP BY k'}\n"
OTHER = "  other:\n    transform: {sql: 'SELECT k, v + 1 AS v FROM orders'}\n"
REST = DOUBLED.format(factor=2) + SUMS
EDITED = DOUBLED.format(factor=3) + SUMS


def pinned_world(home: Path) -> BranchWorld:
    """Main at rest, and dev pinned to it."""
    made = BranchWorld(home)
    made.put("a.csv", (1, 10), (2, 20))
    made.apply(REST)
    made.settle()
    branches.create(made.ctx, "dev", pinned=True)
    made.once()
    return made


@pytest.fixture
def world(tmp_path: Path) -> BranchWorld:
    return pinned_world(tmp_path)


def check(world: BranchWorld, branch: str = "dev") -> None:
    """A planner that is kept says what planning from nothing says."""
    with world.ctx.read_plan(branch) as (kept, facts):
        fresh, _ = plan_now(facts.tx, branch, None)
        assert facts.owned(kept).decisions == fresh.decisions


def test_data_that_arrives_costs_nothing_in_it(world: BranchWorld) -> None:
    before = world.values("dev", "shop.sums")
    world.put("b.csv", (1, 30))
    assert world.settle() == {"parse": 1, "transform": 2}
    assert world.values("main", "shop.sums") == [(1, 80), (2, 40)]
    assert world.values("dev", "shop.sums") == before == [(1, 20), (2, 40)]
    assert {
        d["state"] for f in overview.status(world.ctx, "dev")["dataflows"] for d in f["datasets"]
    } == {"up_to_date"}
    check(world)


def test_a_listing_is_late_only_where_a_process_is_to_list(world: BranchWorld) -> None:
    """Main's source has a period, and nothing lists for a pinned branch. Without a scheduler
    nothing lists at all."""

    def late(branch: str) -> list[float]:
        status = overview.status(world.ctx, branch)
        return [
            d["listing"]["behind_s"]
            for f in status["dataflows"]
            for d in f["datasets"]
            if "listing" in d
        ]

    world.now += 1e6
    assert min(late("main")) > 1e5
    assert late("dev") == [0.0]
    status = overview.status(world.ctx, "main")
    assert "late: shop.orders" not in str(views.status(status))
    leader: LeaderStatus = {"holder": "pod-1", "epoch": 1, "since": "2026-01-01T00:00:00Z"}
    assert "late: shop.orders" in str(views.status({**status, "leader": leader}))


def test_an_edit_in_it_is_computed_over_what_there_was(world: BranchWorld) -> None:
    world.put("b.csv", (1, 30))
    world.settle()
    world.apply_in("dev", EDITED)
    assert world.ran() == {"analyse": 1, "transform": 2}  # one file, and one sum
    assert world.values("dev", "shop.sums") == [(1, 30), (2, 60)]
    check(world)
    world.put("c.csv", (3, 1))
    assert world.settle() == {"parse": 1, "transform": 2}  # of main
    assert world.values("dev", "shop.sums") == [(1, 30), (2, 60)]


def test_what_main_had_not_computed_is_not_there(world: BranchWorld) -> None:
    world.apply(DOUBLED.format(factor=7) + SUMS)
    branches.create(world.ctx, "early", pinned=True)
    world.settle()
    decisions = [world.decided("early", f"shop.{name}") for name in ("orders", "doubled", "sums")]
    assert [(one.status, one.reason) for one in decisions] == [
        ("up_to_date", ""),
        ("paused", NOT_THERE),
        ("paused", NOT_THERE),
    ]


def test_edits_pauses_and_forces_of_main_are_not_in_it(world: BranchWorld) -> None:
    world.apply(DOUBLED.format(factor=7) + SUMS)
    world.settle()
    controls.refresh(world.ctx, "main", "shop.doubled", force=True)
    controls.pause(world.ctx, "main", "shop")
    world.ran()
    assert world.values("dev", "shop.sums") == [(1, 20), (2, 40)]
    world.apply_in("dev", EDITED)
    assert world.ran()
    assert world.values("dev", "shop.sums") == [(1, 30), (2, 60)]
    check(world)


def test_an_update_moves_it_to_now(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    world.ran()
    world.put("b.csv", (1, 30))
    world.settle()
    branches.update(world.ctx, "dev")
    assert world.ran() == {"transform": 2}  # the new file, and the sum
    assert world.values("dev", "shop.sums") == [(1, 120), (2, 60)]
    assert world.values("dev", "shop.orders") == world.values("main", "shop.orders")
    check(world)


def test_a_branch_that_follows_is_not_updated(world: BranchWorld) -> None:
    world.create("other")
    with pytest.raises(BranchFollows, match="follows main"):
        branches.update(world.ctx, "other")


def test_nothing_is_listed_for_it(world: BranchWorld) -> None:
    with world.store.read() as tx:
        before = tx.listings.get(n.listing for n in _sources(world))
    told = controls.refresh(world.ctx, "dev", None)
    assert (told["listings"], told["sources"]) == (0, [])
    world.apply_in("dev", DOUBLED.format(factor=5), flow="more")
    world.ran()
    assert world.branching.sources()["dev"] == []
    decision = world.decided("dev", "more.orders")
    assert (decision.status, decision.reason.partition(",")[0]) == (
        "paused",
        "a pinned branch lists nothing",
    )
    with world.store.read() as tx:
        assert tx.listings.get(n.listing for n in _sources(world)) == before


def _sources(world: BranchWorld) -> list[Source]:
    with world.ctx.read_plan("main") as (_, facts):
        return [node for node in facts.desired.nodes.values() if isinstance(node, Source)]


@pytest.mark.parametrize("is_swept", [False, True])
def test_what_is_given_back_is_read_as_main_had_it(world: BranchWorld, is_swept: bool) -> None:
    """Also by a planner that began while the branch had it."""
    world.put("b.csv", (1, 30))
    world.settle()
    branches.update(world.ctx, "dev")
    rollback.rollback(world.ctx, "dev", "shop.orders", Generation(1))
    world.apply_in("dev", EDITED)
    world.ran()
    assert world.values("dev", "shop.sums") == [(1, 30), (2, 60)]
    if is_swept:
        branches.update(world.ctx, "dev")
        world.ran()
    controls.resume(world.ctx, "dev", "shop.orders")
    assert world.ran() == {"transform": 2}
    assert world.values("dev", "shop.sums") == [(1, 120), (2, 60)]
    check(world)


def test_an_edit_that_is_reverted_is_what_main_had(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    world.ran()
    branches.update(world.ctx, "dev")
    world.ran()
    world.apply_in("dev", REST + OTHER.replace("orders", "doubled"))
    world.ran()
    assert world.values("dev", "shop.other") == [(1, 21), (2, 41)]
    check(world)


def test_a_merge_brings_its_edits_and_leaves_it_as_it_is(world: BranchWorld) -> None:
    world.put("b.csv", (1, 30))
    world.settle()
    world.apply_in("dev", EDITED)
    world.ran()
    merging.merge_branch(world.ctx, "dev")
    assert world.ran() == {"transform": 2}  # the file that dev did not see, and the sum
    assert world.values("main", "shop.sums") == [(1, 120), (2, 60)]
    assert world.values("dev", "shop.sums") == [(1, 30), (2, 60)]
    check(world)
    branches.update(world.ctx, "dev")
    assert not world.ran()
    assert world.values("dev", "shop.sums") == [(1, 120), (2, 60)]
    with world.store.read() as tx:
        assert (tx.branches.own_dataflows("dev"), tx.branches.own_datasets("dev")) == (
            {},
            frozenset(),
        )
    check(world)


def test_a_branch_of_that_name_that_follows_is_another_one(world: BranchWorld) -> None:
    branches.delete(world.ctx, "dev")
    world.put("b.csv", (1, 30))
    world.create("dev")
    world.settle()
    assert world.values("dev", "shop.sums") == [(1, 80), (2, 40)]


def test_a_branch_of_it_is_edited_merged_and_lives_on(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    world.ran()
    assert branches.create(world.ctx, "child", source="dev")["pinned"]
    world.put("b.csv", (1, 30))
    world.settle()
    world.apply_in("child", EDITED + OTHER)
    assert world.ran() == {"analyse": 1, "transform": 1}
    assert world.values("child", "shop.sums") == [(1, 30), (2, 60)]
    check(world, "child")
    assert merging.merge_branch(world.ctx, "child", "dev")["taken"] == ["shop.other"]
    assert not world.ran()  # dev adopts what child has computed
    assert (
        world.values("dev", "shop.other")
        == world.values("child", "shop.other")
        == [(1, 11), (2, 21)]
    )
    branches.delete(world.ctx, "dev")
    assert world.values("child", "shop.sums") == [(1, 30), (2, 60)]
    merging.merge_branch(world.ctx, "child")
    world.ran()
    assert world.values("main", "shop.other") == [(1, 11), (1, 31), (2, 21)]


def test_a_pinned_branch_of_one_that_follows(world: BranchWorld) -> None:
    world.create("lead")
    world.apply_in("lead", EDITED)
    world.ran()
    branches.create(world.ctx, "child", source="lead", pinned=True)
    world.put("b.csv", (1, 30))
    world.settle()
    assert world.values("lead", "shop.sums") == [(1, 120), (2, 60)]
    assert world.values("child", "shop.sums") == [(1, 30), (2, 60)]
    assert world.values("child", "shop.orders") == [(1, 10), (2, 20)]
    check(world, "child")


@pytest.mark.parametrize("seed", range(4))
def test_it_has_the_rows_of_a_copy(tmp_path: Path, seed: int) -> None:
    """Whatever happens in main: files come and change, components are edited and forced, all in any
    order."""
    world, random = pinned_world(tmp_path), Random(seed)
    names = ("shop.orders", "shop.doubled", "shop.sums")
    copy = {name: world.values("dev", name) for name in names}
    for step in range(8):
        match random.choice(("file", "edit", "force", "update", "again")):
            case "file":
                world.put(f"{random.choice('abc')}.csv", (step, random.randrange(100)))
            case "edit":
                world.apply(DOUBLED.format(factor=random.randrange(2, 9)) + SUMS)
            case "force":
                controls.refresh(world.ctx, "main", "shop.doubled", force=True)
            case "update":
                branches.update(world.ctx, "dev")
                copy = {name: world.values("main", name) for name in names}
            case "again":
                branches.delete(world.ctx, "dev")
                branches.create(world.ctx, "dev", pinned=True)
                copy = {name: world.values("main", name) for name in names}
        assert {name: world.values("dev", name) for name in names} == copy
        world.settle()
        assert {name: world.values("dev", name) for name in names} == copy
        with world.store.read() as tx:
            assert tx.branches.own_datasets("dev") == frozenset()
        check(world)
