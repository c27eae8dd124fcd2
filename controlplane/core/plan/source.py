"""Deciding about read components: listing root -> parsed partitions, and how their schema comes about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.core import ids, tree
from controlplane.core.dataflow import Source, settings_id
from controlplane.core.expectations import absent_columns, drop_job
from controlplane.core.model import Building, Cause, Consumed, Listing, SourcePartition, State, Task
from controlplane.core.plan import asking, windows
from controlplane.core.plan.asking import Deciding
from controlplane.core.plan.keys import Keys, lacking, listed
from controlplane.core.plan.values import (
    Action,
    Because,
    Commit,
    Decision,
    Item,
    Learn,
    Planning,
    Status,
    next_state,
    user_error,
)
from controlplane.core.schemas import append_columns, missing_columns, own_columns, struct, types
from dataplane.contract import Json, Schema, TaskError, schema_id, select_columns, task_key

FIXED = {
    "text": struct([("value", "string")]),
    "binary": struct([("content", "binary"), ("length", "long")]),
}


@dataclass(frozen=True, slots=True)
class _Case:
    """A read component whose listing is not what its state was built from."""

    planning: Planning
    node: Source
    state: State | None
    listing: Listing
    objects: bytes  # root of the listing

    @property
    def consumed(self) -> Consumed:
        return Consumed("", self.objects, b"")

    @property
    def root(self) -> bytes:
        """Of the present output."""
        return self.state.root if self.state else tree.EMPTY_ROOT

    @property
    def is_full(self) -> bool:
        """Nothing of what was built before counts."""
        return self.state is None or self.state.logic != self.node.logic or "objects" not in self.state.inputs


@dataclass(frozen=True, slots=True)
class _Extent:
    """What is to be looked at: partitions on top of `base`, which holds what is right already."""

    base: bytes
    count: int
    keys: Iterable[str]
    told: Keys  # the same, as a value
    removed: tuple[str, ...]
    parts: Mapping[str, SourcePartition] | None  # of all of them; None: too many
    telling: Keys  # partitions whose columns have to be known before anything else


def decide(planning: Planning, node: Source) -> Deciding[Decision]:
    listing, state = planning.world.listing(node.listing), planning.state(node.dataset)
    if listing is None or listing.root is None:
        return _unlisted(node, listing)
    if listing.is_awaited and (state is None or state.lineage != node.lineage):
        return _unknown(node, state, "waits for a listing")
    case = _Case(planning, node, state, listing, listing.root)
    decision = Decision(node.dataset, "up_to_date") if _is_current(case) else (yield from _stale(case))
    if listing.error is not None:
        return _overlaid(decision, "failed", "the listing failed", listing.error)
    if listing.held and "lost" in listing.held:  # else a loss was confirmed before there was one
        reason = (
            f"the last listing lost {listing.held['lost']} of {listing.held['before']} partitions; "
            "it waits for `headgate refresh --accept-deletes`"
        )
        return _overlaid(decision, "waiting", reason, None)
    return decision


def _overlaid(decision: Decision, status: Status, reason: str, error: TaskError | None) -> Decision:
    return replace(decision, status=status, reason=reason, error=error or decision.error)


def _unlisted(node: Source, listing: Listing | None) -> Decision:
    found = _unknown(node, None, "not listed yet")
    if listing is not None and listing.error is not None:
        return replace(found, status="failed", reason="the listing failed", error=listing.error, pending=None)
    return found


def _unknown(node: Source, state: State | None, reason: str) -> Decision:
    """Nothing can be said of its partitions yet."""
    item = Item(node.dataset, "compute", "logic" if state else "missing", False, 0, Keys())
    return Decision(node.dataset, "stale", items=(item,), reason=reason, pending=Keys())


def _is_current(case: _Case) -> bool:
    state = case.state
    return state is not None and state.lineage == case.node.lineage and state.inputs.get("objects") == case.consumed


def _stale(case: _Case) -> Deciding[Decision]:
    node = case.node
    pinned = case.planning.world.pinned(node.maker)
    known = pinned[1] if pinned and pinned[0] == settings_id(node) else None
    yield from asking.nodes([(case.objects, ()), (case.root, ())])
    build = ids.build_key(node.logic, {"objects": case.objects, "pinned": schema_id(known) if known else None})
    builds, _ = yield from asking.remembered([build], [])
    if build in builds:
        return (yield from _adopt(case, *builds[build], build))
    extent = yield from _extent(case)
    settled = yield from _schema(case, known, extent)
    if isinstance(settled, Decision):
        return settled
    return (yield from _partitions(case, extent, settled, build))


def _adopt(case: _Case, root: bytes, schema: Schema, build: bytes) -> Deciding[Decision]:
    """The whole output is known: a pointer moves."""
    yield from asking.nodes([(root, ())])
    keys = lacking(case.planning.world.nodes, root) if root != case.root else Keys()
    named = [s for s in types(schema) if not s.startswith("_source_")] if case.node.read.metadata else None
    own = schema if named is None else select_columns(schema, named)
    commit = Commit(
        _state(case, root, schema), None, 0 if case.node.output else keys.count, _pin(case.node, own), build
    )
    items = (_item(case, "adopt", 0, keys),) if keys.count else ()
    return Decision(case.node.dataset, "stale", commit, items)


# --- extent ---------------------------------------------------------------------------------------


def _extent(case: _Case) -> Deciding[_Extent]:
    """Partitions to look at, and those that vanish."""
    building = case.planning.building(case.node.dataset)
    if building is not None and building.lineage == case.node.lineage:
        extent = yield from _holes(case, (yield from _carried(case, building)))
        return replace(extent, telling=lacking(case.planning.world.nodes, case.objects))
    if case.is_full:
        return (yield from _holes(case, tree.EMPTY_ROOT))
    assert case.state is not None
    [changes] = yield from asking.changes([(case.state.inputs["objects"].root, case.objects)])
    present = [c.key for c in changes if c.after is not None]
    removed = tuple(c.key for c in changes if c.after is None)
    base = case.root
    if len(present) > case.planning.exact:
        base = tree.edit(case.planning.world.nodes, base, [(c.key, None) for c in changes])
    return (
        yield from _with_parts(
            case, _Extent(base, len(present), present, listed(present), removed, None, listed(present))
        )
    )


def _carried(case: _Case, building: Building) -> Deciding[bytes]:
    """What a half-built root has that this listing has not changed."""
    [changes] = yield from asking.changes([(building.inputs["objects"].root, case.objects)])
    gone = [c.key for c in changes if c.before is not None]
    yield from asking.nodes([(building.root, gone)])
    return tree.edit(case.planning.world.nodes, building.root, [(key, None) for key in gone])


def _holes(case: _Case, base: bytes) -> Deciding[_Extent]:
    """All partitions of the listing that `base` lacks."""
    told = lacking(case.planning.world.nodes, case.objects, base)
    keys = yield from windows.hole_keys(case.planning, [case.objects], base, told.count)
    if isinstance(keys, list):
        told = listed(keys)
    [removed] = yield from asking.holes([(case.objects, case.root)])
    return (yield from _with_parts(case, _Extent(base, told.count, keys, told, tuple(removed), None, told)))


def _with_parts(case: _Case, extent: _Extent) -> Deciding[_Extent]:
    if extent.count > case.planning.exact:
        return extent
    found = yield from asking.partitions(case.listing.id, list(extent.told.listed))
    return replace(extent, parts={key: found[key] for key in extent.told.listed})  # in the order of keys


# --- schema --------------------------------------------------------------------------------------


def _schema(case: _Case, known: Schema | None, extent: _Extent) -> Deciding[Schema | Decision]:
    """The dataset's schema (without metadata columns) with these partitions in it, or what has to be learned first, or
    why there is none."""
    node = case.node
    schema = known or node.declared or FIXED.get(node.read.format)
    if schema is None:
        found = yield from _infer(case, extent, None)
        if isinstance(found, Decision):
            return found
        schema = found
    own = _all_columns(case, extent, schema)
    if own is None:  # too many kinds of objects to know without looking at each
        own = _columns_of((yield from _every_part(case, extent)), node, schema)
    if node.declared and case.is_full and own and (absent := _absent(node.declared, own.values())):
        return Decision(node.dataset, "failed", error=_mismatch(absent, own))
    unknown = missing_columns(schema, (name for names in own.values() for name in names))
    if not unknown:
        return schema
    if node.read.schema_change == "fail":
        return Decision(node.dataset, "failed", error=_changed(unknown, own))
    found = yield from _infer(case, extent, frozenset(unknown))
    if isinstance(found, Decision):
        return found
    return append_columns(schema, unknown, _named(node, schema, found))


def _all_columns(case: _Case, extent: _Extent, schema: Schema) -> Mapping[str, list[str]] | None:
    """By partition (or any name for it) the names of its own columns; of very many only what the listing says."""
    if extent.parts is not None and extent.telling == extent.told:
        return _columns_of(extent.parts, case.node, schema)
    if not case.listing.all_columns:
        return None
    kinds = (None if kind is None else list(kind) for kind in case.listing.columns)
    return {f"#{n}": own_columns(k, schema, positional=case.node.positional) for n, k in enumerate(kinds)}


def _columns_of(parts: Mapping[str, SourcePartition], node: Source, schema: Schema) -> dict[str, list[str]]:
    return {key: _own(node, part, schema) for key, part in parts.items()}


def _own(node: Source, part: SourcePartition, schema: Schema) -> list[str]:
    names = (n for o in part.objects for n in own_columns(o["columns"], schema, positional=node.positional))
    return list(dict.fromkeys(names))


def _every_part(case: _Case, extent: _Extent) -> Deciding[Mapping[str, SourcePartition]]:
    if extent.parts is not None and extent.telling == extent.told:
        return extent.parts
    keys = list(extent.telling.read(case.planning.world.nodes))
    found = yield from asking.partitions(case.listing.id, keys)
    return {key: found[key] for key in keys}


def _named(node: Source, schema: Schema, found: Schema) -> Schema:
    """An inferred schema under the dataset's own names: headerless columns beyond the schema keep theirs."""
    if not node.positional:
        return found
    names = [*types(schema), *list(types(found))[len(types(schema)) :]]
    return struct(zip(names, types(found).values(), strict=False))


