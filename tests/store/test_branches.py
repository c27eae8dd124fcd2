"""A branch reads what main has, but for what is its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.core.errors import (
    BranchExists,
    NotFound,
    StaleRevision,
    StaleState,
    TooManyRanges,
)
from controlplane.core.model import change_marks
from controlplane.core.model.forces import MOST_RANGES, number_at
from controlplane.core.model.pins import Pin
from controlplane.core.model.projections import unknown_table
from controlplane.core.model.shares import SharedTable
from controlplane.store.sql import branches as sql
from controlplane.store.sql.tables import metadata
from tests.store.conftest import World
from tests.store.examples import (
    SCHEMA,
    branch,
    building,
    d,
    hold,
    publication,
    revision,
    state,
    target,
    task,
    unfinished,
)

KNOWING = {name for name, table in metadata.tables.items() if "branch" in table.c}
TOLD = {"events", "changes", "past_attempts", "reads"}  # they stay when a branch goes
DAILY = "flights.daily"


@pytest.fixture
def forked(world: World) -> World:
    """Main has two states of a dataset and two revisions of its dataflow, and dev was made from
    it."""
    with world.begin() as tx:
        tx.blueprints.put(revision(1), 0)
        tx.blueprints.put(revision(2), 1)
        tx.states.commit(state(1), 0)
        tx.states.commit(state(2), 1)
        tx.branches.create(branch())
    return world


def test_a_branch_is_known_by_its_name(forked: World) -> None:
    with forked.begin() as tx:
        assert tx.branches.all() == {"dev": branch()}
        tx.branches.put(branch(protected=True))
    with forked.read() as tx:
        assert tx.branches.all() == {"dev": branch(protected=True)}


@pytest.mark.parametrize("name", ["dev", "main"])
def test_a_name_is_given_once(forked: World, name: str) -> None:
    with pytest.raises(BranchExists, match=name), forked.begin() as tx:
        tx.branches.create(branch(name))


def test_a_name_that_left_something_behind_is_not_given(forked: World) -> None:
    """A loop that was slow commits for a branch that is gone: a new branch of the name would begin
    with that."""
    with forked.begin() as tx:
        tx.branches.drop("dev")
        tx.states.commit(state(3, branch="dev"), 2)
    with pytest.raises(BranchExists, match="dev"), forked.begin() as tx:
        tx.branches.create(branch("dev"))


def test_what_was_not_edited_is_mains_now_and_later(forked: World) -> None:
    with forked.begin() as tx:
        tx.blueprints.put(revision(3), 2)
        tx.states.commit(state(3), 2)
    with forked.read() as tx:
        assert tx.blueprints.revisions("dev") == {"flights": revision(3)}
        assert tx.states.newest("dev") == {DAILY: state(3)}
        assert tx.states.history("dev", DAILY, 9) == (state(3), state(2), state(1))
        assert tx.branches.own_dataflows("dev") == {}


def test_an_edit_goes_on_from_what_main_had(forked: World) -> None:
    with forked.begin() as tx:
        tx.blueprints.put(revision(3, branch="dev"), 2)
    with forked.begin() as tx:
        tx.blueprints.put(revision(3), 2)
    with forked.read() as tx:
        assert tx.blueprints.revisions("dev") == {"flights": revision(3, branch="dev")}
        assert tx.blueprints.revisions("main") == {"flights": revision(3)}
        assert tx.branches.own_dataflows("dev") == {"flights": 2}


def test_an_edit_of_another_revision_than_mains_is_refused(forked: World) -> None:
    with pytest.raises(StaleRevision), forked.begin() as tx:
        tx.blueprints.put(revision(2, branch="dev"), 1)


def test_a_deletion_in_a_branch_is_its_own(forked: World) -> None:
    with forked.begin() as tx:
        tx.blueprints.delete_dataflow("dev", "flights")
    with forked.begin() as tx:
        assert tx.blueprints.revisions("dev") == {}
        assert tx.blueprints.revisions("main") == {"flights": revision(2)}
        assert tx.branches.own_dataflows("dev") == {"flights": 2}
        with pytest.raises(NotFound):
            tx.blueprints.delete_dataflow("dev", "flights")
        tx.blueprints.put(revision(3, branch="dev"), 0)
        assert tx.blueprints.revisions("dev") == {"flights": revision(3, branch="dev")}


def test_states_of_a_branch_go_on_from_those_of_main(forked: World) -> None:
    with forked.begin() as tx:
        tx.states.commit(state(3, branch="dev"), 2)
    with forked.begin() as tx:
        tx.states.commit(state(3), 2)
        tx.states.commit(state(4, branch="dev"), 3)
    with forked.read() as tx:
        own = (state(4, branch="dev"), state(3, branch="dev"))
        assert tx.states.newest("dev", [DAILY]) == {DAILY: own[0]}
        assert tx.states.history("dev", DAILY, 9) == (*own, state(2), state(1))
        assert tx.states.history("dev", DAILY, 2) == own
        assert tx.states.history("dev", DAILY, 9, 2) == (state(1),)
        assert tx.states.history("main", DAILY, 9) == (state(3), state(2), state(1))
        settled = tx.states.settled("dev", [(DAILY, 3), (DAILY, 1)])
        assert sorted(settled, key=lambda s: s.seq) == [state(1), own[1]]


@pytest.mark.parametrize("seq", [0, 1, 3])
def test_a_first_state_that_does_not_go_on_from_mains_is_refused(forked: World, seq: int) -> None:
    with pytest.raises(StaleState), forked.begin() as tx:
        tx.states.commit(state(seq + 1, branch="dev"), seq)


def test_what_is_wished_in_a_branch_wins_over_main(forked: World) -> None:
    with forked.begin() as tx:
        first = tx.blueprints.force("main", [DAILY, "flights.weekly"])
        tx.blueprints.set_paused("main", "flights", True)
        tx.states.pin_schema("main", "flights.raw", Pin(d(1), SCHEMA))
    with forked.begin() as tx:
        assert tx.blueprints.forces("dev") == {DAILY: first, "flights.weekly": first}
        assert tx.blueprints.paused("dev") == {"flights"}
        assert tx.states.pinned_schemas("dev", ["flights.raw"]) == {
            "flights.raw": Pin(d(1), SCHEMA)
        }
        newer = tx.blueprints.force("dev", [DAILY])
        tx.blueprints.set_paused("dev", "flights", False)
        tx.states.pin_schema("dev", "flights.raw", Pin(d(2), SCHEMA))
    with forked.read() as tx:
        assert tx.blueprints.forces("dev") == {DAILY: newer, "flights.weekly": first}
        assert tx.blueprints.paused("dev") == frozenset()
        assert tx.states.pinned_schemas("dev", ["flights.raw"]) == {
            "flights.raw": Pin(d(2), SCHEMA)
        }
        assert tx.blueprints.forces("main") == {DAILY: first, "flights.weekly": first}
        assert tx.blueprints.paused("main") == {"flights"}


def test_what_is_computed_for_main_and_copied_elsewhere_is_mains_alone(forked: World) -> None:
    with forked.begin() as tx:
        tx.states.put_building(building())
        tx.states.put_unfinished(unfinished(DAILY))
        tx.queue.enqueue("main", DAILY, [task(1)])
        tx.projections.put_target(target("flights.to_csv", 1))
        tx.projections.put_publication(publication(1, DAILY))
    with forked.read() as tx:
        assert tx.states.unfinished("dev") == ({}, {})
        assert tx.queue.demands("dev", DAILY) == {}
        assert tx.projections.targets("dev") == {}
        assert (tx.projections.publications("dev"), tx.projections.branch_publications()) == (
            {},
            (),
        )


def test_what_is_known_of_tables_ends_with_the_branch_and_their_rows_do_not(forked: World) -> None:
    """So that somebody deletes the files."""
    mine = replace(publication(3, DAILY), branch="dev")
    other = replace(publication(2, "flights.weekly"), branch="dev", error="the store is away")
    with forked.begin() as tx:
        for one in (publication(1, DAILY), mine, other, replace(mine, branch="try")):
            tx.projections.put_publication(one)
    with forked.begin() as tx:
        assert tx.projections.publications("dev") == {DAILY: mine, "flights.weekly": other}
        assert tx.projections.publications("dev", ["flights.weekly"]) == {"flights.weekly": other}
        assert tx.projections.branch_publications() == (mine, other, replace(mine, branch="try"))
        tx.branches.share("dev", [DAILY, "flights.none"])
        assert tx.projections.publications("dev") == {
            DAILY: unknown_table("dev", DAILY),
            "flights.weekly": other,
        }
        tx.branches.drop("dev")
    gone = (unknown_table("dev", DAILY), unknown_table("dev", "flights.weekly"))
    with forked.begin() as tx:
        assert tx.projections.branch_publications() == (*gone, replace(mine, branch="try"))
        tx.branches.create(branch("dev", publish=True))
        assert tx.branches.all()["dev"].publish
        assert tx.projections.branch_publications()[:2] == gone
        tx.projections.drop_publication("dev", DAILY)
        tx.projections.drop_publication("dev", DAILY)
    with forked.read() as tx:
        assert tx.projections.branch_publications() == (gone[1], replace(mine, branch="try"))
        assert tx.projections.publications("main") == {DAILY: publication(1, DAILY)}


def test_holds_are_those_of_one_branch(forked: World) -> None:
    with forked.begin() as tx:
        tx.states.put_hold(hold())
        tx.states.put_hold(hold("flights.weekly"))
        tx.states.put_hold(hold(branch="dev", generation=2))
    with forked.begin() as tx:
        assert tx.states.holds("main") == {DAILY: hold(), "flights.weekly": hold("flights.weekly")}
        assert tx.states.holds("dev") == {DAILY: hold(branch="dev", generation=2)}
        tx.branches.create(branch("try", source="dev"))
        tx.states.drop_holds("main", [DAILY])
        tx.states.put_hold(hold("flights.weekly", generation=7))
    with forked.begin() as tx:
        assert tx.states.holds("try") == {DAILY: hold(branch="try", generation=2)}
        assert tx.states.holds("main") == {"flights.weekly": hold("flights.weekly", generation=7)}
        tx.branches.share("try", [DAILY])
        tx.blueprints.delete_dataflow("main", "flights")
        tx.branches.drop("dev")
    with forked.read() as tx:
        assert [tx.states.holds(b) for b in ("main", "dev", "try")] == [{}, {}, {}]


def test_a_hold_is_marked_as_what_is_wanted(forked: World) -> None:
    for change in (
        lambda tx: tx.states.put_hold(hold()),
        lambda tx: tx.states.drop_holds("main", [DAILY]),
    ):
        with forked.read() as tx:
            seen, _ = tx.states.marked("main", 0)
        with forked.begin() as tx:
            change(tx)
        with forked.read() as tx:
            marks = tx.states.marked("dev", seen)[1]
        assert marks == {change_marks.HOLDS, DAILY}
        assert any(map(change_marks.is_request_mark, marks))


def test_what_happens_in_main_is_marked_for_a_branch(forked: World) -> None:
    with forked.read() as tx:
        seen, _ = tx.states.marked("dev", 0)
    with forked.begin() as tx:
        tx.states.commit(state(3), 2)
    with forked.read() as tx:
        assert tx.states.marked("dev", seen)[1] == {DAILY}
    with forked.begin() as tx:
        newer, _ = tx.states.marked("main", 0)
        tx.states.commit(state(4, branch="dev"), 3)
    with forked.read() as tx:
        assert tx.states.marked("main", newer)[1] == frozenset()


def test_what_is_mains_again(forked: World) -> None:
    with forked.begin() as tx:
        tx.blueprints.put(revision(3, branch="dev"), 2)
        tx.states.commit(state(3, branch="dev"), 2)
        tx.queue.enqueue("dev", DAILY, [task(1)])
    with forked.begin() as tx:
        tx.branches.share("dev", [DAILY])
        tx.branches.share_dataflows("dev", ["flights"])
    with forked.begin() as tx:
        assert tx.states.newest("dev") == {DAILY: state(2)}
        assert tx.blueprints.revisions("dev") == {"flights": revision(2)}
        assert tx.queue.tasks([d(1)]) == {}
        tx.states.commit(state(3, branch="dev"), 2)  # and its own once more


def test_a_dataset_that_is_mains_again_leaves_the_fork_of_a_dataflow_alone(forked: World) -> None:
    with forked.begin() as tx:
        tx.blueprints.put(revision(3, branch="dev"), 2)
        tx.branches.share("dev", ["flights"])  # no dataset has such a name
        assert tx.branches.own_dataflows("dev") == {"flights": 2}


def test_a_branch_of_a_branch_has_what_that_has_of_its_own(forked: World) -> None:
    with forked.begin() as tx:
        tx.blueprints.put(revision(3, branch="dev"), 2)
        tx.states.commit(state(3, branch="dev"), 2)
        tx.branches.create(branch("try", source="dev"))
    with forked.begin() as tx:
        tx.states.commit(state(3), 2)
        tx.states.commit(state(4, branch="dev"), 3)
    with forked.read() as tx:
        assert tx.blueprints.revisions("try") == {"flights": revision(3, branch="try")}
        assert tx.states.history("try", DAILY, 9) == (state(3, branch="try"), state(2), state(1))
        assert tx.branches.own_dataflows("try") == {"flights": 2}


def test_a_branch_goes_with_all_its_rows(forked: World) -> None:
    with forked.begin() as tx:
        tx.blueprints.put(revision(3, branch="dev"), 2)
        tx.states.commit(state(3, branch="dev"), 2)
        tx.blueprints.set_paused("dev", "flights", True)
        tx.queue.enqueue("dev", DAILY, [task(1), task(2)])
        tx.queue.enqueue("main", DAILY, [task(2)])
        tx.shares.put_table(
            SharedTable(
                "s1", "flights", "daily", branch="dev", dataset=DAILY, has_history=False, at=0.0
            )
        )
    with forked.begin() as tx:
        tx.branches.drop("dev")
        with pytest.raises(NotFound):
            tx.branches.drop("dev")
    with forked.begin() as tx:
        assert tx.branches.all() == {}
        # Who makes a branch of this name again shares nothing of it
        assert tx.shares.tables("s1") == ()
        assert tx.queue.tasks([d(1), d(2)]).keys() == {d(2)}
        tx.branches.create(branch())  # its name is free again
        assert tx.states.newest("dev") == {DAILY: state(2)}
        assert tx.blueprints.revisions("dev") == {"flights": revision(2)}
        assert tx.blueprints.paused("dev") == frozenset()
        assert {change_marks.BRANCHES, change_marks.ENDED} <= tx.states.marked("dev", 0)[1]
        assert change_marks.ENDED not in tx.states.marked("main", 0)[1]


def test_every_table_that_knows_branches_is_emptied_of_one() -> None:
    emptied = {table.name for table in (*sql.BY_DATAFLOW, *sql.BY_DATASET, *sql.OTHERS)}
    # Publications are to-dos until the files are gone
    assert emptied | {"demands"} == KNOWING - TOLD - {"publications"}


def test_forces_that_come_from_another_branch_only_grow(forked: World) -> None:
    with forked.begin() as tx:
        first = tx.blueprints.force("dev", [DAILY])
        newer = tx.blueprints.force("main", ["flights.weekly"])
    with forked.begin() as tx:
        tx.blueprints.bring_forces("main", {DAILY: first, "flights.weekly": first})
    with forked.read() as tx:
        assert tx.blueprints.forces("main") == {DAILY: first, "flights.weekly": newer}
        seen, marks = tx.states.marked("main", 0)
        assert DAILY in marks
    with forked.begin() as tx:
        tx.blueprints.bring_forces("main", {DAILY: first})
    with forked.read() as tx:
        assert tx.states.marked("main", seen) == (seen, frozenset())


def test_ranges_of_two_branches_are_joined(forked: World) -> None:
    with forked.begin() as tx:
        of_main = tx.blueprints.force_range("main", DAILY, "d2", "d3")
        of_dev = tx.blueprints.force_range("dev", DAILY, "d3", "d5")
    with forked.begin() as tx:
        later = tx.blueprints.force_range("main", DAILY, "d1", "d1")
        tx.blueprints.bring_forces("main", {DAILY: of_dev})  # an older number stays out
        assert tx.blueprints.forces("main") == {DAILY: later}
        newest = tx.blueprints.force_range("dev", DAILY, "d5", "d6")
        tx.blueprints.bring_forces("main", {DAILY: newest})
    with forked.read() as tx:
        ranges, number = tx.blueprints.forced_ranges(), tx.blueprints.forces("main")[DAILY]
    numbers = {key: number_at(ranges, number, key) for key in ("d0", "d1", "d2", "d4", "d6")}
    assert numbers == {"d0": 0, "d1": later, "d2": of_main, "d4": of_dev, "d6": newest}


def test_ranges_go_once_no_branch_sees_them(forked: World) -> None:
    with forked.begin() as tx:
        of_main = tx.blueprints.force_range("main", DAILY, "d1", "d1")
        of_dev = tx.blueprints.force_range("dev", DAILY, "d2", "d2")
        tx.branches.pin("dev")
    with forked.begin() as tx:
        assert tx.blueprints.drop_ranges() == 0
        tx.blueprints.force("main", [DAILY])
    with forked.begin() as tx:
        assert tx.blueprints.drop_ranges() == 0  # `dev` is pinned, and sees the range of main
        assert tx.blueprints.forced_ranges().keys() == {of_main, of_dev}
        tx.branches.drop("dev")
    with forked.begin() as tx:
        assert tx.blueprints.drop_ranges() == 2
        assert not tx.blueprints.forced_ranges()


def test_a_merge_makes_no_chain_that_is_longer_than_those_of_branches(forked: World) -> None:
    with forked.begin() as tx:
        tx.blueprints.force_range("dev", DAILY, "c", "c")  # from now on `dev` has its own ranges
        for at in range(MOST_RANGES):
            tx.blueprints.force_range("main", DAILY, f"m{at}", f"m{at}")
        newest = tx.blueprints.force_range("dev", DAILY, "d", "d")
        with pytest.raises(TooManyRanges, match="headgate refresh DATASET --force"):
            tx.blueprints.bring_forces("main", {DAILY: newest})
        whole = tx.blueprints.force("dev", [DAILY])
        tx.blueprints.bring_forces("main", {DAILY: whole})
        assert tx.blueprints.forces("main") == {DAILY: whole}


def test_each_partition_keeps_the_newest_number_of_two_branches(forked: World) -> None:
    with forked.begin() as tx:
        tx.blueprints.force_range("dev", DAILY, "d1", "d4")
        whole = tx.blueprints.force("main", [DAILY])
        of_dev = tx.blueprints.force_range("dev", DAILY, "d4", "d5")
        of_main = tx.blueprints.force_range("main", DAILY, "d5", "d6")
        newest = tx.blueprints.force_range("dev", DAILY, "d8", "d8")
        tx.blueprints.bring_forces("main", {DAILY: newest})
    with forked.read() as tx:
        ranges, number = tx.blueprints.forced_ranges(), tx.blueprints.forces("main")[DAILY]
    numbers = {key: number_at(ranges, number, key) for key in ("d2", "d4", "d5", "d8", "d9")}
    assert numbers == {"d2": whole, "d4": of_dev, "d5": of_main, "d8": newest, "d9": whole}


def test_a_branch_is_held_only_while_it_is_there(forked: World) -> None:
    with forked.begin() as tx:
        tx.branches.hold("dev")
        tx.branches.drop("dev")
        with pytest.raises(NotFound):
            tx.branches.hold("dev")


def test_making_one_costs_one_row(forked: World) -> None:
    before = forked.store.statements
    with forked.begin() as tx:
        tx.branches.create(branch("try"))
    assert forked.store.statements - before <= 5  # is it new, the row, and its mark
