"""Revisions, uids, pauses, the audit trail and remembered answers."""

from __future__ import annotations

import pytest

from controlplane.core.errors import IdempotencyConflict, NotFound, StaleRevision
from controlplane.core.model import change_marks
from controlplane.core.model.access import StoredAnswer
from controlplane.core.model.events import NO_BRANCH
from tests.store.conftest import World
from tests.store.examples import change, d, revision, state, task, unfinished


def test_the_newest_revision_counts(world: World) -> None:
    with world.begin() as tx:
        tx.blueprints.put(revision(1), 0)
        tx.blueprints.put(revision(2), 1)
        tx.blueprints.put(revision(1, "other"), None)
        tx.blueprints.put(revision(3, branch="dev"), 2)
    with world.read() as tx:
        assert tx.blueprints.revisions("main") == {
            "flights": revision(2),
            "other": revision(1, "other"),
        }
        assert tx.blueprints.revisions("main", ["flights", "nope"]) == {"flights": revision(2)}
        assert tx.blueprints.revisions("dev") == {
            "flights": revision(3, branch="dev"),
            "other": revision(1, "other"),
        }
        assert tx.blueprints.revisions("dev", ["other"]) == {"other": revision(1, "other")}
        assert tx.blueprints.last_number("main", "flights") == 2


@pytest.mark.parametrize(("number", "expected"), [(2, 0), (2, 2), (1, 1), (3, 1), (3, None)])
def test_a_stale_revision_changes_nothing(world: World, number: int, expected: int | None) -> None:
    with world.begin() as tx:
        tx.blueprints.put(revision(1), 0)
    with pytest.raises(StaleRevision), world.begin() as tx:
        tx.blueprints.put(revision(number), expected)
    with world.read() as tx:
        assert tx.blueprints.revisions("main") == {"flights": revision(1)}


def test_who_is_stale_is_told_the_number(world: World) -> None:
    with world.begin() as tx:
        tx.blueprints.put(revision(1), 0)
        with pytest.raises(StaleRevision) as e:
            tx.blueprints.put(revision(2), 7)
    assert (e.value.dataflow, e.value.expected, e.value.actual) == ("flights", 7, 1)


def test_numbers_go_on_after_a_deletion(world: World) -> None:
    with world.begin() as tx:
        tx.blueprints.put(revision(1), 0)
        tx.blueprints.delete_dataflow("main", "flights")
        assert tx.blueprints.revisions("main") == {}
        assert tx.blueprints.last_number("main", "flights") == 1
        with pytest.raises(StaleRevision):
            tx.blueprints.put(revision(1), 0)
        with pytest.raises(StaleRevision):
            tx.blueprints.put(revision(2), 1)
        tx.blueprints.put(revision(2), 0)
        assert tx.blueprints.revisions("main") == {"flights": revision(2)}


def test_pauses_that_go_with_a_dataflow_are_marked(world: World) -> None:
    with world.begin() as tx:
        tx.blueprints.put(revision(1), 0)
        tx.blueprints.set_paused("main", "flights.daily", paused=True)
    with world.begin() as tx:
        seen, _ = tx.states.marked("main", 0)
        tx.blueprints.delete_dataflow("main", "flights")
    with world.read() as tx:
        assert tx.blueprints.paused("main") == frozenset()
        assert tx.states.marked("main", seen)[1] == {
            change_marks.flow("flights"),
            change_marks.PAUSES,
            change_marks.HOLDS,
        }


def test_a_deletion_ends_what_belongs_to_the_dataflow(world: World) -> None:
    with world.begin() as tx:
        tx.blueprints.put(revision(1, "a_b"), 0)
        tx.states.commit(state(1, "a_b.x"), 0)
        tx.states.put_unfinished(unfinished("a_b.x"))
        tx.states.put_unfinished(unfinished("azb.x"))
        tx.queue.enqueue("main", "a_b.x", [task(1), task(2)])
        tx.queue.enqueue("main", "azb.x", [task(2)])
        for name in ("a_b.x", "azb.x", "A_B.x"):
            tx.blueprints.set_paused("main", name, True)
        tx.blueprints.set_paused("main", "a_b", True)
        tx.blueprints.delete_dataflow("main", "a_b")
    with world.read() as tx:
        assert tx.blueprints.paused("main") == {"azb.x", "A_B.x"}
        assert tx.queue.demands("main", "a_b.x") == {}
        assert tx.states.unfinished("main") == ({}, {"azb.x": unfinished("azb.x")})
        assert set(tx.queue.tasks([d(1), d(2)])) == {d(2)}
        assert tx.states.newest("main") == {"a_b.x": state(1, "a_b.x")}


