"""What happens in the world, which work then is to be done, and what of that is timed.

Each scenario starts from a seed of its own copy. What happens is not timed unless it says so;
planning is. Does not belong here: processes, stores, numbers of runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import TypeAlias

from benchmarks.planning import contents, ours, sources, states
from benchmarks.planning.graph import Edit, Shape, blueprints, key, twin
from benchmarks.planning.seed import FIRST_HOLE, HUNDRED, SECOND, Kind
from benchmarks.planning.world import World

Change: TypeAlias = Callable[[World], None]
FEW, MANY = 100, 1000
DONE_AT_ONCE = 10_000
STEP = 7  # between scattered partitions of different roots


@dataclass(frozen=True, slots=True)
class Scenario:
    """`happen` lets it happen and measures; `work` is how many items of work must come out."""

    name: str
    seed: Kind
    happen: Change
    work: Callable[[Shape], int]
    is_cold: bool = False
    """A new process plans: nothing is known before."""

    def run(self, world: World) -> None:
        """Raises Void if other work came out."""
        self.happen(world)
        world.require(world.found.items, self.work(world.shape))


# --- nothing, or everything -------------------------------------------------------------------------


def _cold(world: World) -> None:
    world.plan()


def _warm(world: World) -> None:
    world.warm()
    world.plan()


def _holes(shape: Shape, offset: int = 0) -> int:
    return len(range(FIRST_HOLE + offset, shape.partitions, HUNDRED))


def _scattered_holes(shape: Shape) -> int:
    """Of each component the holes of its own layer, and of all above it."""
    return sum(
        shape.width * _holes(shape, above)
        for layer in range(shape.layers)
        for above in range(layer + 1)
    )


def _half(shape: Shape) -> int:
    return shape.cone * len(range(0, shape.partitions, SECOND))


# --- late data --------------------------------------------------------------------------------------


def _late(world: World, changed: Mapping[str, list[int]]) -> None:
    world.warm()
    sources.arrive(world.store, world.desired, changed, f"late {world.run}")
    world.plan()


def _one(world: World) -> None:
    _late(
        world,
        {world.shape.root: [(world.shape.partitions // 2 + world.run) % world.shape.partitions]},
    )


def _some(count: int) -> Change:
    """Scattered over one root."""

    def happen(world: World) -> None:
        _late(world, {world.shape.root: scattered(world.shape.partitions, count, world.run)})

    return happen


def scattered(partitions: int, count: int, offset: int = 0) -> list[int]:
    step = max(1, partitions // count)
    return sorted((number * step + offset) % partitions for number in range(min(count, partitions)))


def _everywhere(world: World) -> None:
    """Scattered over all roots, no key twice: each has a cone of its own."""
    changed: dict[str, list[int]] = {}
    for number, root in zip(range(MANY), cycle(world.shape.roots()), strict=False):
        changed.setdefault(root, []).append((number * STEP + world.run) % world.shape.partitions)
    _late(world, changed)


# --- edits ------------------------------------------------------------------------------------------


def _edit(
    edits: Callable[[Shape], Mapping[str, Edit]], told: ours.Told = ours.handed_over
) -> Change:
    def happen(world: World) -> None:
        world.warm()
        edited = edits(world.shape)
        ours.apply(world.store, blueprints(world.shape, edited))
        states.analyse(
            world.store, world.desired, [d for d, edit in edited.items() if edit == "literal"]
        )
        world.plan(told)

    return happen


def _root_type(shape: Shape) -> Mapping[str, Edit]:
    return {shape.root: "type"}


def _sink_literal(shape: Shape) -> Mapping[str, Edit]:
    return {shape.sink: "literal"}


def _root_comment(shape: Shape) -> Mapping[str, Edit]:
    return {shape.root: "comment"}


def _revert(world: World) -> None:
    """The cone was computed by the edited code; the first text comes back."""
    world.warm()
    ours.apply(world.store, blueprints(world.shape))
    world.plan()


def _twin(world: World) -> None:
    world.warm()
    ours.apply(world.store, {"twin": twin(world.shape, "twin")})
    world.plan()


# --- branches ---------------------------------------------------------------------------------------


def _branch(world: World) -> None:
    """The branch alone is timed, in a process that has made one before; then the edit is planned in
    it, and nothing is left to do in main."""
    world.warm()
    ours.branch(world.store, "first")
    with world.timed():
        ours.branch(world.store, "dev")
    planner = ours.Planner(world.store, "dev")
    world.require(world.count(planner), 0, "in the new branch")
    ours.apply(world.store, blueprints(world.shape, _root_type(world.shape)), "dev")
    world.found.items = world.count(planner)
    world.warm()


def _in_branch(world: World) -> None:
    """The plan of the edit, in a branch that was just made."""
    world.warm()
    ours.branch(world.store, "dev")
    ours.apply(world.store, blueprints(world.shape, _root_type(world.shape)), "dev")
    world.plan(planner=ours.Planner(world.store, "dev"))


# --- tasks that were done -----------------------------------------------------------------------------


def _cutoff(world: World) -> None:
    """A source object is new, its rows are not: one task, and then nothing but pointers to move,
    which is timed."""
    shape, number = world.shape, world.shape.partitions // 2
    world.warm()
    sources.arrive(world.store, world.desired, {shape.root: [number]}, f"late {world.run}")
    first = world.count(told=ours.certain)
    ours.enqueue(world.store)
    ours.finish_as(world.store, shape.root, contents.partition(shape.root, number))
    world.plan()
    world.found.items += first


def _reduced(world: World) -> None:
    """One of many partitions below an all-to-one edge was computed anew."""
    world.warm()
    number = world.shape.partitions // 2
    sources.arrive(world.store, world.desired, {world.shape.root: [number]}, "late")
    entry = contents.partition(f"late {world.shape.root}", number)
    states.advance(world.store, world.desired, world.shape.root, {key(number): entry})
    world.plan()


def _commit(world: World) -> None:
    """Finished partitions are reported: taking them in, in one transaction, is timed."""
    ours.apply(world.store, blueprints(world.shape, _root_type(world.shape)))
    ours.enqueue(world.store)
    report = ours.finished(world.store, min(DONE_AT_ONCE, world.shape.partitions))
    with world.timed():
        world.found.items = report.commit()
    world.found.layers = 1


# --- all of them ------------------------------------------------------------------------------------


def _none(_shape: Shape) -> int:
    return 0


def _single(_shape: Shape) -> int:
    return 1


def _cone(shape: Shape) -> int:
    return shape.cone * shape.partitions


EVERY = (
    Scenario("S0", "bare", _cold, lambda s: s.components * s.partitions, is_cold=True),
    Scenario("S1", "done", _cold, _none, is_cold=True),
    Scenario("S2", "done", _warm, _none),
    Scenario("S3", "done", _one, lambda s: s.cone),
    Scenario("S4", "done", _some(FEW), lambda s: s.cone * min(FEW, s.partitions)),
    Scenario("S4/1000", "done", _everywhere, lambda s: s.cone * MANY),
    Scenario("S5/counted", "done", _edit(_root_type, ours.counted), _cone),
    Scenario("S5/full", "done", _edit(_root_type), _cone),
    Scenario("S5/sink", "done", _edit(_sink_literal), lambda s: s.partitions),
    Scenario("S6", "done", _edit(_root_comment), _none),
    Scenario("S7/holes", "holes", _cold, lambda s: s.components * _holes(s), is_cold=True),
    Scenario("S7/scattered", "scattered", _cold, _scattered_holes, is_cold=True),
    Scenario("S7/second", "second", _cold, _half, is_cold=True),
    Scenario("S8", "done", _branch, _cone),
    Scenario("S8/plan", "done", _in_branch, _cone),
    Scenario("S9", "edited", _revert, _none),
    Scenario("S10", "done", _twin, _none),
    Scenario("S11", "done", _cutoff, _single),
    Scenario("S12", "reduction", _reduced, _single),
    Scenario("commit", "done", _commit, lambda s: min(DONE_AT_ONCE, s.partitions)),
    Scenario("one/1", "done", _one, _single),
    Scenario("one/1000", "done", _some(MANY), lambda s: min(MANY, s.partitions)),
)
BY_NAME = {scenario.name: scenario for scenario in EVERY}
