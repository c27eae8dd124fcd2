"""Samples of fragments' rows, drawn in the pass that computes contents: in Spark's query, or from a table in memory.

No further job and no further read: a row that is drawn becomes a group of its own in the query that sums hashes. Does
not belong here: what footers tell (`statistics`), how samples merge (`contract.profiles`).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from math import isfinite
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataplane.contract.profiles import LONGEST, MOST_COLUMNS, WHOLE, Sample, Shape, Value, no_sample, shape_of
from dataplane.contract.schemas import Json, Schema
from dataplane.fragments.content import quoted

# What fits in a twentieth of the pass (docs/performance.md).
SHARE = 1 / 400  # of the rows of a query
FEW_VALUES = 4_000  # of a query, however few the share is: it takes Spark longer to begin
MOST_VALUES = 200_000
FRAGMENT_ROWS = 1024
TABLE_SHARE = 1 / 100  # of a table in memory
TABLE_VALUES = 200
MARK = "_mark"  # a column of the query; no user's, since names of columns differ from it


def sampled_columns(schema: Schema) -> Sequence[Json]:
    return schema["fields"][:MOST_COLUMNS]


# --- by Spark -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Drawing:
    """How one query draws rows. `mark` adds a random number to each row, under a name that no column has; `row` is SQL
    text of a drawn row as JSON, and NULL of the other rows."""

    schema: Schema
    below: int
    mark: str
    row: str

    @staticmethod
    def of(schema: Schema, rows: int, fragments: int, name: str) -> Drawing:
        """Of so many rows. `name` of one of the files: by it, which rows are drawn."""
        below = threshold(rows, len(schema["fields"]), fragments)
        taken = {f["name"].lower() for f in schema["fields"]}
        mark = MARK
        while mark in taken:
            mark += "_"
        seed = int.from_bytes(sha256(name.encode()).digest()[:4], "big")
        # Types as they are: casts to texts would take three times as long.
        fields = [f"'m', {mark}", *(text for i, f in enumerate(sampled_columns(schema)) for text in _fields(i, f))]
        options = "map('ignoreNullFields', 'false')"
        row = f"CASE WHEN {mark} < {below}L THEN to_json(named_struct({', '.join(fields)}), {options}) END"
        return Drawing(schema, below, f"CAST(rand({seed}) * {WHOLE} AS BIGINT) AS {mark}", row)

    def sample(self, rows: int, drawn: Iterable[str]) -> Sample:
        """Of a fragment with so many rows: those that the query gave for it."""
        found = sorted((json.loads(row, parse_float=str) for row in drawn), key=itemgetter("m"))
        below = self.below
        if len(found) > FRAGMENT_ROWS:
            below = found[FRAGMENT_ROWS]["m"]
            found = [one for one in found[:FRAGMENT_ROWS] if one["m"] < below]
        values: dict[str, list[Value]] = {}
        for i, field in enumerate(sampled_columns(self.schema)):
            shape, key = shape_of(field["type"]), f"c{i}"
            values[field["name"]] = [None if row[key] is None else _parsed(shape, row[key], row, i) for row in found]
        return {"of": rows, "below": below, "marks": [row["m"] for row in found], "values": values}


def threshold(rows: int, columns: int, fragments: int) -> int:
    """Below which a mark has to be, of a query over so many rows."""
    values = min(max(FEW_VALUES, rows * columns * SHARE), MOST_VALUES)
    wanted = min(values / max(1, columns), FRAGMENT_ROWS * fragments)
    return min(WHOLE, max(1, int(wanted / max(1, rows) * WHOLE)))


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
    """Of JSON whose fractions are texts still."""
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


def _cut(kept: str, length: int) -> Value:
    return kept if length <= LONGEST else [kept, length]


# --- from a table in memory -----------------------------------------------------------------------


def sample_of_table(schema: Schema, table: pa.Table, name: str) -> Sample:
    """Of one file's rows. `name` of the file: by it, which rows are drawn. None of them where one holds bytes that are
    no text, or a value that Python has not: a profile fails no task."""
    try:
        return _drawn(schema, table, name) if table.num_rows else no_sample()
    except (ValueError, ArithmeticError, pa.ArrowException):
        return no_sample()


def _drawn(schema: Schema, table: pa.Table, name: str) -> Sample:
    rows = table.num_rows
    few = TABLE_VALUES // len(schema["fields"]) + 1
    wanted = min(max(few, int(rows * TABLE_SHARE)), FRAGMENT_ROWS, rows)
    chance = random.Random(name)  # nothing is kept secret by it
    below = WHOLE if wanted == rows else max(1, int(wanted / rows * WHOLE))
    marks = sorted(int(chance.random() * below) for _ in range(wanted))
    places = pa.array(chance.sample(range(rows), wanted), pa.int64())  # in an order by chance, as marks are sorted
    values: dict[str, list[Value]] = {}
    for i, field in enumerate(sampled_columns(schema)):
        values[field["name"]] = _values(shape_of(field["type"]), table.column(i).take(places))
    return {"of": rows, "below": below, "marks": marks, "values": values}


def _values(shape: Shape, column: pa.ChunkedArray) -> list[Value]:
    """Of whole columns, as far as can be: a call for each value takes longer than all the rest."""
    if shape == "time":
        return column.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    if shape == "date":
        return column.cast(pa.int32()).to_pylist()  # type: ignore[no-any-return]
    if shape == "size":
        return pc.binary_length(column).to_pylist()  # type: ignore[no-any-return]
    found = column.to_pylist()
    if pa.types.is_float32(column.type):
        found = [None if one is None else float(str(np.float32(one))) for one in found]  # as Spark writes it
    if pa.types.is_floating(column.type):
        return found if _are_finite(found) else [None if one is None else _float(one) for one in found]
    if shape == "decimal":
        return [None if one is None else format(one, "f") for one in found]
    if shape == "text" and any(len(one) > LONGEST for one in found if one is not None):
        return [None if one is None else _cut(one[:LONGEST], len(one)) for one in found]
    return found  # type: ignore[no-any-return]


def _are_finite(values: Sequence[float | None]) -> bool:
    return isfinite(sum(filter(None, values)))  # an overflow only takes the longer way
