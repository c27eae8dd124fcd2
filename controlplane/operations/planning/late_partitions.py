"""The cost of one late partition of a source: the tasks, partitions and seconds of all that it
changes.

    a source, each   as many partitions as changed
    by               the keys of an average partition; and its index, and its part where parts are kept
    all              one task; in parts, the part of each partition and a merge; beside inputs that
                     are read by partition or key, all partitions
    previous         the partitions, and on an average half of all partitions, that come after it
    a copy           the changed partitions; at once where its connector writes generations

Rows that are computed again count as changed. For example, a late partition of `orders` costs one
partition of a filter, one key of a sum by day, and one task of a sum over all days.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from controlplane.core import tree
from controlplane.core.compile import connector_identity
from controlplane.core.compile.nodes import Node, Sink, Slot, Transform
from controlplane.core.model.answers.plans import LatePartition
from controlplane.core.model.past_attempts import Cost
from controlplane.core.model.states import KEYS, PAIRS, PARTS, State
from controlplane.operations.planning.snapshot import StoreSnapshot

MOST_REACHED = 5_000  # sources and all that is downstream of each


@dataclass(frozen=True, slots=True)
class Redone:
    """The tasks and partitions of one dataset or copy."""

    tasks: int
    partitions: int


def of_sources(facts: StoreSnapshot, names: Collection[str]) -> list[LatePartition]:
    """The first sources among `names`, in order of names, within `MOST_REACHED`. Only datasets
    and copies among `names` are counted."""
    nodes = facts.desired.nodes
    sources = sorted(name for name in names if nodes[name].is_source and not nodes[name].output)
    if not sources:
        return []
    past_costs = facts.tx.past_attempts.costs(facts.branch, sorted(names))
    shown: list[LatePartition] = []
    room = MOST_REACHED
    for name in sources:
        reached = facts.desired.graph.downstream([name]) & set(names)
        room -= 1 + len(reached)
        if room < 0:
            break
        inputs_first = sorted(reached, key=lambda dataset: (facts.desired.depth[dataset], dataset))
        shown.append(_late(_Spreading(facts), name, inputs_first, past_costs))
    return shown


def _late(
    spreading: _Spreading, source: str, reached: Sequence[str], past_costs: Mapping[str, Cost]
) -> LatePartition:
    nodes = spreading.facts.desired.nodes
    redone: dict[str, Redone | None] = {source: spreading.start(source)}
    for name in reached:
        redone[name] = spreading.reach(nodes[name])
    counted = {name: work for name, work in redone.items() if work is not None}
    timed = {name: work for name, work in counted.items() if name in past_costs}
    seconds = sum(past_costs[name].seconds * work.tasks for name, work in timed.items())
    return {
        "source": source,
        "tasks": sum(work.tasks for work in counted.values()),
        "partitions": sum(work.partitions for work in counted.values()),
        "seconds": round(seconds, 1) if timed else None,
        "uncounted": sorted(redone.keys() - counted.keys()),
        "untimed": sorted(redone.keys() - timed.keys()),
    }


@dataclass(frozen=True, slots=True)
class _Spreading:
    """A late partition on its way from its source. `changed`: partitions by dataset, None where
    their number is not known."""

    facts: StoreSnapshot
    changed: dict[str, int | None] = field(default_factory=dict)

    def start(self, source: str) -> Redone:
        self.changed[source] = 1
        return Redone(1, 1)

    def reach(self, node: Node) -> Redone | None:
        """The work of a dataset or copy, of which all inputs in question are counted. None where it
        is not known."""
        work = self._work(node)
        self.changed[node.dataset] = None if work is None else work.partitions
        return work

    def _work(self, node: Node) -> Redone | None:
        if node.is_copy:
            return self._copied(node)
        if node.is_source:  # rows that the source leaves out
            return Redone(0, 1)
        if node.output:  # the second output of the tasks of its maker
            count = self.changed.get(node.maker)
            return None if count is None else Redone(0, count)
        touched = [slot for slot in node.slots if slot.dataset in self.changed]
        if any(self.changed[slot.dataset] is None or slot.awaits_types for slot in touched):
            return None
        work = self._computed(node, touched)
        return work if work is None or node.fold is None else self._folded(node, work)

    def _copied(self, node: Sink) -> Redone | None:
        count = self.changed[node.source]
        if count is None:
            return None
        return Redone(1 if connector_identity.is_whole(node.write) else count, count)

    def _computed(self, node: Transform, touched: Sequence[Slot]) -> Redone | None:
        if any(slot.mode == "all" for slot in touched):
            return self._all(node, touched)
        keyed = [slot for slot in touched if slot.mode == "by"]
        if not keyed:
            partitions = max(self._count(slot) for slot in touched)
            return Redone(partitions, partitions)
        keys = [self._keys(node, slot) for slot in keyed]
        known_keys = [count for count in keys if count is not None]
        if len(known_keys) < len(keys):
            return None
        beside = sum(self._count(slot) * self._hidden_tasks(node, slot) for slot in keyed)
        return Redone(max(known_keys) + beside, max(known_keys))

    def _all(self, node: Transform, touched: Sequence[Slot]) -> Redone | None:
        state = self._state(node)
        if any(slot.mode != "all" for slot in node.slots):
            return None if state is None else Redone(state.partitions, state.partitions)
        if state is None:
            return None if node.key else Redone(1, 1)
        parts = sum(self._count(slot) for slot in touched if slot.name + PARTS in state.inputs)
        return Redone(1 + parts, max(1, state.partitions))

    def _folded(self, node: Transform, work: Redone) -> Redone | None:
        state = self._state(node)
        if state is None:
            return None
        after = max(work.partitions, ceil((state.partitions + 1) / 2))
        return Redone(work.tasks - work.partitions + after, after)

    def _keys(self, node: Transform, slot: Slot) -> int | None:
        """The keys that the changed partitions of an input hold on an average. None before there is
        an index, or where neighbours are read as well."""
        state = self._state(node)
        index = None if state is None else state.inputs.get(slot.name + PAIRS)
        read = self.facts.state(slot.dataset)
        if state is None or index is None or read is None or slot.reach is not None:
            return None
        roots = [index.root, state.inputs[slot.name + KEYS].root]
        totals = tree.summaries(self.facts.nodes, roots)
        pairs, keys = (totals[root].totals.partitions for root in roots)
        return min(keys, ceil(self._count(slot) * pairs / max(1, read.partitions)))

    def _hidden_tasks(self, node: Transform, slot: Slot) -> int:
        """For each partition of an input by key: its index, and its part where parts are kept."""
        state = self._state(node)
        has_parts = state is not None and slot.name + PARTS in state.inputs
        return 2 if has_parts else 1

    def _count(self, slot: Slot) -> int:
        return self.changed[slot.dataset] or 0

    def _state(self, node: Transform) -> State | None:
        return self.facts.state(node.dataset)
