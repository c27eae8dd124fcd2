"""What is left out unread holds no row that is wanted: whatever the rows, the condition and what is
known of them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.records import pruning
from controlplane.core.records.pruning import BUCKET, PartitionKeyPart
from controlplane.core.records.where import parse
from controlplane.core.tree import after
from dataplane.contract.keys import column_key
from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import Schema
from dataplane.fragments.arrow import arrow_schema
from dataplane.fragments.filtering import satisfying
from dataplane.fragments.statistics import statistics
from tests.unit.lake.tables import struct

pytestmark = pytest.mark.unit
SCHEMA = struct(
    n="long", d="double", p="decimal(12,2)", s="string", ok="boolean", day="date", at="timestamp"
)
BIG = 2**53
numbers = st.sampled_from([-2, 0, 1, 2, 3, BIG, BIG + 1, 2**63 - 1])
texts = st.sampled_from(["", "a", "ab", "b", "ü", "x" * 40])
days = st.integers(0, 60).map(lambda k: date(2013, 1, 1) + timedelta(days=k))
times = st.integers(0, 5).map(
    lambda k: datetime(2013, 1, 1, tzinfo=UTC) + timedelta(microseconds=700 * k)
)
rows = st.fixed_dictionaries(
    {
        "n": numbers | st.none(),
        "d": st.sampled_from([0.0, -0.0, 1.5, float("nan")]) | st.none(),
        "p": st.integers(-3, 3).map(lambda k: Decimal(k) / 4) | st.none(),
        "s": texts | st.none(),
        "ok": st.booleans() | st.none(),
        "day": days | st.none(),
        "at": times | st.none(),
    }
)
COMPARED = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])


def literals(values: st.SearchStrategy[Any], form: Any = str) -> st.SearchStrategy[str]:
    return values.map(form)


def quoted(value: Any) -> str:
    return f"'{value}'"


sides = st.one_of(
    st.tuples(
        st.just("n"), literals(numbers) | st.sampled_from(["1.5", "9007199254740992D", "-1e0"])
    ),
    st.tuples(st.just("d"), st.sampled_from(["0", "1.5", "-1"])),
    st.tuples(st.just("p"), st.sampled_from(["0.25", "-0.75", "1", "0.125"])),
    st.tuples(st.just("s"), literals(texts, quoted)),
    st.tuples(st.just("day"), literals(days, quoted)),
    st.tuples(
        st.just("at"), literals(times, lambda at: quoted(at.isoformat().replace("+00:00", "Z")))
    ),
)
tests = st.one_of(
    st.tuples(sides, COMPARED).map(lambda x: f"{x[0][0]} {x[1]} {x[0][1]}"),
    st.tuples(sides, COMPARED).map(lambda x: f"{x[0][1]} {x[1]} {x[0][0]}"),
    st.sampled_from(["n", "s", "ok", "d"]).map(lambda c: f"{c} IS NULL"),
    st.sampled_from(
        [
            "ok",
            "ok = false",
            "s LIKE 'a%'",
            "s LIKE '_b'",
            "s LIKE 'ü'",
            "s IN ('a', 'zz')",
            "n IN (1, 2)",
        ]
    ),
)
conditions = st.recursive(
    tests,
    lambda inner: st.one_of(
        inner.map(lambda c: f"NOT ({c})"),
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
            lambda x: f"({x[0]}) {x[1]} ({x[2]})"
        ),
    ),
    max_leaves=5,
)


def entry_of(batch: pa.RecordBatch) -> FileEntry:
    out = pa.BufferOutputStream()
    pa.parquet.write_table(pa.Table.from_batches([batch]), out)
    footer = pa.parquet.read_metadata(pa.BufferReader(out.getvalue()))
    return {"path": "x", "size": 1, "rows": batch.num_rows, "stats": statistics(footer, SCHEMA)}


def batch_of(found: list[dict[str, Any]], schema: Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(found, schema=arrow_schema(schema))


@given(st.lists(rows, max_size=4), conditions)
def test_a_file_that_is_left_out_has_no_row_that_is_wanted(
    found: list[dict[str, Any]], text: str
) -> None:
    condition, batch = parse(text, SCHEMA), batch_of(found)
    if not pruning.may_match(condition, pruning.of_file(entry_of(batch), SCHEMA)):
        assert satisfying(batch, condition).num_rows == 0


KEYED = (
    PartitionKeyPart("n", "n"),
    PartitionKeyPart("s", "s"),
    PartitionKeyPart("day", "day", "month"),
    PartitionKeyPart("p", "p"),
    PartitionKeyPart("ok", "ok"),
)


def key_of(row: dict[str, Any]) -> str:
    texts = [row["n"], row["s"], row["day"], row["p"], row["ok"]]
    found = [None if value is None else str(value) for value in texts]
    found[2] = None if found[2] is None else found[2][:7]
    found[4] = None if found[4] is None else found[4].lower()
    return column_key([part.name for part in KEYED], found)


@given(rows, conditions)
def test_a_partition_that_is_left_out_by_its_key_has_no_row_that_is_wanted(
    row: dict[str, Any], text: str
) -> None:
    condition = parse(text, SCHEMA)
    if not pruning.may_match(condition, pruning.of_keys(KEYED, SCHEMA)(key_of(row))):
        assert satisfying(batch_of([row]), condition).num_rows == 0


@given(st.lists(rows, min_size=1, max_size=6), conditions)
def test_a_range_of_keys_that_is_left_out_has_no_row_that_is_wanted(
    rows_of_range: list[dict[str, Any]], text: str
) -> None:
    """As nodes of the partition tree are left out: each but the first begins behind a key."""
    condition, keys = parse(text, SCHEMA), sorted(map(key_of, rows_of_range))
    for low in (keys[0], after(keys[0])):
        bounds_of = pruning.of_key_range(low, keys[-1], KEYED, SCHEMA)
        if not pruning.may_match(condition, bounds_of):
            assert satisfying(batch_of(rows_of_range), condition).num_rows == 0


def may_in_range(text: str, low: str, high: str, *parts: PartitionKeyPart) -> bool:
    bounds_of = pruning.of_key_range(low, high, parts, SCHEMA)
    return pruning.may_match(parse(text, SCHEMA), bounds_of)


@pytest.mark.parametrize(
    ("text", "low", "high", "may_hold"),
    [
        ("n = 9", "n=10/s=a", "n=30/s=a", False),
        ("n = 2", "n=10/s=a", "n=30/s=a", True),  # as a text it is between them
        ("n = 10", "n=10/s=a", "n=30/s=a", True),
        ("n = 30", "n=10/s=a", "n=30/s=a", True),
        ("n IN (9, 8)", "n=10/s=a", "n=30/s=a", False),
        ("n IS NULL", "n=10/s=a", "n=30/s=a", False),
        ("n IS NULL", "n", "n=30/s=a", True),
        ("n = 40", "", "n=30/s=a", True),
        ("s = 'c'", "n=1/s=a", "n=1/s=b", False),
        ("s = 'a b'", "n=1/s=a", "n=1/s=b", True),
        ("s = 'c'", "n=1/s=a", "n=2/s=b", True),
        ("n = 1", "n=1\0", "n=2", True),
        ("s = '\ud800'", "n=1/s=a", "n=1/s=b", False),
    ],
)
def test_ranges_of_keys_that_tell_something(text: str, low: str, high: str, may_hold: bool) -> None:
    parts = PartitionKeyPart("n", "n"), PartitionKeyPart("s", "s")
    assert may_in_range(text, low, high, *parts) is may_hold


def test_ranges_of_days_are_ordered_as_days_are() -> None:
    day, month = PartitionKeyPart("day", "day"), PartitionKeyPart("day", "day", "month")
    ends = "day=2013-01-31", "day=2013-03-01"
    assert not may_in_range("day > '2013-03-01'", *ends, day)
    assert not may_in_range("day < '2013-01-31'", *ends, day)
    assert may_in_range("day = '2013-02-01'", *ends, day)
    assert not may_in_range("day > '2013-03-31'", "day=2013-01", "day=2013-03", month)
    assert may_in_range("day > '2013-03-30'", "day=2013-01", "day=2013-03", month)


def may(text: str, key: str, *parts: PartitionKeyPart) -> bool:
    return pruning.may_match(parse(text, SCHEMA), pruning.of_keys(parts, SCHEMA)(key))


def test_keys_that_tell_something() -> None:
    month, day = PartitionKeyPart("day", "day", "month"), PartitionKeyPart("day", "day")
    assert not may("day < '2013-02-01'", "day=2013-02", month)
    assert may("day < '2013-02-02'", "day=2013-02", month)
    assert not may("day > '2013-02-28'", "day=2013-02", month)
    assert not may("day > '2013-12-31'", "day=2013", PartitionKeyPart("day", "day", "year"))
    assert may("day = '2013-02-28'", "day=2013-02", month)
    assert may("day = '2013-12-31'", "day=2013", PartitionKeyPart("day", "day", "year"))
    assert not may("day = '2013-02-02'", "day=2013-02-01", day)
    assert not may("day IS NOT NULL", "day", day)
    assert not may(
        "s = 'a b'", "s=a%20c/n=1", PartitionKeyPart("s", "s"), PartitionKeyPart("n", "n")
    )


@pytest.mark.parametrize(
    ("text", "may_hold"),
    [
        ("1 < n", True),
        ("2 < n", False),
        ("2 <= n", True),
        ("3 > n", True),
        ("2 > n", False),
        ("2 >= n", True),
    ],
)
def test_a_value_may_stand_before_the_column(text: str, may_hold: bool) -> None:
    assert may(text, "n=2", PartitionKeyPart("n", "n")) is may_hold


@pytest.mark.parametrize(
    ("low", "high", "may_hold"),
    [
        ("ab", "b", True),
        ("a", "a", True),
        ("A", "ab", True),
        ("b", "c", False),
        ("A", "Z", False),
        ("ä", "ü", False),
    ],
)
def test_a_pattern_is_compared_with_the_first_letters_of_both_ends(
    low: str, high: str, may_hold: bool
) -> None:
    entry: FileEntry = {
        "path": "x",
        "size": 1,
        "rows": 2,
        "stats": {"minValues": {"s": low}, "maxValues": {"s": high}},
    }
    assert (
        pruning.may_match(parse("s LIKE 'a%'", SCHEMA), pruning.of_file(entry, SCHEMA)) is may_hold
    )


@pytest.mark.parametrize(
    ("nulls", "null", "value"),
    [(0, False, True), (1, True, True), (2, True, True), (3, True, False), (None, True, True)],
)
def test_nulls_and_values_of_three_rows(nulls: int | None, null: bool, value: bool) -> None:
    counts = {} if nulls is None else {"s": nulls}
    entry: FileEntry = {"path": "x", "size": 1, "rows": 3, "stats": {"nullCount": counts}}
    known = pruning.of_file(entry, SCHEMA)
    assert pruning.may_match(parse("s IS NULL", SCHEMA), known) is null
    assert pruning.may_match(parse("s IS NOT NULL", SCHEMA), known) is value


def test_a_double_is_compared_with_bounds_as_rows_are() -> None:
    """2^53 + 1 is no double: as one it is 2^53."""
    assert may(f"n = {BIG}D", f"n={BIG + 1}", PartitionKeyPart("n", "n"))
    assert may(f"n >= {BIG + 2}D", f"n={BIG + 2}", PartitionKeyPart("n", "n"))
    assert not may(f"n = {BIG}D", f"n={BIG + 2}", PartitionKeyPart("n", "n"))


def test_keys_that_tell_nothing() -> None:
    assert may("n = 1", "2013", PartitionKeyPart("n", "n"))  # a key of files
    assert may("n = 1", "n=2/s=a", PartitionKeyPart("n", "n"))  # of another form
    assert may("day = '2014-01-01'", "day=2013", PartitionKeyPart("day", "day", BUCKET))
    assert may("day = '2014-01-01'", "day=2013-W01", PartitionKeyPart("day", "day", "week"))
    assert may("at = '2014-01-01T00:00Z'", "at=2013-01", PartitionKeyPart("at", "at", "month"))
    assert not may("day IS NULL", "day=2013", PartitionKeyPart("day", "day", BUCKET))


@pytest.mark.parametrize(
    "stats", [{}, {"minValues": None}, {"minValues": {"n": "1"}, "maxValues": {"n": "1"}}]
)
def test_statistics_of_another_type_tell_nothing(stats: Any) -> None:
    entry: FileEntry = {"path": "x", "size": 1, "rows": 1, "stats": stats}
    assert pruning.may_match(parse("n = 7", SCHEMA), pruning.of_file(entry, SCHEMA))
