"""A merge moves texts and pointers: what the branch has computed is adopted, and nothing is
computed again."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.errors import (
    BranchEnded,
    BranchProtected,
    CannotMerge,
    MainStays,
    MergeConflict,
    NotFound,
)
from controlplane.operations.desired import blueprints, branches, controls, merging
from controlplane.operations.inspect import branch_diff
from controlplane.ports.store import Tx
from tests.unit.branches.test_overlay import COPY, DOUBLED, EDITED, OTHER, REST, SUMS
from tests.unit.branches.world import BranchWorld
from tests.unit.expectations.world import HEAD

MORE = OTHER.replace("other:", "more:").replace("v + 1", "v + 7")


@pytest.fixture
def world(tmp_path: Path) -> BranchWorld:
    made = BranchWorld(tmp_path)
    made.put("a.csv", (1, 10), (2, 20))
    made.put("b.csv", (1, 30))
    made.apply(REST)
    made.settle()
    branches.create(made.ctx, "dev")
    return made


def text(world: BranchWorld, branch: str) -> str:
    return blueprints.dataflow(world.ctx, branch, "shop")["text"]


def test_a_merge_where_main_did_not_move_computes_nothing(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    world.ran()
    told = merging.merge_branch(world.ctx, "dev")
    assert told["plan"]["certain"] == 2  # main's copy, by partition
    assert world.ran() == {"write": 2}
    assert world.values("main", "shop.sums") == [(1, 120), (2, 60)]
    assert branches.branch_named(world.ctx, "dev")["dataflows"] == []
    assert branches.branch_named(world.ctx, "dev")["datasets"] == 0


def test_a_dry_run_stores_nothing(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    before = text(world, "main")
    told = merging.merge_branch(world.ctx, "dev", dry_run=True)
    assert (told["dry_run"], told["revisions"]) == (True, {"shop": 2})
    assert text(world, "main") == before


def test_a_file_that_came_meanwhile_is_computed_alone(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    world.ran()
    merging.merge_branch(world.ctx, "dev")
    world.put("c.csv", (3, 1))
    assert world.settle() == {"parse": 1, "transform": 3, "write": 3}


def test_edits_of_different_components_come_together(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    world.apply(REST + MORE)
    told = merging.merge_branch(world.ctx, "dev")
    assert told["taken"] == ["shop.doubled"]
    assert text(world, "main") == HEAD.format(home=world.home) + EDITED + MORE


@pytest.mark.parametrize("of_main", [REST, REST + MORE])
def test_main_keeps_the_name_of_its_file(world: BranchWorld, of_main: str) -> None:
    """The branch's text came from another folder, such as a checkout of CI. Main's data and
    problems stay in place."""
    text_in_ci = HEAD.format(home=world.home) + EDITED
    blueprints.apply(
        world.ctx, "dev", [blueprints.SentBlueprint("/ci/17/shop.yaml", text_in_ci, {})]
    )
    if of_main != REST:
        world.apply(of_main)
    with world.store.read() as tx:
        before = tx.blueprints.revisions("main")["shop"].file
    merging.merge_branch(world.ctx, "dev")
    with world.store.read() as tx:
        revision = tx.blueprints.revisions("main")["shop"]
    assert (revision.file, "3 * v" in revision.text) == (before, True)


def test_an_edit_that_comes_between_is_merged_too(
    world: BranchWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.apply_in("dev", EDITED)
    begin = world.store.begin

    def begin_after_an_edit(namespace: str) -> AbstractContextManager[Tx]:
        monkeypatch.undo()
        world.apply(REST + MORE)
        return begin(namespace)

    monkeypatch.setattr(world.store, "begin", begin_after_an_edit)
    merging.merge_branch(world.ctx, "dev")
    assert text(world, "main") == HEAD.format(home=world.home) + EDITED + MORE


def test_edits_of_one_component_are_a_conflict_with_its_place(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    world.apply(DOUBLED.format(factor=9) + REST.partition("\n")[2].partition("\n")[2])
    with pytest.raises(MergeConflict) as refused:
        merging.merge_branch(world.ctx, "dev")
    (problem,) = refused.value.problems
    assert (
        problem.message
        == "shop.doubled was edited in both branches (in the other one at shop.yaml:11:3)"
    )
    assert problem.hint.startswith("--take ours=shop.doubled or --take theirs=shop.doubled, or ")
    assert text(world, "main").splitlines()[problem.line - 1].strip() == "doubled:"
    merging.merge_branch(world.ctx, "dev", take={"shop.doubled": "theirs"})
    assert text(world, "main") == text(world, "dev") == HEAD.format(home=world.home) + EDITED


TWICE = DOUBLED.format(factor=2).replace("doubled:", "twice:")
RENAMED = (
    (TWICE + SUMS + OTHER + COPY)
    .replace("FROM doubled", "FROM twice")
    .replace("from: doubled", "from: twice")
)


def uids(world: BranchWorld, branch: str) -> Mapping[str, str]:
    with world.store.read() as tx:
        return tx.blueprints.revisions(branch)["shop"].uids


def test_a_rename_is_a_rename_and_computes_nothing(world: BranchWorld) -> None:
    before = uids(world, "main")["doubled"]
    world.apply_in("dev", RENAMED)
    world.apply(
        REST.replace(
            "    transform: {sql: 'SELECT k, 2", "    owner: ann\n    transform: {sql: 'SELECT k, 2"
        )
    )
    world.ran()
    assert merging.merge_branch(world.ctx, "dev")["taken"] == [
        "shop.twice",
        "shop.sums",
        "shop.copy",
    ]
    assert text(world, "main") == HEAD.format(home=world.home) + RENAMED.replace(
        "    transform: {sql: 'SELECT k, 2", "    owner: ann\n    transform: {sql: 'SELECT k, 2"
    )
    assert (uids(world, "main")["twice"], "doubled" in uids(world, "main")) == (before, False)
    assert not world.ran()
    assert world.values("main", "shop.sums") == [(1, 80), (2, 40)]


def test_a_new_component_under_an_old_name_is_another_one(world: BranchWorld) -> None:
    before = uids(world, "main")["doubled"]
    world.apply(RENAMED)
    world.apply(RENAMED + DOUBLED.format(factor=5))
    found = uids(world, "main")
    assert found["twice"] == before
    assert found["doubled"] not in (
        before,
        *(uid for name, uid in found.items() if name != "doubled"),
    )


def test_results_that_were_forced_come_along(world: BranchWorld) -> None:
    controls.refresh(world.ctx, "dev", "shop.doubled", force=True)
    assert world.ran() == {"transform": 2}
    merging.merge_branch(world.ctx, "dev")
    assert not world.ran()
    with world.store.read() as tx:
        assert tx.blueprints.forces("main") == tx.blueprints.forces("dev")
        assert tx.branches.own_datasets("dev") == frozenset()


def test_a_forced_component_keeps_its_results_under_another_name(world: BranchWorld) -> None:
    controls.refresh(world.ctx, "main", "shop.other", force=True)
    world.ran()
    world.apply(REST.replace("other:", "another:"))
    assert not world.ran()["transform"]


def test_branches_that_merge_again_and_again_go_on_from_what_was_merged(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    branches.create(world.ctx, "try", source="dev")
    for factor in (4, 5, 6):
        world.apply_in("try", DOUBLED.format(factor=factor) + SUMS + OTHER + COPY)
        world.apply_in(
            "dev", text(world, "dev").removeprefix(HEAD.format(home=world.home)) + f"  # {factor}\n"
        )
        merging.merge_branch(world.ctx, "try", "dev")
        assert text(world, "try") == text(world, "dev")
        assert f"{factor} * v" in text(world, "dev")
    merging.merge_branch(world.ctx, "dev")
    assert "6 * v" in text(world, "main")


def test_what_main_deleted_and_the_branch_edited_is_a_conflict(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    blueprints.delete(world.ctx, "main", "shop")
    with pytest.raises(MergeConflict) as refused:
        merging.merge_branch(world.ctx, "dev")
    (conflict,) = refused.value.conflicts
    assert (conflict.dataflow, conflict.component, conflict.kind) == ("shop", "", "edit_delete")
    assert conflict.base is not None
    assert conflict.ours is None
    merging.merge_branch(world.ctx, "dev", take={"shop": "theirs"})
    assert text(world, "main") == HEAD.format(home=world.home) + EDITED


def test_each_side_of_a_conflict_is_told(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    world.apply(OTHER + DOUBLED.format(factor=9) + SUMS + COPY)
    with pytest.raises(MergeConflict) as refused:
        merging.merge_branch(world.ctx, "dev")
    (conflict,) = refused.value.conflicts
    sides = [conflict.base, conflict.ours, conflict.theirs]
    assert [(one.file, one.line, one.column) for one in sides if one] == [
        ("/shop.yaml", line, 3) for line in (11, 13, 11)
    ]
    factors = [factor for one in sides if one for factor in "239" if f"{factor} * v" in one.text]
    assert factors == ["2", "9", "3"]


@pytest.mark.parametrize("gone", ["dev", "safe"])
def test_a_branch_that_is_deleted_while_it_is_merged(
    world: BranchWorld, gone: str, monkeypatch: Any
) -> None:
    world.apply_in("dev", EDITED)
    branches.create(world.ctx, "safe")
    begin = world.store.begin

    def begin_after_it_ended(namespace: str) -> AbstractContextManager[Tx]:
        monkeypatch.undo()
        branches.delete(world.ctx, gone)
        return begin(namespace)

    monkeypatch.setattr(world.store, "begin", begin_after_it_ended)
    with pytest.raises(BranchEnded, match=gone):
        merging.merge_branch(world.ctx, "dev", "safe")
    with world.store.read() as tx:
        assert tx.branches.own_dataflows("safe") == {}


def test_a_dataflow_that_is_new_in_the_branch_is_new_in_main(world: BranchWorld) -> None:
    world.apply_in("dev", DOUBLED.format(factor=5), flow="more")
    world.ran()
    merging.merge_branch(world.ctx, "dev")
    assert not world.ran()
    assert world.values("main", "more.doubled") == [(1, 150), (1, 50), (2, 100)]


def test_a_dataflow_that_was_deleted_in_the_branch_ends_in_main(world: BranchWorld) -> None:
    blueprints.delete(world.ctx, "dev", "shop")
    assert merging.merge_branch(world.ctx, "dev")["ended"] == ["shop"]
    with pytest.raises(NotFound):
        text(world, "main")


def test_a_merge_of_two_branches(world: BranchWorld) -> None:
    branches.create(world.ctx, "try", source="dev")
    world.apply_in("try", EDITED)
    merging.merge_branch(world.ctx, "try", "dev")
    assert text(world, "dev") == text(world, "try")
    assert text(world, "main") != text(world, "dev")


@pytest.mark.parametrize(("source", "into"), [("main", "dev"), ("main", "main"), ("dev", "dev")])
def test_main_and_a_branch_itself_are_not_merged(
    world: BranchWorld, source: str, into: str
) -> None:
    with pytest.raises(CannotMerge, match="merged into"):
        merging.merge_branch(world.ctx, source, into)


def test_main_is_shown_and_stays(world: BranchWorld) -> None:
    found = branches.branch_named(world.ctx, "main")
    assert (found["expires_at"], found["dataflows"], found["datasets"]) == (None, ["shop"], 4)
    for change in (branches.delete, branches.update):
        with pytest.raises(MainStays):
            change(world.ctx, "main")


def test_a_merge_into_a_branch_lengthens_its_life(world: BranchWorld) -> None:
    branches.create(world.ctx, "target", days=1)
    world.apply_in("dev", EDITED)
    merging.merge_branch(world.ctx, "dev", "target")
    world.now += 2 * branches.DAY_S
    assert "target" not in branches.drop_expired(world.store, "default")


@pytest.mark.parametrize(("source", "into"), [("gone", "main"), ("dev", "gone")])
def test_what_cannot_be_merged(world: BranchWorld, source: str, into: str) -> None:
    with pytest.raises(NotFound):
        merging.merge_branch(world.ctx, source, into)


def test_a_protected_branch_changes_by_merges_alone(world: BranchWorld) -> None:
    branches.create(world.ctx, "safe", protected=True)
    with pytest.raises(BranchProtected):
        world.apply_in("safe", EDITED)
    with pytest.raises(BranchProtected):
        branches.delete(world.ctx, "safe")
    world.apply_in("dev", EDITED)
    world.ran()
    merging.merge_branch(world.ctx, "dev", "safe")
    assert text(world, "safe") == text(world, "dev")


def test_a_branch_ends_by_itself_unless_it_is_edited(world: BranchWorld) -> None:
    branches.create(world.ctx, "old", days=1)
    branches.create(world.ctx, "kept", days=None)
    world.now += 2 * branches.DAY_S
    assert branches.drop_expired(world.store, "default") == ["old"]
    world.now += 11 * branches.DAY_S
    world.apply_in("dev", EDITED)
    world.now += 10 * branches.DAY_S
    assert branches.drop_expired(world.store, "default") == []
    world.now += 5 * branches.DAY_S
    assert branches.drop_expired(world.store, "default") == ["dev"]
    assert [found["name"] for found in branches.listing(world.ctx)["items"]] == ["kept"]


def test_an_edit_does_not_shorten_a_longer_life(world: BranchWorld) -> None:
    branches.create(world.ctx, "long", days=100)
    world.apply_in("long", EDITED)
    world.now += 99 * branches.DAY_S
    assert "long" not in branches.drop_expired(world.store, "default")


def test_the_difference_of_two_branches(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    world.ran()
    found = branch_diff.difference(world.ctx, "main", "dev")
    (component,) = found["components"]
    assert (component["dataflow"], component["component"], component["state"]) == (
        "shop",
        "doubled",
        "changed",
    )
    assert [line for line in component["diff"] if line[0] in "+-"] == [
        "-    transform: {sql: 'SELECT k, 2 * v AS v FROM orders'}",
        "+    transform: {sql: 'SELECT k, 3 * v AS v FROM orders'}",
    ]
    assert found["datasets"] == [
        {
            "dataset": "shop.doubled",
            "state": "changed",
            "added": 0,
            "removed": 0,
            "changed": 2,
            "moved": 0,
            "rows": 0,
            "same_inputs": True,
            "partitions": ["a.csv", "b.csv"],
        },
        {
            "dataset": "shop.sums",
            "state": "changed",
            "added": 0,
            "removed": 0,
            "changed": 1,
            "moved": 0,
            "rows": 0,
            "same_inputs": True,
            "partitions": [""],
        },
    ]
    assert found["shared"] == 2
