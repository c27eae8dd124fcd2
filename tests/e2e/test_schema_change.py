"""Schemas that follow their files: a new column under `schema_change: append`, and types of all
files together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.e2e.conftest import LASTING, closing, ways
from tests.e2e.workspace import Workspace
from tests.slices import in_turn

# Takes turns with the other two stories of columns: what schema a dataset gets, unit/schema and
# spark/test_infer ask at each commit.
pytestmark = in_turn(4, 6)

BLUEPRINT = """\
dataflow: shops
components:
  sales:
    read: {connector: files, path: "shops/*.csv", format: csv, options: {header: true}, schema_change: append}
  everything:
    transform: {sql: SELECT * FROM sales}
  amounts:
    transform: {sql: "SELECT shop, amount FROM sales"}
  total:
    transform: {sql: SELECT sum(amount) AS amount FROM amounts}
"""


@pytest.fixture(scope="module", params=ways(11))
def workspace(request: pytest.FixtureRequest, module_folder: Path) -> Iterator[Workspace]:
    """One home for both dataflows, so that Spark starts once."""
    with closing(Workspace(module_folder / request.param, lasts=request.param == LASTING)) as both:
        yield both


def test_children_that_take_everything_read_it_and_others_only_the_new_file(
    workspace: Workspace,
) -> None:
    workspace.write("shops.yaml", BLUEPRINT)
    for number, shop in enumerate("ab", 1):
        workspace.write(f"shops/{shop}.csv", f"shop,amount\n{shop},{number}\n")
    first = workspace.run("shops.yaml")
    first.assert_up_to_date()
    assert first.executed == 2 + 2 + 2 + 1

    workspace.write("shops/c.csv", "shop,discount,amount\nc,0.5,3\n")
    run = workspace.run("shops.yaml")
    run.assert_up_to_date()
    # the new file; all three partitions of `SELECT *`; the new partition of who names columns; the
    # sum
    assert run.executed == 1 + 3 + 1 + 1
    rows = json.loads(workspace.call("records", "shops.everything", "--home", workspace.home))
    assert rows == [
        {"shop": "a", "amount": 1, "discount": None},
        {"shop": "b", "amount": 2, "discount": None},
        {"shop": "c", "amount": 3, "discount": 0.5},
    ]
    assert json.loads(workspace.call("records", "shops.total", "--home", workspace.home)) == [
        {"amount": 6}
    ]
    assert workspace.run("shops.yaml").tasks == {}
    workspace.assert_tidy()


INFERRED = """\
dataflow: types
components:
  headers: {read: {connector: files, path: "data/headers/*.csv", format: csv, options: {header: true}}}
  codes: {read: {connector: files, path: "data/codes/*.csv", format: csv, options: {header: true}}}
  int_long: {read: {connector: files, path: "data/int_long/*.parquet", format: parquet}}
  float_double: {read: {connector: files, path: "data/float_double/*.parquet", format: parquet}}
  decimals: {read: {connector: files, path: "data/decimals/*.parquet", format: parquet}}
  structs: {read: {connector: files, path: "data/structs/*.parquet", format: parquet}}
  notes: {read: {connector: files, path: "data/notes/*.parquet", format: parquet}}
  alone: {read: {connector: files, path: "data/alone/*.parquet", format: parquet}}
"""
STRUCTS = pa.struct([("n", pa.int32())]), pa.struct([("n", pa.int64())])
PAIRS: dict[str, tuple[Any, Any]] = {
    "int_long": (pa.array([1], pa.int32()), pa.array([2**40], pa.int64())),
    "float_double": (pa.array([1.5], pa.float32()), pa.array([2.5], pa.float64())),
    "decimals": (
        pa.array([Decimal("1.25")], pa.decimal128(10, 2)),
        pa.array([Decimal("12.3456")], pa.decimal128(14, 4)),
    ),
    "structs": (pa.array([{"n": 1}], STRUCTS[0]), pa.array([{"n": 2**40}], STRUCTS[1])),
}
WIDE: dict[str, list[Any]] = {
    "int_long": [1, 2**40],
    "float_double": [1.5, 2.5],
    "decimals": ["1.2500", "12.3456"],
    "structs": [{"n": 1}, {"n": 2**40}],
}


def parquet(**columns: Any) -> bytes:
    target = BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), target)
    return target.getvalue()


def test_a_first_listing_and_later_ones_give_the_type_of_all_files(workspace: Workspace) -> None:
    def rows(dataset: str) -> list[list[Any]]:
        told = json.loads(workspace.call("records", f"types.{dataset}", "--home", workspace.home))
        return sorted(([*row.values()] for row in told), key=lambda row: str(row[0]))

    workspace.write("types.yaml", INFERRED)
    workspace.write("data/headers/a.csv", "id,x\n1,2\n")
    workspace.write("data/headers/b.csv", "id,y\n12345678901234567890,2\n")
    workspace.write("data/codes/a.csv", "zip,part,n\n02134,1d,1\n00501,2f,2\n")
    for name, (one, two) in PAIRS.items():
        workspace.write(f"data/{name}/1.parquet", parquet(id=[1], c=one))
        workspace.write(f"data/{name}/2.parquet", parquet(id=[2], c=two))
    workspace.write("data/notes/1.parquet", parquet(id=[1, 2], note=pa.nulls(2)))
    workspace.write("data/notes/2.parquet", parquet(id=[3, 4], note=["x", "y"]))
    workspace.write("data/alone/1.parquet", parquet(id=[1], note=pa.nulls(1)))
    workspace.run("types.yaml").assert_up_to_date()
    assert [str(cell) for row in rows("headers") for cell in row] == [
        *("1", "2", "None"),
        *("12345678901234567890", "None", "2"),
    ]
    assert rows("codes") == [["00501", "2f", 2], ["02134", "1d", 1]]
    for name, values in WIDE.items():
        assert [row[1] for row in rows(name)] == values
    assert rows("notes") == [[1, None], [2, None], [3, "x"], [4, "y"]]
    assert rows("alone") == [[1]]
    assert "no object has a value in the column note" in workspace.call(
        "status", "--home", workspace.home
    )

    workspace.write("data/codes/b.csv", "zip,part,n\n10001,3,03\n")
    workspace.write("data/alone/2.parquet", parquet(id=[2], note=[0.5]))
    workspace.run("types.yaml").assert_up_to_date()
    assert rows("codes") == [["00501", "2f", "2"], ["02134", "1d", "1"], ["10001", "3", "03"]]
    assert rows("alone") == [[1, None], [2, 0.5]]
    assert "no object has a value" not in workspace.call("status", "--home", workspace.home)
    workspace.assert_tidy()
    workspace.assert_alone()
