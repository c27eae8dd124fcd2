"""Inputs that change faster than their readers compute: every dataset moves on all the same
(SEMANTICS 11)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from controlplane.operations.desired import controls
from tests.property.engine import Taken
from tests.property.model import Component, Copy, File, Fold, Grouped, Join, Pick, Read, Total
from tests.property.world import BRANCH, World

ROUNDS = 30
SLOW = 3  # files that arrive while one task is computed
READERS: dict[str, dict[str, Component]] = {
    "row by row": {"b": Pick("a", shift=1, columns=("k", "v"))},
    "whole": {"b": Total("a")},
    "by key": {"b": Grouped("a")},
    "dealt out": {"b": Grouped("a", whole=True)},
    "fold": {"b": Fold("a")},
    "joined": {"c": Total("a"), "b": Join("a", "c", "w")},
    "twice": {"b": Total("a"), "c": Pick("b", columns=("k", "v"))},
}


class Slow:
    """Whoever takes a task of a dataset that is slow reports it some arrivals later."""

    def __init__(self, world: World, slow: set[str]) -> None:
        self.world, self.slow = world, slow
        self.under_way: list[tuple[int, Taken]] = []

    def arrive(self, number: int) -> None:
        """One more file; what was taken long enough ago is reported, and the loop goes on."""
        self.world._is_busy = True
        self.world.put("a", f"f{number:03}.csv", File(("k", "v"), ((number % 4, number),)))
        controls.refresh(self.world.ctx, BRANCH, None)
        for late in [t for due, t in self.under_way if due <= number]:
            self._end(late)
        self.under_way = [(due, t) for due, t in self.under_way if due > number]
        is_moving = True
        while is_moving:
            is_moving = self.world.once().changed > 0
            while (taken := self.world.engine._take()) is not None:
                if taken.claim["dataset"] in self.slow and taken.claim["kind"] != "list":
                    self.under_way.append((number + SLOW, taken))
                else:
                    self._end(taken)
                is_moving = True

    def end(self) -> None:
        """Nothing arrives any more."""
        for _, taken in self.under_way:
            self._end(taken)

    def _end(self, taken: Taken) -> None:
        [results] = self.world.engine._carry_out([taken.claim])
        self.world.engine._finish(taken, results, "none")

    def generations(self) -> dict[str, int]:
        with self.world.store.read() as tx:
            return {name: state.generation for name, state in tx.states.newest(BRANCH).items()}


def unfinished(home: Path, parts: Mapping[str, Component], exact: int, fewest: int) -> World:
    world = World(home, exact=exact, fewest=fewest, widest=4)
    world.put("a", "f.csv", File(("k", "v"), ((1, 1),)))
    world.apply({"x": {"a": Read("a"), **parts}}, {})
    world.settle()
    return world


QUICK = ("whole", "by key", "joined")


@pytest.mark.parametrize(
    ("name", "exact", "fewest"),
    [
        *((name, 1000, 1000) for name in QUICK),
        *(
            pytest.param(name, 1000, 1000, marks=pytest.mark.slow)
            for name in READERS
            if name not in QUICK
        ),
        *(pytest.param(name, 1000, 2, marks=pytest.mark.slow) for name in READERS),  # in parts
        *(pytest.param(name, 2, 1000, marks=pytest.mark.slow) for name in READERS),  # in windows
    ],
)
def test_slow_readers_move_on_and_end_right(
    tmp_path: Path, name: str, exact: int, fewest: int
) -> None:
    world = unfinished(tmp_path, READERS[name], exact, fewest)
    slow = Slow(world, {f"x.{part}" for part in READERS[name]})
    before = slow.generations()
    for number in range(ROUNDS):
        slow.arrive(number)
    moved = {dataset: n - before[dataset] for dataset, n in slow.generations().items()}
    assert moved["x.a"] == ROUNDS
    assert min(moved.values()) >= 2, moved
    slow.end()
    world.settle(listing=False)
    world.close()


def test_a_slow_copy_gets_later_generations(tmp_path: Path) -> None:
    """A total is one partition: each state is written in place of the one before."""
    world = unfinished(tmp_path, {"b": Total("a"), "to_b": Copy("b")}, 1000, 1000)
    slow = Slow(world, {"x.to_b"})
    synced = []
    for number in range(ROUNDS):
        slow.arrive(number)
        with world.store.read() as tx:
            synced.append(tx.projections.targets(BRANCH)["x.to_b"].generation)
    assert synced == sorted(synced)
    assert len(set(synced)) > ROUNDS // SLOW // 2
    slow.end()
    world.settle(listing=False)
    world.close()


def test_a_slow_source_is_committed_while_more_arrives(tmp_path: Path) -> None:
    world = unfinished(tmp_path, {"b": Total("a")}, 1000, 1000)
    slow = Slow(world, {"x.a"})
    for number in range(ROUNDS):
        slow.arrive(number)
    assert min(slow.generations().values()) > ROUNDS // SLOW // 2
    slow.end()
    world.settle(listing=False)
    world.close()
