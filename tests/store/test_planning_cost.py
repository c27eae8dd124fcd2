"""Cost as a contract: SQL statements and tree nodes that planning takes, for each kind of change,
at any size.

The graphs and changes are those of the planner's benchmark; no time is measured here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from benchmarks.planning import ours
from benchmarks.planning.graph import Shape, twin
from benchmarks.planning.scenarios import BY_NAME
from benchmarks.planning.seed import Seeder
from benchmarks.planning.world import Found, World
from controlplane.store import upgrade

LAYERS, WIDTH = 5, 3
COMPONENTS, CONE = LAYERS * WIDTH, 1 + 2 + 3 + 3 + 3
SMALL, LARGE = 1_500, 3_000  # partitions of each component: trees of a few leaves
STATEMENTS, A_LAYER = 11, 4
# A layer has its nodes, traces and answers of Spark looked up
APPLYING, AN_ANSWERED_LAYER = 36, 3

NODES = {  # at most, of LARGE; a tree has two levels
    "S1": 0,
    "S2": 0,
    "S3": 2 + 2 + 1,  # old and new listing from root to leaf, and the root of the output
    "S4": 2 * (1 + 10) + 1,
    "S5/counted": 2,
    "S6": 0,
    "S9": 2 * CONE + 4,  # old and new root of each component that comes back, and the listings
    "S10": COMPONENTS + WIDTH,
    "S11": 2 * CONE + 30,
}


@pytest.fixture
def found(empty_database: Callable[[], str]) -> Callable[[str, int], Found]:
    def run(name: str, partitions: int) -> Found:
        url, scenario, shape = (
            empty_database(),
            BY_NAME[name],
            Shape(LAYERS, WIDTH, WIDTH, partitions),
        )
        upgrade(url)
        store = ours.open_counted(url)
        Seeder(store, shape, processes=1).seed(scenario.seed)
        store.close()
        world = World(url, shape)
        scenario.run(world)
        world.close()
        return world.found

    return run


@pytest.mark.parametrize("name", sorted(NODES))
def test_a_change_costs_what_it_touches(found: Callable[[str, int], Found], name: str) -> None:
    large = found(name, LARGE)
    assert large.statements <= STATEMENTS + A_LAYER * large.layers
    assert large.nodes_read <= NODES[name]


@pytest.mark.parametrize("name", ["S2", "S3", "S5/counted"])
def test_a_plan_does_not_grow_with_the_partitions(
    found: Callable[[str, int], Found], name: str
) -> None:
    small, large = found(name, SMALL), found(name, LARGE)
    assert large.statements == small.statements
    assert large.nodes_read <= small.nodes_read + 2


def test_applying_many_components_takes_as_many_statements_as_few(
    empty_database: Callable[[], str],
) -> None:
    """With its answer: work, changes of sources and columns. All of it was computed before, in
    another dataflow."""
    took: list[int] = []
    for width in (WIDTH, 4 * WIDTH):
        url, shape = empty_database(), Shape(LAYERS, width, width, SMALL)
        upgrade(url)
        with closing(ours.open_counted(url)) as store:
            Seeder(store, shape, processes=1).seed("done")
            before = store.statements
            ours.apply(store, {"twin": twin(shape, "twin")})
            took.append(store.statements - before)
    assert took[0] == took[1] <= APPLYING + AN_ANSWERED_LAYER * LAYERS


def test_nothing_changed_is_one_statement(found: Callable[[str, int], Found]) -> None:
    assert found("S2", SMALL).statements == 1


def test_holes_are_found_by_keys_alone(found: Callable[[str, int], Found]) -> None:
    """A half-built root and its input differ in every fragment; only leaves with a hole are
    read."""
    large = found("S7/holes", LARGE)
    assert large.statements <= STATEMENTS + A_LAYER * large.layers
    leaves = 8
    assert large.nodes_read <= COMPONENTS * (1 + leaves) * 2
