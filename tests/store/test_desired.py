"""Revisions, uids, pauses, the audit trail and remembered answers."""

from __future__ import annotations

import pytest

from controlplane.core.errors import BranchExists, IdempotencyConflict, NotFound, StaleRevision
from controlplane.core.model import change_marks
from controlplane.core.model.access import Answer
from controlplane.core.model.events import NO_BRANCH
from controlplane.core.model.pins import Pin
from tests.store.conftest import World
from tests.store.examples import SCHEMA, begun, building, change, d, error, revision, state, task


def test_the_newest_revision_counts(world: World) -> None:
    with world.begin() as tx:
        tx.put_revision(revision(1), 0)
        tx.put_revision(revision(2), 1)
        tx.put_revision(revision(1, "other"), None)
        tx.put_revision(revision(1, branch="dev"), 0)
    with world.read() as tx:
        assert tx.revisions("main") == {"flights": revision(2), "other": revision(1, "other")}
        assert tx.revisions("main", ["flights", "nope"]) == {"flights": revision(2)}
        assert tx.revisions("dev") == {"flights": revision(1, branch="dev")}
        assert tx.last_number("main", "flights") == 2


@pytest.mark.parametrize(("number", "expected"), [(2, 0), (2, 2), (1, 1), (3, 1), (3, None)])
def test_a_stale_revision_changes_nothing(world: World, number: int, expected: int | None) -> None:
    with world.begin() as tx:
        tx.put_revision(revision(1), 0)
    with pytest.raises(StaleRevision), world.begin() as tx:
        tx.put_revision(revision(number), expected)
    with world.read() as tx:
        assert tx.revisions("main") == {"flights": revision(1)}


def test_who_is_stale_is_told_the_number(world: World) -> None:
    with world.begin() as tx:
        tx.put_revision(revision(1), 0)
        with pytest.raises(StaleRevision) as e:
            tx.put_revision(revision(2), 7)
    assert (e.value.dataflow, e.value.expected, e.value.found) == ("flights", 7, 1)


def test_numbers_go_on_after_a_deletion(world: World) -> None:
    with world.begin() as tx:
        tx.put_revision(revision(1), 0)
        tx.delete_dataflow("main", "flights")
        assert tx.revisions("main") == {}
        assert tx.last_number("main", "flights") == 1
        with pytest.raises(StaleRevision):
            tx.put_revision(revision(1), 0)
        with pytest.raises(StaleRevision):
            tx.put_revision(revision(2), 1)
        tx.put_revision(revision(2), 0)
        assert tx.revisions("main") == {"flights": revision(2)}


def test_pauses_that_go_with_a_dataflow_are_marked(world: World) -> None:
    with world.begin() as tx:
        tx.put_revision(revision(1), 0)
        tx.set_paused("main", "flights.daily", paused=True)
    with world.begin() as tx:
        seen, _ = tx.marked("main", 0)
        tx.delete_dataflow("main", "flights")
    with world.read() as tx:
        assert tx.paused("main") == frozenset()
        assert tx.marked("main", seen)[1] == {change_marks.flow("flights"), change_marks.PAUSES}


def test_a_branch_points_to_what_there_is_and_goes_its_own_way(world: World) -> None:
    with world.begin() as tx:
        tx.put_revision(revision(1), 0)
        tx.put_revision(revision(2), 1)
        tx.put_revision(revision(1, "gone"), 0)
        tx.delete_dataflow("main", "gone")
        tx.set_paused("main", "flights.daily", paused=True)
        number = tx.force("main", ["flights.daily", "flights.weekly"])
        tx.commit_state(state(1), 0)
        tx.commit_state(state(2), 1)
        tx.put_building(building())
        tx.pin_schema("main", "flights.raw", Pin(d(1), SCHEMA))
        tx.copy_branch("main", "dev")
    with world.begin() as tx:
        tx.commit_state(state(3, branch="dev"), 2)
        newer = tx.force("dev", ["flights.weekly"])
        tx.put_revision(revision(3), 2)
        tx.put_revision(revision(2, "gone", branch="dev"), 0)
    with world.read() as tx:
        assert tx.revisions("dev") == {"flights": revision(2, branch="dev"), "gone": revision(2, "gone", branch="dev")}
        assert tx.known_uids("dev", "flights") == tx.known_uids("main", "flights")
        assert tx.paused("dev") == {"flights.daily"}
        assert tx.forces("dev") == {"flights.daily": number, "flights.weekly": newer}
        assert tx.forces("main") == {"flights.daily": number, "flights.weekly": number}
        assert newer > number
        assert tx.history("dev", "flights.daily", 9) == (state(3, branch="dev"), state(2, branch="dev"))
        assert tx.unfinished("dev") == ({"flights.weekly": building(branch="dev")}, {})
        assert tx.pinned_schemas("dev", ["flights.raw"]) == {"flights.raw": Pin(d(1), SCHEMA)}
        assert tx.revisions("main") == {"flights": revision(3)}
        assert tx.states("main") == {"flights.daily": state(2)}


def test_a_branch_is_marked_for_who_had_looked_at_nothing(world: World) -> None:
    with world.begin() as tx:
        tx.put_revision(revision(1), 0)
        seen, _ = tx.marked("dev", 0)
    with world.begin() as tx:
        tx.copy_branch("main", "dev")
    with world.read() as tx:
        assert change_marks.flow("flights") in tx.marked("dev", seen)[1]


