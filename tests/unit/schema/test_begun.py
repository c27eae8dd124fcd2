"""Types and columns of a read component whose listing moved on while it was being read."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.compile.nodes import Source
from controlplane.core.model.states import State
from controlplane.core.schema.ddl_schemas import types
from controlplane.operations.planning.snapshot import desired
from tests.property.engine import Taken
from tests.unit.expectations.world import BRANCH
from tests.unit.schema.world import World


def unfinished(world: World, name: str) -> Taken:
    """Somebody is at work on this file."""
    world.refresh()
    for _ in range(20):
        world.once()
        while (taken := world.engine._take()) is not None:
            if taken.claim["kind"] == "parse" and [
                t["partition"] for t in taken.claim["tasks"]
            ] == [name]:
                return taken
            end(world, taken)
    raise AssertionError(f"nobody asked for {name}")


def end(world: World, taken: Taken) -> None:
    [results] = world.engine._carry_out([taken.claim])
    world.engine._finish(taken, results, "none")


def go_on(world: World) -> None:
    while world.once().changed or world.work():
        pass


def history(world: World) -> tuple[State, ...]:
    with world.store.read() as tx:
        return tx.states.history(BRANCH, "shop.orders", 10)


def listed(world: World) -> bytes | None:
    with world.store.read() as tx:
        node = desired(tx, BRANCH).nodes["shop.orders"]
        assert isinstance(node, Source)
        return tx.listings.get([node.listing])[node.listing].root


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize("other", ["", "v\n7\n"])
def test_files_are_read_anew_as_they_are_listed_now(world: World, other: str) -> None:
    """A type that no fragment can stay under has all files read again: some are gone by then, or
    are others."""
    world.file("a.csv", "v\n1\n")
    world.file("b.csv", "v\n2\n")
    world.read()
    world.settle()
    world.file("c.csv", "v\n3.5\n")
    taken = unfinished(world, "c.csv")
    world.file("b.csv", other) if other else world.remove("b.csv")
    world.refresh()
    go_on(world)
    end(world, taken)
    wanted = [("1",), ("3.5",), ("7",)] if other else [("1",), ("3.5",)]
    go_on(world)
    states = history(world)
    assert world.rows() == wanted
    assert [s.partitions for s in states] == [3 if other else 2, 2]
    assert states[0].inputs["objects"].root == listed(world)
    assert world.settle() == {}


def test_sync_keeps_a_column_that_its_own_listing_has(world: World) -> None:
    world.file("a.csv", "v\n1\n")
    world.file("b.csv", "v,y\n2,5\n")
    world.read("sync")
    world.settle()
    world.file("c.csv", "v\n3\n")
    taken = unfinished(world, "c.csv")
    world.remove("b.csv")
    world.refresh()
    go_on(world)
    end(world, taken)
    world.once()
    for state in history(world):
        columns = {1: ["v"], 2: ["v", "y"], 3: ["v", "y"]}  # without b, or with it
        assert list(types(state.schema)) == columns[state.partitions] or state.inputs[
            "objects"
        ].root == listed(world)
    world.settle()
    assert list(world.schema) == ["v"]
