"""What the tasks of one transform share: code, parameters, how each input is read; see docs/protocol.md."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.core import sql
from controlplane.core.blueprint import PythonTransform, SqlTransform
from controlplane.core.dataflow import Transform
from controlplane.core.expectations import drop_job
from dataplane.contract import Json, Schema


def logic_job(node: Transform, schemas: Mapping[str, Schema]) -> Json:
    """The part of a job that says what to run. `schemas` are those that the inputs are read with."""
    inputs = {s.name: {"view": view_of(s.name), "mode": s.mode, "schema": schemas[s.name]} for s in node.slots}
    common = {"spark": dict(node.spark), "params": dict(node.body.params), "inputs": inputs}
    if expect := drop_job(node.checks, node.spark):
        common["expect"] = expect
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


def view_of(slot: str) -> str:
    """The temporary view's name: `other.ds` cannot be one."""
    return slot.replace(".", "__")


def _texts(node: Transform) -> Json:
    query, body = node.query, node.body
    assert query is not None
    assert isinstance(body, SqlTransform)
    edits = query.rename_edits({s.name: view_of(s.name) for s in node.slots if "." in s.name})
    each = [s.name for s in node.slots if s.mode == "each"]
    labels = query.label_edits(each[0]) if len(each) == 1 and query.mode(each[0]).mode == "each" else None
    return {
        "sql": sql.apply_edits(body.sql, edits),
        "edits": [[e.start, e.end, e.text] for e in edits],
        "batch_sql": None if labels is None else sql.apply_edits(body.sql, [*edits, *labels]),
        "batch_input": each[0] if labels is not None else None,
    }
