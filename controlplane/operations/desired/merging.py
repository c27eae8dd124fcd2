"""Merging one branch into another: texts merge three ways, in one transaction; data follows by the
ordinary plan, which adopts the results of the branch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.core.errors import BranchEnded, CannotMerge, InvalidBlueprint, NotFound
from controlplane.core.merging import identities
from controlplane.core.merging.text_merge import Conflict, Version, merge_dataflow
from controlplane.core.merging.three_way import WHOLE, Side
from controlplane.core.model.answers import MergeAnswer
from controlplane.core.model.branches import MAIN
from controlplane.core.model.events import Event
from controlplane.core.model.revisions import Revision
from controlplane.core.plan import Plan
from controlplane.operations.change_audit import note_change
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints, branches, conflicts, readiness
from controlplane.operations.desired.compile_edit import CompiledEdit, edit_of
from controlplane.operations.desired.drafts import DraftSet, SentBlueprint
from controlplane.operations.inspect import json_views, source_changes
from controlplane.operations.planning.pinned import is_pinned
from controlplane.operations.planning.snapshot import StoreSnapshot, plan_now
from controlplane.ports.store import Tx


@dataclass(frozen=True, slots=True)
class _Brought:
    """What the source brings: texts, dataflows that end, components that are taken."""

    sources: list[SentBlueprint]
    ended: list[str]
    taken: list[str]
    uids: dict[str, Mapping[str, str]]
    conflicts: list[conflicts.ConflictSides]


def merge_branch(
    ctx: Context,
    source: str,
    into: str = MAIN,
    *,
    dry_run: bool = False,
    take: Mapping[str, Side] | None = None,
    when_ready: bool = False,
) -> MergeAnswer:
    """Bring the edits of `source` into `into`. `take` settles conflicts, by `dataflow.component`.
    `when_ready`: only if the merge leaves nothing to compute, which a protected `into` always
    requires.

    Raises MergeConflict with every conflict, MergeNotReady, InvalidBlueprint where the merged texts
    do not compile, BranchEnded if one of the two is deleted meanwhile, StaleRevision if a
    concurrent edit was first, CannotMerge for main and for a branch into itself, and NotFound.
    """
    if source == MAIN:
        raise CannotMerge("main is not merged into branches: those that follow it have what it has")
    if source == into:
        raise CannotMerge(f"{source} cannot be merged into itself: name another branch with --into")
    with ctx.read() as tx:
        branches.require_there(tx, source, into)
        brought, edit = _edit(ctx, tx, source, into, take or {})
        if dry_run:
            planned = plan_now(
                tx, into, edit.flows, namespace=ctx.namespace, proposed=edit.proposed
            )
            return _answer(ctx, source, into, brought, edit, planned, dry_run=True)
        texts = _texts(tx, source, into)
    with ctx.begin() as tx:
        _hold(tx, source, into)
        if _texts(tx, source, into) != texts:  # a concurrent edit of one of them
            brought, edit = _edit(ctx, tx, source, into, take or {})
        forces = tx.blueprints.forces(into)
        _bring_pins(tx, source, into, edit)
        _bring_forces(tx, source, into, edit)
        if when_ready or tx.branches.is_protected(into):
            readiness.require(tx, ctx.namespace, source, edit, forces)
        _store(ctx, tx, source, into, brought, edit)
    with ctx.read_plan(into, edit.flows) as planned:
        answer = _answer(ctx, source, into, brought, edit, planned, dry_run=False)
    ctx.wake()
    return answer


def _hold(tx: Tx, *names: str) -> None:
    """In one order, so that two merges into each other do not wait for each other. Raises
    BranchEnded."""
    for name in sorted(names):
        try:
            if name != MAIN:
                tx.branches.hold(name)
        except NotFound:
            raise BranchEnded(name) from None


def _texts(tx: Tx, source: str, into: str) -> tuple[object, ...]:
    """All that a merge follows from."""
    return (
        tx.blueprints.revisions(into),
        tx.blueprints.revisions(source),
        tx.branches.own_dataflows(source),
        tx.branches.own_dataflows(into),
    )


def _edit(
    ctx: Context, tx: Tx, source: str, into: str, take: Mapping[str, Side]
) -> tuple[_Brought, CompiledEdit]:
    brought = _brought(tx, source, into, take)
    draft_set = DraftSet.of(brought.sources)
    return brought, edit_of(ctx, tx, into, draft_set, uids=brought.uids, without=brought.ended)


def _brought(tx: Tx, source: str, into: str, take: Mapping[str, Side]) -> _Brought:
    """Raises MergeConflict."""
    ours, theirs = tx.blueprints.revisions(into), tx.blueprints.revisions(source)
    merged = _Brought([], [], [], {}, [])
    for flow in sorted(tx.branches.own_dataflows(source)):
        base = _base(tx, source, into, flow)
        mine, other = ours.get(flow), theirs.get(flow)
        if mine is not None and other is not None:
            _merge(merged, base, mine, other, take)
        elif mine is not None or other is not None:
            _of_one(merged, flow, base, mine, other, take)
    if merged.conflicts:
        raise conflicts.error(merged.conflicts)
    return merged


def _base(tx: Tx, source: str, into: str, flow: str) -> Revision | None:
    """The newest text that both come from; None if they have none in common."""
    fork = tx.branches.own_dataflows(source)[flow]
    last = tx.blueprints.last_number(into, flow)
    mains_last = last if into == MAIN else tx.branches.own_dataflows(into).get(flow, last)
    # After a merge both have the same, and the source's fork stays
    if into != MAIN or is_pinned(tx, source):
        since = fork if into == MAIN else mains_last
        mine = [tx.blueprints.revision(into, flow, n) for n in range(since + 1, last + 1)]
        for number in range(tx.blueprints.last_number(source, flow), fork, -1):
            other = tx.blueprints.revision(source, flow, number)
            if other is not None and any(
                revision is not None and _says_same(revision, other) for revision in mine
            ):
                return other
    # A pinned branch may have an older one of main's
    return tx.blueprints.revision(MAIN, flow, min(fork, mains_last))


def _says_same(revision: Revision, other: Revision) -> bool:
    return (revision.text, revision.files, revision.uids) == (other.text, other.files, other.uids)


def _of_one(
    merged: _Brought,
    flow: str,
    base: Revision | None,
    mine: Revision | None,
    other: Revision | None,
    take: Mapping[str, Side],
) -> None:
    """A dataflow that only one of the two has: it is new, or was deleted in the other one."""
    left = mine or other
    assert left is not None
    is_untouched = base is not None and _says_same(left, base)
    side = take.get(flow)
    if base is not None and not is_untouched and side is None:
        texts = [
            None if revision is None else Version(1, 1, revision.text)
            for revision in (base, mine, other)
        ]
        merged.conflicts.append(
            conflicts.ConflictSides(Conflict(WHOLE, "edit_delete", *texts), base, mine, other)
        )
        return
    is_theirs = (
        side == "theirs"
        if base is not None and not is_untouched
        else mine is None or base is not None
    )
    if mine is not None and is_theirs:
        merged.ended.append(flow)
    if mine is None and is_theirs and other is not None and not is_untouched:
        merged.sources.append(SentBlueprint(other.file, other.text, other.files))
        merged.uids[flow] = other.uids
        merged.taken.append(flow)


def _merge(
    brought: _Brought,
    base: Revision | None,
    mine: Revision,
    other: Revision,
    take: Mapping[str, Side],
) -> None:
    flow = mine.dataflow
    of_flow = {
        name.partition(".")[2]: side
        for name, side in take.items()
        if name.partition(".")[0] == flow
    }
    merged = merge_dataflow(base, mine, other, of_flow)
    if merged.conflicts:
        brought.conflicts.extend(
            conflicts.ConflictSides(conflict, base, mine, other) for conflict in merged.conflicts
        )
        return
    is_raised = identities.is_raised(mine.uids, merged.uids)
    if is_raised or (merged.text, dict(merged.files)) != (mine.text, dict(mine.files)):
        # The other's may be a checkout that is gone
        brought.sources.append(SentBlueprint(mine.file, merged.text, merged.files))
        brought.uids[flow] = merged.uids
        brought.taken.extend(f"{flow}.{component}" for component in merged.taken)


def _store(
    ctx: Context, tx: Tx, source: str, into: str, brought: _Brought, edit: CompiledEdit
) -> None:
    """All of it, or nothing. What the source had of its own is the same in both from now on."""
    branches.lengthen(tx, into)
    blueprints.commit(ctx, tx, edit, None)
    for flow in brought.ended:
        tx.blueprints.delete_dataflow(into, flow)
    flows = sorted(tx.branches.own_dataflows(source))
    if into != MAIN:
        _share_texts(ctx, tx, source, into, flows)
    elif not is_pinned(tx, source):  # main as that sees it has none of the edits
        tx.branches.share_dataflows(source, flows)
    before, after = None, {"from": source, "dataflows": flows}
    note_change(ctx, tx, "branch.merge", into, before=before, after=after, branch=into)
    tx.events.put(
        [
            Event(
                "branch.merged", into, len(flows), {"from": source, "actor": ctx.actor}, branch=into
            )
        ]
    )


def _share_texts(ctx: Context, tx: Tx, source: str, into: str, flows: list[str]) -> None:
    """The source gets the merged texts: a next merge compares with these. It keeps its own where
    they do not compile beside its other texts."""
    merged = tx.blueprints.revisions(into, flows)
    sources = [
        SentBlueprint(revision.file, revision.text, revision.files) for revision in merged.values()
    ]
    uids = {flow: revision.uids for flow, revision in merged.items()}
    try:
        edit = edit_of(ctx, tx, source, DraftSet.of(sources), uids=uids)
    except InvalidBlueprint:
        return
    blueprints.commit(ctx, tx, edit, None)


def _bring_pins(tx: Tx, source: str, into: str, edit: CompiledEdit) -> None:
    """Inferred schemas that the branch knows come along, so that nothing is inferred again."""
    reads = [
        d
        for d, node in edit.proposed.nodes.items()
        if node.is_source and d.split(".")[0] in edit.flows
    ]
    theirs, ours = tx.states.pinned_schemas(source, reads), tx.states.pinned_schemas(into, reads)
    for dataset, pin in theirs.items():
        if dataset not in ours or ours[dataset].settings != pin.settings:
            tx.states.pin_schema(into, dataset, pin)


def _bring_forces(tx: Tx, source: str, into: str, edit: CompiledEdit) -> None:
    """Copy forced recomputations, so that the results that the branch recomputed are taken over."""
    forced = tx.blueprints.forces(source)
    tx.blueprints.bring_forces(
        into, {dataset: n for dataset, n in forced.items() if dataset in edit.proposed.nodes}
    )


def _answer(
    ctx: Context,
    source: str,
    into: str,
    brought: _Brought,
    edit: CompiledEdit,
    planned: tuple[Plan, StoreSnapshot],
    *,
    dry_run: bool,
) -> MergeAnswer:
    full_plan, facts = planned
    plan = facts.owned(full_plan)
    sources = source_changes.of_plan(ctx, plan, facts, source_changes.ALL_SEEN)
    return {
        "source": source,
        "into": into,
        "dry_run": dry_run,
        "revisions": {revision.dataflow: revision.number for revision in edit.revisions},
        "ended": brought.ended,
        "taken": brought.taken,
        "plan": json_views.plan(ctx, into, plan, facts, sources),
    }
