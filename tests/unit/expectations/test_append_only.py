"""`append_only` beside rows that are taken out, and partitions without rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.expectations.world import World

pytestmark = pytest.mark.unit

APPEND_ONLY = "    append_only: true\n"
QUARANTINE = "    expect:\n      - {{name: {}, check: v > 0, on_fail: quarantine}}\n"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.store.close()


def status(world: World, dataset: str = "shop.orders") -> str:
    return world.decision(dataset).status


def test_rows_that_are_taken_out_may_change(world: World) -> None:
    world.put("a.csv", (1, 10), (2, -1))
    world.apply(APPEND_ONLY + QUARANTINE.format("positive"))
    world.settle()
    world.apply(APPEND_ONLY + QUARANTINE.format("above zero"))
    world.put("b.csv", (4, -4))
    world.settle()
    assert status(world) == status(world, "shop.orders__quarantine") == "up_to_date"
    assert len(world.rows("shop.orders__quarantine")) == 2


@pytest.mark.parametrize("rows", [[(1, 1)], None], ids=["gets rows", "is removed"])
def test_a_partition_without_rows_may_change(
    world: World, rows: list[tuple[int, int]] | None
) -> None:
    world.put("a.csv")
    world.put("b.csv", (3, 30))
    world.apply(APPEND_ONLY)
    world.settle()
    if rows is None:
        (world.home / "orders" / "a.csv").unlink()
    else:
        world.put("a.csv", *rows)
    world.settle()
    assert status(world) == "up_to_date"
    world.put("b.csv", (3, 31))
    world.settle()
    assert status(world) == "failed"
