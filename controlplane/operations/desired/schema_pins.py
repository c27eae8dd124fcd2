"""Inferred schemas that an operator takes back: the next listing counts as the first one.

A component of an earlier edition moves to the newest one: columns that the newest edition reads
otherwise are inferred again, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from controlplane.core.compile import connector_identity
from controlplane.core.compile.nodes import Desired, Node
from controlplane.core.errors import NothingPinned
from controlplane.core.model.pins import TAKEN_BACK
from controlplane.core.model.revisions import NEWEST_EDITION, Revision, edition_of, in_edition
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints, compile_edit
from controlplane.ports.store import Tx


def take_back(tx: Tx, branch: str, nodes: Desired, chosen: Iterable[str]) -> list[str]:
    """Release the inferred schemas of the chosen datasets, and return the names of these. Raises
    NothingPinned where none has one."""
    sources = [name for name in chosen if _is_inferred(nodes, name)]
    pins = tx.states.pinned_schemas(branch, sources)
    for dataset, pin in sorted(pins.items()):
        tx.states.pin_schema(branch, dataset, pin._replace(settings=TAKEN_BACK))
        tx.states.drop_building(branch, dataset)
    tx.states.drop_unfinished(branch, sorted(pins))
    if not pins:
        message = "none of these datasets has an inferred schema: only read components without `schema:` have one"
        raise NothingPinned(f"{message}, once they have been read")
    return sorted(pins)


def raise_editions(
    ctx: Context, tx: Tx, branch: str, nodes: Desired, datasets: Iterable[str]
) -> bool:
    """Revisions of the same text in which these components are of the newest edition. Whether there
    is one."""
    names: dict[str, list[str]] = {}
    for dataset in datasets:
        flow, _, name = dataset.partition(".")
        if _is_earlier(nodes.nodes[dataset]):
            names.setdefault(flow, []).append(name)
    if names:
        live = tx.blueprints.revisions(branch)
        raised = [
            _raised(ctx, tx, branch, live[flow], some) for flow, some in sorted(names.items())
        ]
        blueprints.commit(
            ctx, tx, compile_edit.edit_over(ctx, branch, live, raised), None, "refresh"
        )
    return bool(names)


def _is_earlier(node: Node) -> bool:
    """Whether files are read otherwise by a component of the newest edition."""
    if not node.is_source or not connector_identity.is_files(node.read):
        return False
    return node.read.hive_partitioning is None and edition_of(node.uid) < NEWEST_EDITION


def _raised(ctx: Context, tx: Tx, branch: str, live: Revision, names: Iterable[str]) -> Revision:
    uids = {
        **live.uids,
        **{name: in_edition(live.uids.get(name, name), NEWEST_EDITION) for name in names},
    }
    number = tx.blueprints.last_number(branch, live.dataflow) + 1
    next_one = replace(live, branch=branch, number=number, uids=uids, at=tx.now())
    return replace(next_one, actor=ctx.actor, request_id=ctx.request_id)


def _is_inferred(nodes: Desired, dataset: str) -> bool:
    node = nodes.nodes[dataset]
    return node.is_source and node.declared is None and not node.output and node.feed is None