def _infer(case: _Case, extent: _Extent, having: frozenset[str] | None) -> Deciding[Schema | Decision]:
    """The schema that Spark infers from these partitions (with any of some columns), or the decision to ask for it."""
    node = case.node
    parts = yield from _every_part(case, extent)
    if having is not None:
        parts = {k: p for k, p in parts.items() if having & {n for o in p.objects for n in o["columns"] or ()}} or parts
    objects = [o for _, part in sorted(parts.items()) for o in part.objects]
    if not objects:
        return struct(())
    options = dict(node.read.options)
    key = ids.inference_key(node.read.format, options, node.timezone, [p.source for p in parts.values()])
    _, memos = yield from asking.remembered([], [key])
    if key in memos:
        return memos[key]["schema"]  # type: ignore[no-any-return]
    job = {"format": node.read.format, "options": options, "timezone": node.timezone}
    spec = {"objects": objects, "listing": node.listing.hex()}
    task = Task(key, "infer", node.maker, "", ids.job_id(job), spec)
    status, error = windows.learning(task, (yield from asking.tasks([key])))
    keys = listed(sorted(parts))
    item = Item(node.dataset, "compute", "missing", False, keys.count, keys)
    return Decision(
        node.dataset, status, Learn(task, job), (item,), "schema inference", error=error, pending=extent.told
    )


