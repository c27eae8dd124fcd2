"""From one state of a dataset to another one, and which of its partitions and inputs differ between
them.

Trees of what old states have read may have been collected: each reader here says what its answer is
without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from typing import TypeAlias

from controlplane.core import tree
from controlplane.core.compile.nodes import Slot, Source, Transform
from controlplane.core.errors import CorruptNode
from controlplane.core.model.states import LOST, PAIRS, Cause, State
from controlplane.core.plan import salts
from controlplane.core.plan.work_keys import Keys, lacking, listed
from controlplane.core.tree import NodeStore
from dataplane.contract.keys import pair_key

# All of a dataset that are kept, newest first
StatesOf: TypeAlias = Callable[[str], Iterable[State]]
Partitions: TypeAlias = Sequence[str] | None  # those that are asked about; None: all

WALKED = 1_000  # states of a dataset among which one is looked for
GENERATIONS = 50  # in which a change of one partition is looked for
MOST = 1_000  # changes that are read one by one
WINDOW = 4  # nodes at a time for them: where all has changed, so many have that many keys


@dataclass(frozen=True, slots=True)
class StateStep:
    """A dataset went from one state to another one. `older` is None where it had none, or where it
    is not kept."""

    newer: State
    older: State | None

    @property
    def is_first(self) -> bool:
        return self.newer.seq == 1

    @property
    def is_known(self) -> bool:
        return self.older is not None or self.is_first

    @property
    def before(self) -> bytes:
        return self.older.root if self.older else tree.EMPTY_ROOT


@dataclass(slots=True)
class Differences:
    """Keys that two trees differ in. `is_whole`: there are no more of them."""

    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    is_whole: bool = True

    @property
    def keys(self) -> list[str]:
        return sorted((*self.new, *self.changed, *self.removed))

    def add(self, key: str, *, was_there: bool, is_there: bool) -> None:
        if not was_there:
            self.new.append(key)
        elif not is_there:
            self.removed.append(key)
        else:
            self.changed.append(key)


# --- steps ----------------------------------------------------------------------------------------


def last_step(nodes: NodeStore, states: Iterable[State], partition: str | None) -> StateStep | None:
    """The step to the newest generation; with a partition, the newest of some steps that changed
    it."""
    steps = _steps(states)
    if partition is None:
        return next(steps, None)
    for step in islice(steps, GENERATIONS):
        if step.older is None or differs(nodes, step.older.root, step.newer.root, partition):
            return step
    return None


def _steps(states: Iterable[State]) -> Iterator[StateStep]:
    """From generation to generation, newest first; the first one comes from nothing."""
    for newer, older in pairwise(chain(states, [None])):
        assert newer is not None
        is_same = (
            older is not None and older.generation == newer.generation and older.root == newer.root
        )
        if not is_same and (older is not None or newer.seq == 1):
            yield StateStep(newer, older)


def step_between(
    states: Iterable[State], before: bytes | None, after: bytes, at: float
) -> StateStep | None:
    """The step that led to the root `after` by then, from the root `before`; from the state before
    it with None."""
    newer: State | None = None
    for state in islice(states, WALKED):
        if state.at > at:
            continue
        if newer is None:
            newer = state if state.root == after else None
        elif state.root == newer.root:
            newer = state  # the change came with the oldest state that has this root
        elif before is None or state.root == before:
            return StateStep(newer, state)
    return StateStep(newer, None) if newer else None


def own_cause(node: Source | Transform, step: StateStep) -> Cause | None:
    """What led to the step that lies in the dataset itself; None where its inputs did."""
    newer, older = step.newer, step.older
    if newer.cause in ("rollback", "resume", "imported"):
        return newer.cause
    if older is None:
        return "missing" if step.is_first else None
    if older.logic == LOST:
        return "lost"
    if older.logic != newer.logic:
        return "logic"
    salted = salts.between(node, older, newer)
    if salted is not None:
        return salted
    return "schema" if newer.cause == "schema" else None


# --- partitions -----------------------------------------------------------------------------------


def differs(nodes: NodeStore, old: bytes, new: bytes, key: str) -> bool:
    return tree.lookup(nodes, old, [key]) != tree.lookup(nodes, new, [key])


def differences(
    nodes: NodeStore, old: bytes, new: bytes, partitions: Partitions, *, by_key: bool
) -> Differences:
    """What two trees differ in, up to MOST keys. `by_key`: what both have counts as equal."""
    if partitions is not None:
        return _of_partitions(nodes, old, new, partitions)
    differing = Differences()
    changes = _diff_keys(nodes, old, new) if by_key else _diff(nodes, old, new)
    for number, (key, was_there, is_there) in enumerate(changes):
        if number == MOST:
            differing.is_whole = False
            break
        differing.add(key, was_there=was_there, is_there=is_there)
    return differing


def _diff(nodes: NodeStore, old: bytes, new: bytes) -> Iterator[tuple[str, bool, bool]]:
    return (
        (c.key, c.before is not None, c.after is not None)
        for c in tree.diff(nodes, old, new, window=WINDOW)
    )


def _diff_keys(nodes: NodeStore, old: bytes, new: bytes) -> Iterator[tuple[str, bool, bool]]:
    return ((c.key, c.before, c.after) for c in tree.diff_keys(nodes, old, new, window=WINDOW))


def _of_partitions(
    nodes: NodeStore, old: bytes, new: bytes, partitions: Sequence[str]
) -> Differences:
    differing = Differences()
    before, after = tree.lookup(nodes, old, partitions), tree.lookup(nodes, new, partitions)
    for key in partitions:
        if before.get(key) != after.get(key):
            differing.add(key, was_there=key in before, is_there=key in after)
    return differing


def changed_keys(nodes: NodeStore, step: StateStep, partitions: Partitions) -> Keys:
    """The partitions that a step changed; where they are many, an upper bound that is not
    enumerated."""
    if partitions is None and step.older is None:
        return lacking(nodes, step.newer.root)
    differing = differences(nodes, step.before, step.newer.root, partitions, by_key=False)
    if not differing.is_whole:
        return lacking(nodes, step.newer.root)
    return listed(differing.keys)


def read_of(
    nodes: NodeStore, node: Transform, state: State, slot: Slot, partitions: Partitions
) -> Partitions:
    """The partitions of an input that these partitions of an output read; None for all of it."""
    if partitions is None or slot.mode == "all":
        return None
    if slot.mode == "each":
        return partitions
    pairs = state.inputs.get(slot.name + PAIRS)
    if pairs is None:
        return None
    keys = {key for partition in partitions for key in node.keys_read(slot, partition)}
    try:
        return sorted({name for key in keys for name in _paired(nodes, pairs.root, key)})
    except CorruptNode:
        return None  # it was collected


def _paired(nodes: NodeStore, pairs: bytes, key: str) -> Iterator[str]:
    prefix = pair_key(key, "")
    for entry in islice(tree.scan(nodes, pairs, prefix=prefix), MOST):
        yield entry.key.removeprefix(prefix)
