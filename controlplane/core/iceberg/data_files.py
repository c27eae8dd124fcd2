"""Data files with their counts and bounds, from the statistics that were noted at commit. Pure.

https://iceberg.apache.org/spec/#manifests
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final

from controlplane.core.iceberg.iceberg_schema import IcebergSchema
from controlplane.core.records import pruning
from dataplane.contract.predicates import PlainValue
from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import Json, Schema, Type

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table. `path`: as a URL. Counts and bounds are by id of the field."""

    path: str
    size: int
    rows: int
    nulls: Mapping[int, int]
    lows: Mapping[int, bytes]
    highs: Mapping[int, bytes]


def data_file(path: str, file: FileEntry, schema: Schema, fields: IcebergSchema) -> DataFile:
    """`schema`, `fields`: of the state that the file is in."""
    bounds_of, noted = pruning.of_file(file, schema), file["stats"].get("nullCount")
    counts = noted if isinstance(noted, Mapping) else {}
    nulls, lows, highs = {}, {}, {}
    for name, kind, id in _columns(schema, fields):
        if isinstance(counts.get(name), int):
            nulls[id] = counts[name]
        bounds = bounds_of(name)
        low, high = (as_bytes(end, kind) for end in (bounds.low, bounds.high))
        if low is not None and high is not None:
            lows[id], highs[id] = low, high
    return DataFile(path, file["size"], file["rows"], nulls, lows, highs)


def _columns(schema: Schema, fields: IcebergSchema) -> Iterator[tuple[str, Type, int]]:
    for field in schema["fields"]:
        id = fields.ids.get((field["name"],))
        if id is not None and isinstance(field["type"], str):
            yield field["name"], field["type"], id


def as_bytes(bound: PlainValue | None, kind: Type) -> bytes | None:
    """A single value in binary; None where it has none.
    https://iceberg.apache.org/spec/#appendix-d-single-value-serialization"""
    try:
        return None if bound is None else _as_bytes(bound, kind)
    except (struct.error, OverflowError):
        return None


def _as_bytes(bound: PlainValue, kind: Type) -> bytes | None:
    match bound:
        case bool():
            return b"\x01" if bound else b"\x00"
        case int():
            return struct.pack("<q" if kind == "long" else "<i", bound)
        case Decimal():
            return _unscaled(bound, str(kind))
        case datetime():
            return struct.pack("<q", _microseconds(bound))
        case date():
            return struct.pack("<i", (bound - _EPOCH.date()).days)
        case str():
            return bound.encode("utf-8")
    return None


def _unscaled(number: Decimal, kind: str) -> bytes | None:
    """In as few bytes as hold it, the greatest first."""
    scale = int(kind.rpartition(",")[2].rstrip(")"))
    scaled = number.scaleb(scale)
    whole_number = int(scaled)
    if whole_number != scaled:
        return None
    length = (whole_number if whole_number >= 0 else ~whole_number).bit_length() // 8 + 1
    return whole_number.to_bytes(length, "big", signed=True)


def _microseconds(time: datetime) -> int:
    since = (time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH
    return since // _MICROSECOND


def as_task(file: DataFile) -> Json:
    """As a scan task has it."""
    return {
        "content": "data",
        "file-path": file.path,
        "file-format": "parquet",
        "spec-id": 0,
        "partition": [],
        "file-size-in-bytes": file.size,
        "record-count": file.rows,
        "null-value-counts": {"keys": list(file.nulls), "values": list(file.nulls.values())},
    }
