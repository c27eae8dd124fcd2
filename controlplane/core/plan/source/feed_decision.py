"""Deciding about read components of feeds: the offered root becomes the state as it is, and nothing
is computed.

Partitions, fragments and columns are the producer's. The listing of such a component describes the
feed; its root is that of the producer's tree (`operations.feeds.follow`).
"""

from __future__ import annotations

from dataclasses import replace

from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Source
from controlplane.core.model.feeds import BREACH
from controlplane.core.model.memos import known_schema_in
from controlplane.core.model.sources import Listing
from controlplane.core.model.states import LOST, Cause, Consumed, State
from controlplane.core.plan import lookups, salts
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import Because, Commit, Decision, Item, Planning, next_state
from controlplane.core.plan.work_keys import Keys, listed
from dataplane.contract.identity import schema_id
from dataplane.contract.schemas import Schema

OBJECTS = "objects"


def decide(planning: Planning, node: Source) -> Deciding[Decision]:
    listing, state = planning.world.listing(node.listing), planning.state(node.dataset)
    if listing is None or listing.root is None:
        return _unknown(node, listing)
    key = ids.feed_columns_key(node.listing)
    memos = yield from lookups.memos([key])
    schema = known_schema_in(memos[key])
    consumed = Consumed("", listing.root, schema_id(schema))
    if state is not None and state.logic == LOST:
        lost = yield from _lost(planning, listing.root)
        if lost:
            reason = "waits for files that were lost: they are taken from the feed again"
            return Decision(node.dataset, "stale", reason=reason, pending=listed(lost))
    if state is not None and _is_current(planning, node, state, consumed):
        decision = Decision(node.dataset, "up_to_date")
    else:
        decision = yield from _adopted(planning, node, state, listing.root, consumed, schema)
    if listing.error is None:
        return decision
    # The root offered before stays, and the error is reported.
    if listing.error["condition"] == BREACH:
        return replace(decision, status="waiting", reason=listing.error["message"])
    return replace(
        decision, status="failed", reason="the feed cannot be followed", error=listing.error
    )


def _unknown(node: Source, listing: Listing | None) -> Decision:
    if listing is not None and listing.error is not None:
        return Decision(
            node.dataset, "failed", reason="the feed cannot be followed", error=listing.error
        )
    reason = "waits for what the feed offers"
    item = Item(
        node.dataset, "adopt", "missing", certain=False, tasks=0, keys=Keys(), reason=reason
    )
    return Decision(node.dataset, "stale", items=(item,), reason=reason, pending=Keys())


def _lost(planning: Planning, root: bytes) -> Deciding[list[str]]:
    """The partitions of the offered root whose files are missing."""
    entries = list(tree.scan(planning.nodes, root))
    there = yield from lookups.fragments([entry.fragment for entry in entries])
    return [
        entry.key
        for entry in entries
        if entry.fragment not in there or there[entry.fragment].status != "stored"
    ]


def _is_current(planning: Planning, node: Source, state: State, consumed: Consumed) -> bool:
    is_of_code = state.lineage == node.lineage and state.logic == node.logic
    return (
        is_of_code and state.inputs.get(OBJECTS) == consumed and salts.is_of(planning, node, state)
    )


def _adopted(
    planning: Planning,
    node: Source,
    state: State | None,
    root: bytes,
    consumed: Consumed,
    schema: Schema,
) -> Deciding[Decision]:
    before = state.root if state is not None else tree.EMPTY_ROOT
    yield from lookups.nodes([(root, ()), (before, ())])
    [changes] = yield from lookups.diffs([(before, root)])
    entered = listed([change.key for change in changes if change.after is not None])
    removed = listed([change.key for change in changes if change.after is None])
    cut = {node.dataset: root} | salts.cut(planning, node)
    cause = _cause(planning, node, state)
    after = next_state(
        planning, node, root, schema, inputs={OBJECTS: consumed}, cut=cut, cause=cause
    )
    because = (Because(node.location, None if state is None else before, root),)
    items = []
    if entered.count:
        items.append(
            Item(node.dataset, "adopt", cause, certain=True, tasks=0, keys=entered, because=because)
        )
    if removed.count:
        items.append(
            Item(
                node.dataset,
                "remove",
                "removed",
                certain=True,
                tasks=0,
                keys=removed,
                because=because,
            )
        )
    return Decision(node.dataset, "stale", Commit(after, None, entered.count), tuple(items))


def _cause(planning: Planning, node: Source, state: State | None) -> Cause:
    if state is None:
        return "missing"
    if state.cause == "rollback":
        return "resume"
    if state.logic != node.logic:
        return "lost" if state.logic == LOST else "logic"
    return salts.cause(planning, node, state) or "input"
