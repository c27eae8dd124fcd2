"""Copies that somebody fell silent over: nobody knows what lies there, until it is written
again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.operations.desired import controls
from controlplane.operations.work import claims
from dataplane.contract.kinds import Kind
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


def test_what_vanished_while_it_was_written_first_is_written_as_a_whole(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "MAX_TASKS", 1)
    for name in ("b.csv", "c.csv"):
        world.put("one", name, rows(2))
    until_written(world, partitions=1)
    world.engine.targets.clear()
    world.settle()


def test_what_was_written_before_it_vanished_and_told_later_is_not_taken_to_be_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put("one", "b.csv", rows(2))
    world.settle()
    monkeypatch.setattr(claims, "MAX_TASKS", 1)
    for name in ("a.csv", "b.csv"):
        world.put("one", name, rows(3))
    controls.refresh(world.ctx, BRANCH, None)
    while len(writes := claims_of_writes(world)) < 2:
        world.once()
    earlier, later = (world.engine._take() for _ in writes)
    assert earlier is not None
    assert later is not None
    [written] = world.engine._carry_out([earlier.claim])
    world.engine.targets.clear()
    [gone] = world.engine._carry_out([later.claim])
    assert [r["error"]["condition"] for r in gone] == ["target-gone"]
    world.engine._finish(later, gone, "none")
    world.engine._finish(earlier, written, "none")
    world.settle()


def until_written(world: World, partitions: int) -> None:
    controls.refresh(world.ctx, BRANCH, None)
    while sum(map(len, world.engine.targets.values())) < partitions:
        world.once()
        world.engine.step()


def claims_of_writes(world: World) -> list[bytes]:
    """Tasks that are queued, once there is nothing else to do."""
    with world.store.read() as tx:
        queued = [k for k, t in tx.queue.demands(BRANCH, "a.to_x").items() if t.state == "queued"]
    if not queued:
        world.engine.step()
    return queued


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
        found = tx.projections.targets(BRANCH)["a.to_x"]
        assert (found.generation, found.order) == (1, 7)
    world.put("two", "a.csv", rows(8))
    world.settle()
