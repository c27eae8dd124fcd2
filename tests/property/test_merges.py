"""Many parts of an aggregate: merged leaf by leaf of their tree, so that one that changed redoes
one merge a level."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.core.tree.shape import boundaries
from tests.property.model import File, Grouped, Read, Row, Total
from tests.property.world import World

NAMES = [f"f{100 + n}.csv" for n in range(900)]
LEAVES = 3


def few() -> list[str]:
    """Names of files of as many leaves."""
    ends = boundaries(NAMES)
    return [NAMES[end - i] for end in ends[: LEAVES - 1] for i in range(4)] + NAMES[
        ends[LEAVES - 2] + 1 :
    ][:4]


class Counting(World):
    """Tells how many tasks gave partitions, of each time that everything was settled."""

    last = 0

    def executed(self) -> int:
        self.settle()
        with self.store.read() as tx:
            count, self.last = tx.events.count("main", self.last), tx.events.last()
        return count.get("task.executed", 0)


@pytest.fixture(params=[1, 1_000], ids=["in windows", "at once"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Counting]:
    made = Counting(tmp_path, exact=request.param, fewest=2, widest=2)
    yield made
    made.close()


def rows(v: int) -> File:
    return File(("k", "v"), tuple[Row, ...]((k, v) for k in (1, 2, 3)))


def test_one_part_redoes_one_merge_of_each_level(world: Counting) -> None:
    names = few()
    for number, name in enumerate(names):
        world.put("one", name, rows(number * number))
    world.apply({"a": {"x": Read("one", declared=("k", "v")), "total": Total("x")}}, {})
    # parsed, parts, two levels of merges, the whole
    assert world.executed() == 2 * len(names) + LEAVES + 1 + 1
    world.put("one", names[5], rows(7))
    assert world.executed() == 1 + 1 + 1 + 1 + 1
    world.put("one", NAMES[-1], rows(8))
    world.remove("one", names[1])
    assert world.executed() == 1 + 1 + 2 + 1 + 1  # of a withdrawn file only merges
    world.remove("one", names[0])  # at which a leaf ends: then there are two, and no second level
    assert world.executed() == 1 + 1


def test_what_was_merged_is_known_when_it_comes_back(world: Counting) -> None:
    names = few()
    for number, name in enumerate(names):
        world.put("one", name, rows(number))
    world.apply({"a": {"x": Read("one", declared=("k", "v")), "total": Total("x")}}, {})
    world.settle()
    world.put("one", names[5], rows(70))
    world.executed()
    world.put("one", names[5], rows(5))
    assert world.executed() == 0


def by_minute(number: int, keys: range, times: int = 3) -> File:
    """A file with several rows of each key, so that a part has fewer."""
    return File(("k", "v"), tuple((k, number + v) for k in keys for v in range(times)))


@pytest.fixture(params=[1, 1_000], ids=["in windows", "at once"])
def keyed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Counting]:
    made = Counting(tmp_path, exact=request.param, fewest=2)
    for number in range(6):
        made.put("one", f"{number}.csv", by_minute(number, range(8)))
    made.apply({"a": {"x": Read("one", declared=("k", "v")), "sums": Grouped("x")}}, {})
    yield made
    made.close()


def test_a_partition_with_few_keys_costs_one_part_and_a_merge_of_each(keyed: Counting) -> None:
    read = 1 + 1  # parsed, and its keys listed
    assert keyed.executed() == 6 * read + 8  # each key by the plain query
    keyed.put("one", "6.csv", by_minute(6, range(2)))
    assert keyed.executed() == read + 7 + 2  # the first parts, and merged keys
    keyed.put("one", "7.csv", by_minute(7, range(3)))
    assert keyed.executed() == read + 1 + 3
    keyed.put("one", "3.csv", by_minute(9, range(1)))
    assert keyed.executed() == read + 1 + 8  # a correction: all keys that the file held
    keyed.remove("one", "7.csv")
    assert keyed.executed() == 3
