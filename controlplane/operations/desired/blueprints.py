"""Desired state: validate, apply, read and delete dataflows. A set of blueprints is accepted whole or refused whole."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.core.blueprint import Blueprint, parse
from controlplane.core.compile import nodes
from controlplane.core.compile.nodes import Desired
from controlplane.core.compile.warnings import notices
from controlplane.core.errors import Checked, InvalidBlueprint, NotFound, Problem, StaleRevision
from controlplane.core.model import packs, revisions
from controlplane.core.model.answers import ApplyAnswer, DataflowAnswer, DataflowEntry, DeleteAnswer
from controlplane.core.model.events import Event
from controlplane.core.model.revisions import Change, Revision
from controlplane.core.plan import Plan
from controlplane.operations.context import Context
from controlplane.operations.desired import pins
from controlplane.operations.inspect import source_changes, views
from controlplane.operations.planning.snapshot import StoreSnapshot, compile_cached, compile_live, plan_now
from controlplane.operations.work import listings
from controlplane.ports.store import Tx

MAIN = revisions.MAIN


@dataclass(frozen=True, slots=True)
class Source:
    """A blueprint as it was sent. `name` is its file: an absolute one tells what relative paths are relative to."""

    name: str
    text: str
    files: Mapping[str, str]


def validate(sources: Sequence[Source]) -> Checked:
    """Of a set of blueprints that stands alone, without a store."""
    try:
        return Checked(notices=notices(compiled(sources)))
    except InvalidBlueprint as e:
        return Checked(problems=e.problems)


def compiled(sources: Sequence[Source]) -> Desired:
    """What a set of blueprints that stands alone asks for. Raises InvalidBlueprint with every problem."""
    blueprints = _parse(sources)
    revisions = [_revision(b, s, MAIN, 1, {}) for b, s in zip(blueprints, sources, strict=True)]
    return compile_cached(revisions, "default", _by_flow(blueprints))


def _parse(sources: Sequence[Source]) -> list[Blueprint]:
    problems: list[Problem] = []
    blueprints: list[Blueprint] = []
    for source in sources:
        try:
            blueprints.append(parse(source.text, file=source.name, files=source.files))
        except InvalidBlueprint as e:
            problems.extend(e.problems)
    seen: dict[str, str] = {}
    for blueprint in blueprints:
        other = seen.setdefault(blueprint.dataflow, blueprint.file)
        if other != blueprint.file or sum(b.dataflow == blueprint.dataflow for b in blueprints) > 1:
            message = f"dataflow {blueprint.dataflow} comes twice in this set"
            problems.append(Problem(blueprint.file, 1, 1, "duplicate-dataflow", message, "rename one"))
    if problems:
        raise InvalidBlueprint(tuple(sorted(set(problems))))
    return blueprints


def _by_flow(blueprints: Sequence[Blueprint]) -> dict[str, Blueprint]:
    return {b.dataflow: b for b in blueprints}


def _revision(
    blueprint: Blueprint,
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
        dataflow=blueprint.dataflow,
        number=number,
        text=source.text,
        files=dict(source.files),
        file=source.name,
        uids=dict(uids),
        actor=actor,
        request_id=request_id,
        at=at,
    )


def require_main(branch: str) -> None:
    """Of what users ask for. Tables of other branches have no place of their own yet. Raises InvalidBlueprint."""
    if branch != MAIN:
        message = f"blueprints are applied to {MAIN}, later releases bring other branches than that"
        raise InvalidBlueprint((Problem("", 0, 0, "not-supported", message, "leave the branch out"),))


def apply(
    ctx: Context,
    branch: str,
    sources: Sequence[Source],
    *,
    dry_run: bool = False,
    expected: int | None = None,
    unseen: Mapping[str, str] = source_changes.ALL_SEEN,
) -> ApplyAnswer:
    """Store new revisions of the dataflows in `sources` and tell what will run. Equal texts make no new revision.
    `unseen`: why a source was not looked at for it.

    Raises InvalidBlueprint with every problem, StaleRevision if `expected` is not the (single) dataflow's revision.
    """
    blueprints = _parse(sources)
    with ctx.store.read(ctx.namespace) as tx:
        edit = _edit(ctx, tx, branch, blueprints, sources)
        if dry_run:
            if expected is not None:
                _check_expected(edit, expected)
            pins.check(tx, edit.live, edit.revisions, edit.proposed)
            plan, facts = plan_now(tx, branch, edit.flows, namespace=ctx.namespace, proposed=edit.proposed)
            return edit.answer(plan, facts, unseen)
    with ctx.store.begin(ctx.namespace) as tx:
        if tx.revisions(branch) != edit.live:  # somebody else has applied something meanwhile
            edit = _edit(ctx, tx, branch, blueprints, sources)
        _commit(ctx, tx, edit, expected)
    with ctx.looking(branch, edit.flows) as (plan, facts):
        answer = edit.answer(plan, facts, unseen)
    ctx.wake()
    return answer


def proposed_sources(ctx: Context, branch: str, sources: Sequence[Source]) -> list[nodes.Source]:
    """What these dataflows, as they would be, and their upstream read. Raises InvalidBlueprint."""
    blueprints = _parse(sources)
    with ctx.store.read(ctx.namespace) as tx:
        edit = _edit(ctx, tx, branch, blueprints, sources)
    return listings.sources(edit.proposed, edit.proposed.scope(edit.flows))


@dataclass(frozen=True, slots=True)
class _Edit:
    """New revisions of some dataflows, and what is wanted with them, as compiled over what was live."""

    branch: str
    live: Mapping[str, Revision]
    revisions: list[Revision]
    before: Desired
    proposed: Desired

    @property
    def flows(self) -> list[str]:
        return [revision.dataflow for revision in self.revisions]

    def answer(self, plan: Plan, facts: StoreSnapshot, unseen: Mapping[str, str]) -> ApplyAnswer:
        numbers = {revision.dataflow: revision.number for revision in self.revisions}
        told = source_changes.of_plan(plan, facts, unseen)
        return {"revisions": numbers, "plan": views.plan(self.branch, plan, facts, told)}


def _edit(ctx: Context, tx: Tx, branch: str, blueprints: Sequence[Blueprint], sources: Sequence[Source]) -> _Edit:
    """Reads and compiles, so that the transaction that writes need not. Raises InvalidBlueprint."""
    live = tx.revisions(branch)
    revisions = [_next(ctx, tx, branch, b, s, live) for b, s in zip(blueprints, sources, strict=True)]
    together = {**live, **{r.dataflow: r for r in revisions}}
    proposed = _proposed(live, together, ctx.namespace, blueprints)
    return _Edit(branch, live, revisions, compile_live(live.values(), ctx.namespace), proposed)


def _commit(ctx: Context, tx: Tx, edit: _Edit, expected: int | None) -> None:
    """Raises InvalidBlueprint for pins, and StaleRevision."""
    pins.check(tx, edit.live, edit.revisions, edit.proposed)
    for revision in edit.revisions:
        _store(ctx, tx, revision, edit.live.get(revision.dataflow), expected)
    _end_demands(tx, edit.branch, edit.before, edit.proposed)
    listings.request_taken_up(tx, edit.before, edit.proposed)


def _proposed(
    live: Mapping[str, Revision], together: Mapping[str, Revision], namespace: str, blueprints: Sequence[Blueprint]
) -> Desired:
    """What is wanted after an edit. Raises InvalidBlueprint for problems of the edit; a stored dataflow that does not
    compile is no problem of it, unless the edit reads it."""
    try:
        return compile_cached(together.values(), namespace, _by_flow(blueprints))
    except InvalidBlueprint:
        broken = compile_live(live.values(), namespace).left_out.keys() - _by_flow(blueprints).keys()
        if not broken:
            raise
    sound = [r for name, r in together.items() if name not in broken]
    return compile_cached(sound, namespace, _by_flow(blueprints))


def _end_demands(tx: Tx, branch: str, before: Desired, after: Desired) -> None:
    """Nobody wants the work any more that waits for components which are gone, or are paused from now on."""
    ended: list[str] = []
    for dataset, node in before.nodes.items():
        now = after.nodes.get(dataset)
        if now is None:
            tx.drop_demands(branch, listings.demand_of(dataset))
            tx.drop_demands(branch, packs.name_of(dataset))
        if now is None or (now.component.paused and not node.component.paused):
            tx.drop_demands(branch, dataset)
            ended.append(dataset)
    tx.drop_begun(branch, ended)


def _check_expected(edit: _Edit, expected: int) -> None:
    for revision in edit.revisions:
        found = edit.live[revision.dataflow].number if revision.dataflow in edit.live else 0
        if found != expected:
            raise StaleRevision(revision.dataflow, expected, found)


def _next(
    ctx: Context, tx: Tx, branch: str, blueprint: Blueprint, source: Source, live: Mapping[str, Revision]
) -> Revision:
    """The revision that this text would be: the live one if nothing differs."""
    before = live.get(blueprint.dataflow)
    if before and (before.text, before.files, before.file) == (source.text, dict(source.files), source.name):
        return before
    known = tx.known_uids(branch, blueprint.dataflow)
    uids = {c.name: known.get(c.name) or uuid.uuid4().hex for c in blueprint.components}
    number = tx.last_number(branch, blueprint.dataflow) + 1
    return _revision(
        blueprint, source, branch, number=number, uids=uids, actor=ctx.actor, request_id=ctx.request_id, at=tx.now()
    )


def _store(ctx: Context, tx: Tx, revision: Revision, before: Revision | None, expected: int | None) -> None:
    found = before.number if before else 0
    if expected is not None and expected != found:
        raise StaleRevision(revision.dataflow, expected, found)
    if before is revision:
        return
    tx.put_revision(revision, found)
    _audit(
        ctx,
        tx,
        revision.branch,
        action="apply",
        target=revision.dataflow,
        before=before.number if before else None,
        after=revision.number,
    )
    body = {"revision": revision.number, "actor": ctx.actor}
    tx.put_events([Event("blueprint.applied", revision.dataflow, 1, body, branch=revision.branch)])


def _audit(ctx: Context, tx: Tx, branch: str, action: str, target: str, before: int | None, after: int | None) -> None:
    tx.put_change(
        Change(ctx.actor, ctx.request_id, action, target=target, before=before, after=after, at=tx.now(), branch=branch)
    )


def dataflows(ctx: Context, branch: str) -> list[DataflowEntry]:
    with ctx.store.read(ctx.namespace) as tx:
        return [_summary(r) for _, r in sorted(tx.revisions(branch).items())]


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
        revision = tx.revisions(branch, [name]).get(name)
    if revision is None:
        raise NotFound(f"there is no dataflow {name} in branch {branch}")
    files = dict(revision.files)
    return {**_summary(revision), "file": revision.file, "text": revision.text, "files": files}


def _require_unread(live: Mapping[str, Revision], name: str, namespace: str) -> None:
    """Raises InvalidBlueprint if another dataflow reads this one."""
    broken = compile_live(live.values(), namespace).left_out
    compile_cached([r for r in live.values() if r.dataflow != name and r.dataflow not in broken], namespace)


def delete(ctx: Context, branch: str, name: str, expected: int | None = None) -> DeleteAnswer:
    """End a dataflow's demand and pointers; data stays. Refused while others read its datasets."""
    with ctx.store.begin(ctx.namespace) as tx:
        live = tx.revisions(branch)
        if name not in live:
            raise NotFound(f"there is no dataflow {name} in branch {branch}")
        if expected is not None and live[name].number != expected:
            raise StaleRevision(name, expected, live[name].number)
        _require_unread(live, name, ctx.namespace)
        tx.delete_dataflow(branch, name)
        _audit(ctx, tx, branch, action="delete", target=name, before=live[name].number, after=None)
        tx.put_events([Event("blueprint.deleted", name, 1, {"actor": ctx.actor}, branch=branch)])
    ctx.wake()
    return {"deleted": name, "revision": live[name].number}
