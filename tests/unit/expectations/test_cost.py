"""What expectations cost in planning: statements are counted, no time is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from controlplane.operations.planning.planner import Planner
from tests.unit.expectations.world import BRANCH, World

STATEMENTS, A_LAYER = 10, 4
EXPECT = (
    "    expect:\n      - {check: v > -1000}\n      - {check: k > -1000, on_fail: warn}\n"
    "      - {rows: {min: 1}}\n"
)
MORE = "  more:\n    transform: {sql: SELECT k FROM orders}\n"
Costs = dict[str, int]


@pytest.fixture
def costs(tmp_path: Path) -> Iterator[Callable[[int, int, str], Costs]]:
    """Statements that one warm planner takes for each pass on the way of one late partition."""
    with ExitStack() as closing:

        def run(flows: int, partitions: int, expect: str) -> Costs:
            home = tmp_path / f"{flows}-{partitions}-{len(expect)}"
            home.mkdir()
            world = World(home, url=f"sqlite:///{home / 'metadata.db'}")
            closing.callback(world.store.close)
            for number in range(partitions):
                world.put(f"{number:04}.csv", (number, number))
            for flow in range(flows):
                world.apply(expect + MORE + of_k(expect), f"f{flow}")
            world.settle()
            planner = Planner(world.store, branch=BRANCH)
            planner.plan()
            found = {"nothing": counted(world, planner)}
            world.put("0001.csv", (7, 7), (8, 8))
            world.refresh()
            for number in range(4):
                world.work()
                found[f"pass {number}"] = counted(world, planner)
                world.once()
            world.settle()
            return found

        yield run


def of_k(expect: str) -> str:
    """The same of the column that is left."""
    return expect.replace("v >", "k >").replace("k > -1000, on_fail", "k > -999, on_fail")


def counted(world: World, planner: Planner) -> int:
    before = world.store.statements
    planner.plan()
    return world.store.statements - before


@pytest.mark.slow
def test_statements_follow_layers_not_datasets_or_partitions(
    costs: Callable[[int, int, str], Costs],
) -> None:
    few, many, long = costs(1, 10, EXPECT), costs(3, 10, EXPECT), costs(1, 60, EXPECT)
    assert few["nothing"] == long["nothing"] == 1
    assert few == many
    assert all(long[name] <= few[name] + 1 for name in few)  # a tree of one level more
    layers = 2
    assert max(few.values()) <= STATEMENTS + A_LAYER * layers


@pytest.mark.slow
def test_expectations_add_at_most_three_statements_to_a_layer(
    costs: Callable[[int, int, str], Costs],
) -> None:
    plain, with_some, layers = costs(1, 10, ""), costs(1, 10, EXPECT), 2
    assert max(with_some.values()) <= max(plain.values()) + 3 * layers
