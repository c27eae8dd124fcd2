"""`sort_by` is layout: it belongs to no identity, and runs nothing; new work is written in its
order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.core.plan import Compute
from tests.unit.expectations.world import World

TOTAL = "  totals:\n    transform: {sql: 'SELECT k, sum(v) AS v FROM orders GROUP BY k'}\n    sort_by: %s\n"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    world.put("a.csv", (2, 1), (1, 2))
    yield world
    world.store.close()


def job(world: World, dataset: str) -> object:
    step = world.decision(dataset).step
    assert isinstance(step, Compute)
    return step.job.get("sort_by")


def test_an_edit_of_the_order_runs_nothing_and_new_work_follows_it(world: World) -> None:
    world.apply("    sort_by: [k]\n" + TOTAL % "[k]")
    world.settle()
    world.apply("    sort_by: [V, k]\n" + TOTAL % "[]")
    assert not world.settle()
    world.put("b.csv", (3, 3))
    world.refresh()
    world.engine.step()
    assert job(world, "shop.orders") == ["v", "k"]  # as the schema spells them
    world.settle()
    assert world.rows("shop.totals") == [(1, 2), (2, 1), (3, 3)]


def test_a_column_that_is_not_there_is_an_error_in_words(world: World) -> None:
    world.apply(TOTAL.replace("AS v", "") % "[nope]")  # what the column is called only Spark tells
    world.settle()
    error = world.decision("shop.totals").error
    assert error is not None
    assert (error["condition"], error["message"]) == (
        "invalid-sort-column",
        "sort_by: there is no column nope",
    )
