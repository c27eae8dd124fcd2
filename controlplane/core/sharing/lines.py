"""The lines of answers: protocol, metadata and files, in the two forms that clients ask for. Pure.

https://github.com/delta-io/delta-sharing/blob/main/PROTOCOL.md

`parquet` is the protocol's own form. `delta` carries actions of a Delta log, for tables that need a
feature of Delta. Files hold all columns, so no table has partition columns.
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
    """The description of a table before its files. `version`: the one whose schema is shown."""

    id: str
    name: str
    schema: Schema
    version: int
    has_changes: bool


@dataclass(frozen=True, slots=True)
class SharedFile:
    """`id` is of its content, and stays. `expires`: of its URL. Times are milliseconds since
    1970."""

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
        features = ["changeDataFeed"] if head.has_changes else []
        return {
            **WITH_LOCAL_TIMES,
            "writerFeatures": [*WITH_LOCAL_TIMES["writerFeatures"], *features],
        }
    return {**PLAIN, "minWriterVersion": 4} if head.has_changes else PLAIN


def metadata(form: Form, head: TableHead) -> Json:
    common: Json = {
        "id": head.id,
        "name": head.name,
        "format": {"provider": "parquet"},
        "schemaString": json.dumps(head.schema),
        "partitionColumns": [],
        "configuration": {CHANGES: "true"} if head.has_changes else {},
    }
    if form == "parquet":
        return {"metaData": {**common, "version": head.version}}
    of_delta = {**common, "format": {"provider": "parquet", "options": {}}, "createdTime": 0}
    return {"metaData": {"version": head.version, "deltaMetadata": of_delta}}


def file(form: Form, kind: Kind, shared_file: SharedFile) -> Json:
    return _of_parquet(kind, shared_file) if form == "parquet" else _of_delta(kind, shared_file)


def _of_parquet(kind: Kind, shared_file: SharedFile) -> Json:
    action: Json = {
        "url": shared_file.url,
        "id": shared_file.id,
        "partitionValues": {},
        "size": shared_file.entry["size"],
        "version": shared_file.version,
        "timestamp": shared_file.at,
        "expirationTimestamp": shared_file.expires,
    }
    return {kind: action if kind == "remove" else {**action, "stats": _stats(shared_file.entry)}}


def _of_delta(kind: Kind, shared_file: SharedFile) -> Json:
    action: Json = {
        "id": shared_file.id,
        "size": shared_file.entry["size"],
        "version": shared_file.version,
        "timestamp": shared_file.at,
        "expirationTimestamp": shared_file.expires,
        "deltaSingleAction": _removed(shared_file) if kind == "remove" else _added(shared_file),
    }
    return {"file": action}


def _added(shared_file: SharedFile) -> Json:
    add: Json = {
        "path": shared_file.url,
        "partitionValues": {},
        "size": shared_file.entry["size"],
        "modificationTime": shared_file.at,
        "dataChange": True,
        "stats": _stats(shared_file.entry),
    }
    return {"add": add}


def _removed(shared_file: SharedFile) -> Json:
    remove: Json = {
        "path": shared_file.url,
        "deletionTimestamp": shared_file.at,
        "dataChange": True,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": shared_file.entry["size"],
    }
    return {"remove": remove}


def _stats(entry: FileEntry) -> str:
    return json.dumps(entry["stats"] or {"numRecords": entry["rows"]})
