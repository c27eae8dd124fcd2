"""Deciding about transforms: consistent inputs, analysed schema, changed keys, memory, tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.core import ids, tree
from controlplane.core.dataflow import Transform
from controlplane.core.model import Building, Cause, State, Task
from controlplane.core.plan import asking, windows
from controlplane.core.plan.asking import Deciding
from controlplane.core.plan.inputs import Input, after, consistent, merged_cut, not_ready, offers, possible, read
from controlplane.core.plan.jobs import logic_job
from controlplane.core.plan.keys import Keys, lacking, listed, minus, union
from controlplane.core.plan.values import (
    Action,
    Because,
    Commit,
    Decision,
    Item,
    Learn,
    Planning,
    next_state,
    user_error,
)
from controlplane.core.schemas import EMPTY_SCHEMA
from dataplane.contract import EMPTY, Json, Schema, schema_id, slot_id, task_key

ROW_COST = 100  # bytes that a row counts for when claims are sized
SINGLE_COST = 8 << 20  # bytes that a task counts for that cannot share a Spark job


@dataclass(frozen=True, slots=True)
class _Case:
    """A transform that has something to do, with what it reads."""

    planning: Planning
    node: Transform
    state: State | None
    inputs: tuple[Input, ...]

    @property
    def each(self) -> list[Input]:
        return [i for i in self.inputs if i.is_each]

    @property
    def is_whole(self) -> bool:
        """No input is half-built."""
        return all(i.is_whole for i in self.inputs)

    @property
    def schemas(self) -> dict[str, Schema]:
        return {i.slot.name: i.schema for i in self.inputs}

    @property
    def root(self) -> bytes:
        """Of the present output."""
        return self.state.root if self.state else tree.EMPTY_ROOT


def decide(planning: Planning, node: Transform) -> Deciding[Decision]:
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
    case = _Case(planning, node, planning.state(node.dataset), read(planning, node, chosen))
    if _is_current(case):
        return after(planning, node, Decision(node.dataset, "up_to_date"))
    return after(planning, node, (yield from _stale(case)))


def _is_current(case: _Case) -> bool:
    state = case.state
    return (
        state is not None
        and case.is_whole
        and state.lineage == case.node.lineage
        and dict(state.inputs) == {i.slot.name: i.consumed for i in case.inputs}
        and state.cut == merged_cut(case.inputs)
    )


# --- work -----------------------------------------------------------------------------------------


def _stale(case: _Case) -> Deciding[Decision]:
    used = [c.root for c in case.state.inputs.values()] if case.state else []
    yield from asking.nodes([(root, ()) for root in (*(i.of.root for i in case.inputs), *used, case.root)])
    build = ids.build_key(case.node.logic, _basis(case)) if case.is_whole else None
    analysis = ids.analysis_key(case.node.task_logic, case.schemas)
    builds, memos = yield from asking.remembered([build] if build else [], [analysis])
    if build is not None and build in builds:
        return (yield from _adopt(case, *builds[build], build))
    if analysis not in memos:
        return (yield from _analyse(case, analysis))
    return (yield from _work(case, case.node.with_reason(memos[analysis]["schema"]), build))


def _basis(case: _Case) -> Json:
    """What the whole output is a function of; keys of an `all` input are not part of it."""
    return {
        i.slot.name: {
            "mode": i.slot.mode,
            "schema": schema_id(i.schema),
            "data": i.of.root if i.is_each or case.node.is_volatile else tuple(i.content(case.planning)),
        }
        for i in case.inputs
    }


def _analyse(case: _Case, key: bytes) -> Deciding[Decision]:
    """Ask Spark's analyzer for the schema of the output under these read schemas."""
    job = logic_job(case.node, case.schemas)
    task = Task(key, "analyse", case.node.maker, "", ids.job_id(job), {})
    status, error = windows.learning(task, (yield from asking.tasks([key])))
    keys = _all_keys(case)
    item = Item(case.node.dataset, "compute", _cause(case), False, keys.count, keys)
    return Decision(case.node.dataset, status, Learn(task, job), (item,), "analysis", error=error, pending=keys)


