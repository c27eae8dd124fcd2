"""Rows of a query: as an Arrow stream while it runs, and the rows of a stored stream as JSON
values.

JSON values are those of records: decimals, times and binary values are text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, BinaryIO

from dataplane.contract.query_protocol import QueryColumn, Ran, RowOrder
from dataplane.contract.schemas import Json
from dataplane.fragments.arrow import plain_column

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

BATCH_ROWS = 10_000
SQL_TYPE = b"sql_type"  # key of a field's metadata
TYPE_MOST = 1_000  # characters of a type that are shown
CHUNK_ROWS, CHUNK_BYTES = 1_000, 1 << 20  # that are values of Python's at a time


def write(database: duckdb.DuckDBPyConnection, out: BinaryIO, limit: int | None) -> Ran:
    """Write the result's rows as Arrow, as fast as `out` takes them. Beyond the limit, only their
    existence is computed."""
    import pyarrow as pa

    types = [str(column[1]) for column in database.description or ()]
    reader = database.to_arrow_reader(BATCH_ROWS)
    schema = _typed(reader.schema, types)
    written, has_more = 0, False
    with pa.ipc.new_stream(out, schema) as stream:
        for batch in reader:
            left = batch.num_rows if limit is None else min(batch.num_rows, limit - written)
            has_more = left < batch.num_rows
            if left:
                stream.write_batch(
                    pa.RecordBatch.from_arrays(batch.slice(0, left).columns, schema=schema)
                )
            written += left
            if has_more:
                break
    return {"rows": written, "more": has_more}


def _typed(schema: pa.Schema, types: Sequence[str]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [f.with_metadata({SQL_TYPE: t.encode()}) for f, t in zip(schema, types, strict=True)]
    )


class StoredResult:
    """A stored stream, read once from its beginning."""

    def __init__(self, stream: pa.RecordBatchReader) -> None:
        self._stream = stream
        self.columns = [_column(field) for field in stream.schema]

    def rows(self, offset: int, limit: int | None = None) -> Iterator[list[Json]]:
        """At most `limit` rows behind the first `offset`. A megabyte of them is held, or one
        row."""
        for batch in _some(self._stream, offset, limit):
            for chunk in _chunks(batch):
                yield from self._rows_of(chunk)

    def sorted_rows(self, order: RowOrder, offset: int, limit: int) -> Iterator[list[Json]]:
        """The same of all rows in this order. One number of each row is held, and one row: the
        stream stays in its file. Raises ValueError for a column that has no order."""
        batches = list(self._stream)
        starts = list(accumulate((batch.num_rows for batch in batches), initial=0))
        for place in self._places(batches, order)[offset : offset + limit].to_pylist():
            number = bisect_right(starts, place) - 1
            yield from self._rows_of(batches[number].slice(place - starts[number], 1))

    def _places(self, batches: Sequence[pa.RecordBatch], order: RowOrder) -> pa.Array:
        """The numbers of all rows, in this order."""
        import pyarrow as pa
        from pyarrow import compute

        place = order["column"]
        if place >= len(self.columns):
            raise ValueError(f"the result has no column {place + 1}")
        column_type = self._stream.schema.field(place).type
        column = pa.chunked_array([batch.column(place) for batch in batches], column_type)
        direction = "descending" if order["descending"] else "ascending"
        try:
            return compute.array_sort_indices(column, order=direction)
        except pa.ArrowNotImplementedError as e:
            kind = self.columns[place]["type"]
            raise ValueError(f"rows cannot be sorted by values of type {kind}") from e

    def _rows_of(self, batch: pa.RecordBatch) -> Iterator[list[Json]]:
        types = [column["type"] for column in self.columns]
        values = map(_values, batch.columns, types)
        yield from map(list, zip(*values, strict=True))


@contextmanager
def stored(path: str) -> Iterator[StoredResult]:
    """OSError if it is not there."""
    import pyarrow as pa

    with pa.memory_map(path) as file, pa.ipc.open_stream(file) as stream:
        yield StoredResult(stream)


def _column(field: pa.Field) -> QueryColumn:
    sql_type = (field.metadata or {}).get(SQL_TYPE, b"").decode()
    shown = sql_type if len(sql_type) <= TYPE_MOST else f"{sql_type[:TYPE_MOST]}..."
    return {"name": field.name, "type": shown}


def _chunks(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    start = 0
    while start < batch.num_rows:
        chunk = batch.slice(start, CHUNK_ROWS)
        while chunk.num_rows > 1 and chunk.nbytes > CHUNK_BYTES:
            chunk = chunk.slice(0, chunk.num_rows // 2)
        yield chunk
        start += chunk.num_rows


def _values(column: pa.Array, sql_type: str) -> list[Json]:
    if sql_type == "HUGEINT":  # of sums, and no decimal but in Arrow
        return [None if value is None else int(value) for value in column.to_pylist()]
    return plain_column(_held(column), kind_of(column.type))


def _some(stream: pa.RecordBatchReader, offset: int, limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in stream:
        if offset >= batch.num_rows:
            offset -= batch.num_rows
            continue
        part = batch.slice(offset, left)
        offset = 0
        yield part
        if left is not None:
            left -= part.num_rows
            if left <= 0:
                return


def kind_of(kind: pa.DataType) -> Json:
    """The Spark type whose JSON values are used for an Arrow type; "other" where Python's value is
    shown."""
    from pyarrow import types

    if types.is_struct(kind):
        return {
            "type": "struct",
            "fields": [{"name": f.name, "type": kind_of(f.type)} for f in kind],
        }
    if types.is_map(kind):
        return {
            "type": "map",
            "keyType": kind_of(kind.key_type),
            "valueType": kind_of(kind.item_type),
        }
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
