"""The records of manifests and of lists of manifests, and their Avro schemas. Pure.

https://iceberg.apache.org/spec/#manifests, https://iceberg.apache.org/spec/#manifest-lists

Files are entries that exist, of sequence number 1: no table has deletes, so the number decides
nothing, and a manifest is the same in each generation that has the same leaf.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controlplane.core.iceberg.data_files import DataFile
from dataplane.contract.schemas import Json

_EXISTS: Final = 0
_FIRST: Final = 1  # sequence number


def _field(name: str, kind: Json, id: int) -> Json:
    if isinstance(kind, list):
        return {"name": name, "type": kind, "default": None, "field-id": id}
    return {"name": name, "type": kind, "field-id": id}


def _optional(kind: Json) -> list[Json]:
    return ["null", kind]


def _map(key_id: int, value_id: int, kind: str) -> Json:
    """Avro's own maps have keys of text alone."""
    pair = {
        "type": "record",
        "name": f"k{key_id}_v{value_id}",
        "fields": [_field("key", "int", key_id), _field("value", kind, value_id)],
    }
    return _optional({"type": "array", "items": pair, "logicalType": "map"})


_DATA_FILE: Final[Json] = {
    "type": "record",
    "name": "r2",
    "fields": [
        _field("content", "int", 134),
        _field("file_path", "string", 100),
        _field("file_format", "string", 101),
        _field("partition", {"type": "record", "name": "r102", "fields": []}, 102),
        _field("record_count", "long", 103),
        _field("file_size_in_bytes", "long", 104),
        _field("value_counts", _map(119, 120, "long"), 109),
        _field("null_value_counts", _map(121, 122, "long"), 110),
        _field("lower_bounds", _map(126, 127, "bytes"), 125),
        _field("upper_bounds", _map(129, 130, "bytes"), 128),
        _field("sort_order_id", _optional("int"), 140),
    ],
}
MANIFEST: Final[Json] = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        _field("status", "int", 0),
        _field("snapshot_id", _optional("long"), 1),
        _field("sequence_number", _optional("long"), 3),
        _field("file_sequence_number", _optional("long"), 4),
        _field("data_file", _DATA_FILE, 2),
    ],
}
LIST: Final[Json] = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        _field("manifest_path", "string", 500),
        _field("manifest_length", "long", 501),
        _field("partition_spec_id", "int", 502),
        _field("content", "int", 517),
        _field("sequence_number", "long", 515),
        _field("min_sequence_number", "long", 516),
        _field("added_snapshot_id", "long", 503),
        _field("added_files_count", "int", 504),
        _field("existing_files_count", "int", 505),
        _field("deleted_files_count", "int", 506),
        _field("added_rows_count", "long", 512),
        _field("existing_rows_count", "long", 513),
        _field("deleted_rows_count", "long", 514),
    ],
}


def file_entry(file: DataFile) -> Json:
    """A file in a manifest."""
    return {
        "status": _EXISTS,
        "snapshot_id": _FIRST,
        "sequence_number": _FIRST,
        "file_sequence_number": _FIRST,
        "data_file": {
            "content": 0,
            "file_path": file.path,
            "file_format": "PARQUET",
            "partition": {},
            "record_count": file.rows,
            "file_size_in_bytes": file.size,
            "value_counts": _pairs(dict.fromkeys(file.nulls, file.rows)),
            "null_value_counts": _pairs(file.nulls),
            "lower_bounds": _pairs(file.lows),
            "upper_bounds": _pairs(file.highs),
            "sort_order_id": 0,
        },
    }


def _pairs(values: Mapping[int, int] | Mapping[int, bytes]) -> list[Json]:
    return [{"key": id, "value": number} for id, number in values.items()]


def list_entry(path: str, length: int, files: int, rows: int) -> Json:
    """A manifest in a list. `length`: in bytes."""
    return {
        "manifest_path": path,
        "manifest_length": length,
        "partition_spec_id": 0,
        "content": 0,
        "sequence_number": _FIRST,
        "min_sequence_number": _FIRST,
        "added_snapshot_id": _FIRST,
        "added_files_count": 0,
        "existing_files_count": files,
        "deleted_files_count": 0,
        "added_rows_count": 0,
        "existing_rows_count": rows,
        "deleted_rows_count": 0,
    }
