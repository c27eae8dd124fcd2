"""Deciding about read components: listing root -> parsed partitions, and how their schema comes
about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from controlplane.core import tree
from controlplane.core.blueprint.model import Read
from controlplane.core.compile import connector_identity, ids
from controlplane.core.compile.compiled_checks import absent_columns, drop_job
from controlplane.core.compile.nodes import Source, settings_id
from controlplane.core.compile.sort_by import sort_fault, sorting
from controlplane.core.model.jobs import ParseSpec
from controlplane.core.model.pins import FileColumns, Pin
from controlplane.core.model.roll_ups import MemberSource
from controlplane.core.model.sources import Listing, SourcePartition
from controlplane.core.model.states import LOST, Cause, PartialState, State
from controlplane.core.model.tasks import Task
from controlplane.core.plan import event_watermarks, lookups, salts, unfinished, unions, windows
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import (
    Action,
    Because,
    Commit,
    Decision,
    Item,
    Planning,
    Status,
    next_state,
    user_error,
)
from controlplane.core.plan.source.earlier_results import UNCHECKED, EarlierResults
from controlplane.core.plan.source.read_extent import Gone, ReadCase, ReadExtent, parts_at
from controlplane.core.plan.source.source_schema import FIXED, fitted, own_names, placed, schema_of
from controlplane.core.plan.unfinished import Finishing
from controlplane.core.plan.unions import Elsewhere, SliceTasks
from controlplane.core.plan.work_keys import Keys, lacking, listed
from controlplane.core.schema.ddl_schemas import struct, types
from controlplane.core.schema.widening import can_stay
from dataplane.contract.identity import schema_id, task_key
from dataplane.contract.jobs import FootersJob, ParseJob
from dataplane.contract.joins import TEXTS, has_numbers, is_held
from dataplane.contract.kinds import Placement, placement_of
from dataplane.contract.results import TaskError
from dataplane.contract.schemas import Schema, in_order, select_columns
from dataplane.contract.source_objects import folder_columns
from dataplane.contract.types import in_words

MANY = 100  # objects of one partition of which each counts, in batches of work, as
OBJECT_BYTES = 64 << 10  # however small it is: what finding and opening it costs


def decide(planning: Planning, node: Source) -> Deciding[Decision]:
    listing, state = planning.world.listing(node.listing), planning.state(node.dataset)
    if listing is None or listing.root is None:
        return _unlisted(node, listing)
    case = ReadCase(planning, node, state, listing, listing.root)
    is_current, is_of_now = _is_current(case), state is not None and state.lineage == node.lineage
    if listing.is_awaited and (is_current or not is_of_now or case.is_taken_back):
        cause: Cause = "missing" if state is None else "input" if is_of_now else "logic"
        return _unknown(node, cause, "waits for a listing")
    return _with_listing(
        listing, Decision(node.dataset, "up_to_date") if is_current else (yield from _decided(case))
    )


def finish(planning: Planning, node: Source) -> Finishing:
    """The remaining work of the run under way."""
    run, listing, state = (
        unfinished.current_run(planning, node),
        planning.world.listing(node.listing),
        planning.state(node.dataset),
    )
    if (
        run is None
        or listing is None
        or listing.root is None
        or run.cut[node.dataset] == listing.root
    ):
        return None
    case = ReadCase(planning, node, state, listing, run.cut[node.dataset])
    if _is_current(case) or _is_current(replace(case, objects=listing.root)):
        return unfinished.GIVEN_UP
    if not (yield from _is_there(case, listing.root)):
        return unfinished.GIVEN_UP
    try:
        outcome = unfinished.continue_run((yield from _decided(case)))
    except Gone:
        return unfinished.GIVEN_UP
    return _with_listing(listing, outcome) if isinstance(outcome, Decision) else outcome


def _is_there(case: ReadCase, newest: bytes) -> Deciding[bool]:
    """Whether the partitions that the run reads again are unchanged in the newest listing."""
    before = (
        tree.EMPTY_ROOT if case.is_full or case.state is None else case.state.inputs["objects"].root
    )
    [later] = yield from lookups.diffs([(case.objects, newest)])
    others = [c.key for c in later if c.before is not None]
    yield from lookups.nodes([(root, others) for root in (before, case.objects)])
    nodes = case.planning.nodes
    return tree.lookup(nodes, before, others) == tree.lookup(nodes, case.objects, others)


def _decided(case: ReadCase) -> Deciding[Decision]:
    return unfinished.with_run(case.planning, case.node, (yield from _stale(case)), {}, _cut(case))


def _with_listing(listing: Listing, decision: Decision) -> Decision:
    """With the listing's error or hold, unless another listing was requested."""
    if listing.is_awaited:
        return decision
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
    decision = _unknown(node, "missing", "not listed yet")
    if listing is not None and listing.error is not None and not listing.is_awaited:
        return replace(
            decision,
            status="failed",
            reason="the listing failed",
            error=listing.error,
            pending=None,
        )
    return decision


