"""Attempts that are over: who sees them, what a task costs by them, and that they go with time."""

from __future__ import annotations

import pytest

from controlplane.core.model.past_attempts import COST_ATTEMPTS, Cost
from tests.store.conftest import World
from tests.store.examples import past

DAILY, WEEKLY = "flights.daily", "flights.weekly"


def test_each_branch_sees_its_own_newest_first(world: World) -> None:
    old, new = past("a"), past("b", ended_at=1e9 + 9, dataset=WEEKLY)
    theirs = past("a", branch="dev")
    with world.begin() as tx:
        tx.past_attempts.put([old, new, theirs])
        tx.past_attempts.put([past("a", rows=99)])
    with world.read() as tx:
        assert tx.past_attempts.newest("main") == (new, old)
        assert tx.past_attempts.newest("main", limit=1) == (new,)
        assert tx.past_attempts.newest("main", [DAILY]) == (old,)
        assert tx.past_attempts.newest("main", []) == ()
        assert tx.past_attempts.newest("dev") == (theirs,)
        assert tx.past_attempts.newest("main", ended=(old.ended_at, new.ended_at)) == (new,)
        assert tx.past_attempts.newest("main", ended=(0, old.ended_at)) == (old,)
        assert set(tx.past_attempts.find(["a", "b", "none"])) == {"a", "b"}


def test_one_for_each_branch_is_one_statement(world: World) -> None:
    with world.begin() as tx:
        before = world.store.statements
        tx.past_attempts.put([past("a", branch=f"b{n}") for n in range(5)])
        assert world.store.statements - before == 1


def test_what_is_not_known_stays_unknown(world: World) -> None:
    unknown = past(
        "a", seconds=None, bytes_read=None, spark_jobs=None, spark_stages=None, spark_ui=None
    )
    with world.begin() as tx:
        tx.past_attempts.put([unknown])
    with world.read() as tx:
        assert tx.past_attempts.newest("main") == (unknown,)


# --- costs


def test_a_cost_is_a_tasks_share_of_its_attempt(world: World) -> None:
    one = past("a", seconds=4.0, done=2, rows=20, bytes_written=200)
    with world.begin() as tx:
        tx.past_attempts.put([one])
        assert tx.past_attempts.costs("main", [DAILY, WEEKLY]) == {
            DAILY: Cost(2.0, 2.0, 2.0, rows=10, bytes=100, attempts=1)
        }


def test_quantiles(world: World) -> None:
    with world.begin() as tx:
        tx.past_attempts.put(
            [past(str(n), done=1, seconds=float(n), ended_at=1e9 + n) for n in range(101)]
        )
        found = tx.past_attempts.costs("main", [DAILY])[DAILY]
    assert (found.seconds_p10, found.seconds, found.seconds_p90, found.attempts) == (
        10,
        50,
        90,
        101,
    )


def test_the_newest_count(world: World) -> None:
    with world.begin() as tx:
        slow = [past(f"old{n}", seconds=99.0, ended_at=1e9 + n) for n in range(50)]
        fast = [past(f"new{n}", seconds=2.0, ended_at=2e9 + n) for n in range(COST_ATTEMPTS)]
        tx.past_attempts.put([*slow, *fast])
        assert tx.past_attempts.costs("main", [DAILY])[DAILY].seconds_p90 == 1.0


@pytest.mark.parametrize(
    "other",
    [
        {"outcome": "failed"},
        {"outcome": "retried"},
        {"kind": "pack"},
        {"seconds": None},
        {"done": 0},
    ],
    ids=str,
)
def test_what_says_nothing_of_a_cost_does_not_count(world: World, other: dict[str, object]) -> None:
    with world.begin() as tx:
        tx.past_attempts.put([past("a", **other)])
        assert tx.past_attempts.costs("main", [DAILY]) == {}


def test_a_branch_knows_what_main_knows_and_counts_nothing_twice(world: World) -> None:
    with world.begin() as tx:
        tx.past_attempts.put(
            [past("a"), past("a", branch="dev"), past("b"), past("c", branch="dev")]
        )
        tx.past_attempts.put([past("d", branch="other")])
        attempts = {
            b: tx.past_attempts.costs(b, [DAILY])[DAILY].attempts for b in ("main", "dev", "new")
        }
    assert attempts == {"main": 2, "dev": 3, "new": 2}


def test_costs_of_many_datasets_are_one_statement(world: World) -> None:
    with world.begin() as tx:
        tx.past_attempts.put([past(f"a{n}", dataset=f"flights.d{n}") for n in range(300)])
    with world.read() as tx:
        before = world.store.statements
        assert len(tx.past_attempts.costs("main", [f"flights.d{n}" for n in range(300)])) == 300
        assert world.store.statements - before == 1
        assert tx.past_attempts.costs("main", []) == {}


def test_the_newest_of_each_dataset_are_one_statement(world: World) -> None:
    """The attempts of a busy dataset do not hide those of a quiet one."""
    with world.begin() as tx:
        busy = [past(f"a{n}", ended_at=2e9 + n) for n in range(9)]
        quiet = [past(f"b{n}", dataset="flights.b", ended_at=1e9 + n) for n in range(2)]
        tx.past_attempts.put([*busy, *quiet, past("c", branch="dev", ended_at=3e9)])
    with world.read() as tx:
        before = world.store.statements
        names = [DAILY, "flights.b", "flights.none"]
        newest = tx.past_attempts.newest_of_each("main", names, since=1e9, limit=3)
        assert world.store.statements - before == 1
    ids = {name: [attempt.id for attempt in attempts] for name, attempts in newest.items()}
    assert ids == {DAILY: ["a8", "a7", "a6"], "flights.b": ["b1"]}


# --- collection


def test_old_ones_go_in_pieces(world: World) -> None:
    with world.begin() as tx:
        tx.past_attempts.put([past(str(n), ended_at=1e9 + n) for n in range(5)])
        assert tx.past_attempts.drop(1e9 + 4, 3) == 3
        assert tx.past_attempts.drop(1e9 + 4, 3) == 1
        assert tx.past_attempts.drop(1e9 + 4, 3) == 0
        assert [one.id for one in tx.past_attempts.newest("main")] == ["4"]
