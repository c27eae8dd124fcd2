"""The metadata of a table, which a reader has before it reads files. Pure.

https://iceberg.apache.org/spec/#table-metadata-fields

A snapshot is a generation, and its id is the generation's number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from controlplane.core.iceberg.iceberg_schema import (
    IcebergSchema,
    Path,
    agree,
    iceberg_schema,
    name_mapping,
)
from controlplane.core.model.addresses import Moment
from controlplane.core.model.states import State
from dataplane.contract.identity import schema_id
from dataplane.contract.schemas import Json

FOLDER: Final = "metadata/"
NAME_MAPPING: Final = "schema.name-mapping.default"
LEFT_OUT: Final = "headgate.left-out-columns"
_UNPARTITIONED: Final[Json] = {"spec-id": 0, "fields": []}
_NO_PARTITION_FIELD: Final = 999  # ids of such fields begin above


@dataclass(frozen=True, slots=True)
class IcebergHead:
    """`location`: the folder of the table as a URL, without a slash at its end."""

    uuid: str
    location: str


def file_stem(state: State) -> str:
    """The common part of the names of files about a state. Another state has another one."""
    return f"{state.generation}-{state.root.hex()[:16]}-{schema_id(state.schema).hex()[:8]}"


def metadata_file(state: State) -> str:
    return f"{FOLDER}{file_stem(state)}.metadata.json"


def list_file(state: State) -> str:
    return f"{FOLDER}snap-{file_stem(state)}.avro"


def manifest_file(state: State, number: int, files: bytes) -> str:
    """`number`: of a leaf of the state's tree. `files`: a digest of the leaf's files."""
    return f"{FOLDER}m-{file_stem(state)}-{number}-{files.hex()[:16]}.avro"


def readable_together(states: Sequence[State]) -> list[State]:
    """`states`: newest first. Those up to the first whose schema gives a name of a later one
    another id: one mapping of names cannot read both."""
    ids: dict[Path, int] = {}
    schema_ids: set[bytes] = set()
    together = []
    for state in states:
        key = schema_id(state.schema)
        if key not in schema_ids:
            schema = iceberg_schema(state.schema)
            if not agree(schema, ids):
                break
            ids.update(schema.ids)
            schema_ids.add(key)
        together.append(state)
    return together


def metadata(head: IcebergHead, states: Sequence[State]) -> Json:
    """`states`: one of each generation that is shown, newest first; `readable_together`."""
    newest = states[0]
    schemas = _schemas(states)
    snapshots = [_snapshot(head, state, schemas) for state in reversed(states)]
    for before, snapshot in pairwise(snapshots):
        snapshot["parent-snapshot-id"] = before["snapshot-id"]
    own = schemas[schema_id(newest.schema)][1]
    return {
        "format-version": 2,
        "table-uuid": head.uuid,
        "location": head.location,
        "last-sequence-number": newest.generation,
        "last-updated-ms": _milliseconds(newest),
        "last-column-id": max(schema.last_id for _, schema in schemas.values()),
        "current-schema-id": schemas[schema_id(newest.schema)][0],
        "schemas": [schema.as_json(number) for number, schema in schemas.values()],
        "default-spec-id": 0,
        "partition-specs": [_UNPARTITIONED],
        "last-partition-id": _NO_PARTITION_FIELD,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": _properties(own, [schema for _, schema in schemas.values()]),
        "current-snapshot-id": newest.generation,
        "snapshots": snapshots,
        "snapshot-log": [
            {"snapshot-id": snapshot["snapshot-id"], "timestamp-ms": snapshot["timestamp-ms"]}
            for snapshot in snapshots
        ],
        "metadata-log": [],
        "refs": {"main": {"snapshot-id": newest.generation, "type": "branch"}},
    }


def _schemas(states: Sequence[State]) -> dict[bytes, tuple[int, IcebergSchema]]:
    """By id of our schema; those of Iceberg are numbered from the oldest."""
    schemas: dict[bytes, tuple[int, IcebergSchema]] = {}
    for state in reversed(states):
        key = schema_id(state.schema)
        if key not in schemas:
            schemas[key] = (len(schemas), iceberg_schema(state.schema))
    return schemas


def _properties(own: IcebergSchema, schemas: Sequence[IcebergSchema]) -> Mapping[str, str]:
    properties = {
        NAME_MAPPING: json.dumps(name_mapping(schemas)),
        # Bounds hold all values, but need not be values: no least and greatest of them
        "write.metadata.metrics.default": "counts",
        "write.format.default": "parquet",
    }
    if own.left_out:
        properties[LEFT_OUT] = json.dumps(own.left_out)
    return properties


def _snapshot(
    head: IcebergHead, state: State, schemas: Mapping[bytes, tuple[int, IcebergSchema]]
) -> Json:
    return {
        "snapshot-id": state.generation,
        "sequence-number": state.generation,
        "timestamp-ms": _milliseconds(state),
        "manifest-list": f"{head.location}/{list_file(state)}",
        "schema-id": schemas[schema_id(state.schema)][0],
        "summary": {"operation": "overwrite", "total-records": str(state.rows)},
    }


def _milliseconds(state: State) -> int:
    return Moment.of(state.at).milliseconds
