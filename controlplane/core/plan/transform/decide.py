"""Deciding about transforms: consistent inputs, analysed schema, changed keys, memory, tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Transform
from controlplane.core.compile.sort_by import sorting
from controlplane.core.model.states import PartialState, State
from controlplane.core.model.tasks import Task
from controlplane.core.plan import lookups, salts, unfinished, windows
from controlplane.core.plan.keys import Keys, lacking, listed, minus, union
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.transform import merges, partials
from controlplane.core.plan.transform.case import (
    Case,
    cause_of,
    cut,
    half_built,
    is_current,
    item_of,
    pin_fault,
    state_after,
)
from controlplane.core.plan.transform.extent import Extent, extent_of, still_right
from controlplane.core.plan.transform.inputs import Input, after, consistent, not_ready, offers, possible, read
from controlplane.core.plan.transform.jobs import logic_job
from controlplane.core.plan.transform.key_index import IndexFollowing, follow, key_fault, output_error
from controlplane.core.plan.transform.tasks import job_of, tasks_of
from controlplane.core.plan.unfinished import Finishing
from controlplane.core.plan.values import Commit, Decision, Item, Learn, Planning, user_error
from controlplane.core.schema.schemas import EMPTY_SCHEMA
from dataplane.contract.identity import schema_id
from dataplane.contract.schemas import Json, Schema

Work = Callable[[Case, Schema | None, bytes | None], Deciding[Decision]]  # a case, its output's schema, its build key


def finish(planning: Planning, node: Transform, work: Work | None = None) -> Finishing:
    """What there is to do for the run under way."""
    run = unfinished.of(planning, node)
    newest = offers(planning, node)
    if run is None or isinstance(newest, Decision):
        return None
    if all(
        isinstance(of, State) and run.states.get(s.name) == of.seq for s, of in zip(node.slots, newest, strict=True)
    ):
        return None  # it reads the newest
    chosen, held = consistent(planning, node, newest), (yield from unfinished.read_by(node, run))
    if held is not None and chosen == held:
        return None
    if held is None or (chosen is not None and is_current(_case(planning, node, chosen))):
        return unfinished.GIVEN_UP
    case = _case(planning, node, held)
    return unfinished.GIVEN_UP if is_current(case) else unfinished.goes_on((yield from _decided(case, work)))


def decide(planning: Planning, node: Transform, work: Work | None = None) -> Deciding[Decision]:
    newest = offers(planning, node)
    if isinstance(newest, Decision):
        return newest
    chosen = consistent(planning, node, newest)
    if chosen is None and not all(isinstance(of, State) for of in newest):
        return not_ready(
            planning, node, next(s for s, of in zip(node.slots, newest, strict=True) if isinstance(of, PartialState))
        )
    if chosen is None:
        reason = "its inputs reflect different states of a source that they share"
        return Decision(node.dataset, "waiting", reason=reason)
    case = _case(planning, node, chosen)
    if is_current(case):
        return after(planning, node, Decision(node.dataset, "up_to_date"))
    return after(planning, node, (yield from _decided(case, work)))


def _case(planning: Planning, node: Transform, chosen: Sequence[State | PartialState]) -> Case:
    return Case(planning, node, planning.state(node.dataset), read(planning, node, chosen))


def _decided(case: Case, work: Work | None) -> Deciding[Decision]:
    decision = yield from _stale(case, work or _work)
    states = {i.slot.name: i.of.seq for i in case.inputs if isinstance(i.of, State)}
    return unfinished.noted(case.planning, case.node, decision, states, cut(case)) if case.is_whole else decision


# --- work -----------------------------------------------------------------------------------------


def _stale(case: Case, work: Work) -> Deciding[Decision]:
    yield from lookups.nodes([(i.of.root, ()) for i in case.inputs if not i.is_parted])
    if fault := _key_fault(case):
        return Decision(case.node.dataset, "failed", error=user_error("invalid-key-column", fault))
    case, lagging = yield from _followed(case)
    build = _build_key(case) if case.is_whole and lagging is None else None
    analysis = ids.analysis_key(case.node.code_logic, case.schemas)
    builds, memos = yield from lookups.remembered([build] if build else [], [analysis])
    if build is not None and build in builds:
        return (yield from _adopt(case, *builds[build], build))
    used = [c.root for c in case.state.inputs.values()] if case.state else []
    yield from lookups.nodes([(root, ()) for root in (*(i.of.root for i in case.inputs), *used, case.root)])
    if analysis not in memos:
        return (yield from _analyse(case, analysis))
    if lagging is not None:
        return (yield from _index(case, lagging))
    return (yield from work(case, case.node.with_reason(memos[analysis]["schema"]), build))


def _build_key(case: Case) -> bytes:
    return ids.build_key(case.node.logic, _basis(case), salts.whole(case.planning, case.node))


def _key_fault(case: Case) -> str | None:
    """Why an input cannot be read `by` the key."""
    by = (i for i in case.inputs if i.slot.mode == "by")
    return next(filter(None, (key_fault(case.node, i.slot, i.schema) for i in by)), None)


def _followed(case: Case) -> Deciding[tuple[Case, IndexFollowing | None]]:
    """With the indexes of its `by` inputs; and the first of them that needs tasks to reflect its input."""
    building = case.planning.building(case.node.dataset)
    used = [of.inputs for of in (building, case.state) if of is not None]
    inputs: list[Input] = []
    lagging = None
    for i in case.inputs:
        if i.slot.mode == "by":
            found = yield from follow(case.planning, case.node, i.slot, i.schema, i.of.root, used)
            lagging = lagging or (None if found.is_whole else found)
            i = replace(i, index=found.index)
        inputs.append(i)
    return replace(case, inputs=tuple(inputs)), lagging


def _index(case: Case, lagging: IndexFollowing) -> Deciding[Decision]:
    """Ask for what an index lacks. Which partitions follow from it is not known yet."""
    nodes, window = case.planning.world.nodes, lagging.window
    keys = union([lacking(nodes, case.root), *(lacking(nodes, i.root) for i in case.parted)])
    tasks = len(window.tasks) if window.is_whole else lagging.count
    item = replace(item_of(case, "compute", tasks, keys if keys.count else listed(("",))), certain=False)
    decision = Decision(case.node.dataset, "stale", items=(item,), pending=item.keys)
    if windows.limit(case.planning, lagging.count) == 0:
        return decision  # only counted
    building = None
    if lagging.count > case.planning.exact:
        building = half_built(case, (yield from still_right(case)), None)
    return windows.computing(decision, window, lagging.job, building)


def _basis(case: Case) -> Json:
    """What the whole output is a function of; keys of an `all` input are not part of it."""
    return {
        i.slot.name: {
            "mode": i.slot.mode,
            "schema": schema_id(i.schema),
            "data": i.root if i.is_parted or case.node.is_volatile else tuple(i.content(case.planning)),
        }
        for i in case.inputs
    }


def _analyse(case: Case, key: bytes) -> Deciding[Decision]:
    """Ask Spark's analyzer for the schema of the output under these read schemas."""
    job = logic_job(case.node, case.schemas)
    task = Task(key, "analyse", case.node.maker, "", ids.job_id(job), {})
    status, error = windows.learning(task, (yield from lookups.tasks([key])))
    keys = _all_keys(case)
    item = Item(case.node.dataset, "compute", cause_of(case), False, keys.count, keys)
    return Decision(case.node.dataset, status, Learn(task, job), (item,), "analysis", error=error, pending=keys)