def _unknown(node: Source, cause: Cause, reason: str) -> Decision:
    """Its partitions are unknown so far."""
    item = Item(node.dataset, "compute", cause, certain=False, tasks=0, keys=Keys(), reason=reason)
    return Decision(node.dataset, "stale", items=(item,), reason=reason, pending=Keys())


def _is_current(case: ReadCase) -> bool:
    state = case.state
    if case.is_taken_back:
        return False
    if (
        state is None
        or state.lineage != case.node.lineage
        or "objects" not in state.inputs
        or state.inputs["objects"].root != case.objects
    ):
        return False
    return salts.is_of(case.planning, case.node, state)


def _stale(case: ReadCase) -> Deciding[Decision]:
    node = case.node
    pinned = case.planning.world.pinned(node.maker)
    pin = pinned if pinned and pinned.settings == settings_id(node) else None
    yield from lookups.nodes([(case.objects, ()), (case.root, ())])
    build = ids.build_key(
        node.logic, build_basis(case.objects, pin), salts.of_output(case.planning, node)
    )
    builds, _ = yield from lookups.remembered([build], [])
    if build in builds and _may_adopt(node, pin, builds[build][1]):
        return (yield from _adopt(case, pin, *builds[build], build))
    extent = yield from _extent(case)
    settled = yield from schema_of(case, pin, extent)
    if isinstance(settled, Decision):
        return settled
    settled = placed(node, settled._replace(schema=_as_grown(case, settled.schema)))
    return (
        yield from _partitions(
            case, (yield from _readable(case, extent, settled.schema)), settled, build
        )
    )


def build_basis(objects: bytes, pin: Pin | None) -> dict[str, object]:
    """What the output follows from, besides the logic."""
    basis: dict[str, object] = {
        "objects": objects,
        "pinned": schema_id(pin.schema) if pin else None,
    }
    history = FileColumns({}) if pin is None else pin.history
    if history is not None:
        basis["history"] = [sorted(history.places.items()), sorted(history.empty)]
    return basis


def _may_adopt(node: Source, pin: Pin | None, schema: Schema) -> bool:
    """Whether an output that is known says all that is to be pinned. With inferred columns it does
    not: the files and values that they came from are missing."""
    if node.output or (pin is not None and pin.history is None):
        return True
    fixed = node.declared or FIXED.get(node.read.format) or struct(())
    return types(schema).keys() <= types(node.with_metadata(fixed)).keys()


def _as_grown(case: ReadCase, schema: Schema) -> Schema:
    """With types as wide as a half-built root has found them to be."""
    building = case.planning.building(case.node.dataset)
    if building is None or building.schema is None or building.lineage != case.node.lineage:
        return schema
    wide, is_text = types(building.schema), case.node.read.format in TEXTS
    return struct(
        (n, wide[n] if n in wide and is_held(t, wide[n], is_text=is_text) else t)
        for n, t in types(schema).items()
    )


def _adopt(
    case: ReadCase, pin: Pin | None, root: bytes, schema: Schema, build: bytes
) -> Deciding[Decision]:
    """The whole output is known: a pointer moves."""
    yield from lookups.nodes([(root, ())])
    keys = lacking(case.planning.nodes, root) if root != case.root else Keys()
    named = (
        [s for s in types(schema) if not s.startswith("_source_")]
        if case.node.read.metadata
        else None
    )
    own = schema if named is None else select_columns(schema, named)
    history = pin.history if pin else FileColumns({})  # all columns are declared
    pin_after = _pin(case.node, Pin(settings_id(case.node), own, history=history))
    after = yield from _state(case, root, schema)
    commit = Commit(after, None, 0 if case.node.output else keys.count, pin_after, build)
    items = (_item(case, "adopt", 0, keys),) if keys.count else ()
    return Decision(case.node.dataset, "stale", commit, items)