def _all_keys(case: _Case) -> Keys:
    """Every partition that the output may have."""
    if not case.each:
        return listed(("",))
    nodes = case.planning.world.nodes
    return union(
        [*(lacking(nodes, i.of.root) for i in case.each), *(i.pending for i in case.inputs if i.pending is not None)]
    )


def _adopt(case: _Case, root: bytes, schema: Schema, build: bytes) -> Deciding[Decision]:
    """The whole output is known: a pointer moves."""
    yield from asking.nodes([(root, ())])
    keys = lacking(case.planning.world.nodes, root) if root != case.root else Keys()
    commit = Commit(_state(case, root, schema), None, 0 if case.node.output else keys.count, None, build)
    items = [_item(case, "adopt", 0, keys)] if keys.count else []
    return Decision(case.node.dataset, "stale", commit, tuple(items))


@dataclass(frozen=True, slots=True)
class _Extent:
    """What is to be looked at: partitions on top of `base`, which holds what is right already."""

    base: bytes
    count: int
    keys: Iterable[str]
    told: Keys  # the same, as a value
    removed: tuple[str, ...] = ()


def _work(case: _Case, schema: Schema | None, build: bytes | None) -> Deciding[Decision]:
    extent = yield from _extent(case)
    limit = windows.limit(case.planning, extent.count)
    if limit == 0 or (schema is None and not case.is_whole):
        return _only_counted(case, extent)
    job = _job(case)
    window = yield from windows.look(extent.keys, lambda keys: _tasks(case, job, keys), limit, case.node.output)
    if window.missing or not window.is_whole or not case.is_whole:
        return (yield from _compute(case, extent, window, job, schema))
    assert build is not None
    return (yield from _commit(case, extent, window, schema, build))


def _only_counted(case: _Case, extent: _Extent) -> Decision:
    pending = _pending(case, extent.told)
    item = replace(_item(case, "compute", pending.count, pending), certain=False)
    return Decision(case.node.dataset, "stale", items=(item,), pending=pending)


def _pending(case: _Case, own: Keys) -> Keys:
    return union([own, *(i.pending for i in case.inputs if i.pending is not None)])


# --- extent ---------------------------------------------------------------------------------------


def _extent(case: _Case) -> Deciding[_Extent]:
    """Partitions to look at, and those that vanish."""
    building = case.planning.building(case.node.dataset)
    if not case.each:
        return _single(case)
    if building is not None and building.lineage == case.node.lineage and _is_same_code(case, building):
        return (yield from _holes(case, (yield from _carried(case, building))))
    if case.state is not None and case.is_whole and _is_same_code(case, case.state):
        return (yield from _changed(case, case.state))
    return (yield from _holes(case, tree.EMPTY_ROOT))


def _single(case: _Case) -> _Extent:
    before = (e.key for e in tree.scan(case.planning.world.nodes, case.root))
    return _Extent(case.root, 1, ("",), listed(("",)), tuple(k for k in before if k))


def _is_same_code(case: _Case, used: State | Building) -> bool:
    """The same logic over the same read schemas and the same contents of `all` inputs: only changed keys count."""
    nodes = case.planning.world.nodes

    def same(i: Input) -> bool:
        one = used.inputs.get(i.slot.name)
        if one is None or one.schema != i.consumed.schema:
            return False
        return i.is_each or tree.totals(nodes, one.root).content == i.content(case.planning)

    same_logic = used.logic == case.node.logic if isinstance(used, State) else True
    return same_logic and len(used.inputs) == len(case.inputs) and all(map(same, case.inputs))


def _differences(case: _Case, used: State | Building) -> Deciding[list[tree.Change]]:
    found = yield from asking.changes([(used.inputs[i.slot.name].root, i.of.root) for i in case.each])
    return [change for changes in found for change in changes]


def _changed(case: _Case, state: State) -> Deciding[_Extent]:
    """The keys in which the inputs differ from those that the state was built from."""
    keys = sorted({c.key for c in (yield from _differences(case, state))})
    yield from asking.nodes([(i.of.root, keys) for i in case.each])
    nodes = case.planning.world.nodes
    there = set().union(*(tree.lookup(nodes, i.of.root, keys) for i in case.each))
    wanted, removed = [k for k in keys if k in there], tuple(k for k in keys if k not in there)
    base = state.root
    if len(wanted) > case.planning.exact:
        base = tree.edit(nodes, base, [(key, None) for key in keys])
    return _Extent(base, len(wanted), wanted, listed(wanted), removed)