def _absent(declared: Schema, own: Iterable[Sequence[str]]) -> tuple[str, ...]:
    have = {name for names in own for name in names}
    return tuple(name for name in types(declared) if name not in have)


def _mismatch(absent: tuple[str, ...], own: Mapping[str, list[str]]) -> TaskError:
    key, names = next(iter(own.items()))
    message = f"no source object has the declared column(s) {', '.join(absent)}; {key} has {', '.join(names[:50])}"
    return user_error("schema-mismatch", message)


def _changed(unknown: tuple[str, ...], own: Mapping[str, list[str]]) -> TaskError:
    where = [k for k, names in own.items() if set(unknown) & set(names)]
    message = f"new column(s) {', '.join(unknown)} in {', '.join(where[:5])}, and schema_change is fail"
    return user_error("schema-changed", message)


# --- partitions ----------------------------------------------------------------------------------


def _partitions(case: _Case, extent: _Extent, schema: Schema, build: bytes) -> Deciding[Decision]:
    job = {
        "format": case.node.read.format,
        "options": dict(case.node.read.options),
        "metadata": sorted(case.node.read.metadata),
        "on_bad_record": case.node.read.on_bad_record,
        "timezone": case.node.timezone,
    }
    if expect := drop_job(case.node.checks, case.node.spark):
        job["expect"] = expect
    limit = windows.limit(case.planning, extent.count)
    if limit == 0:
        item = replace(_item(case, "compute", extent.count, extent.told), certain=False)
        return Decision(case.node.dataset, "stale", items=(item,), pending=extent.told)
    window = yield from windows.look(
        extent.keys, lambda keys: _tasks(case, extent, schema, job, keys), limit, case.node.output
    )
    if window.missing or not window.is_whole:
        return (yield from _compute(case, extent, window, job, schema))
    entered = yield from windows.entering(case.planning, case.root, window)
    root = yield from windows.edited(case.planning, extent.base, window, extent.removed)
    after = _state(case, root, case.node.with_metadata(schema))
    commit = Commit(after, entered, 0, _pin(case.node, schema), build)
    return Decision(case.node.dataset, "stale", commit, tuple(_commit_items(case, extent, window)))


