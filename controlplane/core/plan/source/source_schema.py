"""The schema of a read component: pinned at the first read, and how it follows its source objects.

What objects have that it lacks is known from the listing (columns, and fields of structs). A type
that no longer fits shows once a file could not be read: the driver then reports the types in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from controlplane.core import tree
from controlplane.core.compile import connector_identity, ids
from controlplane.core.compile.nodes import Source, settings_id
from controlplane.core.model.jobs import InferSpec
from controlplane.core.model.memos import known_schema_in
from controlplane.core.model.pins import MOST_CAUSES, FileColumns, Pin, Widening
from controlplane.core.model.sources import SourcePartition
from controlplane.core.model.tasks import Task
from controlplane.core.plan import lookups, windows
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import Decision, Item, Learn, user_error
from controlplane.core.plan.source.read_extent import (
    ReadCase,
    ReadExtent,
    all_parts,
    every_part,
    parts_at,
)
from controlplane.core.plan.work_keys import Keys, listed
from controlplane.core.schema import widening
from controlplane.core.schema.column_order import first_places, in_order_of, merged_places
from controlplane.core.schema.ddl_schemas import (
    append_columns,
    missing_columns,
    names_by_place,
    own_columns,
    struct,
    types,
)
from controlplane.core.schema.widening import with_values
from dataplane.contract.jobs import InferJob
from dataplane.contract.joins import TEXTS, TypeConflict, grow, is_held
from dataplane.contract.kinds import placement_of
from dataplane.contract.results import TaskError
from dataplane.contract.schemas import Schema, Type, select_columns
from dataplane.contract.source_objects import NESTED, columns_of, folder_columns
from dataplane.contract.types import in_words

FIXED = {
    "text": struct([("value", "string")]),
    "binary": struct([("content", "binary"), ("length", "long")]),
}
# Own columns of objects by partition, or a name for it
Kinds: TypeAlias = Mapping[str, Sequence[Sequence[str] | None]]
Own: TypeAlias = Mapping[str, Sequence[str]]  # the same, each once
Parts: TypeAlias = Mapping[str, SourcePartition]
Texts: TypeAlias = Mapping[str, frozenset[str]]  # columns by partition


@dataclass(frozen=True, slots=True)
class Fitting:
    """The schema under which files can be read that could not be before, and which files made
    columns of it wider; and why others cannot be under any."""

    schema: Schema
    complaint: TaskError | None = None
    widened: tuple[Widening, ...] = ()


def schema_of(
    case: ReadCase, present_pin: Pin | None, extent: ReadExtent
) -> Deciding[Pin | Decision]:
    """The dataset's schema (without metadata columns) with these partitions in it; or the decision
    to learn something first, or the one that says why there is none. It follows from the set of
    files that were seen, not from the order in which they came."""
    node = case.node
    pin = present_pin or (yield from _first(case, extent))
    if isinstance(pin, Decision):
        return pin
    is_inferred_now = present_pin is None and node.declared is None
    if node.read.schema_change == "sync":
        pin = pin._replace(schema=(yield from _without_vanished(case, pin.schema)))
    kinds = yield from _kinds(case, extent)
    inferred = (yield from _inferred_kinds(case, extent, pin.schema, kinds)) if present_pin else {}
    if isinstance(inferred, Decision):
        return inferred
    kinds = {**kinds, **inferred}
    names = {key: _own(node, some, pin.schema) for key, some in kinds.items()}
    if (
        node.declared
        and case.is_full
        and names
        and (absent := _absent(node.declared, names.values()))
    ):
        return Decision(node.dataset, "failed", error=_mismatch(absent, names))
    grown = pin if is_inferred_now else (yield from _with_unknown(case, extent, pin, kinds, names))
    if isinstance(grown, Decision):
        return grown
    if clash := _clash(node, grown.schema):
        return Decision(node.dataset, "failed", error=_clashing(clash, _paths(kinds)))
    return (yield from _ordered(case, grown, present_pin, kinds))


def _first(case: ReadCase, extent: ReadExtent) -> Deciding[Pin | Decision]:
    """What a dataset without a pinned schema begins with."""
    node = case.node
    fixed = node.declared or FIXED.get(node.read.format)
    if fixed is not None:
        return Pin(settings_id(node), fixed, history=FileColumns({}))
    inferred = yield from _infer(case, (yield from every_part(case, extent)), extent.partitions)
    if isinstance(inferred, Decision):
        return inferred
    schema, empty = with_values(inferred, node.read.format)
    return Pin(settings_id(node), schema, history=FileColumns({}, empty))


def _ordered(case: ReadCase, pin: Pin, present_pin: Pin | None, kinds: Kinds) -> Deciding[Pin]:
    """With the columns in the order of the files that were seen; under `sync`, of the present ones.
    Declared columns come first, so that a source without others is not looked through."""
    node, declared = case.node, types(case.node.declared or struct(()))
    listed = {_column(path) for some in kinds.values() for own in some for path in own or ()}
    if pin.history is None or node.positional or listed <= declared.keys():
        return pin
    is_sync = node.read.schema_change == "sync"
    parts = yield from _listed_since(
        case, tree.EMPTY_ROOT if is_sync or present_pin is None else _seen_root(case)
    )
    places = first_places(o for part in parts.values() for o in part.objects)
    if not is_sync:
        places = merged_places([pin.history.places, places])
    places = {path: place for path, place in places.items() if _column(path) not in declared}
    return placed(node, pin._replace(history=replace(pin.history, places=places)))


def _column(path: str) -> str:
    """The column of a nested field's path."""
    return path.split(NESTED)[0]


