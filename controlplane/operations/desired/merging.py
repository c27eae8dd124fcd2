"""Merging one branch into another: texts merge three ways, in one transaction; data follows by the ordinary plan, which
finds what the branch has computed.

Does not belong here: how texts are merged (`core.merging`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.core.compile.nodes import Source as ReadNode
from controlplane.core.errors import CannotMerge, MergeConflict, Problem
from controlplane.core.merging.three_way import WHOLE, Conflict, Side, merge
from controlplane.core.model.answers import MergeAnswer
from controlplane.core.model.branches import MAIN
from controlplane.core.model.events import Event
from controlplane.core.model.revisions import Change, Revision
from controlplane.core.plan import Plan
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints, branches, drafts
from controlplane.operations.desired.blueprints import Edit
from controlplane.operations.desired.drafts import Source
from controlplane.operations.inspect import source_changes, views
from controlplane.operations.planning.pinned import is_pinned
from controlplane.operations.planning.snapshot import StoreSnapshot, plan_now
from controlplane.ports.store import Tx

WORDS = {
    "both-edited": "was edited in both branches",
    "edit-delete": "was edited in one branch and deleted in the other",
    "both-added": "was added in both branches",
    "not-mergeable": "was edited in both branches, and its components do not each begin a line",
}
HINT = "--take ours={0} or --take theirs={0}, or edit one of the two so that they agree"


@dataclass(frozen=True, slots=True)
class _Brought:
    """What the source brings: texts, dataflows that end, components that are taken."""

    sources: list[Source]
    ended: list[str]
    taken: list[str]
    uids: Mapping[str, Mapping[str, str]]


def merge_branch(
    ctx: Context, source: str, into: str = MAIN, *, dry_run: bool = False, take: Mapping[str, Side] | None = None
) -> MergeAnswer:
    """Bring what was edited in `source` into `into`. `take` settles conflicts, by `dataflow.component`.

    Raises MergeConflict with every conflict, InvalidBlueprint where the whole does not compile, CannotMerge for main
    and for a branch into itself, and NotFound.
    """
    if source == MAIN:
        raise CannotMerge("main is not merged into branches: those that follow it have what it has")
    if source == into:
        raise CannotMerge(f"{source} cannot be merged into itself: name another branch with --into")
    with ctx.store.read(ctx.namespace) as tx:
        branches.require_there(tx, source, into)
        brought, edit = _edit(ctx, tx, source, into, take or {})
        if dry_run:
            found = plan_now(tx, into, edit.flows, namespace=ctx.namespace, proposed=edit.proposed)
            return _answer(source, into, brought, edit, found, dry_run=True)
        seen = _texts(tx, source, into)
    with ctx.store.begin(ctx.namespace) as tx:
        if _texts(tx, source, into) != seen:  # somebody else has edited one of them meanwhile
            brought, edit = _edit(ctx, tx, source, into, take or {})
        _store(ctx, tx, source, into, brought, edit)
    with ctx.looking(into, edit.flows) as found:
        answer = _answer(source, into, brought, edit, found, dry_run=False)
    ctx.wake()
    return answer


def _texts(tx: Tx, source: str, into: str) -> tuple[object, ...]:
    """All that a merge follows from."""
    branches.require_there(tx, source, into)
    return tx.revisions(into), tx.revisions(source), tx.own_dataflows(source)


def _edit(ctx: Context, tx: Tx, source: str, into: str, take: Mapping[str, Side]) -> tuple[_Brought, Edit]:
    brought = _brought(tx, source, into, take)
    found = drafts.read(brought.sources)
    return brought, blueprints.edit_of(ctx, tx, into, found, brought.sources, uids=brought.uids, without=brought.ended)


def _brought(tx: Tx, source: str, into: str, take: Mapping[str, Side]) -> _Brought:
    """Raises MergeConflict."""
    ours, theirs = tx.revisions(into), tx.revisions(source)
    found = _Brought([], [], [], {flow: revision.uids for flow, revision in theirs.items()})
    problems: list[Problem] = []
    for flow, fork in sorted(tx.own_dataflows(source).items()):
        base = tx.revision(MAIN, flow, fork)
        mine, other = ours.get(flow), theirs.get(flow)
        if other is None:
            problems += _end(found, flow, base, mine, take)
        elif mine is None:
            found.sources.append(_source(other))
            found.taken.append(flow)
        else:
            problems += _merge(found, base, mine, other, take)
    if problems:
        raise MergeConflict(problems)
    return found


def _end(
    found: _Brought, flow: str, base: Revision | None, mine: Revision | None, take: Mapping[str, Side]
) -> list[Problem]:
    """A dataflow that was deleted in the source."""
    if mine is None:
        return []
    is_untouched = base is not None and mine.text == base.text
    if not is_untouched and flow not in take:
        conflict = Conflict(WHOLE, "edit-delete", base.text if base else None, mine.text, None)
        return [_problem(mine, conflict)]
    if is_untouched or take[flow] == "theirs":
        found.ended.append(flow)
    return []


def _merge(
    found: _Brought, base: Revision | None, mine: Revision, other: Revision, take: Mapping[str, Side]
) -> list[Problem]:
    flow = mine.dataflow
    of_flow = {name.partition(".")[2]: side for name, side in take.items() if name.partition(".")[0] == flow}
    merged = merge(base.text if base else "", mine.text, other.text, of_flow)
    if merged.conflicts:
        return [_problem(mine, conflict) for conflict in merged.conflicts]
    files = {**mine.files, **{p: t for p, t in other.files.items() if base is None or base.files.get(p) != t}}
    if (merged.text, files) != (mine.text, dict(mine.files)):
        name = other.file if merged.text == other.text else mine.file
        found.sources.append(Source(name, merged.text, files))
        found.taken.extend(f"{flow}.{component}" for component in merged.taken)
    return []


def _problem(mine: Revision, conflict: Conflict) -> Problem:
    side = f"{mine.dataflow}.{conflict.component}" if conflict.component else mine.dataflow  # as in `take`
    name = side if conflict.component else f"dataflow {side}"
    line = _line_of(mine.text, conflict.component)
    return Problem(mine.file, line, 1, "merge-conflict", f"{name} {WORDS[conflict.kind]}", HINT.format(side))


def _line_of(text: str, component: str) -> int:
    """Where a component stands, for people to look; 1 for the whole."""
    lines = text.splitlines()
    return next((n for n, line in enumerate(lines, 1) if component and line.strip() == f"{component}:"), 1)


def _source(revision: Revision) -> Source:
    return Source(revision.file, revision.text, revision.files)


def _store(ctx: Context, tx: Tx, source: str, into: str, brought: _Brought, edit: Edit) -> None:
    """All of it, or nothing. What the source had of its own is the same in both from now on."""
    branches.lengthen(tx, into)
    blueprints.commit(ctx, tx, edit, None)
    for flow in brought.ended:
        tx.delete_dataflow(into, flow)
    _bring_pins(tx, source, into, edit)
    flows = sorted(tx.own_dataflows(source))
    if into == MAIN and not is_pinned(tx, source):  # main as that sees it has none of the edits
        tx.share_dataflows(source, flows)
    before, after = None, {"from": source, "dataflows": flows}
    tx.put_change(
        Change(
            ctx.actor, ctx.request_id, "branch.merge", target=into, before=before, after=after, at=tx.now(), branch=into
        )
    )
    tx.put_events([Event("branch.merged", into, len(flows), {"from": source, "actor": ctx.actor}, branch=into)])


def _bring_pins(tx: Tx, source: str, into: str, edit: Edit) -> None:
    """Inferred schemas that the branch knows come along, so that nothing is inferred again."""
    reads = [
        d for d, node in edit.proposed.nodes.items() if isinstance(node, ReadNode) and d.split(".")[0] in edit.flows
    ]
    theirs, ours = tx.pinned_schemas(source, reads), tx.pinned_schemas(into, reads)
    for dataset, pin in theirs.items():
        if dataset not in ours or ours[dataset].settings != pin.settings:
            tx.pin_schema(into, dataset, pin)


def _answer(
    source: str, into: str, brought: _Brought, edit: Edit, found: tuple[Plan, StoreSnapshot], *, dry_run: bool
) -> MergeAnswer:
    whole, facts = found
    plan = facts.owned(whole)
    told = source_changes.of_plan(plan, facts, source_changes.ALL_SEEN)
    return {
        "source": source,
        "into": into,
        "dry_run": dry_run,
        "revisions": {revision.dataflow: revision.number for revision in edit.revisions},
        "ended": brought.ended,
        "taken": brought.taken,
        "plan": views.plan(into, plan, facts, told),
    }
