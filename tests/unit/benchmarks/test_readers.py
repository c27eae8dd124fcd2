"""The matrix of readers: what it calls a difference, which gaps it accepts, and that the page shows
the run that was kept."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from benchmarks.pages import between
from benchmarks.readers import results_page
from benchmarks.readers.comparison import WHOLE, Differences, differences
from benchmarks.readers.engines import ENGINES
from benchmarks.readers.examples import ADDRESSES, PAGE, SESSION, examples
from benchmarks.readers.gaps import Cell, Gap, expected_gaps, problems
from benchmarks.readers.service import table_of
from tests.rows_of_types import all_columns

NO_WAYS = (SESSION, "catalogue of Delta", "catalogue of Iceberg")
CELL = Cell("swift", "Iceberg", "newest")
GAP = Gap("swift", ["Iceberg"], ["type int64"], "It has one type for numbers.", ["n"], ["newest"])


def test_rows_in_any_order_and_layout_are_equal() -> None:
    rows = all_columns()
    read = table_of(rows[::-1])
    large = read.schema.field("text").with_type(pa.large_string())
    read = read.set_column(read.column_names.index("text"), large, read["text"].cast(large.type))
    assert differences(table_of(rows), read) == {}


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ({"k": [1, 2], "n": [5, 7]}, {"n": ["7 for 6"]}),
        ({"k": [1, 3], "n": [5, 6]}, {WHOLE: ["rows [1, 3]"]}),
        ({"k": [1, 2, 2], "n": [5, 6, 6]}, {WHOLE: ["rows [1, 2, 2]"]}),
        ({"k": [1, 2]}, {WHOLE: ["columns k"]}),
        ({"k": [1, 2], "n": [5.0, 6.0]}, {"n": ["type double"]}),
        ({"k": [1, 2], "n": [5, None]}, {"n": ["None for 6"]}),
    ],
)
def test_differences_are_told_by_column(
    read: dict[str, list[object]], expected: Differences
) -> None:
    assert differences(pa.table({"k": [1, 2], "n": [5, 6]}), pa.table(read)) == expected


@pytest.mark.parametrize(
    ("read", "wrong"),
    [
        ({"n": ["type int64"]}, []),
        ({}, ["the gap of n is closed"]),
        ({"n": ["type int64", "7 for 6"]}, ["n: 7 for 6"]),
        ({"n": ["type int64"], "m": ["None for 1"]}, ["m: None for 1"]),
        ({WHOLE: ["OSError"]}, ["*: OSError"]),
    ],
)
def test_a_gap_is_named_and_there(read: Differences, wrong: list[str]) -> None:
    told = problems({CELL: read}, [GAP])
    assert len(told) == len(wrong)
    for problem, words in zip(told, wrong, strict=True):
        assert problem.startswith("swift, Iceberg, newest: ")
        assert words in problem


def test_the_page_shows_the_run_that_was_kept() -> None:
    (result,) = json.loads(results_page.RESULTS.read_text())
    gaps = expected_gaps()
    assert between(results_page.MARK, PAGE) == results_page.lines(result, gaps)
    assert problems(results_page.matrix_of(result), gaps) == []


def test_each_engine_has_examples_and_each_example_an_engine() -> None:
    every = examples(PAGE.read_text())
    assert {engine for engine, _, _ in every} == {engine.name for engine in ENGINES}
    ways = {way for _, way, _ in every if way not in NO_WAYS}
    assert ways == set(ADDRESSES)
