"""Rows of two results beside each other: what counts as the same."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dataplane.query.query_results import SQL_TYPE
from dataplane.query.result_comparison import compared


@pytest.fixture
def both(tmp_path: Path) -> Any:
    """Compares two tables, with few samples."""

    def compare(one: pa.Table, other: pa.Table) -> Any:
        return compared(stored(one, tmp_path / "one"), stored(other, tmp_path / "other"), samples=1)

    return compare


def stored(table: pa.Table, path: Path) -> str:
    with pa.ipc.new_stream(str(path), table.schema) as stream:
        stream.write_table(table)
    return str(path)


def column(kind: pa.DataType, *values: Any, sql_type: str = "") -> pa.Table:
    field = pa.field("x", kind, metadata={SQL_TYPE: sql_type.encode()})
    return pa.table([pa.array(values, kind)], schema=pa.schema([field]))


def test_order_does_not_count_and_numbers_of_rows_do(both: Any) -> None:
    first, second = column(pa.int64(), 1, 2, 2), column(pa.int32(), 2, 1, 2)
    assert both(first, second) == {"rows": [3, 3], "only": [0, 0], "samples": [[], []]}
    assert both(first, column(pa.int64(), 1, 2)) == {
        "rows": [3, 2],
        "only": [1, 0],
        "samples": [[[2]], []],
    }


SAME = [
    (column(pa.float64(), 0.1 + 0.2), column(pa.float64(), 0.3)),
    (column(pa.float64(), -0.0), column(pa.float64(), 0.0)),
    (column(pa.float64(), float("nan")), column(pa.float64(), float("nan"))),
    (column(pa.decimal128(12, 2), Decimal("1.50")), column(pa.float64(), 1.5)),
    (column(pa.decimal128(12, 2), Decimal("1.50")), column(pa.decimal128(38, 6), Decimal("1.5"))),
    (column(pa.decimal128(38, 0), Decimal(5), sql_type="HUGEINT"), column(pa.int64(), 5)),
    (column(pa.list_(pa.float64()), [0.1 + 0.2]), column(pa.list_(pa.float64()), [0.3])),
    (column(pa.int64(), None), column(pa.float64(), None)),
]
OTHERS = [
    (column(pa.int64(), 10**17), column(pa.int64(), 10**17 + 1)),
    (column(pa.float64(), 1.0), column(pa.float64(), 1.0000001)),
    (column(pa.string(), "1"), column(pa.int64(), 1)),
    (column(pa.int64(), 0), column(pa.int64(), None)),
    (column(pa.string(), ""), column(pa.string(), None)),
    (column(pa.list_(pa.int64()), [1, 2]), column(pa.list_(pa.int64()), [2, 1])),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same(both: Any, one: pa.Table, other: pa.Table) -> None:
    assert both(one, other)["only"] == [0, 0]


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_others(both: Any, one: pa.Table, other: pa.Table) -> None:
    assert both(one, other)["only"] == [1, 1]


def test_more_columns_are_another_result(both: Any) -> None:
    wide = pa.table({"x": [1], "y": [2]})
    assert both(column(pa.int64(), 1), wide)["only"] == [1, 1]