# --- extent ---------------------------------------------------------------------------------------


def _extent(case: ReadCase) -> Deciding[ReadExtent]:
    """Partitions to look at, and those that vanish."""
    building = case.planning.building(case.node.dataset)
    if (
        building is not None
        and building.lineage == case.node.lineage
        and _is_same_salt(case, building)
    ):
        extent = yield from _holes(case, (yield from _carried(case, building)))
        return replace(
            extent, described=lacking(case.planning.nodes, case.objects), written=building.schema
        )
    if case.is_full:
        return (yield from _holes(case, tree.EMPTY_ROOT))
    assert case.state is not None
    [changes] = yield from lookups.diffs([(case.state.inputs["objects"].root, case.objects)])
    present = [c.key for c in changes if c.after is not None]
    removed = tuple(c.key for c in changes if c.after is None)
    base = case.root
    if len(present) > case.planning.exact:
        base = tree.edit(case.planning.nodes, base, [(c.key, None) for c in changes])
    return (
        yield from _with_parts(
            case,
            ReadExtent(
                base,
                len(present),
                present,
                partitions=listed(present),
                removed=removed,
                parts=None,
                described=listed(present),
                written=case.state.schema,
            ),
        )
    )


def _is_same_salt(case: ReadCase, building: PartialState) -> bool:
    return salts.is_of(case.planning, case.node, building)


def _carried(case: ReadCase, building: PartialState) -> Deciding[bytes]:
    """What a half-built root has that this listing has not changed."""
    [changes] = yield from lookups.diffs([(building.inputs["objects"].root, case.objects)])
    changed_keys = [c.key for c in changes if c.before is not None]
    yield from lookups.nodes([(building.root, changed_keys)])
    return tree.edit(case.planning.nodes, building.root, [(key, None) for key in changed_keys])


def _holes(case: ReadCase, base: bytes) -> Deciding[ReadExtent]:
    """All partitions of the listing that `base` lacks."""
    missing = lacking(case.planning.nodes, case.objects, base)
    keys = yield from windows.hole_keys(case.planning, [case.objects], base, missing.count)
    if isinstance(keys, list):
        missing = listed(keys)
    [removed] = yield from lookups.missing_keys([(case.objects, case.root)])
    return (
        yield from _with_parts(
            case,
            ReadExtent(
                base,
                missing.count,
                keys,
                partitions=missing,
                removed=tuple(removed),
                parts=None,
                described=missing,
            ),
        )
    )


def _with_parts(case: ReadCase, extent: ReadExtent) -> Deciding[ReadExtent]:
    if extent.count > case.planning.exact:
        return extent
    return replace(extent, parts=(yield from parts_at(case, extent.partitions.listed)))


# --- partitions ----------------------------------------------------------------------------------


def _partitions(case: ReadCase, extent: ReadExtent, pin: Pin, build: bytes) -> Deciding[Decision]:
    schema = pin.schema
    full_schema, is_exact = case.node.with_metadata(schema), bool(case.node.spark["case_sensitive"])
    if fault := sort_fault(case.node.component, full_schema, case_sensitive=is_exact):
        return Decision(case.node.dataset, "failed", error=user_error("invalid-sort-column", fault))
    job = _job(case.node)
    order = sorting(case.node.component, full_schema, case_sensitive=is_exact)
    if order is not None:
        job["sort_by"] = order
    if case.node.component.profile != "full":
        job["profile"] = case.node.component.profile
    limit = windows.limit(case.planning, extent.count)
    if limit == 0:
        item = replace(_item(case, "compute", extent.count, extent.partitions), certain=False)
        return Decision(case.node.dataset, "stale", items=(item,), pending=extent.partitions)
    before = EarlierResults(case)
    kinds = _Kinds(pin)
    elsewhere = before.elsewhere if case.node.earlier else None
    if case.node.read.connector == "kafka":
        elsewhere = partial(_slices_elsewhere, case, kinds, before)
    window = yield from windows.look(
        extent.keys,
        lambda keys: _tasks(case, extent, kinds, job, keys, before),
        limit,
        case.node.output,
        elsewhere,
    )
    if unchecked := before.unchecked(window):
        return (yield from _checking(case, extent, unchecked, before.job, schema))
    fitting = yield from fitted(case, extent, pin, window)
    if isinstance(fitting, Decision):
        return fitting
    if fitting.schema != schema:
        rest = yield from _rest(case, extent, window, schema, fitting.schema)
        wider = pin._replace(schema=fitting.schema, widened=(*pin.widened, *fitting.widened))
        return (yield from _partitions(case, rest, wider, build))
    if window.missing or not window.is_whole:
        return _complaining(
            (yield from _compute(case, extent, window, job, schema)), fitting.complaint
        )
    entered = yield from windows.entering(case.planning, case.root, window)
    root = yield from windows.edited(case.planning, extent.base, window, extent.removed)
    after = yield from _state(case, root, full_schema)
    commit = Commit(after, entered, 0, _pin(case.node, pin), build)
    return Decision(case.node.dataset, "stale", commit, tuple(_commit_items(case, extent, window)))


