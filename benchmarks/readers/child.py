"""Executes examples of one engine in an environment of its own: each leaves `table`, which is
written as a file of Arrow.

    python child.py PACKAGES < REQUESTS

`REQUESTS`: JSON, a list of [label, code, file]. Answers JSON: `errors` by label, `versions` by
package. Needs nothing but the engine's packages and pyarrow.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import sys
from typing import Any

import pyarrow as pa
import pyarrow.ipc

LONGEST = 600  # characters of an error
# Methods that turn a table of an engine into one of Arrow
TO_ARROW = ("to_arrow_table", "to_arrow", "toArrow", "read_all")


def as_arrow(table: Any) -> pa.Table:
    if isinstance(table, pa.Table):
        return table
    for name in TO_ARROW:
        if hasattr(table, name):
            return getattr(table, name)()
    return pa.Table.from_pandas(table, preserve_index=False)


def execute(code: str, file: str) -> str | None:
    """The error, if the example failed."""
    scope: dict[str, Any] = {}
    try:
        exec(code, scope)  # noqa: S102  # examples of our own documentation
        table = as_arrow(scope["table"])
        with pa.OSFile(file, "wb") as sink, pyarrow.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    except BaseException as e:  # noqa: BLE001  # Rust's panics are no Exception; gaps.toml says which are expected
        return f"{type(e).__name__}: {e}"[:LONGEST]
    return None


def main() -> None:
    errors = {}
    with contextlib.redirect_stdout(sys.stderr):
        for label, code, file in json.load(sys.stdin):
            errors[label] = execute(code, file)
    versions = {name: importlib.metadata.version(name) for name in sys.argv[1:]}
    json.dump({"errors": errors, "versions": versions}, sys.stdout)


if __name__ == "__main__":
    main()
