"""Executes examples of one engine in an environment of its own: each leaves `table`, which is
written as a file of Arrow.

    python child.py SCHEMA PACKAGES < REQUESTS

`SCHEMA`: a file of Arrow with the columns that are expected, for tables that have no types of
Arrow. `REQUESTS`: JSON, a list of [label, code, file]. Answers JSON: `errors` by label, `versions`
by package. Needs nothing but the engine's packages and pyarrow.
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


def as_arrow(table: Any, expected: pa.Schema) -> pa.Table:
    if isinstance(table, pa.Table):
        return table
    for name in TO_ARROW:
        if hasattr(table, name):
            return getattr(table, name)()
    if isinstance(table, list):
        rows = [
            {name: as_type(row[name], expected.field(name).type) for name in row} for row in table
        ]
        return pa.Table.from_pylist(rows, expected)
    return pa.Table.from_pandas(table, expected, preserve_index=False)


def as_type(value: Any, kind: pa.DataType) -> Any:
    """Rows within a row are tuples in Trino's client."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        fields = zip(kind, value, strict=True)
        return {field.name: as_type(inner, field.type) for field, inner in fields}
    if pa.types.is_list(kind):
        return [as_type(inner, kind.value_type) for inner in value]
    if pa.types.is_map(kind):
        return [(key, as_type(inner, kind.item_type)) for key, inner in value.items()]
    return value


def execute(code: str, file: str, expected: pa.Schema) -> str | None:
    """The error, if the example failed."""
    scope: dict[str, Any] = {}
    try:
        exec(code, scope)  # noqa: S102  # examples of our own documentation
        table = as_arrow(scope["table"], expected)
        with pa.OSFile(file, "wb") as sink, pyarrow.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    except BaseException as e:  # noqa: BLE001  # Rust's panics are no Exception; gaps.toml says which are expected
        return f"{type(e).__name__}: {e}"[:LONGEST]
    return None


def main() -> None:
    schema, *packages = sys.argv[1:]
    expected = pa.ipc.open_file(schema).schema
    errors = {}
    with contextlib.redirect_stdout(sys.stderr):
        for label, code, file in json.load(sys.stdin):
            errors[label] = execute(code, file, expected)
    versions = {name: importlib.metadata.version(name) for name in packages}
    json.dump({"errors": errors, "versions": versions}, sys.stdout)


if __name__ == "__main__":
    main()