def _rest(
    case: ReadCase, extent: ReadExtent, window: windows.Window, schema: Schema, wider: Schema
) -> Deciding[ReadExtent]:
    """The partitions left to read where types turned out to be wider than expected."""
    if extent.count > case.planning.exact:
        extent = yield from _extent(case)  # its keys can be read only once
    elif can_stay(schema, wider):
        base = yield from windows.edited(case.planning, extent.base, window, ())
        extent = replace(extent, base=base, keys=sorted(window.missing))
    return (yield from _readable(case, extent, wider))


def _readable(case: ReadCase, extent: ReadExtent, schema: Schema) -> Deciding[ReadExtent]:
    """The extent to read under a schema: everything, where present rows cannot stay under its
    types."""
    if extent.written is None or can_stay(extent.written, schema):
        return extent
    return replace((yield from _holes(case, tree.EMPTY_ROOT)), is_again=True)


def _job(node: Source) -> ParseJob:
    job: ParseJob = {
        "format": node.read.format,
        "options": dict(node.read.options),
        "metadata": sorted(node.read.metadata),
        "on_bad_record": node.read.on_bad_record,
        "timezone": node.timezone,
        **connector_identity.reading_job(node.read, node.location),
    }
    if expect := drop_job(node.checks, node.spark):
        job["expect"] = expect
    if (rule := node.read.event_time) is not None:
        job["event_time"] = {"column": rule.column, "max_ahead_s": rule.max_ahead_s}
    return job


def _complaining(decision: Decision, complaint: TaskError | None) -> Decision:
    """With an error of our own in place of Spark's, which goes to the detail."""
    if complaint is None or decision.error is None:
        return decision
    detail = f"{decision.error['message']}\n{decision.error['detail']}"
    return replace(decision, error={**complaint, "detail": detail})


def _pin(node: Source, pin: Pin) -> Pin | None:
    """With the last widening of each column that still has the type which it led to."""
    if node.output:
        return None
    kinds = {name: in_words(kind) for name, kind in types(pin.schema).items()}
    last = {
        widening.column: widening
        for widening in pin.widened
        if kinds.get(widening.column) == widening.after
    }
    return pin._replace(widened=tuple(last.values()))


def _tasks(
    case: ReadCase,
    extent: ReadExtent,
    kinds: _Kinds,
    job: ParseJob,
    keys: Sequence[str],
    before: EarlierResults,
) -> Deciding[dict[str, Task]]:
    parts = extent.parts
    if parts is None:
        parts = yield from parts_at(case, keys)
    digest, salt_of = ids.job_id(job), salts.of(case.planning, case.node)
    if case.node.earlier:
        before.note(
            case.node.earlier,
            {key: (parts[key], kinds.of(case.node, parts[key]).slots) for key in keys},
            salt_of,
        )
    return {key: _task(case.node, parts[key], kinds, digest, salt_of) for key in keys}


def _slices_elsewhere(
    case: ReadCase, kinds: _Kinds, before: EarlierResults, missing: Mapping[str, Task]
) -> Deciding[Elsewhere]:
    """Results of the other way to read slices, then those of rolled-up slices."""
    if not case.node.earlier:
        return (yield from _united(case, kinds, missing))
    hits, rest = yield from before.elsewhere(missing)
    unions, rest = yield from _united(case, kinds, rest)
    return {**hits, **unions}, rest


