"""What the tasks of one transform share: code, parameters, how each input is read; see
docs/protocol.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NotRequired

from controlplane.core import sql, tree
from controlplane.core.blueprint import PythonTransform, SqlTransform
from controlplane.core.compile import ordered_fold
from controlplane.core.compile.compiled_checks import drop_job
from controlplane.core.compile.nodes import Slot, Transform
from controlplane.core.model.jobs import Spec, StoredSqlJob, StoredTransformJob
from controlplane.core.model.tasks import Task
from controlplane.core.plan.plan_values import ROW_COST
from controlplane.core.plan.transform.key_index import output_parts, slot_parts
from controlplane.core.sql import Edit
from dataplane.contract.jobs import (
    AnalyseJob,
    InputJob,
    Logic,
    NamedTexts,
    PythonLogic,
    SqlLogic,
    SqlTexts,
)
from dataplane.contract.keys import KeyPart
from dataplane.contract.schemas import Schema

SINGLE_COST = 8 << 20  # bytes that a task counts for that cannot share a Spark job


def node_task(
    node: Transform,
    key: bytes,
    job: bytes,
    spec: Spec,
    rows: int,
    partition: str,
    *,
    is_batched: bool,
) -> Task:
    """A task of this transform that reads so many rows."""
    of = node.component
    return Task(
        key,
        "transform",
        node.maker,
        partition=partition,
        job=job,
        spec=spec,
        size_bytes=rows * ROW_COST if is_batched else max(rows * ROW_COST, SINGLE_COST),
        priority=of.priority,
        size=of.resources,
    )


def logic_job(node: Transform, schemas: Mapping[str, Schema], as_of: float = 0.0) -> AnalyseJob:
    """The part of a job that says what to run. `schemas` are those that the inputs are read with;
    `as_of` is the time that a query reads where it asks for the clock."""
    logic = _logic(node, schemas)
    if node.query is not None:
        return {**logic, "language": "sql", **_texts(node, as_of)}
    body = node.body
    assert isinstance(body, PythonTransform)
    job: PythonLogic = {
        **logic,
        "language": "python",
        "modules": dict(body.modules),
        "main": body.main,
        "entrypoint": body.entrypoint,
    }
    if body.requirements:
        job["requirements"] = list(body.requirements)
    return job


def _logic(node: Transform, schemas: Mapping[str, Schema]) -> Logic:
    """The part of a job that transforms in every language share."""
    logic: Logic = {
        "spark": node.spark,
        "params": dict(node.body.params),
        "inputs": _inputs(node, schemas),
    }
    if node.fold:
        previous: InputJob = {
            "view": view_of(node.fold.name),
            "mode": ordered_fold.MODE,
            "schema": node.fold.schema,
        }
        logic["inputs"][node.fold.name] = previous
        logic["returns"] = node.fold.schema
    if expect := drop_job(node.checks, node.spark):
        logic["expect"] = expect
    if node.key:
        logic["key"] = output_parts(node)
    return logic


def _inputs(node: Transform, schemas: Mapping[str, Schema]) -> dict[str, InputJob]:
    return {slot.name: _input(node, slot, schemas[slot.name]) for slot in node.slots}


def _input(node: Transform, slot: Slot, schema: Schema) -> InputJob:
    read: InputJob = {"view": view_of(slot.name), "mode": slot.mode, "schema": schema}
    if slot.mode == "by" and slot.reach is None:
        read["key"] = slot_parts(node, slot, schema)
    if slot.reach is not None:
        before_s, after_s = slot.reach
        key = slot_parts(node, slot, schema)
        read["reach"] = {"key": key, "before_s": before_s, "after_s": after_s}
    return read


def with_shared(logic: AnalyseJob, shared: dict[str, str]) -> StoredTransformJob:
    """The job of tasks that all read these roots (hex) whole, by input."""
    if logic["language"] == "sql":
        return {**logic, "shared": shared}
    return {**logic, "shared": shared}


@dataclass(frozen=True, slots=True)
class Divided:
    """A query as two: over each part of an input, and over what these gave. `text` is what their
    edits are of."""

    text: str
    digest: bytes  # of the first
    split: sql.Split
    is_renamed: bool  # then places in `text` are not places in the user's


def divided(node: Transform, slot: str) -> Divided | None:
    """The query by parts of this input; None if it cannot be taken apart."""
    assert node.query is not None
    edits = _renames(node)
    return _divided(sql.apply_edits(node.query.text, edits), view_of(slot), is_renamed=bool(edits))


@lru_cache(maxsize=1000)
def _divided(text: str, name: str, *, is_renamed: bool) -> Divided | None:
    try:
        split = sql.analyse(text).split(name)
    except sql.Unproven:
        return None
    return Divided(
        text, sql.analyse(sql.apply_edits(text, split.partial)).digest, split, is_renamed
    )


@lru_cache(maxsize=1000)
def key_of_parts(query: Divided, key: tuple[str, ...]) -> tuple[str, ...] | None:
    """The columns of parts that stand for these columns of the output, by which parts may be merged
    key by key; None where that is not proven."""
    text = sql.apply_edits(query.text, query.split.outline)
    parts = [sql.OutputKeyPart(column) for column in key]
    verdict = sql.analyse(text).verdicts(parts, {sql.PARTS: query.split.columns}).get(sql.PARTS)
    columns = tuple(part.column for part in verdict.keys) if verdict is not None else ()
    return columns if columns and all(columns) else None


def part_job(node: Transform, schemas: Mapping[str, Schema], slot: str, query: Divided) -> SqlLogic:
    """What tasks of parts of this input share."""
    inputs = _inputs(node, schemas)
    inputs[slot] = {"view": view_of(slot), "mode": "each", "schema": schemas[slot]}
    labelled = query.split.labelled
    return {
        "language": "sql",
        "spark": node.spark,
        "params": dict(node.body.params),
        "inputs": inputs,
        **_edited(query, query.split.partial),
        "batch_sql": None if labelled is None else sql.apply_edits(query.text, labelled),
        "batch_input": None if labelled is None else slot,
    }


def between_job(node: Transform, query: Divided, schema: Schema) -> StoredSqlJob:
    """What tasks share that merge some parts with this schema. Raises sql.Unproven."""
    text, labelled = query.split.between(column_types(schema))
    return {
        "language": "sql",
        "spark": node.spark,
        "params": {},
        "inputs": {sql.PARTS: {"view": sql.PARTS, "mode": "each", "schema": schema}},
        "sql": text,
        "edits": [],
        "batch_sql": labelled,
        "batch_input": sql.PARTS,
        "shared": {},
    }


def column_types(schema: Schema) -> dict[str, str]:
    """Those that have a name alone, by column."""
    return {f["name"]: str(f["type"]) for f in schema["fields"]}


def whole_job(
    job: StoredSqlJob,
    slot: str,
    query: Divided,
    edits: Iterable[Edit],
    schema: Schema,
    parts: bytes,
) -> StoredSqlJob:
    """The job of a plain task with parts, of which `parts` is the tree, in place of the input."""
    read: InputJob = {"view": sql.PARTS, "mode": "all", "schema": schema}
    return {
        **job,
        **_edited(query, edits),
        "inputs": {**job["inputs"], sql.PARTS: read},
        "shared": {**job["shared"], slot: tree.EMPTY_ROOT.hex(), sql.PARTS: parts.hex()},
    }


def whole_job_by_key(
    job: StoredSqlJob, slot: str, key: list[KeyPart], pairs: bytes
) -> StoredSqlJob:
    """The job of plain tasks by key with parts in place of the input: `key` is read off their rows,
    and `pairs` is the tree of those that hold each key."""
    unread: InputJob = {**job["inputs"][slot], "mode": "all"}
    unread.pop("key", None)
    read: InputJob = {**job["inputs"][sql.PARTS], "mode": "by", "key": key}
    return {
        **job,
        "inputs": {**job["inputs"], slot: unread, sql.PARTS: read},
        "shared": {name: root for name, root in job["shared"].items() if name != sql.PARTS},
        "pairs": {sql.PARTS: pairs.hex()},
    }


def _edited(query: Divided, edits: Iterable[Edit]) -> SqlTexts:
    places = [] if query.is_renamed else _places(edits)
    return {"sql": sql.apply_edits(query.text, edits), "edits": places}


def _places(edits: Iterable[Edit]) -> list[tuple[int, int, str]]:
    return [(e.start, e.end, e.text) for e in edits]


def view_of(slot: str) -> str:
    """The temporary view's name: `other.ds` cannot be one."""
    return slot.replace(".", "__")


