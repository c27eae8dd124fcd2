"""`python -m dataplane.fragments.row_diff`: compares the rows of two sets of committed files, as
multisets.

Reads one JSON request from stdin, writes one JSON answer to stdout, and ends; the kernel ends it at
its deadline, and its parent ends it beyond its room on the disk. Rows are grouped by their values,
not by a hash, in DuckDB, which spills to `scratch` when memory is short. No text of a user's gets
into SQL: columns have numbers there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING, cast

from dataplane.contract.schemas import Json, Schema, column_names, select_columns
from dataplane.fragments.row_pairs import compare_pairs
from dataplane.fragments.rows_of_sides import DistinctRows, RowDiffRequest
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    import duckdb

THREADS = 2
REFUSED = 3  # the exit code where stdout has a reason that a user can read


def compare(request: RowDiffRequest) -> Json:
    """`{added, removed, equal, samples: {added, removed}, by_key}`; `DistinctRows` and `KeyedRows`
    count them."""
    with open_database(request) as database:
        rows = DistinctRows(database, request)
        rows.load()
        by_key = compare_pairs(rows)
        samples = {"added": rows.samples("a - b"), "removed": rows.samples("b - a")}
        return {**rows.counts(), "samples": samples, "by_key": by_key}


def open_database(request: RowDiffRequest) -> duckdb.DuckDBPyConnection:
    """A database that can read and write only the tables registered in it, and its own scratch
    folder."""
    import duckdb

    database = duckdb.connect(
        config={
            "threads": THREADS,
            "memory_limit": f"{request['memory_bytes']}B",
            "temp_directory": request["scratch"],
            "autoload_known_extensions": False,
            "autoinstall_known_extensions": False,
            "preserve_insertion_order": False,
        }
    )
    database.execute("SET enable_progress_bar = false")  # it goes to stdout, among the answer
    database.execute("SET enable_external_access = false")
    database.execute("SET lock_configuration = true")
    return database


def uncomparable(schema: Schema) -> list[str]:
    """Columns whose type Arrow does not have, or that have no values."""
    return [
        f["name"] for f in schema["fields"] if f["type"] == "void" or not _has_arrow_type(f["type"])
    ]


def _has_arrow_type(kind: Json) -> bool:
    from dataplane.fragments.arrow import arrow_type

    try:
        arrow_type(kind)
    except ValueError:
        return False
    return True


def answer(request: RowDiffRequest) -> Json:
    """The result of `compare` over the comparable columns. `left_out` names the others."""
    left_out = uncomparable(request["schema"])
    names = [name for name in column_names(request["schema"]) if name not in left_out]
    keys = [name for name in request["key"] if name in left_out]
    if keys or not names:
        raise TaskFailure("not-compared", f"no values to compare in {', '.join(keys or left_out)}")
    narrowed = cast(
        "RowDiffRequest", {**request, "schema": select_columns(request["schema"], names)}
    )
    return {**compare(narrowed), "left_out": left_out}


def main() -> int:
    import duckdb

    request: RowDiffRequest = json.load(sys.stdin)
    signal.alarm(request["seconds"])
    try:
        answered, code = answer(request), 0
    except TaskFailure as e:
        answered, code = {"reason": e.message, "kind": e.kind}, REFUSED
    except duckdb.OutOfMemoryException:
        reason = (
            f"comparing these rows takes more than {request['memory_bytes'] >> 20} MB of memory"
        )
        answered, code = {"reason": reason, "kind": "user"}, REFUSED
    sys.stdout.write(json.dumps(answered))
    sys.stdout.flush()
    return code


if __name__ == "__main__":
    # Threads of a database that gave up may still read, and would abort an orderly end
    os._exit(main())