def _carried(case: _Case, building: Building) -> Deciding[bytes]:
    """What a half-built root has that these inputs have not changed. A key new to one input may be there by another."""
    is_new_there = len(case.each) > 1
    changes = yield from _differences(case, building)
    gone = sorted({c.key for c in changes if is_new_there or c.before is not None})
    yield from asking.nodes([(building.root, gone)])
    return tree.edit(case.planning.world.nodes, building.root, [(key, None) for key in gone])


def _holes(case: _Case, base: bytes) -> Deciding[_Extent]:
    """All keys of the inputs that `base` lacks."""
    nodes = case.planning.world.nodes
    roots = [i.of.root for i in case.each]
    told = union(lacking(nodes, root, base) for root in roots)
    keys = yield from windows.hole_keys(case.planning, roots, base, told.count)
    if isinstance(keys, list):
        told = listed(keys)
    return _Extent(base, told.count, keys, told, (yield from _vanishing(case, roots)))


def _vanishing(case: _Case, roots: Sequence[bytes]) -> Deciding[tuple[str, ...]]:
    """Partitions of the present output that no input has any more."""
    if case.state is None or not case.is_whole:
        return ()
    first, *others = yield from asking.holes([(root, case.root) for root in roots])
    return tuple(key for key in first if all(key in other for other in map(set, others)))


# --- tasks ----------------------------------------------------------------------------------------


Reads = Mapping[str, tree.Entry | None]  # `each` slot -> what the partition reads through it


def _job(case: _Case) -> Json:
    job = logic_job(case.node, case.schemas)
    job["shared"] = {i.slot.name: i.of.root.hex() for i in case.inputs if not i.is_each}
    return job


def _tasks(case: _Case, job: Json, keys: Sequence[str]) -> Deciding[dict[str, Task]]:
    """The task of each of these partitions; those that wait for an input are left out."""
    yield from asking.nodes([(i.of.root, keys) for i in case.each])
    nodes = case.planning.world.nodes
    found = {i.slot.name: tree.lookup(nodes, i.of.root, keys) for i in case.each}
    waiting = set().union(*(_waiting(case, i, keys) for i in case.each))
    digest, shared = ids.job_id(job), {i.slot.name: _whole_slot(case, i) for i in case.inputs if not i.is_each}
    schemas = {i.slot.name: i.schema for i in case.each}
    batched = bool(job.get("batch_sql"))
    return {
        key: _task(case.node, digest, key, reads, _slots(reads, schemas) | shared, batched)
        for key in keys
        if key not in waiting
        for reads in ({name: entries.get(key) for name, entries in found.items()},)
    }


def _waiting(case: _Case, i: Input, keys: Sequence[str]) -> set[str]:
    """Those of the keys that a half-built input does not have yet."""
    if i.pending is None:
        return set()
    nodes = case.planning.world.nodes
    waiting = set(i.pending.listed).intersection(keys)
    for wanted, have in i.pending.trees.values():
        waiting |= tree.lookup(nodes, wanted, keys).keys() - tree.lookup(nodes, have, keys).keys()
    return waiting - tree.lookup(nodes, i.of.root, keys).keys()


def _whole_slot(case: _Case, i: Input) -> bytes:
    return slot_id(i.content(case.planning), i.schema)


def _slots(reads: Reads, schemas: Mapping[str, Schema]) -> dict[str, bytes]:
    return {name: slot_id(e.content if e else EMPTY, schemas[name]) for name, e in reads.items()}


def _task(node: Transform, job: bytes, key: str, reads: Reads, slots: Mapping[str, bytes], is_batched: bool) -> Task:
    spec: Json = {"slots": {name: [e.fragment.hex()] if e else [] for name, e in reads.items()}}
    rows = sum(e.content.rows for e in reads.values() if e)
    cost = rows * ROW_COST if is_batched else max(rows * ROW_COST, SINGLE_COST)
    task = task_key(node.task_logic, slots, ids.salt(node.uid, key) if node.is_volatile else None)
    return Task(task, "transform", node.maker, key, job, spec, cost, priority=node.component.priority)