def _united(case: ReadCase, kinds: _Kinds, missing: Mapping[str, Task]) -> Deciding[Elsewhere]:
    """Results of rolled-up slices in place of tasks that would read them again."""
    node, salt_of = case.node, salts.of(case.planning, case.node)
    # By the keys of slices' tasks, those of the other way to read them
    earlier_keys: dict[bytes, bytes] = {}

    def members_of(spans: Sequence[str]) -> Deciding[dict[str, SliceTasks]]:
        parts = yield from parts_at(case, spans)
        slices = yield from unions.source_members({key: parts[key].source for key in spans})
        return {span: tasks(parts[span], of) for span, of in slices.items()}

    def tasks(span: SourcePartition, slices: Sequence[MemberSource]) -> SliceTasks:
        own = kinds.of(node, span).slots

        def key_of(part: MemberSource) -> bytes:
            slots, salt = {"objects": part.source, **own}, salt_of(part.key)
            key = task_key(node.parse, slots, salt)
            # Event times that `late` needs may be missing in results of the plain way
            if node.earlier and not node.read.keeps_late_rows:
                earlier_keys[key] = task_key(node.earlier, slots, salt)
            return key

        return SliceTasks.of(slices, key_of)

    lookup = unions.traces_with(earlier_keys)
    return (yield from unions.from_members(case.planning, node.maker, missing, members_of, lookup))


@dataclass(frozen=True, slots=True)
class _Own:
    """The part of the schema that some partitions have; the columns that they lack and that rows
    are dropped by; the names of columns of text whose types of numbers are inferred; and what of
    this identifies their rows."""

    columns: Schema
    lacking: Schema
    inferred: list[str]
    slots: Mapping[str, bytes]


class _Kinds:
    """The columns that partitions have of a schema: they are of few kinds."""

    def __init__(self, pin: Pin) -> None:
        self._schema, self._is_checked = pin.schema, pin.history is not None
        self._own_names: dict[tuple[tuple[str, ...], frozenset[str]], _Own] = {}

    def of(self, node: Source, part: SourcePartition) -> _Own:
        own = (tuple(own_names(node, part, self._schema)), folder_columns(part.objects))
        if own not in self._own_names:
            self._own_names[own] = self._own(node, *own)
        return self._own_names[own]

    def _own(self, node: Source, names: Sequence[str], folders: frozenset[str]) -> _Own:
        declared = [name for name in types(node.declared or struct(())) if name in names]
        held = types(self._schema)
        # in the order of its own files: other files move the dataset's columns, but change no
        # result of this partition
        columns = in_order(
            self._schema, dict.fromkeys((*declared, *(name for name in names if name in held)))
        )
        lacking = absent_columns(node.checks, self._schema, columns)
        inferred = self._inferred(node, columns, folders)
        slots = {"columns": schema_id(columns)}
        if lacking["fields"]:
            slots["lacking"] = schema_id(lacking)
        if inferred:
            slots["inferred"] = schema_id(select_columns(columns, inferred))
        return _Own(columns, lacking, inferred, slots)

    def _inferred(self, node: Source, columns: Schema, folders: frozenset[str]) -> list[str]:
        """None under pins of earlier versions: numbers are read there as before."""
        if not self._is_checked or not connector_identity.is_files(node.read):
            return []
        declared = types(node.declared or struct(()))
        texts = types(columns).keys() if node.read.format in TEXTS else folders
        numbers = (name for name, kind in types(columns).items() if has_numbers(kind))
        return [name for name in numbers if name in texts and name not in declared]


def _task(
    node: Source, part: SourcePartition, kinds: _Kinds, job: bytes, salt_of: salts.SaltOf
) -> Task:
    own = kinds.of(node, part)
    spec: ParseSpec = {
        "objects": list(part.objects),
        "columns": own.columns,
        "listing": node.listing.hex(),
    }
    if own.lacking["fields"]:
        spec["lacking"] = own.lacking
    if own.inferred:
        spec["inferred"] = own.inferred
    size = sum(o["size"] for o in part.objects)
    if len(part.objects) >= MANY:
        size = max(size, OBJECT_BYTES * len(part.objects))
    key = task_key(node.parse, {"objects": part.source, **own.slots}, salt_of(part.key))
    of = node.component
    return Task(
        key,
        "parse",
        node.maker,
        partition=part.key,
        job=job,
        spec=spec,
        size_bytes=size,
        priority=of.priority,
        size=of.resources,
        placement=_placement(node.read),
    )


