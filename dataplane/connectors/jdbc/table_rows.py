"""Rows of a dataset as databases take them: CSV for COPY, or plain Python values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dataplane.contract.schemas import Schema, field_of, struct_of
from dataplane.fragments.arrow import flat

if TYPE_CHECKING:
    import pyarrow as pa


def as_csv(batch: pa.RecordBatch, schema: Schema) -> bytes:
    """Rows as COPY reads them: NULL is nothing at all, an empty text is quoted."""
    import pyarrow as pa
    from pyarrow import csv

    texts = struct_of(
        field_of(f["name"], "string") if f["type"] == "binary" else f for f in schema["fields"]
    )
    columns = [_hexadecimal(c) if pa.types.is_binary(c.type) else c for c in batch.columns]
    flattened = flat(pa.record_batch(columns, names=batch.schema.names), texts)
    into = pa.BufferOutputStream()
    csv.write_csv(pa.Table.from_batches([flattened]), into, csv.WriteOptions(include_header=False))
    return bytes(into.getvalue())


def as_values(batch: pa.RecordBatch, schema: Schema) -> Iterator[tuple[Any, ...]]:
    """Rows as tuples: nested values are texts of JSON, points in time are in UTC."""
    import pyarrow as pa

    columns = []
    for values, column in zip(batch.columns, schema["fields"], strict=True):
        if not isinstance(column["type"], str):
            single_column = pa.record_batch([values], names=[column["name"]])
            values = flat(single_column, struct_of([column])).column(0)
        columns.append(values.to_pylist())
    yield from zip(*columns, strict=True)


def _hexadecimal(column: pa.Array) -> pa.Array:
    import pyarrow as pa

    return pa.array(
        [None if v is None else f"\\x{v.hex()}" for v in column.to_pylist()], pa.string()
    )