def _seen_root(case: ReadCase) -> bytes:
    """Root of the listing whose places of columns a pin has. A part of an output is committed
    without a pin."""
    state = case.state
    return state.inputs["objects"].root if state and "objects" in state.inputs else tree.EMPTY_ROOT


def _listed_since(case: ReadCase, before: bytes) -> Deciding[Parts]:
    """Partitions that the listing has, and has not had in the same version at the root `before`."""
    [changes] = yield from lookups.diffs([(before, case.objects)])
    return (yield from parts_at(case, [c.key for c in changes if c.after is not None]))


def placed(node: Source, pin: Pin) -> Pin:
    """With the columns in the order of the files that were seen, so far as the pin knows it."""
    if pin.history is None or node.positional:
        return pin
    declared = types(node.declared or struct(()))
    return pin._replace(schema=in_order_of(pin.schema, pin.history.places, declared))


def _inferred_kinds(
    case: ReadCase, extent: ReadExtent, schema: Schema, kinds: Kinds
) -> Deciding[Kinds | Decision]:
    """Columns that Spark infers from objects whose listing has no columns. Nothing where a schema
    is declared."""
    node = case.node
    if node.declared or not _is_text(node) or not any(None in some for some in kinds.values()):
        return {}
    parts = yield from every_part(case, extent)
    untold = {k: p for k, p in parts.items() if any(o["columns"] is None for o in p.objects)}
    inferred = yield from _infer(case, untold, extent.partitions)
    if isinstance(inferred, Decision):
        return inferred
    return {", ".join(list(untold)[:5]): [widening.own_paths(_named(node, schema, inferred))]}


def _with_unknown(
    case: ReadCase, extent: ReadExtent, pin: Pin, kinds: Kinds, names: Own
) -> Deciding[Pin | Decision]:
    """With the columns and nested fields that these objects have and the schema lacks, and the
    types of columns that no object had a value of before."""
    node, schema, history = case.node, pin.schema, pin.history or FileColumns({})
    unknown = missing_columns(schema, (name for some in names.values() for name in some))
    inferred = select_columns(
        schema, types(schema).keys() - types(node.declared or struct(())).keys()
    )
    nested = {
        key: [n for columns in some for n in columns or () if NESTED in n]
        for key, some in kinds.items()
    }
    fields = widening.lacking_fields(inferred, (name for some in nested.values() for name in some))
    is_fixed = node.read.schema_change == "fail"
    if is_fixed and (changed := [n for n in (*unknown, *fields) if n not in history.places]):
        return Decision(node.dataset, "failed", error=_changed(changed, names, nested))
    present = {name for some in names.values() for name in some}
    empty = frozenset() if is_fixed else history.empty & present
    if not unknown and not fields and not empty:
        return pin
    parts = yield from every_part(case, extent)
    new_schema = yield from _infer(
        case, _having(parts, frozenset((*unknown, *fields, *empty))), extent.partitions
    )
    if isinstance(new_schema, Decision):
        return new_schema
    new_schema, without = with_values(_named(node, schema, new_schema), node.read.format)
    before, new = types(schema), types(new_schema)
    for column in dict.fromkeys(map(_column, fields)):
        kind = new.get(column, before[column])
        before[column], _ = grow(column, before[column], kind, is_text=_is_text(node))
    before |= {name: new[name] for name in empty if name in new}
    grown = append_columns(struct(before.items()), unknown, new_schema)
    if is_fixed and grown != schema:
        return Decision(node.dataset, "failed", error=_changed([*unknown, *fields], names, nested))
    still = (history.empty - (empty & new.keys())) | (without & {*unknown, *empty})
    return pin._replace(schema=grown, history=pin.history and replace(pin.history, empty=still))


