"""`python -m dataplane.fragments.records`: streams committed rows to stdout, in a process that ends when it is done.

Reads one JSON request from stdin: `{lake, paths, schema, limit, offset, format}`. Does not belong here: which files
make up a dataset.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from dataplane.contract.schemas import Json, Schema
from dataplane.fragments.arrow import arrow_schema, batches, dumps, flat, no_rows, plain_rows
from dataplane.storage.lake import open_lake

if TYPE_CHECKING:
    import pyarrow as pa


def write(request: Json, out: BinaryIO) -> None:
    """Write the rows that are asked for, in their files' order, in one of three formats."""
    schema, lake = request["schema"], open_lake(request["lake"])
    files = (lake.open(path) for path in request["paths"])
    rows = limited(batches(files, arrow_schema(schema), request["offset"]), request["limit"])
    match request["format"]:
        case "json":
            _json(rows, schema, out)
        case "csv":
            _csv(rows, schema, out)
        case "arrow":
            _arrow(rows, schema, out)
        case other:
            raise ValueError(f"no such format: {other}")


def limited(source: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """At most the first `limit` rows; nothing is read beyond them."""
    left = limit
    if left == 0:
        return
    for batch in source:
        yield batch.slice(0, left)
        if left is not None:
            left -= batch.num_rows
            if left <= 0:
                return


def _json(rows: Iterable[pa.RecordBatch], schema: Schema, out: BinaryIO) -> None:
    """One array with an object a line."""
    separator = "[\n"
    for batch in rows:
        for row in plain_rows(batch, schema):
            out.write(f"{separator}{dumps(row)}".encode())
            separator = ",\n"
    out.write(b"[]\n" if separator == "[\n" else b"\n]\n")


def _csv(rows: Iterable[pa.RecordBatch], schema: Schema, out: BinaryIO) -> None:
    from pyarrow import csv

    out.write(_rendered(flat(no_rows(schema), schema), csv.WriteOptions()))
    for batch in rows:
        out.write(_rendered(flat(batch, schema), csv.WriteOptions(include_header=False)))


def _rendered(batch: pa.RecordBatch, options: object) -> bytes:
    from pyarrow import csv

    text = io.BytesIO()
    csv.write_csv(batch, text, options)
    return text.getvalue()


def _arrow(rows: Iterable[pa.RecordBatch], schema: Schema, out: BinaryIO) -> None:
    import pyarrow as pa

    with pa.ipc.new_stream(out, arrow_schema(schema)) as writer:
        for batch in rows:
            writer.write_batch(batch)


def main() -> None:
    write(json.load(sys.stdin), sys.stdout.buffer)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
