"""Streams committed rows as a body, in a process that answers queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO, TypedDict

from dataplane.contract.schemas import Json, Schema, in_order, select_columns
from dataplane.fragments.arrow import arrow_schema, batches
from dataplane.fragments.filtering import chosen
from dataplane.fragments.row_rendering import render, render_shown
from dataplane.storage.lake import Lake

if TYPE_CHECKING:
    import pyarrow as pa


class FileRecordsRequest(TypedDict):
    """Files as paths in the lake, and the requested rows: columns in this order, those of which the
    condition is true (`contract.predicates.as_json`), and of these a part."""

    paths: list[str]
    schema: Schema
    columns: list[str]
    where: Json  # None: all
    offset: int
    limit: int | None
    cell_bytes: int | None  # None: no value is cut
    format: str
    compression: str | None


def write(lake: Lake, request: FileRecordsRequest, out: BinaryIO) -> None:
    """Write the requested rows, in their files' order."""
    schema = in_order(request["schema"], request["columns"])
    if request["cell_bytes"] is not None:
        render_shown(rows_of(lake, request), schema, out, request["cell_bytes"])
        return
    render(
        rows_of(lake, request),
        schema,
        out,
        format=request["format"],
        compression=request["compression"],
    )


def rows_of(lake: Lake, request: FileRecordsRequest) -> Iterator[pa.RecordBatch]:
    """A batch at a time is held; files are opened one after the other, and none behind the last row
    that is wanted."""
    files = (lake.open(path) for path in request["paths"])
    columns = request["columns"]
    rows: Iterator[pa.RecordBatch]
    if request["where"] is None:
        schema = arrow_schema(select_columns(request["schema"], columns))
        rows = (batch.select(columns) for batch in batches(files, schema, request["offset"]))
    else:
        rows = _skipped(
            chosen(files, request["schema"], columns, request["where"]), request["offset"]
        )
    return limited(rows, request["limit"])


def _skipped(source: Iterable[pa.RecordBatch], skip: int) -> Iterator[pa.RecordBatch]:
    for batch in source:
        part = batch.slice(min(skip, batch.num_rows))
        skip = max(0, skip - batch.num_rows)
        if part.num_rows:
            yield part


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
