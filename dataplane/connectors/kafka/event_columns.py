"""Columns of Debezium's events, for listings: no Spark here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dataplane.contract.schemas import Json, Schema, struct_of
from dataplane.task_failures import TaskFailure

# Columns of the event, and the field of `source` that each comes from, with its type
OF_SOURCE: Final[Mapping[str, tuple[str, str]]] = {
    "_lsn": ("lsn", "long"),
    "_source_file": ("file", "string"),
    "_source_pos": ("pos", "long"),
    "_source_row": ("row", "integer"),
    "_source_time": ("ts_ms", "long"),
}
EVENT: Final = ("_op", *OF_SOURCE)


def row_schema(message: Schema) -> Schema:
    """The columns of the rows in messages of Avro. TaskFailure if these are no events."""
    types: dict[str, Json] = {field["name"]: field["type"] for field in message["fields"]}
    rows = types.get("after")
    if not isinstance(rows, dict) or types.get("before") != rows or "op" not in types:
        raise TaskFailure(
            "not-supported",
            "the schema is none of Debezium's events, which have before, after and op; "
            "read the topic with format: avro",
        )
    return struct_of(rows["fields"])