# --- what does not fit any more -------------------------------------------------------------------


def fitted(
    case: ReadCase, extent: ReadExtent, pin: Pin, window: windows.Window
) -> Deciding[Fitting | Decision]:
    """The schema with types that hold what drivers found in files that they could not read under
    it."""
    node, schema, unclaimed = case.node, pin.schema, window.unclaimed
    # there, what does not fit is one
    drops = connector_identity.is_files(node.read) and node.read.on_bad_record != "fail"
    if not unclaimed or drops:
        return Fitting(schema)
    memos = yield from lookups.memos([t.key for t in unclaimed.values()])
    schemas = {
        p: _named(node, schema, known_schema_in(memos[t.key]))
        for p, t in unclaimed.items()
        if t.key in memos
    }
    texts = yield from _texts(case, schemas)
    grown, conflicts = _grown(node, schema, schemas, texts)
    grown = placed(node, pin._replace(schema=grown)).schema
    worst = next(((p, c) for p, some in conflicts.items() for c in some), None)
    if grown == schema and worst is None:
        return Fitting(schema)
    match node.read.schema_change:
        case "sync":
            return (yield from _again(case, extent, pin, worst))
        case "fail" if grown != schema:
            return Decision(node.dataset, "failed", error=_retyped(texts, schema, grown, schemas))
        case _:
            sources = (yield from parts_at(case, sorted(schemas))) if grown != schema else {}
            return Fitting(
                grown,
                _unfit(*worst) if worst else None,
                _widened(texts, schema, grown, schemas, sources),
            )


def _texts(case: ReadCase, schemas: Mapping[str, Schema]) -> Deciding[Texts]:
    """The columns of each partition whose values stand as text: in files of text all of them, else
    those of folders."""
    if _is_text(case.node):
        return {partition: frozenset(types(schema)) for partition, schema in schemas.items()}
    parts = yield from parts_at(case, sorted(schemas))
    return {partition: folder_columns(part.objects) for partition, part in parts.items()}


def _widened(
    texts: Texts, schema: Schema, grown: Schema, schemas: Mapping[str, Schema], sources: Parts
) -> tuple[Widening, ...]:
    """Columns that became wider, with the partitions that needed it; without columns that very many
    needed."""
    wide, widened = types(grown), list[Widening]()
    for name, kind in types(schema).items():
        if wide[name] == kind:
            continue
        needing = [
            p
            for p in sorted(schemas)
            if _needs_more(kind, types(schemas[p]).get(name), is_text=name in texts[p])
        ]
        causes = tuple((p, sources[p].source) for p in needing)
        if len(causes) <= MOST_CAUSES:
            widened.append(Widening(name, in_words(kind), in_words(wide[name]), causes))
    return tuple(widened)


def _needs_more(have: Type, kind: Type | None, *, is_text: bool) -> bool:
    if kind is None:
        return False
    grown, _ = grow("", have, kind, is_text=is_text)
    return not is_held(grown, have, is_text=is_text)