def test_a_branch_is_made_once(world: World) -> None:
    with world.begin() as tx:
        tx.put_revision(revision(1), 0)
        tx.copy_branch("main", "dev")
    with pytest.raises(BranchExists, match="dev"), world.begin() as tx:
        tx.copy_branch("main", "dev")


def test_a_branch_of_which_anything_is_known_is_not_new(world: World) -> None:
    with world.begin() as tx:
        tx.set_paused("main", "flights", paused=True)
        tx.copy_branch("main", "dev")
    with pytest.raises(BranchExists, match="dev"), world.begin() as tx:
        tx.copy_branch("main", "dev")


def test_a_deletion_ends_what_belongs_to_the_dataflow(world: World) -> None:
    with world.begin() as tx:
        tx.put_revision(revision(1, "a_b"), 0)
        tx.commit_state(state(1, "a_b.x"), 0)
        tx.put_begun(begun("a_b.x"))
        tx.put_begun(begun("azb.x"))
        tx.enqueue("main", "a_b.x", [task(1), task(2)])
        tx.enqueue("main", "azb.x", [task(2)])
        for name in ("a_b.x", "azb.x", "A_B.x"):
            tx.set_problem("main", name, error())
            tx.set_paused("main", name, True)
        tx.set_problem("dev", "a_b.x", error())
        tx.set_paused("main", "a_b", True)
        tx.delete_dataflow("main", "a_b")
    with world.read() as tx:
        assert set(tx.problems("main")) == {"azb.x", "A_B.x"}
        assert set(tx.problems("dev")) == {"a_b.x"}
        assert tx.paused("main") == {"azb.x", "A_B.x"}
        assert tx.demands("main", "a_b.x") == {}
        assert tx.unfinished("main") == ({}, {"azb.x": begun("azb.x")})
        assert set(tx.tasks([d(1), d(2)])) == {d(2)}
        assert tx.states("main") == {"a_b.x": state(1, "a_b.x")}


@pytest.mark.parametrize("was_there", [False, True])
def test_what_is_not_live_cannot_be_deleted(world: World, was_there: bool) -> None:
    with world.begin() as tx:
        if was_there:
            tx.put_revision(revision(1), 0)
            tx.delete_dataflow("main", "flights")
        with pytest.raises(NotFound):
            tx.delete_dataflow("main", "flights")


def test_uids_are_known_for_good(world: World) -> None:
    with world.begin() as tx:
        tx.put_revision(revision(1, uids={"a": "u1", "b": "u2"}), 0)
        tx.put_revision(revision(2, uids={"b": "u3", "c": "u4"}), 1)
        tx.delete_dataflow("main", "flights")
        assert tx.known_uids("main", "flights") == {"a": "u1", "b": "u3", "c": "u4"}
        assert tx.known_uids("dev", "flights") == {}


def test_pauses(world: World) -> None:
    with world.begin() as tx:
        for _ in range(2):
            tx.set_paused("main", "flights", True)
            tx.set_paused("main", "flights.daily", True)
            tx.set_paused("main", "gone", False)
        assert tx.paused("main") == {"flights", "flights.daily"}
        tx.set_paused("main", "flights", False)
        assert tx.paused("main") == {"flights.daily"}
        assert tx.paused("dev") == frozenset()


def test_changes_newest_first(world: World) -> None:
    with world.begin() as tx:
        tx.put_change(change("1"))
        assert tx.changes("main") == (change("1"),)
        tx.put_change(change("2"))
    with world.begin() as tx:
        tx.put_change(change("3"))
    with world.read() as tx:
        assert tx.changes("main") == (change("3"), change("2"), change("1"))
        assert tx.changes("main", limit=2) == (change("3"), change("2"))


def test_a_branch_reads_its_own_changes_and_those_of_no_branch(world: World) -> None:
    ours, theirs, everybodys = change("apply"), change("apply", "dev"), change("token.create", NO_BRANCH)
    with world.begin() as tx:
        for made in (ours, theirs, everybodys):
            tx.put_change(made)
    with world.read() as tx:
        assert tx.changes("main") == (everybodys, ours)
        assert tx.changes("dev") == (everybodys, theirs)
        assert tx.changes("other") == (everybodys,)
        assert tx.changes("main", limit=1) == (everybodys,)


def test_an_answer_is_given_once(world: World) -> None:
    answer = Answer("key é", d(1), 201, '{"a": "é"}')
    with world.begin() as tx:
        assert tx.answer("key é") is None
        tx.put_answer(answer)
    with pytest.raises(IdempotencyConflict), world.begin() as tx:
        tx.put_answer(Answer("key é", d(2), 200, ""))
    with world.read() as tx:
        assert tx.answer("key é") == answer


def test_no_two_wishes_for_something_new_have_one_number(world: World) -> None:
    with world.begin() as tx:
        numbers = [tx.force(branch, ["flights.daily"]) for branch in ("main", "dev", "main")]
    assert numbers == sorted(set(numbers))
    with world.begin() as tx:
        tx.put_revision(revision(1), 0)
        tx.delete_dataflow("main", "flights")
        assert tx.forces("main") == {"flights.daily": numbers[-1]}  # who comes back does not get older results
    with world.read() as tx:
        seen, _ = tx.marked("main", 0)
    with world.begin() as tx:
        tx.force("main", ["flights.daily"])
    with world.read() as tx:
        assert tx.marked("main", seen)[1] == {"flights.daily", change_marks.FORCED}
