"""Deciding about transforms: consistent inputs, analysed schema, changed keys, memory, tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.core import ids, tree
from controlplane.core.clustering import sorting
from controlplane.core.dataflow import Transform
from controlplane.core.model import Building, State, Task
from controlplane.core.plan import asking, parts, salts, windows
from controlplane.core.plan.asking import Deciding
from controlplane.core.plan.case import Case, cause_of, half_built, is_current, item_of, pin_fault, state_after
from controlplane.core.plan.index import Following, follow, key_fault, output_error
from controlplane.core.plan.inputs import Input, after, consistent, not_ready, offers, possible, read
from controlplane.core.plan.jobs import cost_of, logic_job
from controlplane.core.plan.keys import Keys, lacking, listed, minus, union
from controlplane.core.plan.values import (
    Commit,
    Decision,
    Item,
    Learn,
    Planning,
    user_error,
)
from controlplane.core.schemas import EMPTY_SCHEMA
from dataplane.contract import EMPTY, Json, Schema, schema_id, slot_id, task_key

Work = Callable[[Case, Schema | None, bytes | None], Deciding[Decision]]  # a case, its output's schema, its build key


def decide(planning: Planning, node: Transform, work: Work | None = None) -> Deciding[Decision]:
    newest = offers(planning, node)
    if isinstance(newest, Decision):
        return newest
    chosen = consistent(planning, node, newest)
    if chosen is None and not all(isinstance(of, State) for of in newest):
        return not_ready(
            planning, node, next(s for s, of in zip(node.slots, newest, strict=True) if isinstance(of, Building))
        )
    if chosen is None:
        reason = "its inputs reflect different states of a source that they share"
        return Decision(node.dataset, "waiting", reason=reason)
    case = Case(planning, node, planning.state(node.dataset), read(planning, node, chosen))
    if is_current(case):
        return after(planning, node, Decision(node.dataset, "up_to_date"))
    return after(planning, node, (yield from _stale(case, work or _work)))


# --- work -----------------------------------------------------------------------------------------


def _stale(case: Case, work: Work) -> Deciding[Decision]:
    yield from asking.nodes([(i.of.root, ()) for i in case.inputs if not i.is_parted])
    if fault := _key_fault(case):
        return Decision(case.node.dataset, "failed", error=user_error("invalid-key-column", fault))
    case, lagging = yield from _followed(case)
    build = _build_key(case) if case.is_whole and lagging is None else None
    analysis = ids.analysis_key(case.node.code_logic, case.schemas)
    builds, memos = yield from asking.remembered([build] if build else [], [analysis])
    if build is not None and build in builds:
        return (yield from _adopt(case, *builds[build], build))
    used = [c.root for c in case.state.inputs.values()] if case.state else []
    yield from asking.nodes([(root, ()) for root in (*(i.of.root for i in case.inputs), *used, case.root)])
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


def _followed(case: Case) -> Deciding[tuple[Case, Following | None]]:
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


def _index(case: Case, lagging: Following) -> Deciding[Decision]:
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
        building = half_built(case, (yield from _still_right(case)), None)
    return windows.computing(decision, window, lagging.job, building)


def _still_right(case: Case) -> Deciding[bytes]:
    """The outputs so far that hold for what is known of the inputs."""
    building = case.planning.building(case.node.dataset)
    if building is not None and building.lineage == case.node.lineage and _is_same_code(case, building):
        return (yield from _carried(case, building))
    if case.state is not None and _is_same_code(case, case.state):
        return (yield from _carried(case, case.state))
    return tree.EMPTY_ROOT


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
    status, error = windows.learning(task, (yield from asking.tasks([key])))
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
    case = replace(case, parts=dict(parts.kept(case)))
    yield from asking.nodes([(root, ())])
    keys = lacking(case.planning.world.nodes, root) if root != case.root else Keys()
    commit = Commit(state_after(case, root, schema), None, 0 if case.node.output else keys.count, None, build)
    items = [item_of(case, "adopt", 0, keys)] if keys.count else []
    return Decision(case.node.dataset, "stale", commit, tuple(items))


@dataclass(frozen=True, slots=True)
class _Extent:
    """What is to be looked at: partitions on top of `base`, which holds what is right already."""

    base: bytes
    count: int
    keys: Iterable[str]
    told: Keys  # the same, as a value
    removed: tuple[str, ...] = ()


def _work(case: Case, schema: Schema | None, build: bytes | None) -> Deciding[Decision]:
    if schema is not None and (error := output_error(case.node, schema)):
        return Decision(case.node.dataset, "failed", error=error)
    if case.node.own and (fault := pin_fault(case, schema)):
        return Decision(case.node.dataset, "failed", error=user_error("pinned-schema", fault))
    extent = yield from _extent(case)
    limit = windows.limit(case.planning, extent.count)
    if limit == 0 or (schema is None and not case.is_whole):
        return _only_counted(case, extent)
    job = _job(case) | sorting(case.node.component, schema, case_sensitive=case.node.is_case_sensitive)
    window = yield from windows.look(extent.keys, lambda keys: _tasks(case, job, keys), limit, case.node.output)
    if window.missing or not window.is_whole or not case.is_whole:
        return (yield from _missing(case, extent, window, job, schema))
    assert build is not None
    found = yield from parts.follow(case)
    if found is not None:
        case = replace(case, parts=parts.remembered(found))
    return (yield from _commit(case, extent, window, schema, build))


def _missing(
    case: Case, extent: _Extent, window: windows.Window, job: Json, schema: Schema | None
) -> Deciding[Decision]:
    """By parts where that is proven to give the same, and costs less."""
    is_asked = any(task.state != "done" for task in window.known.values())
    found = None if is_asked else (yield from parts.follow(case))
    if found is not None and not found.is_whole:
        return parts.compute(found)
    merging = (yield from parts.merging(found, job)) if found is not None else None
    if merging is not None:
        job, window = merging, window.under(ids.job_id(merging))
    return (yield from _compute(case, extent, window, job, schema))


def _only_counted(case: Case, extent: _Extent) -> Decision:
    pending = _pending(case, extent.told)
    item = replace(item_of(case, "compute", pending.count, pending), certain=False)
    return Decision(case.node.dataset, "stale", items=(item,), pending=pending)


def _pending(case: Case, own: Keys) -> Keys:
    return union([own, *(i.pending for i in case.inputs if i.pending is not None)])


# --- extent ---------------------------------------------------------------------------------------


def _extent(case: Case) -> Deciding[_Extent]:
    """Partitions to look at, and those that vanish."""
    building = case.planning.building(case.node.dataset)
    if not case.parted:
        if case.node.own and case.state is not None and _is_same_code(case, case.state):
            return _Extent(case.root, 0, (), Keys())  # pinned, and nothing else has changed
        return _single(case)
    if building is not None and building.lineage == case.node.lineage and _is_same_code(case, building):
        return (yield from _holes(case, (yield from _carried(case, building))))
    if case.state is not None and case.is_whole and _is_same_code(case, case.state):
        return (yield from _changed(case, case.state))
    return (yield from _holes(case, tree.EMPTY_ROOT))


def _single(case: Case) -> _Extent:
    if case.node.key:  # one task gives all partitions: what it does not give is gone
        return _Extent(tree.EMPTY_ROOT, 1, ("",), listed(("",)))
    before = (e.key for e in tree.scan(case.planning.world.nodes, case.root))
    return _Extent(case.root, 1, ("",), listed(("",)), tuple(k for k in before if k))


def _is_same_code(case: Case, used: State | Building) -> bool:
    """The same logic over the same read schemas and the same contents of `all` inputs: only changed keys count."""
    nodes = case.planning.world.nodes

    def same(i: Input) -> bool:
        one = used.inputs.get(i.slot.name)
        if one is None or one.schema != i.consumed.schema or i.tree_name not in used.inputs:
            return False
        return i.is_parted or tree.totals(nodes, one.root).content == i.content(case.planning)

    same_logic = used.logic == case.node.logic if isinstance(used, State) else True
    return same_logic and salts.is_of(case.planning, case.node, used) and all(map(same, case.inputs))


def _differences(case: Case, used: State | Building) -> Deciding[list[tree.Change]]:
    found = yield from asking.changes([(used.inputs[i.tree_name].root, i.root) for i in case.parted])
    return [change for changes in found for change in changes]


def _changed(case: Case, state: State) -> Deciding[_Extent]:
    """The keys in which the inputs differ from those that the state was built from."""
    keys = sorted({c.key for c in (yield from _differences(case, state))})
    yield from asking.nodes([(i.root, keys) for i in case.parted])
    nodes = case.planning.world.nodes
    there = set().union(*(tree.lookup(nodes, i.root, keys) for i in case.parted))
    wanted, removed = [k for k in keys if k in there], tuple(k for k in keys if k not in there)
    base = state.root
    if len(wanted) > case.planning.exact:
        base = tree.edit(nodes, base, [(key, None) for key in keys])
    return _Extent(base, len(wanted), wanted, listed(wanted), removed)


def _carried(case: Case, used: State | Building) -> Deciding[bytes]:
    """What a root, mostly a half-built one, has that these inputs have not changed."""
    several = len(case.parted) > 1  # then a key that is new to one input may be there because of another
    differences = yield from _differences(case, used)
    gone = sorted({c.key for c in differences if several or c.before is not None})
    yield from asking.nodes([(used.root, gone)])
    return tree.edit(case.planning.world.nodes, used.root, [(key, None) for key in gone])


def _holes(case: Case, base: bytes) -> Deciding[_Extent]:
    """All keys of the inputs that `base` lacks."""
    nodes = case.planning.world.nodes
    roots = [i.root for i in case.parted]
    told = union(lacking(nodes, root, base) for root in roots)
    keys = yield from windows.hole_keys(case.planning, roots, base, told.count)
    if isinstance(keys, list):
        told = listed(keys)
    return _Extent(base, told.count, keys, told, (yield from _vanishing(case, roots)))


def _vanishing(case: Case, roots: Sequence[bytes]) -> Deciding[tuple[str, ...]]:
    """Partitions of the present output that no input has any more."""
    if case.state is None or not case.is_whole:
        return ()
    first, *others = yield from asking.holes([(root, case.root) for root in roots])
    return tuple(key for key in first if all(key in other for other in map(set, others)))


# --- tasks ----------------------------------------------------------------------------------------


Reads = Mapping[str, tree.Entry | None]  # `each` or `by` slot -> what the partition reads through it


def _job(case: Case) -> Json:
    job = logic_job(case.node, case.schemas, case.planning.now)
    job["shared"] = {i.slot.name: i.of.root.hex() for i in case.inputs if not i.is_parted}
    if pairs := {i.slot.name: i.index.pairs.hex() for i in case.inputs if i.index}:
        job["pairs"] = pairs
    return job


def _tasks(case: Case, job: Json, keys: Sequence[str]) -> Deciding[dict[str, Task]]:
    """The task of each of these partitions; those that wait for an input are left out."""
    yield from asking.nodes([(i.root, keys) for i in case.parted])
    nodes = case.planning.world.nodes
    found = {i.slot.name: tree.lookup(nodes, i.root, keys) for i in case.parted}
    waiting = set().union(*(_waiting(case, i, keys) for i in case.parted))
    digest, shared = ids.job_id(job), {i.slot.name: _whole_slot(case, i) for i in case.inputs if not i.is_parted}
    schemas = {i.slot.name: i.schema for i in case.parted}
    batched, salt_of = bool(job.get("batch_sql") or job.get("together")), salts.of(case.planning, case.node)
    return {
        key: _task(case.node, digest, key, reads, _slots(reads, schemas) | shared, batched, salt_of)
        for key in keys
        if key not in waiting
        for reads in ({name: entries.get(key) for name, entries in found.items()},)
    }


def _waiting(case: Case, i: Input, keys: Sequence[str]) -> set[str]:
    """Those of the keys that a half-built input does not have yet."""
    if i.pending is None:
        return set()
    nodes = case.planning.world.nodes
    waiting = set(i.pending.listed).intersection(keys)
    for wanted, have in i.pending.trees.values():
        waiting |= tree.lookup(nodes, wanted, keys).keys() - tree.lookup(nodes, have, keys).keys()
    return waiting - tree.lookup(nodes, i.of.root, keys).keys()


def _whole_slot(case: Case, i: Input) -> bytes:
    return slot_id(i.content(case.planning), i.schema)


def _slots(reads: Reads, schemas: Mapping[str, Schema]) -> dict[str, bytes]:
    return {name: slot_id(e.content if e else EMPTY, schemas[name]) for name, e in reads.items()}


def _task(
    node: Transform,
    job: bytes,
    key: str,
    reads: Reads,
    slots: Mapping[str, bytes],
    is_batched: bool,
    salt_of: salts.SaltOf,
) -> Task:
    each = (s.name for s in node.slots if s.mode == "each")  # files of the others are found when it is handed out
    spec: Json = {"slots": {name: [e.fragment.hex()] if (e := reads[name]) else [] for name in each}}
    rows = sum(e.content.rows for e in reads.values() if e)
    cost = cost_of(rows, is_batched=is_batched)
    task = task_key(node.task_logic, slots, salt_of(key))
    return Task(task, "transform", node.maker, key, job, spec, cost, priority=node.component.priority)


# --- decisions ------------------------------------------------------------------------------------


def _compute(
    case: Case, extent: _Extent, window: windows.Window, job: Json, schema: Schema | None
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


def _commit(
    case: Case, extent: _Extent, window: windows.Window, schema: Schema | None, build: bytes
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
    [gone] = yield from asking.holes([(root, case.root)])
    return tuple(gone)


def _common_schema(case: Case, window: windows.Window) -> Deciding[Schema | None]:
    """The schema of Python results that could not be analysed: that of all fragments, if they are equal."""
    ids_ = [entry.fragment for _, entry in window.entries.values()]
    found = [f.schema for f in (yield from asking.fragments(ids_)).values() if f.id in set(ids_)]
    if case.state is not None and not found:
        return case.state.schema
    first = found[0] if found else EMPTY_SCHEMA
    return first if all(s == first for s in found) else None
