"""Deciding about read components: listing root -> parsed partitions, and how their schema comes about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.core import ids, tree
from controlplane.core.dataflow import Source, settings_id
from controlplane.core.model import Consumed, Listing, SourcePartition, State, Task
from controlplane.core.plan.values import (
    Because,
    Commit,
    Decision,
    Item,
    Learn,
    Pending,
    Planning,
    Status,
    entering,
    entries,
    learning,
    next_state,
    of_tasks,
    shown,
    user_error,
)
from controlplane.core.schemas import append_columns, missing_columns, own_columns, struct, types
from dataplane.contract import Json, Schema, TaskError, schema_id, select_columns, task_key

FIXED = {
    "text": struct([("value", "string")]),
    "binary": struct([("content", "binary"), ("length", "long")]),
}


@dataclass(frozen=True, slots=True)
class _Change:
    """What the listing says now against what the dataset was built from."""

    present: Mapping[str, tree.Entry]  # new or changed partitions
    removed: tuple[str, ...]
    full: bool  # nothing of what was built before counts


def decide(planning: Planning, node: Source) -> Decision:
    listing, state = planning.world.listing(node.listing), planning.state(node.dataset)
    if listing is None or listing.root is None:
        return _unlisted(node, listing)
    decision = _decide(planning, node, listing, state)
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
    item = Item(node.dataset, "compute", "missing", False, 0, 0, ())
    if listing is not None and listing.error is not None:
        return Decision(node.dataset, "failed", reason="the listing failed", error=listing.error, items=(item,))
    return Decision(node.dataset, "stale", items=(item,), reason="not listed yet", pending=Pending(None, 0))


def _decide(planning: Planning, node: Source, listing: Listing, state: State | None) -> Decision:
    root = _root(listing)
    consumed = Consumed("", root, b"")
    if state and state.lineage == node.lineage and state.inputs.get("objects") == consumed:
        return Decision(node.dataset, "up_to_date")
    pinned = planning.world.pinned(node.dataset)
    known = pinned[1] if pinned and pinned[0] == settings_id(node) else None
    build = ids.build_key(node.logic, {"objects": root, "pinned": schema_id(known) if known else None})
    if found := planning.world.build_trace(build):
        return _adopt(planning, node, state, consumed, found, build)
    change = _change(planning, node, state, root)
    stored = planning.world.source_partitions(listing.id, list(change.present))
    parts = {key: stored[key] for key in change.present}  # in the order of keys, on every store
    settled = _schema(planning, node, known, parts, change)
    if isinstance(settled, Decision):
        return settled
    return _partitions(planning, node, state, consumed, change, parts, settled, build)


def _root(listing: Listing) -> bytes:
    assert listing.root is not None
    return listing.root


def _adopt(
    planning: Planning, node: Source, state: State | None, consumed: Consumed, found: tuple[bytes, Schema], build: bytes
) -> Decision:
    root, schema = found
    after = _state(planning, node, state, consumed, root, schema)
    adopted = sum(
        c.after is not None for c in tree.diff(planning.world.nodes, state.root if state else tree.EMPTY_ROOT, root)
    )
    removed = tuple(s for s in types(schema) if not s.startswith("_source_")) if node.read.metadata else None
    own = schema if removed is None else select_columns(schema, removed)
    items = (_item(node, state, "adopt", 0, adopted, (), consumed),) if adopted else ()
    return Decision(node.dataset, "stale", Commit(after, None, adopted, (settings_id(node), own), build), items)


def _change(planning: Planning, node: Source, state: State | None, root: bytes) -> _Change:
    nodes = planning.world.nodes
    full = state is None or state.logic != node.logic or "objects" not in state.inputs
    if not full:
        assert state is not None
        changes = list(tree.diff(nodes, state.inputs["objects"].root, root))
        present = {c.key: c.after for c in changes if c.after is not None}
        return _Change(present, tuple(c.key for c in changes if c.after is None), full=False)
    present = {e.key: e for e in tree.scan(nodes, root)}
    before = (e.key for e in tree.scan(nodes, state.root)) if state else iter(())
    return _Change(present, tuple(k for k in before if k not in present), full=True)


# --- schema --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Settled:
    schema: Schema  # without metadata columns
    own: Mapping[str, list[str]]  # partition -> names of its own columns


def _schema(
    planning: Planning, node: Source, known: Schema | None, parts: Mapping[str, SourcePartition], change: _Change
) -> _Settled | Decision:
    """The dataset's schema with these partitions in it, or what has to be learned, or why there is none."""
    schema = known or node.declared or FIXED.get(node.read.format)
    if schema is None:
        found = _infer(planning, node, parts)
        if isinstance(found, Decision):
            return found
        schema = found
    own = {key: _own(node, part, schema) for key, part in parts.items()}
    if node.declared and change.full and parts and (absent := _absent(node.declared, own.values())):
        return Decision(node.dataset, "failed", error=_mismatch(absent, own))
    unknown = missing_columns(schema, (name for names in own.values() for name in names))
    if not unknown:
        return _Settled(schema, own)
    if node.read.schema_change == "fail":
        return Decision(node.dataset, "failed", error=_changed(unknown, own))
    found = _infer(planning, node, {k: p for k, p in parts.items() if set(unknown) & set(own[k])})
    if isinstance(found, Decision):
        return found
    return _Settled(append_columns(schema, unknown, _named(node, schema, found)), own)


def _own(node: Source, part: SourcePartition, schema: Schema) -> list[str]:
    names = (n for o in part.objects for n in own_columns(o["columns"], schema, positional=node.positional))
    return list(dict.fromkeys(names))