# --- decisions ------------------------------------------------------------------------------------


def _compute(
    case: _Case, extent: _Extent, window: windows.Window, job: Json, schema: Schema | None
) -> Deciding[Decision]:
    missing = sorted(window.missing)
    building = None
    if extent.count > case.planning.exact or not case.is_whole:
        building = _building(case, (yield from windows.edited(case.planning, extent.base, window, ())), schema)
    own = listed(missing) if window.is_whole else extent.told
    items = [_item(case, "compute", len(window.tasks) if window.is_whole else own.count, own)] if own.count else []
    if not window.is_whole:
        items = [replace(item, certain=False) for item in items]
    if extent.removed:
        items.append(_item(case, "remove", 0, listed(extent.removed)))
    pending = _pending(case, union([own, listed(extent.removed)]))
    rest = minus(pending, union([own, listed(extent.removed)]))
    if rest.count:
        items.append(possible(case.node, rest))
    decision = Decision(case.node.dataset, "stale", items=tuple(items), pending=pending)
    return windows.computing(decision, window, job, building)


def _building(case: _Case, root: bytes, schema: Schema | None) -> Building:
    consumed = {i.slot.name: i.consumed for i in case.inputs}
    node = case.node
    return Building(case.planning.branch, node.dataset, node.lineage, consumed, root, schema, merged_cut(case.inputs))


def _commit(
    case: _Case, extent: _Extent, window: windows.Window, schema: Schema | None, build: bytes
) -> Deciding[Decision]:
    found = schema
    if found is None:
        found = yield from _common_schema(case, window)
    if found is None:
        message = "its partitions came out with different columns or types"
        return Decision(case.node.dataset, "failed", error=user_error("schema-differs", message))
    entered = yield from windows.entering(case.planning, case.root, window)
    root = yield from windows.edited(case.planning, extent.base, window, extent.removed)
    items = [_item(case, "adopt", 0, listed(sorted(window.hits)))] if window.hits else []
    if extent.removed:
        items.append(_item(case, "remove", 0, listed(extent.removed)))
    return Decision(
        case.node.dataset, "stale", Commit(_state(case, root, found), entered, 0, None, build), tuple(items)
    )


def _common_schema(case: _Case, window: windows.Window) -> Deciding[Schema | None]:
    """The schema of Python results that could not be analysed: that of all fragments, if they are equal."""
    ids_ = [trace.outputs[case.node.output] for _, trace in window.hits.values()]
    found = [f.schema for f in (yield from asking.fragments(ids_)).values() if f.id in set(ids_)]
    if case.state is not None and not found:
        return case.state.schema
    first = found[0] if found else EMPTY_SCHEMA
    return first if all(s == first for s in found) else None


# --- words ----------------------------------------------------------------------------------------


def _cause(case: _Case) -> Cause:
    if case.state is None:
        return "missing"
    if case.state.logic != case.node.logic:
        return "logic"
    schemas = {name: c.schema for name, c in case.state.inputs.items()}
    return "input" if schemas == {i.slot.name: i.consumed.schema for i in case.inputs} else "schema"


def _because(case: _Case) -> Iterator[Because]:
    for i in case.inputs:
        used = case.state.inputs.get(i.slot.name) if case.state else None
        if used is None or used.root != i.of.root:
            yield Because(i.slot.dataset, used.root if used else None, i.of.root)


def _item(case: _Case, action: Action, tasks: int, keys: Keys) -> Item:
    cause: Cause = "removed" if action == "remove" else _cause(case)
    return Item(case.node.dataset, action, cause, True, tasks, keys, 0, tuple(_because(case)))


def _state(case: _Case, root: bytes, schema: Schema) -> State:
    totals = tree.totals(case.planning.world.nodes, root)
    after = State(
        branch=case.planning.branch,
        dataset=case.node.dataset,
        seq=0,
        generation=0,
        logic=case.node.logic,
        inputs={i.slot.name: i.consumed for i in case.inputs},
        root=root,
        schema=schema,
        cut=merged_cut(case.inputs),
        partitions=totals.partitions,
        rows=totals.content.rows,
        cause=_cause(case),
        revision=case.node.revision,
        at=case.planning.now,
        lineage=case.node.lineage,
    )
    return next_state(case.state, after)
