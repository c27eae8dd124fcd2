"""A state is found by its generation or by a time, also of a branch, with one statement however
many are kept."""

from __future__ import annotations

import pytest

from controlplane.core.model.addresses import Generation, Moment
from controlplane.core.model.retention import Expired
from tests.store.conftest import World
from tests.store.examples import branch, revision, state

DAILY = "flights.daily"
SECOND = 1_000


@pytest.fixture
def committed(world: World) -> World:
    """Five states, at seconds 10 to 50, of three generations: 1, 1, 2, 2, 3. Main had three of them
    when `dev` came, which has its fourth and fifth at seconds 45 and 55."""
    with world.begin() as tx:
        tx.blueprints.put(revision(1), 0)
        for seq, generation in ((1, 1), (2, 1), (3, 2)):
            tx.states.commit(state(seq, generation=generation, at=10.0 * seq), seq - 1)
        tx.branches.create(branch())
        tx.states.commit(state(4, branch="dev", generation=3, at=45.0), 3)
        tx.states.commit(state(5, branch="dev", generation=4, at=55.0), 4)
        tx.states.commit(state(4, generation=2, at=40.0), 3)
        tx.states.commit(state(5, generation=3, at=50.0), 4)
    return world


def found(
    world: World, point: Generation | Moment | None, branch: str = "main"
) -> tuple[str, int] | None:
    with world.read() as tx:
        state = tx.states.find(branch, DAILY, point)
    return None if state is None else (state.branch, state.seq)


def test_of_a_generation_the_newest_state(committed: World) -> None:
    assert [found(committed, Generation(n)) for n in (1, 2, 3, 4)] == [
        ("main", 2),
        ("main", 4),
        ("main", 5),
        None,
    ]


@pytest.mark.parametrize(
    ("ms", "seq"),
    [(9_999, None), (10_000, 1), (19_999, 1), (20_000, 2), (49_999, 4), (50_000, 5), (2**52, 5)],
)
def test_at_a_time_the_newest_that_was_committed_by_then(
    committed: World, ms: int, seq: int | None
) -> None:
    assert found(committed, Moment(ms)) == (None if seq is None else ("main", seq))


def test_a_time_is_a_whole_millisecond(world: World) -> None:
    with world.begin() as tx:
        tx.states.commit(state(1, at=1_000.0007), 0)
        tx.states.commit(state(2, at=1_000.0012), 1)
    assert found(world, Moment(1_000_000)) == ("main", 1)


def test_the_newest_by_default(committed: World) -> None:
    assert found(committed, None) == ("main", 5)
    assert found(committed, None, "dev") == ("dev", 5)
    with committed.read() as tx:
        assert tx.states.find("main", "flights.unknown") is None
        assert tx.states.oldest("main", "flights.unknown") is None


def test_a_branch_has_the_past_that_it_goes_on_from(committed: World) -> None:
    generations = [found(committed, Generation(n), "dev") for n in (1, 2, 3, 4, 5)]
    assert generations == [("main", 2), ("main", 3), ("dev", 4), ("dev", 5), None]
    times = [found(committed, Moment(s * SECOND), "dev") for s in (5, 10, 40, 44, 45, 50, 55)]
    assert times == [
        None,
        ("main", 1),
        ("main", 3),
        ("main", 3),
        ("dev", 4),
        ("dev", 4),
        ("dev", 5),
    ]
    with committed.read() as tx:
        assert tx.states.oldest("dev", DAILY) == state(1, generation=1, at=10.0)


def test_what_a_branch_shares_is_mains_at_any_time(committed: World) -> None:
    with committed.begin() as tx:
        tx.branches.share("dev", [DAILY])
    assert found(committed, None, "dev") == ("main", 5)
    assert found(committed, Generation(3), "dev") == ("main", 5)
    assert found(committed, Moment(40 * SECOND), "dev") == ("main", 4)


def test_what_a_branch_deleted_has_nothing_of_mains_there(committed: World) -> None:
    with committed.begin() as tx:
        tx.blueprints.delete_dataflow("dev", "flights")
    with committed.read() as tx:
        assert tx.states.oldest("dev", DAILY) == state(4, branch="dev", generation=3, at=45.0)
    assert found(committed, Generation(1), "dev") is None
    assert found(committed, Moment(44 * SECOND), "dev") is None
    assert found(committed, None, "dev") == ("dev", 5)
    assert found(committed, Generation(1)) == ("main", 2)
    with committed.begin() as tx:
        tx.branches.share("dev", [DAILY])
        assert tx.states.find("dev", DAILY) is None


def test_a_branch_of_a_branch_has_the_same_past(committed: World) -> None:
    with committed.begin() as tx:
        tx.branches.create(branch("try", source="dev"))
    assert found(committed, Generation(2), "try") == ("main", 3)
    assert found(committed, Moment(50 * SECOND), "try") == ("try", 4)


def test_deleted_in_main_it_can_still_be_read(committed: World) -> None:
    with committed.begin() as tx:
        tx.blueprints.delete_dataflow("main", "flights")
    assert found(committed, None) == ("main", 5)
    assert found(committed, Generation(1)) == ("main", 2)


def test_the_oldest_is_the_oldest_that_is_kept(committed: World) -> None:
    with committed.begin() as tx:
        assert tx.upkeep.drop_states([Expired("main", DAILY, 2, 2, 100.0)]) == 2
    with committed.read() as tx:
        assert tx.states.oldest("main", DAILY) == state(3, generation=2, at=30.0)
    assert found(committed, Generation(1)) is None
    assert found(committed, Moment(20 * SECOND)) is None


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_one_statement_finds_it_in_a_long_history(committed: World, branch: str) -> None:
    with committed.begin() as tx:
        for seq in range(6, 300):
            tx.states.commit(state(seq, branch=branch, at=60.0 + seq), seq - 1)
    with committed.read() as tx:
        tx.states.find(branch, DAILY)  # the schema, which all have, is read once
        before = committed.store.statements
        for point in (None, Generation(2), Generation(299), Generation(9_999), Moment(20 * SECOND)):
            tx.states.find(branch, DAILY, point)
        tx.states.oldest(branch, DAILY)
        took = committed.store.statements - before
    assert took == 6
