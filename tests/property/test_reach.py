"""Joins that read neighbouring granules: rows from scratch, and only granules in reach of a change
are computed again."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from controlplane.core.errors import HeadgateError
from controlplane.core.explain.steps import read_of
from controlplane.core.lineage import partition_lineage
from controlplane.core.plan import lookups
from controlplane.core.plan.transform import extent
from controlplane.operations.planning.snapshot import desired
from controlplane.operations.upkeep.collect import GRACE_S, collect
from controlplane.operations.upkeep.fsck import fsck
from tests.property.model import Component, File, Near, Read, Row
from tests.property.world import BRANCH, World
from tests.slices import sliced

COLUMNS = ("t", "v")
READS: dict[str, Component] = {
    "x": Read("one", declared=COLUMNS),
    "y": Read("two", declared=COLUMNS),
}
HOURS = 12


def rows(*minutes: int | None, v: int = 1) -> File:
    return File(COLUMNS, tuple[Row, ...]((t, v) for t in minutes))


@pytest.fixture(params=[1, 1_000], ids=["in windows", "at once"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    made = World(tmp_path, exact=request.param)
    yield made
    made.close()


def hourly(world: World) -> None:
    """A row for each hour in both inputs, in one file for each hour."""
    for hour in range(HOURS):
        world.put("one", f"{hour}.csv", rows(60 * hour + 30))
        world.put("two", f"{hour}.csv", rows(60 * hour + 20, v=hour))


def executed(world: World) -> int:
    done = len(world.seen)
    world.settle()
    return len(world.seen) - done


PARSED_AND_INDEXED = 2


def test_a_late_row_redoes_the_granules_that_reach_it(world: World) -> None:
    hourly(world)
    world.apply({"a": {**READS, "near": Near("x", "y", before=90, after=10)}}, {})
    assert executed(world) == 2 * HOURS * PARSED_AND_INDEXED + HOURS
    world.put("two", "late.csv", rows(60 * 5 + 1, v=70))
    assert executed(world) == PARSED_AND_INDEXED + 4  # hours 4 to 7
    world.put("two", "last.csv", rows(60 * HOURS + 1, 60 * 40, v=71))
    assert executed(world) == PARSED_AND_INDEXED + 1  # hour 11 reaches forward; nothing is at 40
    world.remove("two", "late.csv")
    assert executed(world) == 0  # these rows were read before
    world.put("one", "late.csv", rows(60 * 5 + 2))
    assert executed(world) == PARSED_AND_INDEXED + 1
    world.put("two", "nulls.csv", rows(None, v=5))
    world.put("one", "nulls.csv", rows(None))
    assert executed(world) == 2 * PARSED_AND_INDEXED + 1


def test_rows_out_of_reach_make_no_partition(world: World) -> None:
    world.put("one", "a.csv", rows(0, 600))
    world.put("two", "a.csv", rows(0, 300, 310, 620))
    world.apply({"a": {**READS, "near": Near("x", "y", before=60)}}, {})
    assert executed(world) == 2 * PARSED_AND_INDEXED + 2
    world.put("two", "b.csv", rows(330))
    assert executed(world) == PARSED_AND_INDEXED
    world.remove("one", "a.csv")
    world.settle()


def test_partitions_that_do_not_exist_are_not_listed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put("one", "a.csv", rows(*range(0, 60 * HOURS, 60)))
    world.put("two", "a.csv", rows(1))
    world.apply({"a": {**READS, "near": Near("x", "y", before=200 * 60)}}, {})
    world.settle()
    counts: list[int] = []
    nodes = lookups.nodes

    def counted(paths: Iterable[lookups.Path]) -> lookups.Deciding[None]:
        listed = list(paths)
        counts.extend(len(keys) for _, keys in listed)
        yield from nodes(listed)

    monkeypatch.setattr(extent, "REACHED_AT_ONCE", 300)
    monkeypatch.setattr(lookups, "nodes", counted)
    world.put("two", "far.csv", rows(0, *(60 * hour for hour in range(300, 5_000, 300))))
    world.settle()
    assert 300 <= max(counts) <= 300 + 201


@dataclass(frozen=True)
class Turned(Near):
    """The rows of the right side are kept, and the left one makes the partitions."""

    @property
    def sql(self) -> str:
        return (
            f"SELECT r.t, r.v, l.v AS w FROM {self.right} AS r LEFT JOIN {self.left} AS l"
            f" ON r.t >= l.t - {self.before} AND r.t <= l.t + {self.after}"
        )


def test_rows_that_are_kept_are_not_those_of_a_reach(world: World) -> None:
    with pytest.raises(HeadgateError, match="key is that of y, which therefore has no reach"):
        world.apply({"a": {**READS, "near": Turned("x", "y", before=0, after=60)}}, {})


def test_a_file_that_holds_several_neighbours_is_read_once(world: World) -> None:
    world.put("one", "a.csv", rows(125))
    world.put("two", "a.csv", rows(10, 70, 130, 190))
    world.put("two", "b.csv", rows(10, 70, 130, 190))  # the same rows once more
    world.apply({"a": {**READS, "near": Near("x", "y", before=120, after=70)}}, {})
    world.settle()


def test_lineage_and_causes_name_the_neighbours(world: World) -> None:
    hourly(world)
    world.apply({"a": {**READS, "near": Near("x", "y", before=90)}}, {})
    world.settle()
    with world.store.read() as tx:
        code, states = desired(tx, BRANCH), tx.states.newest(BRANCH)
        near, node, nodes = states["a.near"], code.nodes["a.near"], tx.nodes
        assert node.is_transform
        five = "t=2026-01-01T05"
        read = partition_lineage.inputs(code, nodes, lambda name, _: states[name], near, five)
        assert {name: sorted(of.keys or ()) for name, of in read} == {
            "x": ["5.csv"],
            "y": ["3.csv", "4.csv", "5.csv"],
        }
        below = partition_lineage.downstream(code, nodes, states, "a.y", frozenset({"3.csv"}))
        [reached] = [of for of in below if of.dataset == "a.near"]
        assert set(reached.keys or ()) == {f"t=2026-01-01T0{hour}" for hour in (3, 4, 5)}
        [_, slot] = node.slots
        assert read_of(nodes, node, near, slot, [five]) == ["3.csv", "4.csv", "5.csv"]


@pytest.mark.parametrize("seed", sliced(range(40), of=10))
def test_random_histories(world: World, seed: int) -> None:
    chance = random.Random(seed)
    near = Near("x", "y", before=chance.choice([1, 30, 60, 61, 200]), after=chance.choice([0, 45]))
    hourly(world)
    world.apply({"a": {**READS, "near": near}}, {})
    for _ in range(25):
        folder, name = chance.choice(["one", "two"]), f"{chance.randrange(6)}.csv"
        match chance.randrange(10):
            case 0:
                near = Near("x", "y", near.before, near.after, wider=chance.choice([0, 60]))
                world.apply({"a": {**READS, "near": near}}, {})
            case 1 | 2 if name in world.folders.get(folder, {}):
                world.remove(folder, name)
            case _:
                times = chance.choices([None, *range(0, 60 * HOURS, 7)], k=chance.randrange(1, 5))
                world.put(folder, name, rows(*times, v=chance.randrange(3)))
        if chance.random() < 0.6:
            world.settle()
    world.settle()


def test_indexes_outlive_a_collection(world: World) -> None:
    hourly(world)
    world.apply({"a": {**READS, "near": Near("x", "y", before=90)}}, {})
    world.settle()
    world.put("two", "late.csv", rows(61))
    world.settle()
    with world.store.read() as tx:
        later = tx.now() + 2 * GRACE_S
    collect(world.store, world.ctx.namespace, now=later)
    assert fsck(world.store, world.ctx.namespace) == ()
    world.put("two", "late.csv", rows(62))
    assert executed(world) == PARSED_AND_INDEXED + 3
