"""Small worlds with folds, each made for one rule that random runs meet too seldom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.property.model import Component, File, Fold, Pick, Read
from tests.property.world import World

READ = Read("one", declared=("k", "v"))


def day(v: int, k: int = 1) -> File:
    return File(("k", "v"), ((k, v),))


@pytest.fixture(params=[1, 1_000], ids=["in windows", "at once"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(tmp_path, exact=request.param)
    yield made
    made.close()


def put(world: World, values: dict[int, int]) -> None:
    for number, value in values.items():
        world.put("one", f"{number}.csv", day(value))


def folding(world: World, fold: Fold, *values: int) -> int:
    """Begin with a file for each value; how much work was done."""
    put(world, dict(enumerate(values, 1)))
    world.apply({"a": {"x": READ, "state": fold, "after": Pick("state", ("k", "v"))}}, {})
    world.settle()
    return len(world.seen)


def more(world: World, done: int) -> int:
    """What a settling added to the work of all."""
    world.settle()
    return len(world.seen) - done


SUM, MOST = Fold("x"), Fold("x", most=True)


def test_one_more_at_the_end_is_one_task(world: World) -> None:
    done = folding(world, SUM, 1, 2, 3)
    put(world, {4: 5})
    assert more(world, done) == 3  # it is parsed, added, and picked


def test_late_data_redoes_it_and_what_is_after_it(world: World) -> None:
    done = folding(world, SUM, 1, 2, 3, 4)
    put(world, {2: 20})
    assert more(world, done) == 1 + 3 + 3


def test_the_chain_ends_where_a_partition_comes_out_as_it_was(world: World) -> None:
    done = folding(world, MOST, 1, 2, 9, 4, 5)
    put(world, {1: 3})
    # 1, 2 (3 now), and 3, which is 9 as before; after: 1 and 2 are equal
    assert more(world, done) == 1 + 3 + 1


def test_a_partition_in_between_goes_to_the_one_after_it(world: World) -> None:
    done = folding(world, SUM, 1, 2, 3, 4)
    world.remove("one", "2.csv")
    assert more(world, done) == 2 + 2
    put(world, {2: 2})
    assert more(world, done) == 4


def test_a_partition_that_said_nothing_new_goes_without_a_task(world: World) -> None:
    done = folding(world, MOST, 9, 2, 3)
    world.remove("one", "2.csv")
    assert more(world, done) == 0


def test_the_first_and_the_last_may_go(world: World) -> None:
    done = folding(world, SUM, 1, 2, 3)
    world.remove("one", "3.csv")
    assert more(world, done) == 0
    world.remove("one", "1.csv")
    assert more(world, done) == 1 + 1  # 2 comes first now, which it never did


def claims(world: World) -> int:
    with world.store.read() as tx:
        return sum(
            e.kind == "task.claimed" and e.dataset == "a.state"
            for e in tx.events.newer("main", 0, 10_000)
        )


def test_a_chain_is_computed_in_one_go(world: World) -> None:
    folding(world, SUM, *range(1, 31))
    analysis = 1
    assert claims(world) == analysis + 1
    put(world, {2: 50})
    world.settle()
    assert claims(world) == analysis + 2


def test_what_a_run_went_on_to_counts_for_the_branch_that_demanded_its_first(world: World) -> None:
    folding(world, SUM, *range(1, 31))
    with world.store.read() as tx:
        told = [
            e
            for e in tx.events.newer(None, 0, 10_000)
            if (e.kind, e.dataset) == ("task.executed", "a.state")
        ]
    assert [(e.branch, e.n) for e in told] == [("main", 30)]


def test_a_run_ends_where_the_next_partition_stays(world: World) -> None:
    done = folding(world, MOST, 1, 2, 9, *range(3, 9))
    put(world, {1: 3, 8: 30})
    # The file with 30; 1 to 3, 8 and 9; 3 and 30 are picked
    assert more(world, done) == 1 + 3 + 2 + 2
    assert claims(world) == 2 + 2


def test_equal_partitions_on_equal_ones_are_one_task(world: World) -> None:
    done = folding(world, MOST, 9, 2, 2, 2, 2)
    assert done == 2 + 2 + 1  # two files, 9 on nothing and 2 on 9; and 9 is picked


def test_what_a_run_came_to_is_not_computed_again_for_others(world: World) -> None:
    world.put("two", "1.csv", day(3))
    other: dict[str, Component] = {"x": Read("two", declared=("k", "v")), "state": MOST}
    world.apply({"b": other}, {})
    world.settle()
    put(world, {1: 2, 2: 3, 3: 1})
    world.put("two", "2.csv", day(1))
    world.apply({"a": {"x": READ, "state": MOST}, "b": other}, {})
    world.settle()