def _grown(
    node: Source, schema: Schema, schemas: Mapping[str, Schema], texts: Texts
) -> tuple[Schema, Mapping[str, tuple[TypeConflict, ...]]]:
    """The schema with the least types that hold the values of each partition; and the conflicts
    that no type holds. Declared types stay."""
    kinds, fixed = types(schema), types(node.declared or struct(()))
    conflicts: dict[str, tuple[TypeConflict, ...]] = {}
    for partition, new in schemas.items():
        for name, kind in types(new).items():
            if name in kinds and name not in fixed:
                kinds[name], bad = grow(name, kinds[name], kind, is_text=name in texts[partition])
                conflicts[partition] = (*conflicts.get(partition, ()), *bad)
    return struct(kinds.items()), conflicts


def _again(
    case: ReadCase, extent: ReadExtent, pin: Pin, worst: tuple[str, TypeConflict] | None
) -> Deciding[Fitting | Decision]:
    """The types of all that there is now, as if it were read for the first time."""
    schema = pin.schema
    inferred = yield from _infer(case, (yield from all_parts(case)), extent.partitions)
    if isinstance(inferred, Decision):
        if worst is None or inferred.status != "failed":
            return inferred
        return replace(inferred, error=_unfit(*worst))  # it says more than the failed inference
    fixed, new = (
        types(case.node.declared or struct(())),
        types(with_values(_named(case.node, schema, inferred), case.node.read.format)[0]),
    )
    kinds = {n: t if n in fixed else new.get(n, t) for n, t in types(schema).items()}
    placed_pin = placed(case.node, pin._replace(schema=struct(kinds.items())))
    return Fitting(placed_pin.schema, _unfit(*worst) if worst else None)


def _is_text(node: Source) -> bool:
    return node.read.format in TEXTS


# --- columns of objects ---------------------------------------------------------------------------


def _without_vanished(case: ReadCase, schema: Schema) -> Deciding[Schema]:
    """Without undeclared columns that are in no object any longer. Without any object nothing is
    known."""
    node, listing = case.node, case.listing
    kinds: Iterable[Sequence[str] | None] = listing.columns
    # It has the columns of the newest root
    if not listing.all_columns or case.objects != listing.root:
        parts = yield from all_parts(case)
        kinds = [columns_of(o) for part in parts.values() for o in part.objects]
    own = _own(node, kinds, schema)
    return select_columns(schema, {*own, *types(node.declared or struct(()))}) if own else schema


def _kinds(case: ReadCase, extent: ReadExtent) -> Deciding[Kinds]:
    """For very many partitions, only the kinds in the listing."""
    if (extent.parts is None or extent.described != extent.partitions) and case.listing.all_columns:
        return {f"#{n}": [kind] for n, kind in enumerate(case.listing.columns)}
    # Where there are too many kinds, they are looked at one by one
    parts = yield from every_part(case, extent)
    return {key: [columns_of(o) for o in part.objects] for key, part in parts.items()}


def own_names(node: Source, part: SourcePartition, schema: Schema) -> list[str]:
    """The columns of a schema, and beyond it, that a partition's objects have."""
    return _own(node, [columns_of(o) for o in part.objects], schema)


def _own(node: Source, kinds: Iterable[Sequence[str] | None], schema: Schema) -> list[str]:
    names = (
        own_columns(None if k is None else list(k), schema, positional=node.positional)
        for k in kinds
    )
    return list(dict.fromkeys(name for some in names for name in some))


def _having(parts: Parts, names: frozenset[str]) -> Parts:
    """The partitions whose objects have any of these names, or unknown columns."""
    return {
        k: p
        for k, p in parts.items()
        if any(own is None or names & {*own} for own in map(columns_of, p.objects))
    } or parts


def _named(node: Source, schema: Schema, inferred: Schema) -> Schema:
    """An inferred schema under the dataset's own names: headerless columns beyond the schema keep
    theirs."""
    if not node.positional:
        return inferred
    return struct(
        zip(
            names_by_place(list(types(inferred)), list(types(schema))),
            types(inferred).values(),
            strict=True,
        )
    )


def _clash(node: Source, schema: Schema) -> tuple[str, str] | None:
    """Two columns that differ in case only, where case does not distinguish columns; or two fields
    of a struct: the tables that hold them never distinguish these."""
    paths: dict[tuple[str, str], str] = {}
    for path in widening.own_paths(schema):
        parent, _, name = path.rpartition(NESTED)
        is_apart = not parent and node.spark["case_sensitive"]
        other = paths.setdefault((parent, name if is_apart else name.lower()), path)
        if other != path:
            return other, path
    return None


