"""Copies that are written a generation at a time: one task each, whatever changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.expectations.world import BRANCH, World

COPY = "  out: {write: {connector: delta, from: orders, path: /out}}\n"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.put("a.csv", (1, 10), (2, -1))
    made.put("b.csv", (3, 30))
    made.apply(COPY)
    yield made
    made.store.close()


def copied(world: World) -> list[tuple[object, ...]]:
    return sorted(world.engine.targets["/out"].get("", ()))


def synced(world: World) -> int:
    with world.store.read() as tx:
        return tx.projections.targets(BRANCH)["shop.out"].generation


def test_a_generation_is_one_task(world: World) -> None:
    assert world.settle() == {"parse": 2, "write": 1}
    assert (copied(world), synced(world)) == (world.rows(), 1)
    assert world.settle() == {}
    world.put("c.csv", (4, 1))
    world.put("a.csv", (1, 11))
    (world.home / "orders" / "b.csv").unlink()
    assert world.settle() == {"parse": 2, "write": 1}
    assert (copied(world), synced(world)) == ([(1, 11), (4, 1)], 2)


def test_there_and_back_again(world: World) -> None:
    world.settle()
    before = copied(world)
    world.put("b.csv", (5, 5))
    world.settle()
    world.put("b.csv", (3, 30))
    assert world.settle() == {"write": 1}
    assert (copied(world), synced(world)) == (before, 3)


def test_equal_partitions_are_copied_as_often(world: World) -> None:
    world.put("c.csv", (3, 30))
    world.settle()
    assert copied(world) == [(1, 10), (2, -1), (3, 30), (3, 30)]


def test_whatever_was_empty_is_copied_once_there_are_rows(world: World) -> None:
    for name in ("a.csv", "b.csv"):
        (world.home / "orders" / name).unlink()
    assert world.settle() == {}
    assert world.decision("shop.out").status == "up_to_date"
    world.put("a.csv", (1, 1))
    assert world.settle() == {"parse": 1, "write": 1}
    assert copied(world) == [(1, 1)]
