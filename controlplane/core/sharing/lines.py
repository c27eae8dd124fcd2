"""The lines of answers: protocol, metadata and files, in the two forms that clients ask for. Pure.

https://github.com/delta-io/delta-sharing/blob/main/PROTOCOL.md

`parquet` is the protocol's own form. `delta` carries actions of a Delta log, for tables that need a feature of Delta.
Files hold all columns, so no table has partition columns. Does not belong here: which files there are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from controlplane.core.s3.delta_actions import PLAIN, WITH_LOCAL_TIMES
from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import Json, Schema

Form: TypeAlias = Literal["parquet", "delta"]
Kind: TypeAlias = Literal["file", "add", "remove"]
"""`file`: of a snapshot. `add`, `remove`: of changes; all rows of it came or went."""

CHANGES: Final = "delta.enableChangeDataFeed"
CHANGE_COLUMNS: Final = ("_change_type", "_commit_version", "_commit_timestamp")
LOCAL_TIMES: Final = "timestampntz"
"""What a client of the form `delta` has to know for tables with TIMESTAMP_NTZ."""


@dataclass(frozen=True, slots=True)
class TableHead:
    """What is said of a table before its files. `version`: that its schema is told of."""

    id: str
    name: str
    schema: Schema
    version: int
    has_changes: bool


@dataclass(frozen=True, slots=True)
class SharedFile:
    """`id` is of its content, and stays. `expires`: of its URL. Times are milliseconds since 1970."""

    id: str
    url: str
    entry: FileEntry
    version: int
    at: int
    expires: int


def needs_local_times(schema: Schema) -> bool:
    return '"timestamp_ntz"' in json.dumps(schema)


def protocol(form: Form, head: TableHead) -> Json:
    if form == "parquet":
        return {"protocol": {"minReaderVersion": 1}}
    return {"protocol": {"deltaProtocol": _of_delta_table(head)}}


def _of_delta_table(head: TableHead) -> Json:
    """A log with changes is of tables that writers of version 4 write, or that name the feature."""
    if needs_local_times(head.schema):
        more = ["changeDataFeed"] if head.has_changes else []
        return {**WITH_LOCAL_TIMES, "writerFeatures": [*WITH_LOCAL_TIMES["writerFeatures"], *more]}
    return {**PLAIN, "minWriterVersion": 4} if head.has_changes else PLAIN


def metadata(form: Form, head: TableHead) -> Json:
    told: Json = {
        "id": head.id,
        "name": head.name,
        "format": {"provider": "parquet"},
        "schemaString": json.dumps(head.schema),
        "partitionColumns": [],
        "configuration": {CHANGES: "true"} if head.has_changes else {},
    }
    if form == "parquet":
        return {"metaData": {**told, "version": head.version}}
    of_delta = {**told, "format": {"provider": "parquet", "options": {}}, "createdTime": 0}
    return {"metaData": {"version": head.version, "deltaMetadata": of_delta}}


def file(form: Form, kind: Kind, one: SharedFile) -> Json:
    return _of_parquet(kind, one) if form == "parquet" else _of_delta(kind, one)


def _of_parquet(kind: Kind, one: SharedFile) -> Json:
    told: Json = {
        "url": one.url,
        "id": one.id,
        "partitionValues": {},
        "size": one.entry["size"],
        "version": one.version,
        "timestamp": one.at,
        "expirationTimestamp": one.expires,
    }
    return {kind: told if kind == "remove" else {**told, "stats": _stats(one.entry)}}


def _of_delta(kind: Kind, one: SharedFile) -> Json:
    told: Json = {
        "id": one.id,
        "size": one.entry["size"],
        "version": one.version,
        "timestamp": one.at,
        "expirationTimestamp": one.expires,
        "deltaSingleAction": _removed(one) if kind == "remove" else _added(one),
    }
    return {"file": told}


def _added(one: SharedFile) -> Json:
    add: Json = {
        "path": one.url,
        "partitionValues": {},
        "size": one.entry["size"],
        "modificationTime": one.at,
        "dataChange": True,
        "stats": _stats(one.entry),
    }
    return {"add": add}


def _removed(one: SharedFile) -> Json:
    remove: Json = {
        "path": one.url,
        "deletionTimestamp": one.at,
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": one.entry["size"],
    }
    return {"remove": remove}


def _stats(entry: FileEntry) -> str:
    return json.dumps(entry["stats"] or {"numRecords": entry["rows"]})
