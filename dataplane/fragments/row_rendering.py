"""Rows in the forms in which they are sent: JSON, lines of JSON, CSV, Arrow and Parquet, written as
they come.

No form holds more than a batch, Parquet no more than a row group.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

from dataplane.contract.schemas import Json, Schema
from dataplane.fragments.arrow import arrow_schema, dumps, flat, no_rows, plain_rows
from dataplane.fragments.cutting import shown

if TYPE_CHECKING:
    import pyarrow as pa

GZIP = 31  # zlib: with a header and a checksum
GROUP_ROWS = 131_072
GROUP_BYTES = 64 << 20


def render(
    rows: Iterable[pa.RecordBatch],
    schema: Schema,
    out: BinaryIO,
    *,
    format: str,
    compression: str | None = None,
) -> None:
    """`compression`: of all bytes (`gzip`, `zstd`) where the form is text, else within it."""
    match format:
        case "json" | "ndjson" | "csv":
            with _compressed(out, compression) as target:
                _TEXTS[format](rows, schema, target)
        case "arrow":
            _arrow(rows, schema, out, compression)
        case "parquet":
            _parquet(rows, schema, out, compression)
        case other:
            raise ValueError(f"no such format: {other}")


@contextmanager
def _compressed(out: BinaryIO, compression: str | None) -> Iterator[Any]:
    if compression is None:
        yield out
        return
    if compression == "gzip":
        gzip = _Gzip(out)
        yield gzip
        gzip.finish()
        return
    import pyarrow as pa

    with pa.CompressedOutputStream(
        pa.PythonFile(CountedStream(out), mode="w"), compression
    ) as target:
        yield target


class _Gzip:
    """At a level that costs a sixth of Arrow's, for 3 % more bytes."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._compressor = zlib.compressobj(5, zlib.DEFLATED, GZIP)

    def write(self, data: bytes) -> None:
        self._out.write(self._compressor.compress(data))

    def finish(self) -> None:
        self._out.write(self._compressor.flush())


class CountedStream:
    """A stream that knows how much was written, as Arrow asks for, though it may be a pipe. It
    closes nothing."""

    def __init__(self, out: BinaryIO) -> None:
        self._out, self._size = out, 0
        self.closed = False

    def write(self, data: Any) -> int:
        self._out.write(data)
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        self._out.flush()

    def close(self) -> None:
        self.closed = True


def render_shown(
    rows: Iterable[pa.RecordBatch], schema: Schema, out: BinaryIO, cell_bytes: int
) -> None:
    """JSON for people: a value beyond `cell_bytes` is cut, and ends with `…`."""
    plain = (row for batch in rows for row in plain_rows(batch, schema))
    _objects(
        ({name: shown(value, cell_bytes) for name, value in row.items()} for row in plain), out
    )


def _json(rows: Iterable[pa.RecordBatch], schema: Schema, out: Any) -> None:
    _objects((row for batch in rows for row in plain_rows(batch, schema)), out)


def _objects(rows: Iterable[dict[str, Json]], out: Any) -> None:
    """One array with an object a line."""
    separator = "[\n"
    for row in rows:
        out.write(f"{separator}{dumps(row)}".encode())
        separator = ",\n"
    out.write(b"[]\n" if separator == "[\n" else b"\n]\n")


def _ndjson(rows: Iterable[pa.RecordBatch], schema: Schema, out: Any) -> None:
    for batch in rows:
        out.write("".join(f"{dumps(row)}\n" for row in plain_rows(batch, schema)).encode())


def _csv(rows: Iterable[pa.RecordBatch], schema: Schema, out: Any) -> None:
    from pyarrow import csv

    out.write(_rendered(flat(no_rows(schema), schema), csv.WriteOptions()))
    for batch in rows:
        out.write(_rendered(flat(batch, schema), csv.WriteOptions(include_header=False)))


_TEXTS = {"json": _json, "ndjson": _ndjson, "csv": _csv}


def _rendered(batch: pa.RecordBatch, options: object) -> bytes:
    from pyarrow import csv

    text = io.BytesIO()
    csv.write_csv(batch, text, options)
    return text.getvalue()


def _arrow(
    rows: Iterable[pa.RecordBatch], schema: Schema, out: BinaryIO, compression: str | None
) -> None:
    import pyarrow as pa

    options = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
    with pa.ipc.new_stream(out, arrow_schema(schema), options=options) as writer:
        for batch in rows:
            writer.write_batch(batch)


def _parquet(
    rows: Iterable[pa.RecordBatch], schema: Schema, out: BinaryIO, compression: str | None
) -> None:
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    arrow_columns = arrow_schema(schema)
    with ParquetWriter(
        pa.PythonFile(CountedStream(out), mode="w"),
        arrow_columns,
        compression=compression or "zstd",
    ) as writer:
        for group in row_groups(rows):
            writer.write_table(
                pa.Table.from_batches(group, arrow_columns), row_group_size=GROUP_ROWS
            )


def row_groups(rows: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Batches that make a row group each, which readers can read apart."""
    group: list[pa.RecordBatch] = []
    count = size = 0
    for batch in rows:
        if group and (count + batch.num_rows > GROUP_ROWS or size + batch.nbytes > GROUP_BYTES):
            yield group
            group, count, size = [], 0, 0
        group.append(batch)
        count, size = count + batch.num_rows, size + batch.nbytes
    if group:
        yield group
