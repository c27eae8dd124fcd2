"""Desired state: validate, apply, read and delete dataflows. A set of blueprints is accepted whole
or refused whole."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from controlplane.core.compile.compiler import Compilation
from controlplane.core.compile.name_lookup import references
from controlplane.core.compile.nodes import Desired, NodeText
from controlplane.core.compile.warnings import notices
from controlplane.core.errors import Checked, InvalidBlueprint, NotFound, Problem, StaleRevision
from controlplane.core.model import packs
from controlplane.core.model.answers import (
    ApplyAnswer,
    DataflowAnswer,
    DataflowEntry,
    DeleteAnswer,
    PlanBasis,
)
from controlplane.core.model.branches import MAIN
from controlplane.core.model.events import Event
from controlplane.core.model.revisions import Revision
from controlplane.core.review import AnalyseRequest
from controlplane.core.rights import may_see_part
from controlplane.operations.change_audit import note_change
from controlplane.operations.context import Context
from controlplane.operations.desired import branches, feeds, holds, pins, renaming
from controlplane.operations.desired.compile_edit import CompiledEdit, compile_with_tests, edit_of
from controlplane.operations.desired.drafts import DraftSet
from controlplane.operations.desired.drafts import SentBlueprint as SentBlueprint
from controlplane.operations.inspect import plan_basis, source_changes
from controlplane.operations.planning import plan_listings
from controlplane.operations.planning.pinned import is_pinned
from controlplane.operations.planning.snapshot import compile_live, plan_now
from controlplane.operations.work import listings, long_polls
from controlplane.ports.store import Tx

Action: TypeAlias = Literal["apply", "revert", "refresh"]


def validate(sources: Sequence[SentBlueprint]) -> Checked:
    """Validate a set of blueprints that stands alone, without a store."""
    return verdict(compile_with_tests(sources))


def verdict(attempt: Compilation) -> Checked:
    """Notices are those of a set without problems."""
    return Checked(attempt.problems, () if attempt.problems else notices(attempt.desired))


def apply(
    ctx: Context,
    branch: str,
    sources: Sequence[SentBlueprint],
    *,
    dry_run: bool = False,
    expected: int | None = None,
    unseen: Mapping[str, str] = source_changes.ALL_SEEN,
    unanswered: str = "",
    looked: str = "",
    modes: bool = False,
    action: Action = "apply",
) -> ApplyAnswer:
    """Store new revisions of the dataflows in `sources` and answer what will run. Equal texts make
    no new revision. `unseen`: why a source was not listed for it. `unanswered`: why Spark has not
    answered every analysis request. `looked`: the plan id under which sources were listed for it.
    `modes`: a dry run also answers how inputs are kept. `action`: its name in the audit.

    Raises InvalidBlueprint with every problem, StaleRevision if `expected` is not the (single)
    dataflow's revision.
    """
    draft_set = DraftSet.of(sources)
    with ctx.read() as tx:
        edit = edit_of(ctx, tx, branch, draft_set, is_look=dry_run)
        if dry_run:
            _check_expected(edit, expected)
            pins.check(tx, edit.live, edit.revisions, edit.proposed)
            listed = edit.looked(tx, looked)
            plan, facts = plan_now(
                tx,
                branch,
                edit.flows,
                namespace=ctx.namespace,
                proposed=edit.proposed,
                looked=listed,
            )
            planned = edit.answer(ctx, plan, facts, unseen, unanswered)
            planned["plan"]["basis"] = edit.basis(ctx, edit.flows, plan, facts, looked)
            if modes:
                from controlplane.operations.inspect import kept_inputs

                planned["plan"]["modes"] = kept_inputs.of_plan(ctx, plan, facts)
            return planned
    with ctx.begin() as tx:
        branches.require_editable(ctx, tx, branch)
        if tx.blueprints.revisions(branch) != edit.live:  # a concurrent apply came first
            edit = edit_of(ctx, tx, branch, draft_set)
        commit(ctx, tx, edit, expected, action)
    with ctx.read_plan(branch, edit.flows) as (full_plan, facts):
        answer = edit.answer(ctx, facts.owned(full_plan), facts, unseen)
    ctx.wake()
    return answer


def problems(ctx: Context, branch: str, sources: Sequence[SentBlueprint]) -> tuple[Problem, ...]:
    """Problems of these texts, compiled together with the stored ones. Plans nothing and stores
    nothing."""
    try:
        preview(ctx, branch, sources)
    except InvalidBlueprint as error:
        return error.problems
    return ()


def carry_out(
    ctx: Context, branch: str, sources: Sequence[SentBlueprint], planned: PlanBasis
) -> ApplyAnswer:
    """Store the blueprints of a plan if its basis still holds, so that exactly the planned work
    runs. A plan of stored blueprints stores nothing. Raises PlanMoved, and as `apply`."""
    draft_set = DraftSet.of(sources)
    with ctx.read() as tx:
        edit_of(ctx, tx, branch, draft_set)  # compiled here, the transaction that writes need not
    with ctx.begin() as tx:
        branches.require_editable(ctx, tx, branch)
        edit = edit_of(ctx, tx, branch, draft_set)
        flows = edit.flows or planned["dataflows"]
        listed = plan_listings.adopt(tx, planned.get("looked", ""), edit.sources(flows))
        plan, facts = plan_now(
            tx, branch, flows or None, namespace=ctx.namespace, proposed=edit.proposed
        )
        plan_basis.check(planned, edit.basis(ctx, flows, plan, facts))
        answer = edit.answer(ctx, plan, facts, source_changes.ALL_SEEN)
        commit(ctx, tx, edit, expected=None, listed=listed)
    ctx.wake()
    return answer


def preview(ctx: Context, branch: str, sources: Sequence[SentBlueprint]) -> CompiledEdit:
    """The edit that these texts would be. Raises InvalidBlueprint."""
    with ctx.read() as tx:
        return edit_of(ctx, tx, branch, DraftSet.of(sources), is_look=True)


def questions(
    ctx: Context, branch: str, sources: Sequence[SentBlueprint], looked: str = ""
) -> tuple[AnalyseRequest, ...]:
    """Column analyses that an edit needs from Spark, as far as the columns of its inputs are known:
    answers lead to further questions. Raises InvalidBlueprint."""
    with ctx.read() as tx:
        return edit_of(ctx, tx, branch, DraftSet.of(sources), is_look=True).analyses(tx, looked)


def commit(
    ctx: Context,
    tx: Tx,
    edit: CompiledEdit,
    expected: int | None,
    action: Action = "apply",
    listed: Collection[bytes] = (),
) -> None:
    """`listed`: listings that are new already. Raises InvalidBlueprint for pins, and
    StaleRevision."""
    pins.check(tx, edit.live, edit.revisions, edit.proposed)
    _check_expected(edit, expected)
    for revision in edit.revisions:
        before = edit.live.get(revision.dataflow)
        if before is not revision:
            _store(ctx, tx, revision, before, action)
            renaming.carry(tx, before, revision)
    _end_demands(tx, edit.branch, edit.before, edit.proposed)
    holds.end_edited(tx, edit.branch, edit.before, edit.proposed)
    if not is_pinned(tx, edit.branch):
        listings.request_taken_up(tx, edit.before, edit.proposed, listed)


def _end_demands(tx: Tx, branch: str, before: Desired, after: Desired) -> None:
    """End the demands of components that were removed, or are paused from now on."""
    ended: list[str] = []
    for dataset, node in before.nodes.items():
        now = after.nodes.get(dataset)
        if now is None:
            tx.queue.drop_demands(branch, packs.name_of(dataset))
        if now is None or (now.component.paused and not node.component.paused):
            long_polls.withdraw(tx, branch, listings.demand_of(dataset))
            tx.queue.drop_demands(branch, dataset)
            ended.append(dataset)
    tx.states.drop_unfinished(branch, ended)


def _check_expected(edit: CompiledEdit, expected: int | None) -> None:
    if expected is None:
        return
    for flow in edit.flows:
        number = edit.live[flow].number if flow in edit.live else 0
        if number != expected:
            raise StaleRevision(flow, expected, number)


def _store(
    ctx: Context, tx: Tx, revision: Revision, before: Revision | None, action: Action
) -> None:
    number = before.number if before else None
    tx.blueprints.put(revision, number or 0)
    note_change(
        ctx,
        tx,
        action,
        revision.dataflow,
        before=number,
        after=revision.number,
        branch=revision.branch,
    )
    body = {"revision": revision.number, "actor": ctx.actor}
    tx.events.put([Event("blueprint.applied", revision.dataflow, 1, body, branch=revision.branch)])


def dataflows(ctx: Context, branch: str) -> list[DataflowEntry]:
    """Declared dataflows of which the actor sees a part, with the components that it sees."""
    with ctx.read() as tx:
        revisions = sorted(tx.blueprints.revisions(branch).items())
    visible = [revision for name, revision in revisions if may_see_part(ctx.principal, name)]
    return [
        {**_summary(revision), "components": _components(ctx, revision)} for revision in visible
    ]


def _components(ctx: Context, revision: Revision) -> list[str]:
    return [name for name in sorted(revision.uids) if ctx.sees(f"{revision.dataflow}.{name}")]


def _summary(revision: Revision) -> DataflowEntry:
    return {
        "name": revision.dataflow,
        "branch": revision.branch,
        "revision": revision.number,
        "actor": revision.actor,
        "at": revision.at,
        "components": sorted(revision.uids),
    }


def dataflow(ctx: Context, branch: str, name: str) -> DataflowAnswer:
    """One declared dataflow with its text. Raises NotFound."""
    with ctx.read() as tx:
        revision = tx.blueprints.revisions(branch, [name]).get(name)
    if revision is None:
        raise NotFound(f"there is no dataflow {name} in branch {branch}")
    return shown(revision)


def shown(revision: Revision) -> DataflowAnswer:
    """A revision with its texts."""
    return {
        **_summary(revision),
        "file": revision.file,
        "text": revision.text,
        "files": dict(revision.files),
    }


def _require_unread(live: Mapping[str, Revision], name: str, namespace: str) -> None:
    """Raises InvalidBlueprint if other dataflows read this one: it names each component that
    does."""
    desired = compile_live(live.values(), namespace)
    problems = [
        p
        for flow, text in desired.texts.items()
        if flow != name
        for p in _reads_of(name, text, desired)
    ]
    if problems:
        raise InvalidBlueprint(tuple(sorted(problems)))


def _reads_of(name: str, text: NodeText, desired: Desired) -> Iterator[Problem]:
    """What this dataflow reads of the one that is to be deleted, each component where it says
    so."""
    flow = text.blueprint.dataflow
    for component in text.blueprint.components:
        read = set(desired.graph.inputs(f"{flow}.{component.name}").values())
        own_datasets = sorted(dataset for dataset in read if dataset.partition(".")[0] == name)
        if not own_datasets:
            continue
        places = {r.name.lower(): r.place for r in references(text, component)}
        at = places.get(own_datasets[0], component.place)
        message = f"{flow}.{component.name} reads {' and '.join(own_datasets)}"
        hint = f"delete these first: the component {component.name}, or the dataflow {flow}"
        yield at.problem("still-read", message, hint)


def delete(ctx: Context, branch: str, name: str, expected: int | None = None) -> DeleteAnswer:
    """End a dataflow's demand and pointers; data stays. Refused while others read its datasets."""
    with ctx.begin() as tx:
        branches.require_editable(ctx, tx, branch)
        number = delete_within(ctx, tx, branch, name, expected)
    ctx.wake()
    return {"deleted": name, "revision": number}


def delete_within(ctx: Context, tx: Tx, branch: str, name: str, expected: int | None = None) -> int:
    """The same within a transaction; the number of the last revision. Raises NotFound,
    StaleRevision, and InvalidBlueprint while others read its datasets."""
    live = tx.blueprints.revisions(branch)
    if name not in live:
        raise NotFound(f"there is no dataflow {name} in branch {branch}")
    if expected is not None and live[name].number != expected:
        raise StaleRevision(name, expected, live[name].number)
    _require_unread(live, name, ctx.namespace)
    if branch == MAIN:
        feeds.require_kept(
            tx, {f"{name}.{of}" for of in live[name].uids}, (), {name: live[name].file}
        )
    tx.blueprints.delete_dataflow(branch, name)
    note_change(ctx, tx, "delete", name, before=live[name].number, after=None, branch=branch)
    tx.events.put([Event("blueprint.deleted", name, 1, {"actor": ctx.actor}, branch=branch)])
    return live[name].number
