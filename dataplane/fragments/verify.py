"""`python -m dataplane.fragments.verify`: whether fragments are as they were written, without a
JVM.

Reads one JSON request a line from stdin, the first one `{lake}`, others `{schema, content, files}`,
and answers each with a line: `null`, or `[path, fault]`. Ends at the end of its input. Memory holds
a batch of rows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dataplane.contract.identity import EMPTY, Content
from dataplane.contract.schemas import Json, Schema
from dataplane.fragments.arrow import raw_batches
from dataplane.storage.lake import Lake, open_lake
from dataplane.task_failures import DAMAGED, GONE, TaskFailure

if TYPE_CHECKING:
    import pyarrow as pa


def damage(lake: Lake, request: Json) -> tuple[str, str] | None:
    """The first file of a fragment that cannot be read as it was written. Sums of contents are
    compared where all columns are of types whose hashes are known here (`hashes.is_simple`), else
    rows and the checksums of pages. A file that is not there is no damage. OSError where the store
    fails."""
    schema, expected = request["schema"], Content(*request["content"])
    total: Content | None = EMPTY
    rows, path = 0, ""
    for file in request["files"]:
        path = file["path"]
        try:
            for batch in raw_batches(lake.open(path, file["size"])):
                rows += batch.num_rows
                part = None if total is None else _content(schema, batch)
                total = None if total is None or part is None else total.plus(part)
        except TaskFailure as failure:
            if failure.condition == DAMAGED:
                return path, failure.message
            if failure.condition == GONE:
                return None
            raise
    if rows != expected.rows or (total is not None and total != expected):
        return path, f"its rows are {total or rows} and not {expected}"
    return None


def _content(schema: Schema, batch: pa.RecordBatch) -> Content | None:
    """The content of a batch; None if only Spark can compute it."""
    import pyarrow as pa

    from dataplane.fragments.content_local import content, is_simple

    return content(schema, pa.Table.from_batches([batch])) if is_simple(schema) else None


def _requests() -> Iterator[Json]:
    yield from map(json.loads, sys.stdin)


def main() -> None:
    requests = _requests()
    lake = open_lake(next(requests)["lake"])
    for request in requests:
        sys.stdout.write(json.dumps(damage(lake, request)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
