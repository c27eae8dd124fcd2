"""One partition: its contents, the task and time that wrote it, its inputs, and its consumers.
Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from controlplane.core import tree
from controlplane.core.compile.nodes import Desired
from controlplane.core.errors import CorruptNode, NotFound
from controlplane.core.lineage import partition_lineage
from controlplane.core.lineage.partition_lineage import OBJECTS
from controlplane.core.model.addresses import Point
from controlplane.core.model.answers.explore import (
    PartitionAnswer,
    PartitionFile,
    PartitionInput,
    PartitionSince,
)
from controlplane.core.model.answers.lineage import LineageObjects, LineagePartitions
from controlplane.core.model.past_attempts import PastAttempt
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Fragment
from controlplane.core.tree import NodeCache
from controlplane.operations.context import Context
from controlplane.operations.inspect import json_views, part_views, work
from controlplane.operations.inspect.datasets import kept_states
from controlplane.operations.inspect.time_travel import state_of
from controlplane.operations.planning.snapshot import CACHE_BYTES, desired
from controlplane.ports.store import Tx

SEARCHED_STATES: Final = 200  # of an input, for the one that had a root
SINCE_STATES: Final = 200  # of the dataset, for the one that the partition came with
SHOWN_READERS: Final = 100


def partition(
    ctx: Context, branch: str, name: str, key: str, point: Point | None = None
) -> PartitionAnswer:
    """One partition in one generation, the newest by default. Raises NotFound, GenerationGone."""
    with ctx.read() as tx:
        state = state_of(tx, branch, name, point, sees=ctx.sees)
        nodes = NodeCache(CACHE_BYTES).over(tx.nodes)
        entry = tree.lookup(nodes, state.root, [key]).get(key)
        if entry is None:
            raise NotFound(
                f"dataset {name} has no partition {key!r} in generation {state.generation}"
            )
        present, notes = desired(tx, branch, namespace=ctx.namespace), list[str]()
        code = present
        if name in present.nodes:
            code = part_views.code_of(tx, ctx.namespace, branch, present, state, notes)
        fragment = tx.traces.fragments([entry.fragment]).get(entry.fragment)
        attempt = (
            None
            if fragment is None
            else tx.past_attempts.find([fragment.attempt]).get(fragment.attempt)
        )
        # Rows of another dataset that were adopted
        if attempt is not None and not ctx.sees(attempt.dataset):
            attempt = None
        inputs = _inputs(tx, nodes, code, branch, state, key)
        return {
            "dataset": name,
            "partition": key,
            "generation": state.generation,
            "rows": entry.content.rows,
            "bytes": None if fragment is None else sum(file["size"] for file in fragment.files),
            "fragment": entry.fragment.hex(),
            "files": [] if fragment is None else _files(fragment),
            "since": _since(tx, nodes, branch, state, entry),
            "attempt": None if attempt is None else work.entry(attempt),
            "task_seconds": None if attempt is None else task_seconds(attempt),
            "inputs": [shown_input for shown_input in inputs if ctx.sees(shown_input["dataset"])],
            "objects": list(_objects(tx, nodes, code, state, key)),
            "readers": list(_readers(ctx, tx, nodes, present, branch, name=name, entry=entry)),
            "notes": notes,
        }


def _files(fragment: Fragment) -> list[PartitionFile]:
    return [
        {"path": file["path"], "bytes": file["size"], "rows": file["rows"]}
        for file in fragment.files
    ]


def task_seconds(attempt: PastAttempt) -> float | None:
    """Each of its tasks took as long, as far as is known."""
    if attempt.seconds is None or not attempt.done:
        return None
    return round(attempt.seconds / attempt.done, 3)


def _since(
    tx: Tx, nodes: tree.NodeStore, branch: str, state: State, entry: tree.Entry
) -> PartitionSince:
    """The oldest of the states before, without a gap, in which the partition is as it is now."""
    earliest, is_exact = state, False
    for before in islice(kept_states(tx, branch, state.dataset, state.seq), SINCE_STATES):
        try:
            then = tree.lookup(nodes, before.root, [entry.key]).get(entry.key)
        except CorruptNode:  # a tree that only an older state has may have been collected
            break
        if then != entry:
            is_exact = True
            break
        earliest = before
    return {
        "generation": earliest.generation,
        "at": json_views.instant(earliest.at),
        "cause": earliest.cause,
        "is_exact": is_exact or earliest.seq == 1,
    }


def _inputs(
    tx: Tx, nodes: tree.NodeStore, code: Desired, branch: str, state: State, key: str
) -> Iterator[PartitionInput]:
    def state_of_root(dataset: str, root: bytes) -> State | None:
        states = islice(kept_states(tx, branch, dataset), SEARCHED_STATES)
        return next((input_state for input_state in states if input_state.root == root), None)

    for slot, parts in partition_lineage.inputs(code, nodes, state_of_root, state, key):
        yield {**part_views.partitions(nodes, parts), "slot": slot}


def _objects(
    tx: Tx, nodes: tree.NodeStore, code: Desired, state: State, key: str
) -> Iterator[LineageObjects]:
    node = code.nodes.get(state.dataset)
    if node is not None and node.is_source and OBJECTS in state.inputs:
        yield part_views.objects(tx, nodes, node, frozenset((key,)), state.inputs[OBJECTS].root)


def _readers(
    ctx: Context,
    tx: Tx,
    nodes: tree.NodeStore,
    code: Desired,
    branch: str,
    name: str,
    entry: tree.Entry,
) -> Iterator[LineagePartitions]:
    reading = [
        node.dataset
        for node in (code.nodes[other] for other in code.order)
        if ctx.sees(node.dataset) and any(slot.dataset == name for slot in node.slots)
    ]
    states = tx.states.newest(branch, reading[:SHOWN_READERS])
    for parts in partition_lineage.readers(code, nodes, states, name, entry):
        yield part_views.partitions(nodes, parts)
