"""Avro files as other programs write them, from Arrow tables."""

from __future__ import annotations

import io
import itertools
from typing import Any

import fastavro
import pyarrow as pa
from pyarrow import types

_PLAIN = {
    "bool": "boolean",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "null": "null",
}
_UNITS = {"ms": "millis", "us": "micros", "ns": "nanos"}


def avro_file(table: pa.Table, codec: str = "null") -> bytes:
    """The rows of a table as an Avro file."""
    names = itertools.count()
    fields = [{"name": f.name, "type": avro_type(f.type, names)} for f in table.schema]
    raw = pa.table({name: stored(table[name].combine_chunks()) for name in table.column_names})
    return avro_of(
        {"type": "record", "name": "rows", "fields": fields},
        raw.to_pylist(maps_as_pydicts="strict"),
        codec,
    )


def avro_of(schema: dict[str, Any], rows: list[dict[str, Any]], codec: str = "null") -> bytes:
    target = io.BytesIO()
    fastavro.writer(target, fastavro.parse_schema(schema), rows, codec=codec)
    return target.getvalue()


def avro_type(kind: pa.DataType, names: Any) -> Any:
    """The type of Avro for a type of Arrow, that may be NULL."""
    own = _required(kind, names)
    return own if own == "null" else ["null", own]


def _required(kind: pa.DataType, names: Any) -> Any:
    if types.is_list(kind):
        return {"type": "array", "items": avro_type(kind.value_type, names)}
    if types.is_map(kind):
        return {"type": "map", "values": avro_type(kind.item_type, names)}
    if types.is_struct(kind):
        fields = [{"name": f.name, "type": avro_type(f.type, names)} for f in kind]
        return {"type": "record", "name": f"r{next(names)}", "fields": fields}
    if types.is_decimal(kind):
        digits = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    if types.is_timestamp(kind):
        zone = "timestamp" if kind.tz else "local-timestamp"
        return {"type": "long", "logicalType": f"{zone}-{_UNITS[kind.unit]}"}
    if types.is_time(kind):
        return {"type": "long", "logicalType": "time-micros"}
    if types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    if types.is_fixed_size_binary(kind):
        return {"type": "fixed", "name": f"f{next(names)}", "size": kind.byte_width}
    return _PLAIN[str(kind)]


def stored(values: pa.Array) -> pa.Array:
    """Values with times and days as the numbers that Avro stores."""
    kind = values.type
    if types.is_list(kind):
        return pa.ListArray.from_arrays(values.offsets, stored(values.values))
    if types.is_map(kind):
        return pa.MapArray.from_arrays(values.offsets, values.keys, stored(values.items))
    if types.is_struct(kind):
        return pa.StructArray.from_arrays(
            [stored(f) for f in values.flatten()], [f.name for f in kind]
        )
    if types.is_timestamp(kind) or types.is_time(kind):
        return values.cast(pa.int64())
    return values.cast(pa.int32()) if types.is_date(kind) else values
