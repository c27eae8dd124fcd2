"""Single entries of Delta logs that are made for the S3 view. Pure.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import json
from typing import NamedTuple

from dataplane.contract.keys import encode_segment
from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import Json, Schema

PLAIN: Json = {"minReaderVersion": 1, "minWriterVersion": 2}
WITH_LOCAL_TIMES: Json = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["timestampNtz"],
    "writerFeatures": ["timestampNtz"],
}


class TableFile(NamedTuple):
    """A file of the table, by its name there."""

    name: str
    entry: FileEntry


def protocol(schema: Schema) -> Json:
    return {"protocol": WITH_LOCAL_TIMES if '"timestamp_ntz"' in json.dumps(schema) else PLAIN}


def metadata(table_id: str, schema: Schema, created: int) -> Json:
    """`created`: in milliseconds since 1970."""
    return {
        "metaData": {
            "id": table_id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(schema),
            "partitionColumns": [],
            "configuration": {},
            "createdTime": created,
        }
    }


def add(part: TableFile, milliseconds: int, *, is_change: bool = True) -> Json:
    """`is_change`: it has rows that the table did not have."""
    entry = part.entry
    return {
        "add": {
            "path": encode_segment(part.name),
            "partitionValues": {},
            "size": entry["size"],
            "modificationTime": milliseconds,
            "dataChange": is_change,
            "stats": json.dumps(entry["stats"] or {"numRecords": entry["rows"]}),
        }
    }


def remove(part: TableFile, milliseconds: int, *, is_change: bool = True) -> Json:
    """`is_change`: its rows are gone with it."""
    return {
        "remove": {
            "path": encode_segment(part.name),
            "deletionTimestamp": milliseconds,
            "dataChange": is_change,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": part.entry["size"],
        }
    }


def commit_info(milliseconds: int) -> Json:
    return {
        "commitInfo": {"timestamp": milliseconds, "operation": "WRITE", "engineInfo": "headgate"}
    }


def table_id(digits: str) -> str:
    """At least 32 hexadecimal digits in the form of a UUID."""
    return "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]])