def _all_keys(case: Case) -> Keys:
    """Every partition that the output may have. Of one by key, those that it has: how far an index is may change
    without a mark as long as only the analysis is asked for."""
    nodes = case.planning.world.nodes
    if any(i.slot.mode == "by" for i in case.inputs):
        present = lacking(nodes, case.root)
        return present if present.count else listed(("",))
    if not case.parted:
        return listed(("",))
    return union(
        [*(lacking(nodes, i.root) for i in case.parted), *(i.pending for i in case.inputs if i.pending is not None)]
    )


def _adopt(case: Case, root: bytes, schema: Schema, build: bytes) -> Deciding[Decision]:
    """The whole output is known: a pointer moves."""
    case = replace(case, parts=dict(partials.kept(case)))
    yield from lookups.nodes([(root, ())])
    keys = lacking(case.planning.world.nodes, root) if root != case.root else Keys()
    commit = Commit(state_after(case, root, schema), None, 0 if case.node.output else keys.count, None, build)
    items = [item_of(case, "adopt", 0, keys)] if keys.count else []
    return Decision(case.node.dataset, "stale", commit, tuple(items))


def _work(case: Case, schema: Schema | None, build: bytes | None) -> Deciding[Decision]:
    if schema is not None and (error := output_error(case.node, schema)):
        return Decision(case.node.dataset, "failed", error=error)
    if case.node.own and (fault := pin_fault(case, schema)):
        return Decision(case.node.dataset, "failed", error=user_error("pinned-schema", fault))
    extent = yield from extent_of(case)
    limit = windows.limit(case.planning, extent.count)
    if limit == 0 or (schema is None and not case.is_whole):
        return _only_counted(case, extent)
    job = job_of(case) | sorting(case.node.component, schema, case_sensitive=case.node.is_case_sensitive)
    window = yield from windows.look(extent.keys, lambda keys: tasks_of(case, job, keys), limit, case.node.output)
    if window.missing or not window.is_whole or not case.is_whole:
        return (yield from _missing(case, extent, window, job, schema))
    assert build is not None
    found = yield from partials.follow(case)
    if found is not None:
        case = replace(case, parts=partials.remembered(found))
    return (yield from commit(case, extent, window, schema, build))