# --- inference ------------------------------------------------------------------------------------


def _infer(case: ReadCase, parts: Parts, pending: Keys) -> Deciding[Schema | Decision]:
    """The schema that Spark infers from these partitions, or the decision to ask for it."""
    node = case.node
    objects = [o for _, part in sorted(parts.items()) for o in part.objects]
    if not objects and not connector_identity.has_columns(node.read):
        return struct(())
    options = dict(node.read.options)
    sources = [p.source for p in parts.values()] or [node.listing]
    key = ids.inference_key(node.read.format, options, node.timezone, sources)
    memos = yield from lookups.memos([key])
    if key in memos:
        return known_schema_in(memos[key])
    reading = connector_identity.reading_job(node.read, node.location)
    job: InferJob = {
        "format": node.read.format,
        "options": options,
        "timezone": node.timezone,
        **reading,
    }
    spec: InferSpec = {"objects": objects, "listing": node.listing.hex()}
    task = Task(
        key,
        "infer",
        node.maker,
        "",
        ids.job_id(job),
        spec,
        placement=placement_of("infer", node.read.connector),
    )
    status, error = yield from windows.learning(task)
    keys = listed(sorted(parts))
    item = Item(node.dataset, "compute", "missing", False, keys.count, keys)
    return Decision(
        node.dataset,
        status,
        Learn((task,), job),
        (item,),
        "schema inference",
        error=error,
        pending=pending,
    )


# --- errors ---------------------------------------------------------------------------------------


def _paths(kinds: Kinds) -> Own:
    """The columns of objects as their listing has them, and fields in them."""
    return {
        key: [name for columns in some for name in columns or ()] for key, some in kinds.items()
    }


def _absent(declared: Schema, own: Iterable[Sequence[str]]) -> tuple[str, ...]:
    have = {name for names in own for name in names}
    return tuple(name for name in types(declared) if name not in have)


def _mismatch(absent: tuple[str, ...], own: Own) -> TaskError:
    key, names = next(iter(own.items()))
    message = f"no source object has the declared column(s) {', '.join(absent)}; {key} has {', '.join(names[:50])}"
    return user_error("schema-mismatch", message)


def _changed(unknown: Sequence[str], own: Own, nested: Own) -> TaskError:
    where = [k for k, names in own.items() if set(unknown) & {*names, *nested[k]}]
    columns = ", ".join(name.replace(NESTED, ".") for name in unknown)
    message = f"new column(s) {columns} in {', '.join(where[:5])}, and schema_change is fail"
    return user_error("schema-changed", message)


def _clashing(clash: tuple[str, str], kinds: Own) -> TaskError:
    where = next((f" (in {k})" for k, names in kinds.items() if clash[1] in names), "")
    first, second = (path.replace(NESTED, ".") for path in clash)
    remedy = (
        "rename one" if NESTED in clash[0] else "rename one, or set spark: {case_sensitive: true}"
    )
    return user_error(
        "schema-clash", f"columns {first} and {second}{where} differ in case only: {remedy}"
    )


def _retyped(
    texts: Texts, schema: Schema, grown: Schema, schemas: Mapping[str, Schema]
) -> TaskError:
    """Under `fail`: a wider type is a change, too."""
    kinds, wider = types(schema), types(grown)
    name = next(n for n in kinds if kinds[n] != wider[n])
    needing = (
        p
        for p, new in schemas.items()
        if _needs_more(kinds[name], types(new).get(name), is_text=name in texts[p])
    )
    where = next(needing)
    message = f"column {name} is {in_words(kinds[name])}, and needs to be {in_words(wider[name])} for {where}; "
    return user_error("schema-changed", message + "schema_change is fail")


def _unfit(where: str, conflict: TypeConflict) -> TaskError:
    have, actual = in_words(conflict.have), in_words(conflict.other)
    message = (
        f"{where}: column {conflict.name} is {actual} there, and {have} in the dataset; no type safely holds both. "
        "Correct the file, give the column a type in `schema:`, or let the dataset follow with `schema_change: sync`"
    )
    return user_error("schema-retyped", message)
