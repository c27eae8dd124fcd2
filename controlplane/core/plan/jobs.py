"""What the tasks of one transform share: code, parameters, how each input is read; see docs/protocol.md."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.core import sql
from controlplane.core.blueprint import PythonTransform, SqlTransform
from controlplane.core.dataflow import Slot, Transform
from controlplane.core.expectations import drop_job
from controlplane.core.plan.index import output_parts, slot_parts
from dataplane.contract import Json, Schema


def logic_job(node: Transform, schemas: Mapping[str, Schema]) -> Json:
    """The part of a job that says what to run. `schemas` are those that the inputs are read with."""
    inputs = {s.name: _input(node, s, schemas[s.name]) for s in node.slots}
    common: dict[str, Json] = {"spark": dict(node.spark), "params": dict(node.body.params), "inputs": inputs}
    if expect := drop_job(node.checks, node.spark):
        common["expect"] = expect
    if node.key:
        common["key"] = output_parts(node)
    if node.query is None:
        body = node.body
        assert isinstance(body, PythonTransform)
        return {
            **common,
            "language": "python",
            "modules": dict(body.modules),
            "main": body.main,
            "entrypoint": body.entrypoint,
        }
    return {**common, "language": "sql", **_texts(node)}


def _input(node: Transform, slot: Slot, schema: Schema) -> Json:
    read = {"view": view_of(slot.name), "mode": slot.mode, "schema": schema}
    return read | {"key": slot_parts(node, slot, schema)} if slot.mode == "by" else read


def view_of(slot: str) -> str:
    """The temporary view's name: `other.ds` cannot be one."""
    return slot.replace(".", "__")


def _texts(node: Transform) -> Json:
    query, body = node.query, node.body
    assert query is not None
    assert isinstance(body, SqlTransform)
    edits = query.rename_edits({s.name: view_of(s.name) for s in node.slots if "." in s.name})
    each = [s.name for s in node.slots if s.mode == "each"]
    by = [s for s in node.slots if s.mode == "by"]
    labels = query.label_edits(each[0]) if len(each) == 1 and query.mode(each[0]).mode == "each" else None
    return {
        "sql": sql.apply_edits(body.sql, edits),
        "edits": [[e.start, e.end, e.text] for e in edits],
        "batch_sql": None if labels is None else sql.apply_edits(body.sql, [*edits, *labels]),
        "batch_input": each[0] if labels is not None else None,
        **({"together": True} if by and all(s.is_proven for s in by) and not node.checks else {}),
    }