def _missing(
    case: Case, extent: Extent, window: windows.Window, job: Json, schema: Schema | None
) -> Deciding[Decision]:
    """By parts where that is proven to give the same, and costs less."""
    is_asked = any(task.state != "done" for task in window.known.values())
    found = None if is_asked else (yield from partials.follow(case))
    if found is not None:
        by_parts = yield from _by_parts(found, job)
        if isinstance(by_parts, Decision):
            return by_parts
        job, window = by_parts, window.under(ids.job_id(by_parts))
    return (yield from _compute(case, extent, window, job, schema))


def _by_parts(found: partials.PartialsFollowing, job: Json) -> Deciding[Decision | Json]:
    """What there is to do before the whole can be merged; else the job that merges it, or that of the plain query."""
    if not found.is_whole:
        asked = None if found.is_typed else (yield from partials.analyse(found))
        return asked or (partials.compute(found) if found.is_typed else job)
    merging = yield from merges.follow(found, (yield from partials.schema_of(found)))
    if not merging.is_whole:
        return merges.compute(merging)
    return partials.whole(found, job, merging.schema, merging.root) or job


def _only_counted(case: Case, extent: Extent) -> Decision:
    pending = _pending(case, extent.told)
    item = replace(item_of(case, "compute", pending.count, pending), certain=False)
    return Decision(case.node.dataset, "stale", items=(item,), pending=pending)


def _pending(case: Case, own: Keys) -> Keys:
    return union([own, *(i.pending for i in case.inputs if i.pending is not None)])


# --- decisions ------------------------------------------------------------------------------------


def _compute(
    case: Case, extent: Extent, window: windows.Window, job: Json, schema: Schema | None
) -> Deciding[Decision]:
    missing = sorted(window.missing)
    building = None
    if extent.count > case.planning.exact or not case.is_whole:
        building = half_built(case, (yield from windows.edited(case.planning, extent.base, window, ())), schema)
    own = listed(missing) if window.is_whole else extent.told
    items = [item_of(case, "compute", len(window.tasks) if window.is_whole else own.count, own)] if own.count else []
    if not window.is_whole:
        items = [replace(item, certain=False) for item in items]
    if extent.removed:
        items.append(item_of(case, "remove", 0, listed(extent.removed)))
    pending = _pending(case, union([own, listed(extent.removed)]))
    rest = minus(pending, union([own, listed(extent.removed)]))
    if rest.count:
        items.append(possible(case.node, rest))
    decision = Decision(case.node.dataset, "stale", items=tuple(items), pending=pending)
    return windows.computing(decision, window, job, building)


def commit(
    case: Case, extent: Extent, window: windows.Window, schema: Schema | None, build: bytes
) -> Deciding[Decision]:
    found = schema
    if found is None:
        found = yield from _common_schema(case, window)
    if found is None:
        message = "its partitions came out with different columns or types"
        return Decision(case.node.dataset, "failed", error=user_error("schema-differs", message))
    entered = yield from windows.entering(case.planning, case.root, window)
    root = yield from windows.edited(case.planning, extent.base, window, extent.removed)
    items = [item_of(case, "adopt", 0, listed(sorted(window.entries)))] if window.entries else []
    if removed := extent.removed or (yield from _given_up(case, root)):
        items.append(item_of(case, "remove", 0, listed(removed)))
    return Decision(
        case.node.dataset, "stale", Commit(state_after(case, root, found), entered, 0, None, build), tuple(items)
    )


def _given_up(case: Case, root: bytes) -> Deciding[tuple[str, ...]]:
    """Partitions that the one task, of those that give many, has not given again."""
    if case.parted or not case.node.key:
        return ()
    [gone] = yield from lookups.holes([(root, case.root)])
    return tuple(gone)


def _common_schema(case: Case, window: windows.Window) -> Deciding[Schema | None]:
    """The schema of Python results that could not be analysed: that of all fragments, if they are equal."""
    ids_ = [entry.fragment for _, entry in window.entries.values()]
    found = [f.schema for f in (yield from lookups.fragments(ids_)).values() if f.id in set(ids_)]
    if case.state is not None and not found:
        return case.state.schema
    first = found[0] if found else EMPTY_SCHEMA
    return first if all(s == first for s in found) else None
