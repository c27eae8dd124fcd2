"""Three partitions of orders, each with a file of its own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from tests.unit.records.world import RecordWorld, Row, Served, served


def order(k: int, name: str | None = "a", price: str = "1.10") -> Row:
    at = datetime(2013, 1, k, 12, tzinfo=UTC)
    return {"k": k, "name": name, "price": Decimal(price), "day": date(2013, 1, k), "at": at}


@pytest.fixture
def world(tmp_path: Path) -> RecordWorld:
    world = RecordWorld(tmp_path)
    partitions = {
        "a.csv": [order(1), order(2, '=1+1, "x"', "2.50")],
        "b.csv": [order(3, None), order(4, "ü")],
        "c.csv": [order(5, "", "9.99")],
    }
    world.commit(partitions)
    return world


@pytest.fixture
def place(world: RecordWorld) -> Iterator[Served]:
    with served(world) as place:
        yield place