def _pin(node: Source, schema: Schema) -> tuple[bytes, Schema] | None:
    return None if node.output else (settings_id(node), schema)


def _tasks(case: _Case, extent: _Extent, schema: Schema, job: Json, keys: Sequence[str]) -> Deciding[dict[str, Task]]:
    parts = extent.parts
    if parts is None:
        parts = yield from asking.partitions(case.listing.id, keys)
    digest, kinds = ids.job_id(job), _Kinds(schema)
    return {key: _task(case.node, parts[key], kinds, digest) for key in keys}


class _Kinds:
    """The columns that partitions have of a schema: they are of few kinds."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._known: dict[tuple[str, ...], tuple[Schema, Schema, dict[str, bytes]]] = {}

    def of(self, node: Source, part: SourcePartition) -> tuple[Schema, Schema, dict[str, bytes]]:
        """The part of the schema that this partition has, the columns that it lacks and that rows are dropped by, and
        the ids of both; of the second only if there are any."""
        own = tuple(_own(node, part, self._schema))
        if own not in self._known:
            columns = select_columns(self._schema, own)
            absent = absent_columns(node.checks, self._schema, columns)
            slots = {"columns": schema_id(columns)} | ({"lacking": schema_id(absent)} if absent["fields"] else {})
            self._known[own] = (columns, absent, slots)
        return self._known[own]


def _task(node: Source, part: SourcePartition, kinds: _Kinds, job: bytes) -> Task:
    columns, absent, slots = kinds.of(node, part)
    spec: Json = {"objects": list(part.objects), "columns": columns, "listing": node.listing.hex()}
    if "lacking" in slots:
        spec["lacking"] = absent
    size = sum(o["size"] for o in part.objects)
    key = task_key(node.parse, {"objects": part.source, **slots})
    return Task(key, "parse", node.maker, part.key, job, spec, size, priority=node.component.priority)


def _compute(case: _Case, extent: _Extent, window: windows.Window, job: Json, schema: Schema) -> Deciding[Decision]:
    building = None
    if extent.count > case.planning.exact:
        root = yield from windows.edited(case.planning, extent.base, window, ())
        building = _building(case, root, schema)
    own = listed(sorted(window.missing)) if window.is_whole else extent.told
    size = sum(t.size_bytes for t in window.tasks)
    item = _item(case, "compute", len(window.tasks) if window.is_whole else own.count, own, size)
    items = [replace(item, certain=window.is_whole)]
    if extent.removed:
        items.append(_item(case, "remove", 0, listed(extent.removed)))
    touched = listed(sorted({*extent.told.listed, *extent.removed})) if extent.told.listed else extent.told
    decision = Decision(case.node.dataset, "stale", items=tuple(items), pending=touched)
    return windows.computing(decision, window, job, building)


def _building(case: _Case, root: bytes, schema: Schema) -> Building:
    node, planning = case.node, case.planning
    whole, cut = node.with_metadata(schema), {node.dataset: case.objects}
    return Building(planning.branch, node.dataset, node.lineage, {"objects": case.consumed}, root, whole, cut)


def _commit_items(case: _Case, extent: _Extent, window: windows.Window) -> Iterator[Item]:
    if window.hits:
        yield _item(case, "adopt", 0, listed(sorted(window.hits)))
    if extent.removed:
        yield _item(case, "remove", 0, listed(extent.removed))


def _item(case: _Case, action: Action, tasks: int, keys: Keys, size: int = 0) -> Item:
    state = case.state
    before = state.inputs["objects"].root if state and "objects" in state.inputs else None
    cause: Cause = "missing" if state is None else "removed" if action == "remove" else _cause(case)
    because = (Because(case.node.location, before, case.objects),)
    return Item(case.node.dataset, action, cause, True, tasks, keys, size, because)


def _cause(case: _Case) -> Cause:
    if case.state is None:
        return "missing"
    return "logic" if case.state.logic != case.node.logic else "input"


def _state(case: _Case, root: bytes, schema: Schema) -> State:
    inputs, cut = {"objects": case.consumed}, {case.node.dataset: case.objects}
    return next_state(case.planning, case.node, root, schema, inputs=inputs, cut=cut, cause=_cause(case))
