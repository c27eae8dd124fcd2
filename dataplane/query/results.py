"""Rows of a query: as an Arrow stream while it runs, and pages of a stored stream as JSON.

JSON values are those of records: decimals, times and binary values are text. Does not belong here: running, storing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

from dataplane.contract.queries import PageFound, QueryColumn, Ran
from dataplane.contract.schemas import Json
from dataplane.fragments.arrow import plain_column

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

BATCH_ROWS = 10_000
SQL_TYPE = b"sql_type"  # key of a field's metadata


def write(database: duckdb.DuckDBPyConnection, out: BinaryIO, limit: int | None) -> Ran:
    """The rows of what was executed, as fast as `out` takes them. Nothing is computed for rows beyond the limit, but
    that there are some."""
    import pyarrow as pa

    types = [str(column[1]) for column in database.description or ()]
    reader = database.to_arrow_reader(BATCH_ROWS)
    schema = _typed(reader.schema, types)
    written, more = 0, False
    with pa.ipc.new_stream(out, schema) as stream:
        for batch in reader:
            left = batch.num_rows if limit is None else min(batch.num_rows, limit - written)
            more = left < batch.num_rows
            if left:
                stream.write_batch(pa.RecordBatch.from_arrays(batch.slice(0, left).columns, schema=schema))
            written += left
            if more:
                break
    return {"rows": written, "more": more}


def _typed(schema: pa.Schema, types: Sequence[str]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([f.with_metadata({SQL_TYPE: t.encode()}) for f, t in zip(schema, types, strict=True)])


def page(path: str, offset: int, limit: int) -> PageFound:
    """Rows of a stored stream. OSError if it is not there."""
    import pyarrow as pa

    with pa.memory_map(path) as file, pa.ipc.open_stream(file) as stream:
        columns: list[QueryColumn] = [
            {"name": f.name, "type": (f.metadata or {}).get(SQL_TYPE, b"").decode()} for f in stream.schema
        ]
        rows = list[list[Json]]()
        for batch in _some(stream, offset, limit):
            values = [_values(column, told["type"]) for column, told in zip(batch.columns, columns, strict=True)]
            rows.extend(map(list, zip(*values, strict=True)))
        return {"columns": columns, "rows": rows}


def _values(column: pa.Array, sql_type: str) -> list[Json]:
    if sql_type == "HUGEINT":  # of sums, and no decimal but in Arrow
        return [None if value is None else int(value) for value in column.to_pylist()]
    return plain_column(_held(column), kind_of(column.type))


def _some(stream: pa.RecordBatchReader, offset: int, limit: int) -> Iterator[pa.RecordBatch]:
    for batch in stream:
        if offset >= batch.num_rows:
            offset -= batch.num_rows
            continue
        part = batch.slice(offset, limit)
        offset, limit = 0, limit - part.num_rows
        yield part
        if limit <= 0:
            return


def kind_of(kind: pa.DataType) -> Json:
    """The Spark type whose JSON values are used for an Arrow type; "other" where Python's value is shown."""
    from pyarrow import types

    if types.is_struct(kind):
        return {"type": "struct", "fields": [{"name": f.name, "type": kind_of(f.type)} for f in kind]}
    if types.is_map(kind):
        return {"type": "map", "keyType": kind_of(kind.key_type), "valueType": kind_of(kind.item_type)}
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return {"type": "array", "elementType": kind_of(kind.value_type)}
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    return _plain_kind(kind)


def _plain_kind(kind: pa.DataType) -> str:
    from pyarrow import types

    if types.is_date32(kind):
        return "date"
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_string(kind):
        return "string"  # as it is
    return "other"


def _held(column: pa.Array) -> pa.Array:
    """Instants to the microsecond, and the values of an enumeration."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(column.type):
        return column.dictionary_decode()
    if types.is_timestamp(column.type) and column.type.unit == "ns":
        return column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return column
