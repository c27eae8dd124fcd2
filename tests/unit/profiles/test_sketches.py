"""Distinct values: exact while they are few, within two percent where they are many, in any
grouping of parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core import profile_figures
from dataplane.contract import sketches
from dataplane.contract.profiles import (
    ColumnCounts,
    Profile,
    Sample,
    Value,
    as_text,
    fitting,
    merged,
    nothing,
    unknown,
)
from dataplane.contract.schemas import Schema
from dataplane.fragments.dictionaries import dictionary_of, hashes_of
from dataplane.fragments.distinct import of_tables, sketch_of

SCHEMA: Schema = {
    "type": "struct",
    "fields": [{"name": "v", "type": "long", "nullable": True, "metadata": {}}],
}
FIELD = SCHEMA["fields"][0]


def sketch(values: Sequence[int | None]) -> str:
    [found] = of_tables(SCHEMA, [pa.table({"v": pa.array(values, pa.int64())})])
    return found["v"]


def profile(values: Sequence[int | None], *, with_sketch: bool = True) -> Profile:
    rows = len(values)
    nulls = sum(value is None for value in values)
    counts: ColumnCounts = {
        "shape": "number",
        "nulls": nulls,
        "nulls_of": rows,
        "bounds": [],
        "bounds_of": 0,
    }
    if with_sketch:
        counts["distinct"] = sketch(values)
    return {**nothing(), "rows": rows, "columns": {"v": counts}}


def distinct(found: Profile) -> tuple[int | None, str]:
    column = profile_figures.column(found, FIELD, with_values=False)
    return column["distinct"], column["distinct_basis"]


VALUES = st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=40)


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_few_values_are_counted_exactly(parts: list[list[int | None]]) -> None:
    whole = merged([profile(part) for part in parts])
    values = {value for part in parts for value in part if value is not None}
    if any(parts):
        assert distinct(whole) == (len(values), "exact")


def test_sixteen_of_many_rows_are_sixteen() -> None:
    parts = [profile([(row * 7 + month) % 16 for row in range(3_000)]) for month in range(12)]
    assert distinct(merged(parts)) == (16, "exact")


@pytest.mark.parametrize("number", [1_001, 5_000, 40_000, 300_000])
def test_many_values_are_within_two_percent_however_parts_are_grouped(number: int) -> None:
    values = [value * 7 - number for value in range(number)]
    parts = [profile(values[start::4] + values[:200]) for start in range(4)]
    whole = merged(parts)
    stepwise = merged([merged(parts[2:]), merged(parts[:2])])
    assert stepwise == whole
    found, basis = distinct(whole)
    assert basis == "estimated"
    assert found is not None
    assert abs(found - number) <= 0.02 * number


TABLES = [
    pa.table(
        {
            "i": pa.array([row % 9 for row in range(rows)], pa.int32()),
            "s": [f"v{row % 7}" for row in range(rows)],
        }
    )
    for rows in (3_000, 40, 5_000)
]
TYPES = {"i": "integer", "s": "string"}
FIELDS: Schema = {
    "type": "struct",
    "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in TYPES.items()],
}


@pytest.mark.parametrize("long", [False, True])
def test_tables_have_the_same_sketches_together_as_alone(long: bool) -> None:
    more = [pa.table({"i": pa.array([1], pa.int32()), "s": ["x" * 3_000_000]})] if long else []
    tables = TABLES + more
    assert of_tables(FIELDS, tables) == [of_tables(FIELDS, [table])[0] for table in tables]


@pytest.mark.parametrize("codec", ["zstd", "snappy", "none"])
def test_dictionaries_of_a_file_tell_its_distinct_values(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(TABLES[0], path, compression=codec, version="1.0", row_group_size=1_000)
    groups = pq.read_metadata(path)
    [alone] = of_tables(FIELDS, TABLES[:1])
    with path.open("rb") as file:
        for leaf, (name, kind) in enumerate(TYPES.items()):
            chunks = [groups.row_group(group).column(leaf) for group in range(3)]
            stored = [one for one in map(dictionary_of, chunks) if one is not None]
            assert len(stored) == 3
            assert sketch_of([hashes_of(file, one, kind) for one in stored]) == alone[name]


def test_a_column_with_plain_pages_has_no_dictionary(tmp_path: Path) -> None:
    pq.write_table(TABLES[0], tmp_path / "rows.parquet", use_dictionary=False)
    assert dictionary_of(pq.read_metadata(tmp_path / "rows.parquet").row_group(0).column(0)) is None


def test_what_a_report_cannot_carry_is_left_out_of_all_profiles_alike() -> None:
    def wide(number: int) -> Profile:
        found = profile([*range(number, number + 900)])
        few: ColumnCounts = {**found["columns"]["v"], "distinct": sketch([1, 2])}
        rows: list[Value] = [f"{number} {row} {'x' * 40}" for row in range(100)]
        sample: Sample = {
            "of": 900,
            "below": 1 << 31,
            "marks": [*range(0, 1 << 31, (1 << 31) // 100)][:100],
        }  # type: ignore[typeddict-item]
        return {
            **found,
            "columns": {**found["columns"], "few": few},
            "sample": {**sample, "values": {"v": rows}},
        }

    every = [wide(number) for number in range(50)]
    light = fitting(every, 100_000)
    assert sum(len(as_text(one)) for one in light) <= 100_000
    assert all(
        "distinct" in one["columns"]["few"] and "distinct" not in one["columns"]["v"]
        for one in light
    )
    assert all(10 < len(one["sample"]["marks"]) < 100 for one in light)
    assert all(mark < one["sample"]["below"] for one in light for mark in one["sample"]["marks"])
    assert fitting(every) == every


def test_rows_without_a_sketch_give_no_false_number() -> None:
    have, old = profile([1, 2, 3]), profile([4, 5], with_sketch=False)
    assert distinct(merged([have, old])) == (None, "unknown")
    assert distinct(merged([have, profile([None, None], with_sketch=False)])) == (3, "exact")
    assert distinct(merged([have, unknown(5)])) == (3, "estimated")


@pytest.mark.parametrize("text", ["", "h", "x", "b", "hAAA", "bAAAA", "h!", "h" + "AAAA" * 4_000])
def test_what_is_no_sketch_is_refused(text: str) -> None:
    if text == "h":
        assert sketches.count(text) == 0
        return
    with pytest.raises(ValueError, match=r"\w"):
        sketches.count(text)