def _renames(node: Transform) -> tuple[Edit, ...]:
    assert node.query is not None
    return node.query.rename_edits({s.name: view_of(s.name) for s in node.slots if "." in s.name})


class _Texts(SqlTexts):
    """The fields of a query alone."""

    batch_sql: str | None
    batch_input: str | None
    named: NotRequired[NamedTexts]
    together: NotRequired[bool]


def _texts(node: Transform, as_of: float) -> _Texts:
    query, body = node.query, node.body
    assert query is not None
    assert isinstance(body, SqlTransform)
    renames = _renames(node)
    clock = query.clock_edits(as_of, str(node.spark["timezone"]))
    edits = (*renames, *clock)
    each = [s.name for s in node.slots if s.mode == "each"]
    may_batch = len(each) == 1 and query.mode(each[0]).mode == "each" and not node.fold
    labels = query.label_edits(each[0]) if may_batch else None
    texts: _Texts = {
        "sql": sql.apply_edits(body.sql, edits),
        "edits": _places(sorted(edits)),
        "batch_sql": None if labels is None else sql.apply_edits(body.sql, [*edits, *labels]),
        "batch_input": None if labels is None else each[0],
    }
    if clock:
        texts["named"] = _named(body.sql, renames, labels)
    by = [s for s in node.slots if s.mode == "by"]
    if by and all(s.is_proven for s in by):
        texts["together"] = True
    return texts


def _named(text: str, renames: tuple[Edit, ...], labels: tuple[Edit, ...] | None) -> NamedTexts:
    """The same queries with the clock in them: columns without an alias are named after what the
    user wrote."""
    batch = None if labels is None else sql.apply_edits(text, [*renames, *labels])
    return {"sql": sql.apply_edits(text, renames), "batch_sql": batch}
