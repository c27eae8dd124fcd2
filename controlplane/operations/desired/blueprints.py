"""Desired state: validate, apply, read and delete dataflows. A set of blueprints is accepted whole or refused whole."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NoReturn, TypeAlias

from controlplane.core.blueprint import Draft
from controlplane.core.compile import compiler, nodes
from controlplane.core.compile.names import references
from controlplane.core.compile.nodes import Desired, NodeText
from controlplane.core.compile.warnings import notices
from controlplane.core.errors import Checked, InvalidBlueprint, NotFound, Problem, StaleRevision
from controlplane.core.examples.problems import problems as problems_of_tests
from controlplane.core.merging import identities
from controlplane.core.merging.spans import definitions
from controlplane.core.model import packs
from controlplane.core.model.answers import ApplyAnswer, DataflowAnswer, DataflowEntry, DeleteAnswer, PlanBasis
from controlplane.core.model.branches import MAIN
from controlplane.core.model.events import Event
from controlplane.core.model.revisions import NEWEST_EDITION, Revision, in_edition
from controlplane.core.plan import Plan
from controlplane.core.review import AnalyseRequest
from controlplane.operations.change_audit import note_change
from controlplane.operations.context import Context
from controlplane.operations.desired import branches, drafts, feeds, holds, permits, pins, renaming
from controlplane.operations.desired.drafts import Source as Source
from controlplane.operations.inspect import plan_basis, source_changes, views
from controlplane.operations.planning import plan_listings, review
from controlplane.operations.planning.pinned import is_pinned
from controlplane.operations.planning.plan_listings import PlanListings
from controlplane.operations.planning.snapshot import StoreSnapshot, compile_cached, compile_live, plan_now
from controlplane.operations.work import listings
from controlplane.ports.store import Tx

Action: TypeAlias = Literal["apply", "revert", "refresh"]
NO_UIDS: Mapping[str, Mapping[str, str]] = MappingProxyType({})


def validate(sources: Sequence[Source]) -> Checked:
    """Validate a set of blueprints that stands alone, without a store."""
    try:
        return Checked(notices=notices(tested(sources)))
    except InvalidBlueprint as e:
        return Checked(problems=e.problems)


def tested(sources: Sequence[Source]) -> Desired:
    """As `compiled`, but problems of tests count, too: those of all components that are sound otherwise."""
    read_drafts = drafts.read(sources)
    revisions, parsed = _looked_at(read_drafts, sources), _by_flow(read_drafts)
    try:
        desired = compile_cached(revisions, "default", parsed)
    except InvalidBlueprint as e:
        sound = compiler.attempt(revisions, parsed=parsed).desired
        raise InvalidBlueprint(tuple(sorted({*e.problems, *problems_of_tests(sound)}))) from None
    if wrong := problems_of_tests(desired):
        raise InvalidBlueprint(wrong)
    return desired


def compiled(sources: Sequence[Source]) -> Desired:
    """The desired state of a set of blueprints that stands alone. Raises InvalidBlueprint with every problem."""
    read_drafts = drafts.read(sources)
    return compile_cached(_looked_at(read_drafts, sources), "default", _by_flow(read_drafts))


def attempted(sources: Sequence[Source]) -> Desired:
    """As `compiled`, as far as it can be: components with problems are left out, and so are those that read them."""
    read_drafts = drafts.read(sources)
    return compiler.attempt(_looked_at(read_drafts, sources), parsed=_by_flow(read_drafts)).desired


def beside(stored: Iterable[DataflowAnswer], sources: Sequence[Source]) -> Desired:
    """The stored dataflows, as they were answered, with `sources` in place of their own. Raises InvalidBlueprint for
    problems of `sources`. A stored dataflow that does not compile is left out."""
    read_drafts = drafts.read(sources)
    live = {answer["name"]: _answered(answer) for answer in stored}
    edited = {revision.dataflow: revision for revision in _looked_at(read_drafts, sources)}
    return _proposed(live, {**live, **edited}, "default", read_drafts)


def _answered(answer: DataflowAnswer) -> Revision:
    source = Source(answer["file"], answer["text"], answer["files"])
    return _revision(answer["name"], source, answer["branch"], answer["revision"], {})


def _by_flow(read_drafts: Sequence[Draft]) -> dict[str, Draft]:
    return {d.dataflow: d for d in read_drafts}


def _looked_at(read_drafts: Sequence[Draft], sources: Sequence[Source]) -> list[Revision]:
    """Revisions of a set that is not stored."""
    return [_revision(d.dataflow, s, MAIN, 1, {}) for d, s in zip(read_drafts, sources, strict=True)]


def _revision(
    dataflow: str,
    source: Source,
    branch: str,
    number: int,
    uids: Mapping[str, str],
    actor: str = "",
    request_id: str = "",
    at: float = 0.0,
) -> Revision:
    return Revision(
        branch=branch,
        dataflow=dataflow,
        number=number,
        text=source.text,
        files=dict(source.files),
        file=source.name,
        uids=dict(uids),
        actor=actor,
        request_id=request_id,
        at=at,
    )


def apply(
    ctx: Context,
    branch: str,
    sources: Sequence[Source],
    *,
    dry_run: bool = False,
    expected: int | None = None,
    unseen: Mapping[str, str] = source_changes.ALL_SEEN,
    unanswered: str = "",
    looked: str = "",
    action: Action = "apply",
) -> ApplyAnswer:
    """Store new revisions of the dataflows in `sources` and answer what will run. Equal texts make no new revision.
    `unseen`: why a source was not listed for it. `unanswered`: why Spark has not answered every analysis request.
    `looked`: the plan id under which sources were listed for it. `action`: its name in the audit.

    Raises InvalidBlueprint with every problem, StaleRevision if `expected` is not the (single) dataflow's revision.
    """
    read_drafts = drafts.read(sources)
    with ctx.store.read(ctx.namespace) as tx:
        edit = edit_of(ctx, tx, branch, read_drafts, sources, is_look=dry_run)
        if dry_run:
            if expected is not None:
                _check_expected(edit, expected)
            pins.check(tx, edit.live, edit.revisions, edit.proposed)
            plan, facts = plan_now(
                tx,
                branch,
                edit.flows,
                namespace=ctx.namespace,
                proposed=edit.proposed,
                looked=edit.looked(tx, looked, edit.flows),
            )
            planned = edit.answer(plan, facts, unseen, unanswered)
            planned["plan"]["basis"] = _basis(edit, sources, edit.flows, plan, facts, looked)
            return planned
    with ctx.store.begin(ctx.namespace) as tx:
        branches.require_editable(ctx, tx, branch)
        if tx.blueprints.revisions(branch) != edit.live:  # a concurrent apply came first
            edit = edit_of(ctx, tx, branch, read_drafts, sources)
        commit(ctx, tx, edit, expected, action)
    with ctx.looking(branch, edit.flows) as (full_plan, facts):
        answer = edit.answer(facts.owned(full_plan), facts, unseen)
    ctx.wake()
    return answer


def problems(ctx: Context, branch: str, sources: Sequence[Source]) -> tuple[Problem, ...]:
    """Problems of these texts, compiled together with the stored ones. Plans nothing and stores nothing."""
    read_drafts = drafts.read(sources)
    try:
        with ctx.store.read(ctx.namespace) as tx:
            edit_of(ctx, tx, branch, read_drafts, sources)
    except InvalidBlueprint as error:
        return error.problems
    return ()


def carry_out(ctx: Context, branch: str, sources: Sequence[Source], planned: PlanBasis) -> ApplyAnswer:
    """Store the blueprints of a plan if its basis still holds, so that exactly the planned work runs. A plan of stored
    blueprints stores nothing. Raises PlanMoved, and as `apply`."""
    read_drafts = drafts.read(sources)
    with ctx.store.read(ctx.namespace) as tx:
        edit_of(ctx, tx, branch, read_drafts, sources)  # compiled here, the transaction that writes need not
    with ctx.store.begin(ctx.namespace) as tx:
        branches.require_editable(ctx, tx, branch)
        edit = edit_of(ctx, tx, branch, read_drafts, sources)
        flows = edit.flows or planned["dataflows"]
        listed = plan_listings.adopt(tx, planned.get("looked", ""), edit.sources(flows))
        plan, facts = plan_now(tx, branch, flows or None, namespace=ctx.namespace, proposed=edit.proposed)
        plan_basis.check(planned, _basis(edit, sources, flows, plan, facts))
        answer = edit.answer(plan, facts, source_changes.ALL_SEEN)
        commit(ctx, tx, edit, expected=None, listed=listed)
    ctx.wake()
    return answer


def _basis(
    edit: Edit, sources: Sequence[Source], flows: Sequence[str], plan: Plan, facts: StoreSnapshot, looked: str = ""
) -> PlanBasis:
    texts = [{"name": s.name, "text": s.text, "files": dict(s.files)} for s in sources]
    return plan_basis.of_plan(plan, facts, edit.live, flows, texts, looked)


def proposed_sources(ctx: Context, branch: str, sources: Sequence[Source]) -> list[nodes.Source]:
    """What these dataflows, as they would be, and their upstream read. Raises InvalidBlueprint."""
    read_drafts = drafts.read(sources)
    with ctx.store.read(ctx.namespace) as tx:
        edit = edit_of(ctx, tx, branch, read_drafts, sources)
    return edit.sources(edit.flows)


def questions(ctx: Context, branch: str, sources: Sequence[Source], looked: str = "") -> tuple[AnalyseRequest, ...]:
    """Column analyses that an edit needs from Spark, as far as the columns of its inputs are known: answers lead to
    further questions. Raises InvalidBlueprint."""
    read_drafts = drafts.read(sources)
    with ctx.store.read(ctx.namespace) as tx:
        edit = edit_of(ctx, tx, branch, read_drafts, sources, is_look=True)
        listed = edit.looked(tx, looked, edit.flows)
        return review.of_edit(tx, branch, edit.before, edit.proposed, looked=listed).requests


@dataclass(frozen=True, slots=True)
class Edit:
    """New revisions of some dataflows, and the desired state with them, compiled over the live one."""

    branch: str
    live: Mapping[str, Revision]
    revisions: list[Revision]
    before: Desired
    proposed: Desired

    @property
    def flows(self) -> list[str]:
        return [revision.dataflow for revision in self.revisions]

    def sources(self, flows: Sequence[str]) -> list[nodes.Source]:
        """What these dataflows and their upstream read; all of them where none is named."""
        return listings.sources(self.proposed, self.proposed.scope(flows) if flows else self.proposed.order)

    def looked(self, tx: Tx, plan: str, flows: Sequence[str]) -> PlanListings:
        return plan_listings.of_plan(tx, plan, self.sources(flows))

    def answer(self, plan: Plan, facts: StoreSnapshot, unseen: Mapping[str, str], unanswered: str = "") -> ApplyAnswer:
        numbers = {revision.dataflow: revision.number for revision in self.revisions}
        sources = source_changes.of_plan(plan, facts, unseen)
        edit_review = review.of_edit(facts.tx, self.branch, self.before, self.proposed, unanswered, facts.looked)
        return {"revisions": numbers, "plan": views.plan(self.branch, plan, facts, sources, edit_review)}


def edit_of(
    ctx: Context,
    tx: Tx,
    branch: str,
    read_drafts: Sequence[Draft],
    sources: Sequence[Source],
    *,
    uids: Mapping[str, Mapping[str, str]] = NO_UIDS,
    without: Collection[str] = (),
    is_look: bool = False,
) -> Edit:
    """Reads and compiles, so that the transaction that writes need not. Raises InvalidBlueprint.

    `uids`: those that components bring along, by dataflow. `without`: dataflows that end with the edit. `is_look`: it
    is not stored, and compiled several times, so new components get the same uids each time.
    """
    live = tx.blueprints.revisions(branch)
    permits.check(ctx, branch, read_drafts, _looked_at(read_drafts, sources), live)
    if any(d.problems for d in read_drafts):
        _refuse(live, _looked_at(read_drafts, sources), read_drafts, ctx.namespace)
    revisions = [
        _next(ctx, tx, branch, d, s, live=live, brought=uids.get(d.dataflow, {}), is_look=is_look)
        for d, s in zip(read_drafts, sources, strict=True)
    ]
    together = {**{f: r for f, r in live.items() if f not in without}, **{r.dataflow: r for r in revisions}}
    proposed = _proposed(live, together, ctx.namespace, read_drafts)
    before = compile_live(live.values(), ctx.namespace)
    if branch == MAIN:
        files = {flow: revision.file for flow, revision in live.items()}
        feeds.require_kept(tx, before.nodes, proposed.nodes, files)
    return Edit(branch, live, revisions, before, proposed)


def edit_over(ctx: Context, branch: str, live: Mapping[str, Revision], revisions: list[Revision]) -> Edit:
    """An edit by revisions that are made already, of texts that compile."""
    together = {**live, **{r.dataflow: r for r in revisions}}
    before, proposed = (compile_live(some.values(), ctx.namespace) for some in (live, together))
    return Edit(branch, live, revisions, before, proposed)


def _refuse(
    live: Mapping[str, Revision], revisions: Sequence[Revision], read_drafts: Sequence[Draft], namespace: str
) -> NoReturn:
    """Raise InvalidBlueprint with the problems of drafts, by themselves and together with the live dataflows."""
    broken = compile_live(live.values(), namespace).left_out
    others = [r for name, r in live.items() if name not in broken and name not in _by_flow(read_drafts)]
    compile_cached([*others, *revisions], namespace, _by_flow(read_drafts))
    raise InvalidBlueprint(tuple(sorted(p for d in read_drafts for p in d.problems)))


def commit(
    ctx: Context,
    tx: Tx,
    edit: Edit,
    expected: int | None,
    action: Action = "apply",
    listed: Collection[bytes] = (),
) -> None:
    """`listed`: listings that are new already. Raises InvalidBlueprint for pins, and StaleRevision."""
    pins.check(tx, edit.live, edit.revisions, edit.proposed)
    for revision in edit.revisions:
        _store(ctx, tx, revision, edit.live.get(revision.dataflow), expected, action)
        renaming.carry(tx, edit.live.get(revision.dataflow), revision)
    _end_demands(tx, edit.branch, edit.before, edit.proposed)
    holds.end_edited(tx, edit.branch, edit.before, edit.proposed)
    if not is_pinned(tx, edit.branch):
        listings.request_taken_up(tx, edit.before, edit.proposed, listed)


def _proposed(
    live: Mapping[str, Revision], together: Mapping[str, Revision], namespace: str, read_drafts: Sequence[Draft]
) -> Desired:
    """The desired state after an edit. Raises InvalidBlueprint for problems of the edit. A stored dataflow that does
    not compile is no problem of the edit, unless the edit reads it."""
    try:
        return compile_cached(together.values(), namespace, _by_flow(read_drafts))
    except InvalidBlueprint:
        broken = compile_live(live.values(), namespace).left_out.keys() - _by_flow(read_drafts).keys()
        if not broken:
            raise
    sound = [r for name, r in together.items() if name not in broken]
    return compile_cached(sound, namespace, _by_flow(read_drafts))


def _end_demands(tx: Tx, branch: str, before: Desired, after: Desired) -> None:
    """End the demands of components that were removed, or are paused from now on."""
    ended: list[str] = []
    for dataset, node in before.nodes.items():
        now = after.nodes.get(dataset)
        if now is None:
            tx.queue.drop_demands(branch, listings.demand_of(dataset))
            tx.queue.drop_demands(branch, packs.name_of(dataset))
        if now is None or (now.component.paused and not node.component.paused):
            tx.queue.drop_demands(branch, dataset)
            ended.append(dataset)
    tx.states.drop_unfinished(branch, ended)


def _check_expected(edit: Edit, expected: int) -> None:
    for revision in edit.revisions:
        number = edit.live[revision.dataflow].number if revision.dataflow in edit.live else 0
        if number != expected:
            raise StaleRevision(revision.dataflow, expected, number)


def _foreseen(branch: str, dataflow: str) -> Callable[[], str]:
    """Uids of nothing that is stored."""
    numbers = itertools.count()
    text = f"{branch}/{dataflow}"
    return lambda: in_edition(uuid.uuid5(uuid.NAMESPACE_OID, f"{text}/{next(numbers)}").hex, NEWEST_EDITION)


def _next(
    ctx: Context,
    tx: Tx,
    branch: str,
    draft: Draft,
    source: Source,
    live: Mapping[str, Revision],
    brought: Mapping[str, str],
    *,
    is_look: bool,
) -> Revision:
    """The revision that this text would be: the live one if nothing differs. `brought`: uids that components have."""
    before = live.get(draft.dataflow)
    is_same = before and (before.text, before.files, before.file) == (source.text, dict(source.files), source.name)
    if before and is_same and not identities.is_raised(before.uids, brought):
        return before
    components = draft.blueprint.components if draft.blueprint else ()
    uids = identities.assigned(
        [component.name for component in components],
        before.uids if before else {},
        tx.blueprints.uids(branch, draft.dataflow),
        renames=_renames(before, source),
        brought=brought,
        new=_foreseen(branch, draft.dataflow) if is_look else lambda: in_edition(uuid.uuid4().hex, NEWEST_EDITION),
    )
    number = tx.blueprints.last_number(branch, draft.dataflow) + 1
    return _revision(
        draft.dataflow,
        source,
        branch,
        number=number,
        uids=uids,
        actor=ctx.actor,
        request_id=ctx.request_id,
        at=tx.now(),
    )


def _renames(before: Revision | None, source: Source) -> dict[str, str]:
    """New names of components to old ones."""
    if before is None:
        return {}
    return identities.renames(definitions(before.text, before.files), definitions(source.text, source.files))


def _store(
    ctx: Context, tx: Tx, revision: Revision, before: Revision | None, expected: int | None, action: Action
) -> None:
    number = before.number if before else 0
    if expected is not None and expected != number:
        raise StaleRevision(revision.dataflow, expected, number)
    if before is revision:
        return
    tx.blueprints.put(revision, number)
    _audit(
        ctx,
        tx,
        revision.branch,
        action=action,
        target=revision.dataflow,
        before=before.number if before else None,
        after=revision.number,
    )
    body = {"revision": revision.number, "actor": ctx.actor}
    tx.events.put([Event("blueprint.applied", revision.dataflow, 1, body, branch=revision.branch)])


def _audit(ctx: Context, tx: Tx, branch: str, action: str, target: str, before: int | None, after: int | None) -> None:
    note_change(ctx, tx, action, target, before=before, after=after, branch=branch)


def dataflows(ctx: Context, branch: str) -> list[DataflowEntry]:
    with ctx.store.read(ctx.namespace) as tx:
        return [_summary(r) for _, r in sorted(tx.blueprints.revisions(branch).items())]


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
    with ctx.store.read(ctx.namespace) as tx:
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
    """Raises InvalidBlueprint if other dataflows read this one: it names each component that does."""
    desired = compile_live(live.values(), namespace)
    problems = [p for flow, text in desired.texts.items() if flow != name for p in _reads_of(name, text, desired)]
    if problems:
        raise InvalidBlueprint(tuple(sorted(problems)))


def _reads_of(name: str, text: NodeText, desired: Desired) -> Iterator[Problem]:
    """What this dataflow reads of the one that is to be deleted, each component where it says so."""
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
        yield Problem(at.file, at.line, at.column, "still-read", message, hint)


def delete(ctx: Context, branch: str, name: str, expected: int | None = None) -> DeleteAnswer:
    """End a dataflow's demand and pointers; data stays. Refused while others read its datasets."""
    with ctx.store.begin(ctx.namespace) as tx:
        branches.require_editable(ctx, tx, branch)
        live = tx.blueprints.revisions(branch)
        if name not in live:
            raise NotFound(f"there is no dataflow {name} in branch {branch}")
        if expected is not None and live[name].number != expected:
            raise StaleRevision(name, expected, live[name].number)
        _require_unread(live, name, ctx.namespace)
        if branch == MAIN:
            feeds.require_kept(tx, {f"{name}.{of}" for of in live[name].uids}, (), {name: live[name].file})
        tx.blueprints.delete_dataflow(branch, name)
        _audit(ctx, tx, branch, action="delete", target=name, before=live[name].number, after=None)
        tx.events.put([Event("blueprint.deleted", name, 1, {"actor": ctx.actor}, branch=branch)])
    ctx.wake()
    return {"deleted": name, "revision": live[name].number}
