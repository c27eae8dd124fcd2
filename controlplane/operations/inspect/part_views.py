"""Rendering of partitions on the way of data, and of source objects behind them; and the code of a
past state."""

from __future__ import annotations

from itertools import islice
from typing import Final

from controlplane.core import tree
from controlplane.core.compile.nodes import Desired, Source
from controlplane.core.lineage.partition_lineage import Keys, PartitionsAtRoot
from controlplane.core.model.answers.lineage import LineageObjects, LineagePartitions
from controlplane.core.model.states import State
from controlplane.operations.planning.snapshot import compile_live
from controlplane.ports.store import Tx

SHOWN_KEYS: Final = 100


def partitions(nodes: tree.NodeStore, parts: PartitionsAtRoot) -> LineagePartitions:
    keys, count = sorted(parts.keys or ())[:SHOWN_KEYS], len(parts.keys or ())
    if parts.keys is None:
        keys = [entry.key for entry in islice(tree.scan(nodes, parts.root), SHOWN_KEYS)]
        count = tree.totals(nodes, parts.root).partitions
    return {
        "dataset": parts.dataset,
        "mode": parts.mode,
        "generation": parts.state.generation if parts.state else None,
        "revision": parts.state.revision if parts.state else None,
        "partitions": keys,
        "count": count,
        "whole": parts.is_whole,
    }


def objects(tx: Tx, nodes: tree.NodeStore, node: Source, keys: Keys, root: bytes) -> LineageObjects:
    """Behind these partitions of a read component, or all. `root`: of the listing that they were
    read from."""
    if keys is None:
        then = {entry.key: entry for entry in islice(tree.scan(nodes, root), SHOWN_KEYS)}
        count = tree.totals(nodes, root).partitions
    else:
        then = tree.lookup(nodes, root, sorted(keys)[:SHOWN_KEYS])
        count = len(keys)
    now = tx.listings.partitions_of({node.listing: list(then)})[node.listing]
    same = [key for key, entry in then.items() if key in now and now[key].source == entry.fragment]
    uris = [o["uri"] for key in same for o in now[key].objects]
    return {
        "dataset": node.dataset,
        "location": node.location,
        "objects": uris[:SHOWN_KEYS],
        "partitions": count,
        "shown": len(then),
        "changed": len(then) - len(same),
    }


def earlier_code(tx: Tx, branch: str, state: State, namespace: str) -> Desired | None:
    """The code of a state's dataset as it was then, over other dataflows as they are now; None
    where it is no longer known."""
    flow = state.dataset.partition(".")[0]
    then = tx.blueprints.revision(state.branch, flow, state.revision)
    if then is None:
        return None
    earlier = compile_live({**tx.blueprints.revisions(branch), flow: then}.values(), namespace)
    return earlier if state.dataset in earlier.nodes else None


def code_of(
    tx: Tx, namespace: str, branch: str, present: Desired, state: State, notes: list[str]
) -> Desired:
    """The present code; or, for a state of other code, with its dataflow as of that revision.
    `notes` gets the inaccuracies."""
    node = present.nodes[state.dataset]
    if node.is_copy or node.has_made(state.logic):
        return present
    flow = state.dataset.partition(".")[0]
    earlier = earlier_code(tx, branch, state, namespace)
    if earlier is None:
        notes.append(
            f"the code of revision {state.revision} is not known any more: columns are told by present code"
        )
        return present
    notes.append(
        f"columns are told by revision {state.revision} of {flow}, over other dataflows as they are now"
    )
    return earlier
