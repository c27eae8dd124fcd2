"""`python -m dataplane.fragments.file_changes`: rows that two sets of files have unequally often,
with what became of them and a generation beside them.

Reads one JSON `FileChangesRequest` from stdin, writes the rows to stdout, and ends.
Where one side has no files nothing is held; else rows are grouped by
value in DuckDB (`row_diff`), so a row that only went elsewhere is no change.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypedDict

from dataplane.contract.schemas import Json, Schema, field_of, in_order, struct_of
from dataplane.fragments import row_diff
from dataplane.fragments.arrow import BATCH_ROWS, arrow_schema
from dataplane.fragments.filtering import chosen
from dataplane.fragments.row_rendering import render
from dataplane.fragments.rows_of_sides import DistinctRows, RowDiffRequest
from dataplane.storage.lake import open_lake
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    import pyarrow as pa

CHANGE_TYPE, GENERATION = "_change_type", "_generation"
ADDED, REMOVED = "insert", "delete"


class FileChangesRequest(TypedDict):
    """Files of both sides as paths in the lake, the schema under which both are read, and
    bounds."""

    lake: str
    before: list[str]
    after: list[str]
    schema: Schema
    columns: list[str]  # of it, in this order: what is compared, and told
    # A condition that is true of both sides' rows (`contract.predicates.as_json`); None: all
    where: Json
    generation: int
    format: str
    compression: str | None
    scratch: str
    memory_bytes: int
    seconds: int  # 0: no deadline


def write(request: FileChangesRequest, out: BinaryIO) -> None:
    """Removed rows come before added ones. TaskFailure for a file that is missing or damaged."""
    changed = with_change(_schema_of(request))
    rows = _compared(request) if request["before"] and request["after"] else _of_one_side(request)
    render(rows, changed, out, format=request["format"], compression=request["compression"])


def _schema_of(request: FileChangesRequest) -> Schema:
    return in_order(request["schema"], request["columns"])


def _read(request: FileChangesRequest, files: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    return chosen(files, request["schema"], request["columns"], request["where"])


def with_change(schema: Schema) -> Schema:
    return struct_of(
        [*schema["fields"], field_of(CHANGE_TYPE, "string"), field_of(GENERATION, "long")]
    )


def _of_one_side(request: FileChangesRequest) -> Iterator[pa.RecordBatch]:
    """In the order of keys; a batch at a time is held."""
    kind, paths = (ADDED, request["after"]) if request["after"] else (REMOVED, request["before"])
    lake = open_lake(request["lake"])
    for batch in _read(request, map(lake.open, paths)):
        yield _beside(batch, kind, request)


def _compared(request: FileChangesRequest) -> Iterator[pa.RecordBatch]:
    """In the order of all columns."""
    compared: RowDiffRequest = {
        "lake": request["lake"],
        "before": request["before"],
        "after": request["after"],
        "schema": _schema_of(request),
        "key": [],
        "column": "",
        "samples": 0,
        "scratch": request["scratch"],
        "memory_bytes": request["memory_bytes"],
        "seconds": request["seconds"],
    }
    with row_diff.open_database(compared) as database:
        rows = DistinctRows(database, compared, partial(_read, request))
        rows.load()
        for kind, count in ((REMOVED, "b - a"), (ADDED, "a - b")):
            for batch in _of_kind(rows, count):
                yield _beside(batch, kind, request)


def _of_kind(rows: DistinctRows, count: str) -> Iterator[pa.RecordBatch]:
    """Rows that one side has more often, as often as it has them more."""
    import pyarrow as pa

    columns = ", ".join(rows.columns)
    query = f"SELECT {columns}, ({count})::BIGINT FROM g WHERE {count} > 0 ORDER BY {columns}"
    target = arrow_schema(rows.schema)
    for rows_read in rows.database.execute(query).to_arrow_reader(BATCH_ROWS):
        cast = [rows_read.column(i).cast(field.type) for i, field in enumerate(target)]
        batch = pa.record_batch(cast, schema=target)
        for indices in _repeated(rows_read.column(len(target)).to_pylist()):
            yield batch.take(pa.array(indices, pa.int64()))


def _repeated(times: list[int]) -> Iterator[list[int]]:
    """Each position as often as it says, some thousand at a time."""
    part: list[int] = []
    for position, count in enumerate(times):
        left = count
        while left:
            some = min(left, BATCH_ROWS - len(part))
            part += [position] * some
            left -= some
            if len(part) == BATCH_ROWS:
                yield part
                part = []
    if part:
        yield part


def _beside(batch: pa.RecordBatch, kind: str, request: FileChangesRequest) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [pa.repeat(kind, batch.num_rows), pa.repeat(request["generation"], batch.num_rows)]
    names = [*request["columns"], CHANGE_TYPE, GENERATION]
    return pa.record_batch([*batch.columns, *columns], names=names)


def main() -> int:
    import duckdb

    request: FileChangesRequest = json.load(sys.stdin)
    signal.alarm(request["seconds"])
    try:
        write(request, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    except TaskFailure as e:
        return _refused(e.message)
    except duckdb.OutOfMemoryException:
        return _refused(
            f"telling these changes takes more than {request['memory_bytes'] >> 20} MB of memory"
        )
    return 0


def _refused(reason: str) -> int:
    sys.stderr.write(reason)
    sys.stderr.flush()
    return row_diff.REFUSED


if __name__ == "__main__":
    # Threads of a database that gave up may still read, and would abort an orderly end
    os._exit(main())
