"""Small worlds by key, each made for one rule that random runs meet too seldom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.operations.upkeep.collect import GRACE_S, collect
from controlplane.operations.upkeep.fsck import fsck
from tests.property.model import Component, File, Grouped, Meeting, Pick, Read, Row
from tests.property.world import World

READS = {"x": Read("one", declared=("k", "v")), "y": Read("two", declared=("k", "v"))}


def rows(*keys: int | None, v: int = 1) -> File:
    return File(("k", "v"), tuple[Row, ...]((k, v) for k in keys))


@pytest.fixture(params=[1, 1_000], ids=["in windows", "at once"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(tmp_path, exact=request.param)
    yield made
    made.close()


def test_a_key_that_is_new_to_one_of_two_inputs_is_computed_again(world: World) -> None:
    world.put("one", "a.csv", rows(1, 2, 3))
    world.put("two", "a.csv", rows(0, 1, 2, 3, None))
    world.apply({"a": {**READS, "met": Meeting("x", "y")}}, {})
    world.settle()
    world.put("one", "b.csv", rows(0))
    world.put("one", "c.csv", rows(None, 4))
    world.settle()


def test_rows_that_change_places_redo_nothing(world: World) -> None:
    world.put("one", "a.csv", rows(1, 2, 1))
    world.put("one", "b.csv", rows(2, 3))
    world.apply({"a": {"x": READS["x"], "sums": Grouped("x")}}, {})
    world.settle()
    done = len(world.seen)
    world.put("one", "a.csv", rows(3, 2))
    world.put("one", "b.csv", rows(1, 1))
    world.put("one", "c.csv", rows(2))
    world.settle()
    parsed, indexed = 3, 2  # 2 and 3 were in one partition before
    assert len(world.seen) == done + parsed + indexed


def test_one_partition_twice_holds_its_keys_twice(world: World) -> None:
    world.put("one", "a.csv", rows(1, 2))
    world.put("one", "b.csv", rows(1, 2))
    world.apply(
        {"a": {"x": READS["x"], "sums": Grouped("x"), "dealt": Grouped("x", whole=True)}}, {}
    )
    world.settle()
    world.put("one", "b.csv", rows(2))
    world.settle()
    world.remove("one", "a.csv")
    world.settle()


def test_indexes_outlive_a_collection_and_are_whole(world: World) -> None:
    world.put("one", "a.csv", rows(*range(50)))
    world.put("two", "a.csv", rows(*range(40, 90)))
    world.apply({"a": {**READS, "met": Meeting("x", "y")}}, {})
    world.settle()
    world.put("one", "b.csv", rows(7))
    world.settle()
    with world.store.read() as tx:
        later = tx.now() + 2 * GRACE_S
    assert collect(world.store, world.ctx.namespace, now=later).nodes
    assert fsck(world.store, world.ctx.namespace) == ()
    world.put("one", "b.csv", rows(7, 8))
    world.settle()


@pytest.mark.parametrize("read", [READS["x"], Read("one")], ids=["declared", "inferred"])
def test_a_late_row_recomputes_its_key_behind_transforms(world: World, read: Read) -> None:
    """The types of such inputs are known with their rows; no mode is declared."""
    world.put("one", "a.csv", rows(*range(20)))
    world.put("two", "a.csv", rows(*range(20)))
    chain: dict[str, Component] = {
        "fx": Pick("x", above=0),
        "fy": Pick("y", columns=("k", "v")),
        "met": Meeting("fx", "fy"),
    }
    world.apply({"a": {"x": read, "y": READS["y"], **chain, "sums": Grouped("met")}}, {})
    world.settle()
    done = len(world.seen)
    world.put("one", "b.csv", rows(7))
    world.settle()
    parsed, picked, met, summed = 1, 1, 1, 1
    indexed = 2  # of fx, and of met
    assert len(world.seen) == done + parsed + picked + met + summed + indexed
