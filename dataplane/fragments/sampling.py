"""Samples of fragments' rows, drawn in the pass that computes contents: in Spark's query, or from a table in memory.

No further job and no further read: a row that is drawn becomes a group of its own in the query that sums hashes. Does
not belong here: what footers tell (`statistics`), how samples merge (`contract.profiles`).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from operator import itemgetter

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
    text of a drawn row as a JSON list of texts, its mark first, and NULL of the other rows."""

    schema: Schema
    below: int
    mark: str
    row: str

    @staticmethod
    def of(schema: Schema, rows: int, name: str) -> Drawing:
        """Of so many rows. `name` of one of the files: by it, which rows are drawn."""
        below = threshold(rows, len(schema["fields"]))
        taken = {f["name"].lower() for f in schema["fields"]}
        mark = MARK
        while mark in taken:
            mark += "_"
        seed = int.from_bytes(sha256(name.encode()).digest()[:4], "big")
        texts = [f"CAST({mark} AS STRING)", *(_text(f) for f in sampled_columns(schema))]
        row = f"CASE WHEN {mark} < {below}L THEN to_json(array({', '.join(texts)})) END"
        return Drawing(schema, below, f"CAST(rand({seed}) * {WHOLE} AS BIGINT) AS {mark}", row)

    def sample(self, rows: int, drawn: Iterable[str]) -> Sample:
        """Of a fragment with so many rows: those that the query gave for it."""
        found = sorted(((int(row[0]), row[1:]) for row in map(json.loads, drawn)), key=itemgetter(0))
        below = self.below
        if len(found) > FRAGMENT_ROWS:
            below = found[FRAGMENT_ROWS][0]
            found = [one for one in found[:FRAGMENT_ROWS] if one[0] < below]
        values: dict[str, list[Value]] = {}
        for i, field in enumerate(sampled_columns(self.schema)):
            shape = shape_of(field["type"])
            values[field["name"]] = [None if row[i] is None else _parsed(shape, row[i]) for _, row in found]
        return {"of": rows, "below": below, "marks": [mark for mark, _ in found], "values": values}


def threshold(rows: int, columns: int) -> int:
    """Below which a mark has to be, of a query over so many rows."""
    values = min(max(FEW_VALUES, rows * columns * SHARE), MOST_VALUES)
    return min(WHOLE, max(1, int(values / max(1, rows * columns) * WHOLE)))


def _text(field: Json) -> str:
    column, kind, shape = quoted(field["name"]), field["type"], shape_of(field["type"])
    match shape:
        case "text":
            return f"concat(char_length({column}), ':', left({column}, {LONGEST}))"
        case "time" if kind == "timestamp_ntz":
            return f"CAST(unix_micros(CAST({column} AS TIMESTAMP)) AS STRING)"
        case "time":
            return f"CAST(unix_micros({column}) AS STRING)"
        case "date":
            return f"CAST(unix_date({column}) AS STRING)"
        case "size":
            length = "octet_length" if kind == "binary" else "size"
            return f"IF({column} IS NULL, NULL, CAST({length}({column}) AS STRING))"
        case "other":
            return f"IF({column} IS NULL, NULL, '0')"
        case _:
            return f"CAST({column} AS STRING)"


def _parsed(shape: Shape, text: str) -> Value:
    match shape:
        case "number":
            return _number(text)
        case "text":
            length, _, kept = text.partition(":")
            return _cut(kept, int(length))
        case "flag":
            return text == "true"
        case "decimal":
            return text
        case _:
            return int(text)


def _number(text: str) -> Value:
    try:
        return int(text)
    except ValueError:
        return _float(float(text))


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