@pytest.mark.parametrize("was_there", [False, True])
def test_what_is_not_live_cannot_be_deleted(world: World, was_there: bool) -> None:
    with world.begin() as tx:
        if was_there:
            tx.blueprints.put(revision(1), 0)
            tx.blueprints.delete_dataflow("main", "flights")
        with pytest.raises(NotFound):
            tx.blueprints.delete_dataflow("main", "flights")


def test_uids_are_known_for_good(world: World) -> None:
    with world.begin() as tx:
        tx.blueprints.put(revision(1, uids={"a": "u1", "b": "u2"}), 0)
        tx.blueprints.put(revision(2, uids={"b": "u3", "c": "u4"}), 1)
        tx.blueprints.delete_dataflow("main", "flights")
        assert tx.blueprints.uids("main", "flights") == {"a": "u1", "b": "u3", "c": "u4"}
        tx.blueprints.put(revision(3, branch="dev", uids={"c": "u5"}), 0)
        assert tx.blueprints.uids("dev", "flights") == {"a": "u1", "b": "u3", "c": "u5"}
        assert tx.blueprints.uids("main", "flights") == {"a": "u1", "b": "u3", "c": "u4"}


def test_pauses(world: World) -> None:
    with world.begin() as tx:
        for _ in range(2):
            tx.blueprints.set_paused("main", "flights", True)
            tx.blueprints.set_paused("main", "flights.daily", True)
            tx.blueprints.set_paused("main", "gone", False)
        assert tx.blueprints.paused("main") == {"flights", "flights.daily"}
        tx.blueprints.set_paused("main", "flights", False)
        assert tx.blueprints.paused("main") == {"flights.daily"}
        tx.blueprints.set_paused("dev", "flights.daily", False)
        tx.blueprints.set_paused("dev", "other", True)
        assert tx.blueprints.paused("dev") == {"other"}
        assert tx.blueprints.paused("main") == {"flights.daily"}


def test_changes_newest_first(world: World) -> None:
    with world.begin() as tx:
        tx.audit.put_change(change("1"))
        assert tx.audit.changes("main") == (change("1"),)
        tx.audit.put_change(change("2"))
    with world.begin() as tx:
        tx.audit.put_change(change("3"))
    with world.read() as tx:
        assert tx.audit.changes("main") == (change("3"), change("2"), change("1"))
        assert tx.audit.changes("main", limit=2) == (change("3"), change("2"))


def test_a_branch_reads_its_own_changes_and_those_of_no_branch(world: World) -> None:
    ours, theirs, everybodys = (
        change("apply"),
        change("apply", "dev"),
        change("token.create", NO_BRANCH),
    )
    with world.begin() as tx:
        for made in (ours, theirs, everybodys):
            tx.audit.put_change(made)
    with world.read() as tx:
        assert tx.audit.changes("main") == (everybodys, ours)
        assert tx.audit.changes("dev") == (everybodys, theirs)
        assert tx.audit.changes("other") == (everybodys,)
        assert tx.audit.changes("main", limit=1) == (everybodys,)
        assert tx.audit.changes(None) == (everybodys, theirs, ours)
        assert tx.audit.changes(None, since=ours.at, until=ours.at) == ()
        assert tx.audit.changes("main", since=ours.at, until=ours.at + 1) == (everybodys, ours)
        assert tx.audit.changes("main", since=ours.at + 1) == ()


def test_an_answer_is_given_once(world: World) -> None:
    answer = StoredAnswer("key é", d(1), 201, '{"a": "é"}')
    with world.begin() as tx:
        assert tx.audit.answer("key é") is None
        tx.audit.put_answer(answer)
    with pytest.raises(IdempotencyConflict), world.begin() as tx:
        tx.audit.put_answer(StoredAnswer("key é", d(2), 200, ""))
    with world.read() as tx:
        assert tx.audit.answer("key é") == answer


def test_no_two_wishes_for_something_new_have_one_number(world: World) -> None:
    with world.begin() as tx:
        numbers = [
            tx.blueprints.force(branch, ["flights.daily"]) for branch in ("main", "dev", "main")
        ]
    assert numbers == sorted(set(numbers))
    with world.begin() as tx:
        tx.blueprints.put(revision(1), 0)
        tx.blueprints.delete_dataflow("main", "flights")
        assert tx.blueprints.forces("main") == {
            "flights.daily": numbers[-1]
        }  # who comes back does not get older results
    with world.read() as tx:
        seen, _ = tx.states.marked("main", 0)
    with world.begin() as tx:
        tx.blueprints.force("main", ["flights.daily"])
    with world.read() as tx:
        assert tx.states.marked("main", seen)[1] == {"flights.daily", change_marks.FORCED}
