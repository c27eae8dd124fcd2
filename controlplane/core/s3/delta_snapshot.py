"""The Delta log of one state: version 0 of a table that never changes, whose files lie beside it. Pure.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md

It is a function of the state, made when it is asked for, and never stored. Does not belong here: published tables,
which have logs of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from controlplane.core.model.states import State
from dataplane.contract.keys import encode_segment
from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import Json

FILE = "_delta_log/00000000000000000000.json"
PLAIN: Json = {"minReaderVersion": 1, "minWriterVersion": 2}
WITH_LOCAL_TIMES: Json = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["timestampNtz"],
    "writerFeatures": ["timestampNtz"],
}


class Part(NamedTuple):
    """A file of the table, by its name there."""

    name: str
    entry: FileEntry


def log(state: State, parts: Iterable[Part]) -> bytes:
    """The body of the log's only file. `parts`: all files of the state."""
    return b"".join(json.dumps(action).encode() + b"\n" for action in _actions(state, parts))


def _actions(state: State, parts: Iterable[Part]) -> Iterator[Json]:
    milliseconds, schema = int(state.at * 1000), json.dumps(state.schema)
    yield {"protocol": WITH_LOCAL_TIMES if '"timestamp_ntz"' in schema else PLAIN}
    yield {
        "metaData": {
            "id": _table_id(state.root),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": [],
            "configuration": {},
            "createdTime": milliseconds,
        }
    }
    for name, entry in parts:
        yield {
            "add": {
                "path": encode_segment(name),
                "partitionValues": {},
                "size": entry["size"],
                "modificationTime": milliseconds,
                "dataChange": True,
                "stats": json.dumps(entry["stats"] or {"numRecords": entry["rows"]}),
            }
        }
    yield {"commitInfo": {"timestamp": milliseconds, "operation": "WRITE", "engineInfo": "headgate"}}


def _table_id(root: bytes) -> str:
    """In the form of a UUID."""
    digits = root.hex()
    return "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]])
