"""Cost as a contract: SQL statements that a late file takes on its way through three datasets, on
each database.

They are those of the passes of the loop, of claims and of reports, with the few that the engine of
the tests reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane.core.model.tasks import SIZES
from controlplane.operations.desired import controls
from controlplane.operations.planning.planner import Planner
from controlplane.operations.planning.snapshot import desired
from controlplane.operations.work import listings
from tests.property.model import File, Pick, Read
from tests.property.world import BRANCH, World

COLUMNS = ("k", "v")
FILES, PASSES = 5, 2
MOST = {"sqlite": 128, "postgresql": 146}  # PostgreSQL is asked for its clock and for locks as well


@pytest.fixture
def url(empty_database: Callable[[], str]) -> str:
    return empty_database()


@pytest.fixture
def world(tmp_path: Path, url: str) -> Iterator[World]:
    world = World(tmp_path / "world", url)
    for number in range(FILES):
        world.put("files", f"{number}.csv", File(COLUMNS, ((number, number),)))
    world.apply({"a": {"x": Read("files", declared=COLUMNS), "y": Pick("x"), "z": Pick("y")}}, {})
    world.settle()
    yield world
    world.close()


def passes_to_rest(world: World) -> int:
    for number in range(1, 2 * PASSES):
        with world.store.begin() as tx:
            nodes = desired(tx, BRANCH)
            listings.dispatch(tx, BRANCH, listings.sources(nodes, nodes.order))
        last, is_working = world.settling.settle(), False
        while world.engine.step():
            is_working = True
        if not (is_working or last.changed or last.under_way):
            return number
    raise AssertionError("no rest")


def test_a_late_file_costs_few_statements(world: World, url: str) -> None:
    world.put("files", "late.csv", File(COLUMNS, ((1, 99),)))
    world.pass_of_report = world.settling.settle
    before = world.store.statements
    controls.refresh(world.ctx, BRANCH, None)
    assert passes_to_rest(world) == PASSES
    statements = world.store.statements - before
    assert statements <= MOST[url.split(":")[0].split("+")[0]]


def test_what_tasks_come_to_has_no_states_read_again(world: World) -> None:
    """A pass after each of many reports costs little."""
    planner = Planner(world.store)
    planner.plan()
    before = world.store.statements
    planner.plan()
    at_rest = world.store.statements - before
    with world.store.begin() as tx:
        tx.queue.retry(BRANCH, ["a.y", "a.z"])
    before = world.store.statements
    planner.plan()
    assert world.store.statements - before <= at_rest + 1, "PostgreSQL is asked for its clock"


def test_the_backlog_of_a_snapshot_is_read_once(world: World) -> None:
    with world.store.read() as tx:
        before = world.store.statements
        assert not any(tx.queue.backlog([size]) for size in SIZES)
        read = world.store.statements - before
        assert not tx.queue.backlog()
        assert world.store.statements - before == read
