"""A branch reads what main has, but for what is its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.core.errors import BranchExists, NotFound, StaleRevision, StaleState
from controlplane.core.model import change_marks
from controlplane.core.model.pins import Pin
from controlplane.core.model.projections import unknown_table
from controlplane.core.model.shares import SharedTable
from controlplane.store.sql import branches as sql
from controlplane.store.sql.tables import metadata
from tests.store.conftest import World
from tests.store.examples import (
    SCHEMA,
    begun,
    branch,
    building,
    d,
    error,
    hold,
    publication,
    revision,
    state,
    target,
    task,
)

KNOWING = {name for name, table in metadata.tables.items() if "branch" in table.c}
TOLD = {"events", "changes", "past_attempts", "reads"}  # they stay when a branch goes
DAILY = "flights.daily"


@pytest.fixture
def forked(world: World) -> World:
    """Main has two states of a dataset and two revisions of its dataflow, and dev was made from it."""
    with world.begin() as tx:
        tx.put_revision(revision(1), 0)
        tx.put_revision(revision(2), 1)
        tx.commit_state(state(1), 0)
        tx.commit_state(state(2), 1)
        tx.create_branch(branch())
    return world


def test_a_branch_is_known_by_its_name(forked: World) -> None:
    with forked.begin() as tx:
        assert tx.branches() == {"dev": branch()}
        tx.put_branch(branch(protected=True))
    with forked.read() as tx:
        assert tx.branches() == {"dev": branch(protected=True)}


@pytest.mark.parametrize("name", ["dev", "main"])
def test_a_name_is_given_once(forked: World, name: str) -> None:
    with pytest.raises(BranchExists, match=name), forked.begin() as tx:
        tx.create_branch(branch(name))


def test_a_name_that_left_something_behind_is_not_given(forked: World) -> None:
    """A loop that was slow commits for a branch that is gone: a new branch of the name would begin with that."""
    with forked.begin() as tx:
        tx.drop_branch("dev")
        tx.commit_state(state(3, branch="dev"), 2)
    with pytest.raises(BranchExists, match="dev"), forked.begin() as tx:
        tx.create_branch(branch("dev"))


def test_what_was_not_edited_is_mains_now_and_later(forked: World) -> None:
    with forked.begin() as tx:
        tx.put_revision(revision(3), 2)
        tx.commit_state(state(3), 2)
    with forked.read() as tx:
        assert tx.revisions("dev") == {"flights": revision(3)}
        assert tx.states("dev") == {DAILY: state(3)}
        assert tx.history("dev", DAILY, 9) == (state(3), state(2), state(1))
        assert tx.own_dataflows("dev") == {}


def test_an_edit_goes_on_from_what_main_had(forked: World) -> None:
    with forked.begin() as tx:
        tx.put_revision(revision(3, branch="dev"), 2)
    with forked.begin() as tx:
        tx.put_revision(revision(3), 2)
    with forked.read() as tx:
        assert tx.revisions("dev") == {"flights": revision(3, branch="dev")}
        assert tx.revisions("main") == {"flights": revision(3)}
        assert tx.own_dataflows("dev") == {"flights": 2}


def test_an_edit_of_another_revision_than_mains_is_refused(forked: World) -> None:
    with pytest.raises(StaleRevision), forked.begin() as tx:
        tx.put_revision(revision(2, branch="dev"), 1)


def test_a_deletion_in_a_branch_is_its_own(forked: World) -> None:
    with forked.begin() as tx:
        tx.delete_dataflow("dev", "flights")
    with forked.begin() as tx:
        assert tx.revisions("dev") == {}
        assert tx.revisions("main") == {"flights": revision(2)}
        assert tx.own_dataflows("dev") == {"flights": 2}
        with pytest.raises(NotFound):
            tx.delete_dataflow("dev", "flights")
        tx.put_revision(revision(3, branch="dev"), 0)
        assert tx.revisions("dev") == {"flights": revision(3, branch="dev")}


def test_states_of_a_branch_go_on_from_those_of_main(forked: World) -> None:
    with forked.begin() as tx:
        tx.commit_state(state(3, branch="dev"), 2)
    with forked.begin() as tx:
        tx.commit_state(state(3), 2)
        tx.commit_state(state(4, branch="dev"), 3)
    with forked.read() as tx:
        own = (state(4, branch="dev"), state(3, branch="dev"))
        assert tx.states("dev", [DAILY]) == {DAILY: own[0]}
        assert tx.history("dev", DAILY, 9) == (*own, state(2), state(1))
        assert tx.history("dev", DAILY, 2) == own
        assert tx.history("dev", DAILY, 9, 2) == (state(1),)
        assert tx.history("main", DAILY, 9) == (state(3), state(2), state(1))
        settled = tx.settled("dev", [(DAILY, 3), (DAILY, 1)])
        assert sorted(settled, key=lambda s: s.seq) == [state(1), own[1]]


@pytest.mark.parametrize("seq", [0, 1, 3])
def test_a_first_state_that_does_not_go_on_from_mains_is_refused(forked: World, seq: int) -> None:
    with pytest.raises(StaleState), forked.begin() as tx:
        tx.commit_state(state(seq + 1, branch="dev"), seq)


def test_what_is_wished_in_a_branch_wins_over_main(forked: World) -> None:
    with forked.begin() as tx:
        first = tx.force("main", [DAILY, "flights.weekly"])
        tx.set_paused("main", "flights", True)
        tx.pin_schema("main", "flights.raw", Pin(d(1), SCHEMA))
    with forked.begin() as tx:
        assert tx.forces("dev") == {DAILY: first, "flights.weekly": first}
        assert tx.paused("dev") == {"flights"}
        assert tx.pinned_schemas("dev", ["flights.raw"]) == {"flights.raw": Pin(d(1), SCHEMA)}
        newer = tx.force("dev", [DAILY])
        tx.set_paused("dev", "flights", False)
        tx.pin_schema("dev", "flights.raw", Pin(d(2), SCHEMA))
    with forked.read() as tx:
        assert tx.forces("dev") == {DAILY: newer, "flights.weekly": first}
        assert tx.paused("dev") == frozenset()
        assert tx.pinned_schemas("dev", ["flights.raw"]) == {"flights.raw": Pin(d(2), SCHEMA)}
        assert tx.forces("main") == {DAILY: first, "flights.weekly": first}
        assert tx.paused("main") == {"flights"}


def test_what_is_computed_for_main_and_copied_elsewhere_is_mains_alone(forked: World) -> None:
    with forked.begin() as tx:
        tx.put_building(building())
        tx.put_begun(begun(DAILY))
        tx.enqueue("main", DAILY, [task(1)])
        tx.set_problem("main", DAILY, error())
        tx.put_target(target("flights.to_csv", 1))
        tx.put_publication(publication(1, DAILY))
    with forked.read() as tx:
        assert tx.unfinished("dev") == ({}, {})
        assert tx.demands("dev", DAILY) == {}
        assert (tx.problems("dev"), tx.targets("dev")) == ({}, {})
        assert (tx.publications("dev"), tx.branch_publications()) == ({}, ())


def test_what_is_known_of_tables_ends_with_the_branch_and_their_rows_do_not(forked: World) -> None:
    """So that somebody deletes the files."""
    mine = replace(publication(3, DAILY), branch="dev")
    other = replace(publication(2, "flights.weekly"), branch="dev", error="the store is away")
    with forked.begin() as tx:
        for one in (publication(1, DAILY), mine, other, replace(mine, branch="try")):
            tx.put_publication(one)
    with forked.begin() as tx:
        assert tx.publications("dev") == {DAILY: mine, "flights.weekly": other}
        assert tx.publications("dev", ["flights.weekly"]) == {"flights.weekly": other}
        assert tx.branch_publications() == (mine, other, replace(mine, branch="try"))
        tx.share("dev", [DAILY, "flights.none"])
        assert tx.publications("dev") == {DAILY: unknown_table("dev", DAILY), "flights.weekly": other}
        tx.drop_branch("dev")
    gone = (unknown_table("dev", DAILY), unknown_table("dev", "flights.weekly"))
    with forked.begin() as tx:
        assert tx.branch_publications() == (*gone, replace(mine, branch="try"))
        tx.create_branch(branch("dev", publish=True))
        assert tx.branches()["dev"].publish
        assert tx.branch_publications()[:2] == gone
        tx.drop_publication("dev", DAILY)
        tx.drop_publication("dev", DAILY)
    with forked.read() as tx:
        assert tx.branch_publications() == (gone[1], replace(mine, branch="try"))
        assert tx.publications("main") == {DAILY: publication(1, DAILY)}


def test_holds_are_those_of_one_branch(forked: World) -> None:
    with forked.begin() as tx:
        tx.put_hold(hold())
        tx.put_hold(hold("flights.weekly"))
        tx.put_hold(hold(branch="dev", generation=2))
    with forked.begin() as tx:
        assert tx.holds("main") == {DAILY: hold(), "flights.weekly": hold("flights.weekly")}
        assert tx.holds("dev") == {DAILY: hold(branch="dev", generation=2)}
        tx.create_branch(branch("try", source="dev"))
        tx.drop_holds("main", [DAILY])
        tx.put_hold(hold("flights.weekly", generation=7))
    with forked.begin() as tx:
        assert tx.holds("try") == {DAILY: hold(branch="try", generation=2)}
        assert tx.holds("main") == {"flights.weekly": hold("flights.weekly", generation=7)}
        tx.share("try", [DAILY])
        tx.delete_dataflow("main", "flights")
        tx.drop_branch("dev")
    with forked.read() as tx:
        assert [tx.holds(b) for b in ("main", "dev", "try")] == [{}, {}, {}]


def test_a_hold_is_marked_as_what_is_wanted(forked: World) -> None:
    for change in (lambda tx: tx.put_hold(hold()), lambda tx: tx.drop_holds("main", [DAILY])):
        with forked.read() as tx:
            seen, _ = tx.marked("main", 0)
        with forked.begin() as tx:
            change(tx)
        with forked.read() as tx:
            marks = tx.marked("dev", seen)[1]
        assert marks == {change_marks.HOLDS, DAILY}
        assert any(map(change_marks.is_wish, marks))


def test_what_happens_in_main_is_marked_for_a_branch(forked: World) -> None:
    with forked.read() as tx:
        seen, _ = tx.marked("dev", 0)
    with forked.begin() as tx:
        tx.commit_state(state(3), 2)
    with forked.read() as tx:
        assert tx.marked("dev", seen)[1] == {DAILY}
    with forked.begin() as tx:
        newer, _ = tx.marked("main", 0)
        tx.commit_state(state(4, branch="dev"), 3)
    with forked.read() as tx:
        assert tx.marked("main", newer)[1] == frozenset()


def test_what_is_mains_again(forked: World) -> None:
    with forked.begin() as tx:
        tx.put_revision(revision(3, branch="dev"), 2)
        tx.commit_state(state(3, branch="dev"), 2)
        tx.enqueue("dev", DAILY, [task(1)])
    with forked.begin() as tx:
        tx.share("dev", [DAILY])
        tx.share_dataflows("dev", ["flights"])
    with forked.begin() as tx:
        assert tx.states("dev") == {DAILY: state(2)}
        assert tx.revisions("dev") == {"flights": revision(2)}
        assert tx.tasks([d(1)]) == {}
        tx.commit_state(state(3, branch="dev"), 2)  # and its own once more


def test_a_dataset_that_is_mains_again_leaves_the_fork_of_a_dataflow_alone(forked: World) -> None:
    with forked.begin() as tx:
        tx.put_revision(revision(3, branch="dev"), 2)
        tx.share("dev", ["flights"])  # no dataset has such a name
        assert tx.own_dataflows("dev") == {"flights": 2}


def test_a_branch_of_a_branch_has_what_that_has_of_its_own(forked: World) -> None:
    with forked.begin() as tx:
        tx.put_revision(revision(3, branch="dev"), 2)
        tx.commit_state(state(3, branch="dev"), 2)
        tx.create_branch(branch("try", source="dev"))
    with forked.begin() as tx:
        tx.commit_state(state(3), 2)
        tx.commit_state(state(4, branch="dev"), 3)
    with forked.read() as tx:
        assert tx.revisions("try") == {"flights": revision(3, branch="try")}
        assert tx.history("try", DAILY, 9) == (state(3, branch="try"), state(2), state(1))
        assert tx.own_dataflows("try") == {"flights": 2}


def test_a_branch_goes_with_all_its_rows(forked: World) -> None:
    with forked.begin() as tx:
        tx.put_revision(revision(3, branch="dev"), 2)
        tx.commit_state(state(3, branch="dev"), 2)
        tx.set_paused("dev", "flights", True)
        tx.enqueue("dev", DAILY, [task(1), task(2)])
        tx.enqueue("main", DAILY, [task(2)])
        tx.put_shared_table(
            SharedTable("s1", "flights", "daily", branch="dev", dataset=DAILY, has_history=False, at=0.0)
        )
    with forked.begin() as tx:
        tx.drop_branch("dev")
        with pytest.raises(NotFound):
            tx.drop_branch("dev")
    with forked.begin() as tx:
        assert tx.branches() == {}
        assert tx.shared_tables("s1") == ()  # who makes a branch of this name again shares nothing of it
        assert tx.tasks([d(1), d(2)]).keys() == {d(2)}
        tx.create_branch(branch())  # its name is free again
        assert tx.states("dev") == {DAILY: state(2)}
        assert tx.revisions("dev") == {"flights": revision(2)}
        assert tx.paused("dev") == frozenset()
        assert {change_marks.BRANCHES, change_marks.ENDED} <= tx.marked("dev", 0)[1]
        assert change_marks.ENDED not in tx.marked("main", 0)[1]


def test_every_table_that_knows_branches_is_emptied_of_one() -> None:
    emptied = {table.name for table in (*sql.BY_DATAFLOW, *sql.BY_DATASET, *sql.OTHERS)}
    assert emptied | {"demands"} == KNOWING - TOLD - {"publications"}  # which are to-dos until the files are gone


def test_forces_that_come_from_another_branch_only_grow(forked: World) -> None:
    with forked.begin() as tx:
        first = tx.force("dev", [DAILY])
        newer = tx.force("main", ["flights.weekly"])
    with forked.begin() as tx:
        tx.bring_forces("main", {DAILY: first, "flights.weekly": first})
    with forked.read() as tx:
        assert tx.forces("main") == {DAILY: first, "flights.weekly": newer}
        seen, marks = tx.marked("main", 0)
        assert DAILY in marks
    with forked.begin() as tx:
        tx.bring_forces("main", {DAILY: first})
    with forked.read() as tx:
        assert tx.marked("main", seen) == (seen, frozenset())


def test_a_branch_is_held_only_while_it_is_there(forked: World) -> None:
    with forked.begin() as tx:
        tx.hold_branch("dev")
        tx.drop_branch("dev")
        with pytest.raises(NotFound):
            tx.hold_branch("dev")


def test_making_one_costs_one_row(forked: World) -> None:
    before = forked.store.statements
    with forked.begin() as tx:
        tx.create_branch(branch("try"))
    assert forked.store.statements - before <= 5  # is it new, the row, and its mark