def _placement(read: Read) -> Placement:
    if read.connector != "spark":
        return placement_of("parse", read.connector)
    packages = dict(read.settings).get("packages", ())
    return placement_of("parse", read.connector, has_packages=bool(packages))


def _checking(
    case: ReadCase, extent: ReadExtent, window: windows.Window, job: FootersJob, schema: Schema
) -> Deciding[Decision]:
    """The footers of an earlier version's results are checked before anything is computed."""
    decision = yield from _compute(case, extent, window, job, schema)
    items = tuple(
        replace(i, reason=UNCHECKED) if i.action == "compute" else i for i in decision.items
    )
    return replace(decision, items=items, reason=decision.reason or UNCHECKED)


def _compute(
    case: ReadCase,
    extent: ReadExtent,
    window: windows.Window,
    job: ParseJob | FootersJob,
    schema: Schema,
) -> Deciding[Decision]:
    building = None
    if extent.count > case.planning.exact:
        root = yield from windows.edited(case.planning, extent.base, window, ())
        building = _building(case, root, schema)
    own = listed(sorted(window.missing)) if window.is_whole else extent.partitions
    size = sum(t.size_bytes for t in window.tasks)
    item = _item(case, "compute", len(window.tasks) if window.is_whole else own.count, own, size)
    items = [
        replace(item, certain=window.is_whole, cause="schema" if extent.is_again else item.cause)
    ]
    if extent.removed:
        items.append(_item(case, "remove", 0, listed(extent.removed)))
    touched = (
        listed(sorted({*extent.partitions.listed, *extent.removed}))
        if extent.partitions.listed
        else extent.partitions
    )
    decision = Decision(case.node.dataset, "stale", items=tuple(items), pending=touched)
    return windows.computing(decision, window, job, building)


def _building(case: ReadCase, root: bytes, schema: Schema) -> PartialState:
    node, planning = case.node, case.planning
    full_schema, cut = node.with_metadata(schema), _cut(case)
    return PartialState(
        planning.branch,
        node.dataset,
        node.lineage,
        inputs={"objects": case.consumed},
        root=root,
        schema=full_schema,
        cut=cut,
    )


def _commit_items(case: ReadCase, extent: ReadExtent, window: windows.Window) -> Iterator[Item]:
    if window.hits:
        yield _item(case, "adopt", 0, listed(sorted(window.hits)))
    if extent.removed:
        yield _item(case, "remove", 0, listed(extent.removed))


def _item(case: ReadCase, action: Action, tasks: int, keys: Keys, size: int = 0) -> Item:
    state = case.state
    before = state.inputs["objects"].root if state and "objects" in state.inputs else None
    cause: Cause = "missing" if state is None else "removed" if action == "remove" else _cause(case)
    because = (Because(case.node.location, before, case.objects),)
    reason = salts.in_words(case.planning, case.node, state)
    return Item(
        case.node.dataset,
        action,
        cause,
        certain=True,
        tasks=tasks,
        keys=keys,
        size_bytes=size,
        because=because,
        reason=reason,
    )


def _cause(case: ReadCase) -> Cause:
    if case.state is None:
        return "missing"
    if case.is_taken_back:
        return "schema"
    if case.state.cause == "rollback":
        return "resume"
    if case.state.logic != case.node.logic:
        return "lost" if case.state.logic == LOST else "logic"
    return salts.cause(case.planning, case.node, case.state) or "input"


def _cut(case: ReadCase) -> dict[str, bytes]:
    return {case.node.dataset: case.objects} | salts.cut(case.planning, case.node)


def _state(case: ReadCase, root: bytes, schema: Schema) -> Deciding[State]:
    times = yield from event_watermarks.times_at(case, root)
    inputs, cut = {"objects": replace(case.consumed, times=times)}, _cut(case)
    return next_state(
        case.planning, case.node, root, schema, inputs=inputs, cut=cut, cause=_cause(case)
    )
