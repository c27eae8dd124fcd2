"""Samples of fragments' rows, drawn in the pass that computes contents: in Spark's query, or from a
table in memory.

No further job and no further read: the query that sums hashes collects the rows that are drawn.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dataplane.contract.profiles import (
    KEPT_ROWS,
    KEPT_VALUES,
    LONGEST,
    MOST_COLUMNS,
    WHOLE,
    Sample,
    Shape,
    Value,
    no_sample,
    shape_of,
)
from dataplane.contract.schemas import Json, Schema
from dataplane.fragments.content import Marks, quoted

# What fits in a twentieth of the pass (docs/performance.md).
SHARE = 1 / 1600  # of the rows of a query
DRAWN_ROWS = KEPT_ROWS * 4 // 3  # of a query: a round threshold leaves out a quarter at most
# Of the rows of a query or of a table: samples are kept in the metadata database
MOST_SHARE = 1 / 16
MOST_VALUES = KEPT_VALUES * 4 // 3
FRAGMENT_ROWS = KEPT_ROWS
DIGITS = 3
FEW_VALUES = 2_000  # of a query, however few the share is
TABLE_VALUES = 200  # of a table in memory, likewise
MARK = "_mark"  # a column of the query; no user's, since names of columns differ from it


_NO_FORM = (ValueError, ArithmeticError, pa.ArrowException)  # of a value in a sample
Marked: TypeAlias = npt.NDArray[np.uint64]


def sampled_columns(schema: Schema) -> Sequence[Json]:
    return schema["fields"][:MOST_COLUMNS]


# --- by Spark -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowSampling:
    """How one query draws rows: by `marks` of the query, below which they are drawn, as JSON.

    Numbers in a query are part of the code that Spark makes of it, and new code costs as much as
    hashing 200,000 rows. So thresholds are round, and nothing else in the query differs between
    files.
    """

    schema: Schema
    below: int
    marks: Marks

    @staticmethod
    def of(schema: Schema, rows: int, fragments: int) -> RowSampling:
        """The drawing for so many rows of so many fragments."""
        below = threshold(rows, len(schema["fields"]), fragments)
        mark, hashed = free_names(schema)
        # Types as they are: casts to texts would take three times as long.
        fields = [
            f"'m', {mark}",
            *(text for i, f in enumerate(sampled_columns(schema)) for text in _fields(i, f)),
        ]
        row = f"to_json(named_struct({', '.join(fields)}), map('ignoreNullFields', 'false'))"
        return RowSampling(
            schema, below, Marks(mark, hashed, f"IF({mark} < {below}L, {row}, NULL)")
        )

    def sample(self, rows: int, drawn: Iterable[str]) -> Sample:
        """The sample of a fragment with so many rows, from the rows that the query drew from it."""
        rows_drawn = sorted(
            (json.loads(row, parse_float=str) for row in drawn), key=itemgetter("m")
        )
        below = self.below
        if len(rows_drawn) > FRAGMENT_ROWS:
            below = rows_drawn[FRAGMENT_ROWS]["m"]
            rows_drawn = [
                drawn_row for drawn_row in rows_drawn[:FRAGMENT_ROWS] if drawn_row["m"] < below
            ]
        values: dict[str, list[Value]] = {}
        for i, field in enumerate(sampled_columns(self.schema)):
            shape, key = shape_of(field["type"]), f"c{i}"
            values[field["name"]] = [
                None if row[key] is None else _parsed(shape, row[key], row, i) for row in rows_drawn
            ]
        return {
            "of": rows,
            "below": below,
            "marks": [row["m"] for row in rows_drawn],
            "values": values,
        }


def free_names(schema: Schema) -> tuple[str, str]:
    names = {f["name"].lower() for f in schema["fields"]}
    mark = MARK
    while mark in names or f"{mark}h" in names:
        mark += "_"
    return mark, f"{mark}h"


def threshold(rows: int, columns: int, fragments: int) -> int:
    """Below which a mark has to be, of a query over so many rows: three binary digits and zeros."""
    drawn = min(
        max(DRAWN_ROWS, rows * SHARE),
        MOST_VALUES / max(1, columns),
        FRAGMENT_ROWS * fragments * 4 / 3,
    )
    sample_rows = max(FEW_VALUES / max(1, columns), min(drawn, rows * MOST_SHARE))
    below = min(WHOLE, max(1, int(sample_rows / max(1, rows) * WHOLE)))
    zeros = max(0, below.bit_length() - DIGITS)
    return below >> zeros << zeros


def _fields(number: int, field: Json) -> list[str]:
    """SQL text of fields of a struct: the value, and of a text its length."""
    column, kind, shape = quoted(field["name"]), field["type"], shape_of(field["type"])
    key = f"'c{number}'"
    match shape:
        case "text":
            return [f"{key}, left({column}, {LONGEST})", f"'l{number}', char_length({column})"]
        case "time" if kind == "timestamp_ntz":
            return [f"{key}, unix_micros(CAST({column} AS TIMESTAMP))"]
        case "time":
            return [f"{key}, unix_micros({column})"]
        case "date":
            return [f"{key}, unix_date({column})"]
        case "size":
            length = "octet_length" if kind == "binary" else "size"
            return [f"{key}, IF({column} IS NULL, NULL, {length}({column}))"]
        case "other":
            return [f"{key}, IF({column} IS NULL, NULL, 0)"]
        case _:
            return [f"{key}, {column}"]


def _parsed(shape: Shape, value: Any, row: Mapping[str, Any], number: int) -> Value:
    """The value in JSON whose fractions are still texts."""
    match shape:
        case "text":
            return _cut(value, row[f"l{number}"])
        case "decimal":
            return format(Decimal(value), "f")
        case "number" if isinstance(value, str):
            return _float(float(value))
        case _:
            return value  # type: ignore[no-any-return]


def _float(value: float) -> Value:
    """JSON has no NaN and no infinity."""
    if isfinite(value):
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _cut(text: str, length: int) -> Value:
    return text if length <= LONGEST else [text, length]


# --- from tables in memory -----------------------------------------------------------------------


def samples_of_tables(schema: Schema, tables: Sequence[pa.Table], name: str) -> list[Sample]:
    """Samples of the rows of some files, one for each. `name` of one of them is the seed of the
    draw. A file with bytes that are no text, or a value that Python has not, gets an empty sample:
    a profile fails no task."""
    chance = random.Random(name)  # nothing is kept secret by it
    try:
        return _drawn(schema, tables, chance)
    except _NO_FORM:
        return (
            [no_sample()]
            if len(tables) == 1
            else [samples_of_tables(schema, [table], name)[0] for table in tables]
        )


def sample_of_drawn(
    rows: int, below: int, marks: Marked, values: Mapping[str, Sequence[Value]]
) -> Sample:
    """The sample of a fragment with so many rows, from the values of the rows that were drawn from
    it: those with marks below `below`."""
    order = np.argsort(marks)[: FRAGMENT_ROWS + 1]
    if len(order) > FRAGMENT_ROWS:
        below = int(marks[order[-1]])
        order = order[marks[order] < below]
    places = order.tolist()
    chosen = {name: [of_column[place] for place in places] for name, of_column in values.items()}
    return {"of": rows, "below": below, "marks": marks[order].tolist(), "values": chosen}


def drawn_values(schema: Schema, rows: pa.RecordBatch) -> dict[str, list[Value]] | None:
    """By column, as samples have them; None where one has bytes that are no text, or a value that
    Python has not: a profile fails no task."""
    try:
        return _columns(schema, rows)
    except _NO_FORM:
        return None


def _columns(schema: Schema, rows: pa.Table | pa.RecordBatch) -> dict[str, list[Value]]:
    fields = sampled_columns(schema)
    return {f["name"]: _values(shape_of(f["type"]), rows.column(i)) for i, f in enumerate(fields)}


def _drawn(schema: Schema, tables: Sequence[pa.Table], chance: random.Random) -> list[Sample]:
    """The samples of all files at once: calls for each column of each file would take longer than
    all the rest."""
    samples: list[Sample] = []
    places: list[int] = []
    start = 0
    for table in tables:
        rows = table.num_rows
        sample, chosen = _marked(rows, len(schema["fields"]), chance)
        samples.append(sample)
        places += [start + place for place in chosen]
        start += rows
    drawn = pa.concat_tables(tables).take(pa.array(places, pa.int64()))
    columns = _columns(schema, drawn)
    start = 0
    for sample in samples:
        end = start + len(sample["marks"])
        sample["values"] = {name: values[start:end] for name, values in columns.items()}
        start = end
    return samples


def _marked(rows: int, columns: int, chance: random.Random) -> tuple[Sample, list[int]]:
    """A sample without its values, and the places of its rows: in an order by chance, as marks are
    sorted."""
    few = TABLE_VALUES // columns + 1
    count = min(max(few, int(rows * MOST_SHARE)), FRAGMENT_ROWS, rows)
    below = WHOLE if count == rows else max(1, int(count / rows * WHOLE))
    marks = sorted(int(chance.random() * below) for _ in range(count))
    return {"of": rows, "below": below, "marks": marks, "values": {}}, chance.sample(
        range(rows), count
    )


def _values(shape: Shape, column: pa.ChunkedArray) -> list[Value]:
    """The values of a column, by calls on the whole column where possible: a call for each value
    takes longer than all the rest."""
    if shape == "time":
        return column.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    if shape == "date":
        return column.cast(pa.int32()).to_pylist()  # type: ignore[no-any-return]
    if shape == "size":
        is_list = pa.types.is_list(column.type)
        return (pc.list_value_length if is_list else pc.binary_length)(column).to_pylist()  # type: ignore[no-any-return]
    cells = column.to_pylist()
    if pa.types.is_float32(column.type):
        # As Spark writes it
        cells = [None if cell is None else float(str(np.float32(cell))) for cell in cells]
    if pa.types.is_floating(column.type):
        return (
            cells
            if _are_finite(cells)
            else [None if cell is None else _float(cell) for cell in cells]
        )
    if shape == "decimal":
        return [None if cell is None else format(cell, "f") for cell in cells]
    if shape == "text" and any(len(cell) > LONGEST for cell in cells if cell is not None):
        return [None if cell is None else _cut(cell[:LONGEST], len(cell)) for cell in cells]
    return cells  # type: ignore[no-any-return]


def _are_finite(values: Sequence[float | None]) -> bool:
    return isfinite(sum(filter(None, values)))  # an overflow only takes the longer way