def _named(node: Source, schema: Schema, found: Schema) -> Schema:
    """An inferred schema under the dataset's own names: headerless columns beyond the schema keep theirs."""
    if not node.positional:
        return found
    names = [*types(schema), *list(types(found))[len(types(schema)) :]]
    return struct(zip(names, types(found).values(), strict=False))


def _infer(planning: Planning, node: Source, parts: Mapping[str, SourcePartition]) -> Schema | Decision:
    """The schema that Spark infers from these partitions, or the decision to ask for it."""
    objects = [o for _, part in sorted(parts.items()) for o in part.objects]
    if not objects:
        return struct(())
    options = dict(node.read.options)
    key = ids.inference_key(node.read.format, options, node.timezone, [p.source for p in parts.values()])
    memo = planning.world.memo(key)
    if memo is None:
        job = {"format": node.read.format, "options": options, "timezone": node.timezone}
        task = Task(
            key, "infer", node.dataset, "", ids.job_id(job), {"objects": objects, "listing": node.listing.hex()}
        )
        item = Item(node.dataset, "compute", "missing", False, len(parts), len(parts), shown(sorted(parts)))
        status, error = learning(planning, task)
        return Decision(
            node.dataset, status, Learn(task, job), (item,), "schema inference", error=error,
            pending=Pending(tuple(parts), len(parts)),
        )  # fmt: skip
    return memo["schema"]  # type: ignore[no-any-return]


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


def _partitions(
    planning: Planning,
    node: Source,
    state: State | None,
    consumed: Consumed,
    change: _Change,
    parts: Mapping[str, SourcePartition],
    settled: _Settled,
    build: bytes,
) -> Decision:
    job = {
        "format": node.read.format,
        "options": dict(node.read.options),
        "metadata": sorted(node.read.metadata),
        "on_bad_record": node.read.on_bad_record,
        "timezone": node.timezone,
    }
    tasks = {
        key: _task(node, parts[key], select_columns(settled.schema, settled.own[key]), ids.job_id(job))
        for key in change.present
    }
    traces = planning.world.traces([t.key for t in tasks.values()])
    missing = tuple(t for t in tasks.values() if t.key not in traces)
    if missing:
        size = sum(t.size_bytes for t in missing)
        keys = [t.partition for t in missing]
        items = [_item(node, state, "compute", len(missing), len(missing), keys, consumed, size)]
        if change.removed:
            items.append(_item(node, state, "remove", 0, len(change.removed), change.removed, consumed))
        touched = (*change.present, *change.removed)
        decision = Decision(node.dataset, "stale", items=tuple(items))
        return of_tasks(decision, planning.world, missing, job, Pending(touched, len(touched)))
    hits = {key: traces[task.key].outputs[""] for key, task in tasks.items()}
    edits = [*entries(planning, hits), *((key, None) for key in change.removed)]
    base = state.root if state else tree.EMPTY_ROOT
    root = tree.edit(planning.world.nodes, base, sorted(edits, key=lambda e: e[0].encode()))
    after = _state(planning, node, state, consumed, root, node.with_metadata(settled.schema))
    pin = (settings_id(node), settled.schema)
    entered = entering(planning, state, hits, {key: task.key for key, task in tasks.items()})
    return Decision(
        node.dataset,
        "stale",
        Commit(after, entered, 0, pin, build),
        tuple(_commit_items(node, state, change, consumed)),
    )


def _task(node: Source, part: SourcePartition, columns: Schema, job: bytes) -> Task:
    slots = {"objects": part.source, "columns": schema_id(columns)}
    spec: Json = {"objects": list(part.objects), "columns": columns, "listing": node.listing.hex()}
    size = sum(o["size"] for o in part.objects)
    key = task_key(node.parse, slots)
    return Task(key, "parse", node.dataset, part.key, job, spec, size, priority=node.component.priority)


def _commit_items(node: Source, state: State | None, change: _Change, consumed: Consumed) -> Iterator[Item]:
    if change.present:
        yield _item(node, state, "adopt", 0, len(change.present), list(change.present), consumed)
    if change.removed:
        yield _item(node, state, "remove", 0, len(change.removed), change.removed, consumed)


def _item(
    node: Source,
    state: State | None,
    action: str,
    tasks: int,
    count: int,
    keys: Sequence[str],
    consumed: Consumed,
    size: int = 0,
) -> Item:
    before = state.inputs["objects"].root if state and "objects" in state.inputs else None
    cause = "missing" if state is None else "removed" if action == "remove" else _cause(node, state)
    because = (Because(node.location, before, consumed.root),)
    return Item(node.dataset, action, cause, True, tasks, count, shown(keys), size, because)  # type: ignore[arg-type]


def _cause(node: Source, state: State) -> str:
    return "logic" if state.logic != node.logic else "input"


def _state(
    planning: Planning, node: Source, before: State | None, consumed: Consumed, root: bytes, schema: Schema
) -> State:
    totals = tree.totals(planning.world.nodes, root)
    cause = "missing" if before is None else _cause(node, before)
    after = State(
        branch=planning.branch,
        dataset=node.dataset,
        seq=0,
        generation=0,
        logic=node.logic,
        inputs={"objects": consumed},
        root=root,
        schema=schema,
        cut={node.dataset: consumed.root},
        partitions=totals.partitions,
        rows=totals.content.rows,
        cause=cause,  # type: ignore[arg-type]
        revision=node.revision,
        at=planning.now,
        lineage=node.lineage,
    )
    return next_state(before, after)
