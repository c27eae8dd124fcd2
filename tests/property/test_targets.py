"""Copies that somebody fell silent over: nobody knows what lies there, until it is written again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from dataplane.contract import Kind
from tests.property.engine import Fault
from tests.property.model import Copy, File, Read
from tests.property.world import BRANCH, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.put("one", "a.csv", rows(1))
    made.apply({"a": {"x": Read("one", declared=("k", "v")), "to_x": Copy("x")}}, {})
    yield made
    made.close()


def rows(key: int) -> File:
    return File(("k", "v"), ((key, 1),))


def until_a_write_is_silent(world: World) -> None:
    """It has written, and nobody hears of it."""
    written: list[Kind] = []

    def fault(kind: Kind) -> Fault:
        written.extend([kind] * (kind == "write"))
        return "dies" if kind == "write" else "none"

    chance = random.Random(1)
    while not written:
        world.advance(chance, fault)


def test_what_is_not_wished_for_any_more_is_removed(world: World) -> None:
    until_a_write_is_silent(world)
    world.remove("one", "a.csv")
    world.put("one", "b.csv", rows(2))
    world.settle()


def test_what_was_there_before_is_written_again(world: World) -> None:
    world.settle()
    world.put("one", "a.csv", rows(2))
    until_a_write_is_silent(world)
    world.put("one", "a.csv", rows(1))
    world.settle()


def test_what_was_removed_is_written_again(world: World) -> None:
    world.settle()
    world.remove("one", "a.csv")
    until_a_write_is_silent(world)
    world.put("one", "a.csv", rows(1))
    world.settle()


def test_a_copy_of_another_dataset_goes_on_counting(world: World) -> None:
    """It has come to fewer generations; and back again."""
    world.settle()
    for value in (2, 3, 4):
        world.put("one", "a.csv", File(("k", "v"), ((1, value),)))
        world.settle()
    world.put("two", "a.csv", rows(7))
    reads = {"x": Read("one", declared=("k", "v")), "y": Read("two", declared=("k", "v"))}
    for source in ("y", "x", "y"):
        world.apply({"a": {**reads, "to_x": Copy(source)}}, {})
        world.settle()
    with world.store.read() as tx:
        found = tx.targets(BRANCH)["a.to_x"]
        assert (found.generation, found.order) == (1, 7)
    world.put("two", "a.csv", rows(8))
    world.settle()
