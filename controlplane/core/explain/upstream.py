"""The upstream of a dataset, the source objects behind it, and why a fold reached a partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from controlplane.core import tree
from controlplane.core.compile import ordered_fold
from controlplane.core.compile.nodes import Desired, Transform
from controlplane.core.errors import CorruptNode
from controlplane.core.explain.steps import differs
from controlplane.core.model.answers import SourceOrigin
from controlplane.core.model.states import State
from controlplane.core.plan import Snapshot

SHOWN_OBJECTS = 20


def upstream(desired: Desired, dataset: str) -> Iterator[str]:
    """The dataset and everything it is computed from, nearest first, each once."""
    visited, queue = {dataset}, [dataset]
    while queue:
        current = queue.pop(0)
        yield current
        for above in _inputs(desired, current):
            if above not in visited:
                visited.add(above)
                queue.append(above)


def _inputs(desired: Desired, dataset: str) -> Sequence[str]:
    node = desired.nodes[dataset]
    return [node.source] if node.is_copy else [s.dataset for s in node.slots]


def sources(
    world: Snapshot, desired: Desired, dataset: str, partition: str | None = None
) -> list[SourceOrigin]:
    """Source objects behind a dataset; with a partition, those of that key where every step keeps
    partitions."""
    origins: list[SourceOrigin] = []
    for name in upstream(desired, dataset):
        node, state = desired.nodes[name], world.state(name)
        if not node.is_source or state is None:
            continue
        keys = [partition] if partition is not None and _reads_each(desired, dataset, name) else []
        # Of one that was rolled back, only its partitions are known
        listed = state.inputs.get("objects")
        there = tree.lookup(world.nodes, listed.root if listed else state.root, keys)
        parts = world.source_partitions({node.listing: list(there)})[node.listing]
        objects = [o["uri"] for p in parts.values() for o in p.objects][:SHOWN_OBJECTS]
        origins.append({"dataset": name, "location": node.location, "objects": list(objects)})
    return origins


def of_fold(world: Snapshot, desired: Desired, dataset: str, partition: str | None) -> str:
    """In words, why the newest change of a fold reached a partition whose inputs are the same; else
    nothing."""
    node = desired.nodes[dataset]
    if partition is None or node.fold is None:
        return ""
    steps = ((a, b) for a, b in pairwise(world.history(dataset)) if a.root != b.root)
    newer, older = next(steps, (None, None))
    if (
        newer is None
        or older is None
        or not differs(world.nodes, newer.root, older.root, partition)
    ):
        return ""
    if _is_input_changed(world, node, newer, older, partition):
        return ""
    before = tree.before(world.nodes, newer.root, partition)
    return ordered_fold.in_words(node.fold, partition, before.key if before else None)


def _is_input_changed(
    world: Snapshot, node: Transform, newer: State, older: State, partition: str
) -> bool:
    """True also where that is no longer known."""
    if not newer.inputs or not older.inputs:
        return True
    each = [s.name for s in node.slots if s.mode == "each" and s.name in older.inputs]
    pairs = [(newer.inputs[name].root, older.inputs[name].root) for name in each]
    try:
        return any(differs(world.nodes, now, then, partition) for now, then in pairs)
    except CorruptNode:  # a tree that only an older state has read may have been collected
        return True


def _reads_each(desired: Desired, dataset: str, source: str) -> bool:
    """Every step from the source to the dataset reads through `each`."""
    if dataset == source:
        return True
    node = desired.nodes[dataset]
    return any(s.mode == "each" and _reads_each(desired, s.dataset, source) for s in node.slots)
