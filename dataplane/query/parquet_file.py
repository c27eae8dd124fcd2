"""A stored result of a query as a Parquet file.

Parquet has no form for a few types of Arrow, which become text, and its readers find columns by
name, so that names are made to differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dataplane.fragments.arrow import plain_column
from dataplane.fragments.row_rendering import GROUP_ROWS, row_groups
from dataplane.query.query_results import kind_of

if TYPE_CHECKING:
    import pyarrow as pa


def write(stream_path: str, to: str) -> None:
    """The rows of the Arrow stream in the first file, to the second one. OSError if the stream is
    not there. Holds no more than a row group."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    with pa.memory_map(stream_path) as file, pa.ipc.open_stream(file) as stream:
        schema = _schema(stream.schema)
        with ParquetWriter(to, schema, compression="zstd") as writer:
            for group in row_groups(_under(batch, schema) for batch in stream):
                writer.write_table(pa.Table.from_batches(group, schema), row_group_size=GROUP_ROWS)


def _schema(schema: pa.Schema) -> pa.Schema:
    import pyarrow as pa

    names = _apart(schema.names)
    return pa.schema(
        [_field(field).with_name(name) for field, name in zip(schema, names, strict=True)]
    )


def _field(field: pa.Field) -> pa.Field:
    import pyarrow as pa

    return field if _has_form(field) else field.with_type(pa.string())


def _has_form(field: pa.Field) -> bool:
    """Whether Parquet has a form for its type, nested ones included: the writer knows."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    try:
        ParquetWriter(pa.BufferOutputStream(), pa.schema([field])).close()
    except pa.ArrowNotImplementedError:
        return False
    return True


def _apart(names: Sequence[str]) -> list[str]:
    """`k`, `k`, `K` as `k`, `k_1`, `K_2`, as DuckDB names them in a table: names that differ by
    case alone are equal."""
    lower_names, names_apart = {name.lower() for name in names}, list[str]()
    used = set[str]()
    for name in names:
        apart, number = name, 0
        while apart.lower() in used or (number and apart.lower() in lower_names):
            number += 1
            apart = f"{name}_{number}"
        used.add(apart.lower())
        names_apart.append(apart)
    return names_apart


def _under(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    columns = [
        column if column.type == field.type else pa.array(_texts(column), pa.string())
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _texts(column: pa.Array) -> Iterator[str | None]:
    """The JSON of each value, as text."""
    for value in plain_column(column, kind_of(column.type)):
        yield (
            value
            if value is None or isinstance(value, str)
            else json.dumps(value, default=str, ensure_ascii=False)
        )
