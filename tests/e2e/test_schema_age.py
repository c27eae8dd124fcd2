"""Sources whose columns and types change: the dataset follows, its table stays readable, and only
who needs what is gone fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.e2e.conftest import ways
from tests.e2e.tables import by_deltalake, by_duckdb, by_polars
from tests.e2e.workspace import Workspace
from tests.slices import in_turn

# Takes turns with the other two stories of columns: what schema a dataset gets, unit/schema and
# spark/test_schema_age ask at each commit.
pytestmark = in_turn(2, 6)

BLUEPRINT = """\
dataflow: shops
components:
  sales:
    read: {connector: files, path: "sales/*.csv", format: csv, options: {header: true}, schema_change: sync}
    sort_by: [amount]
  cheap:
    transform:
      sql: |
        SELECT shop,
               discount
        FROM sales
  amounts:
    transform: {sql: "SELECT shop, amount FROM sales"}
  stock:
    read: {connector: files, path: "stock/*.parquet", format: parquet}
"""
READERS: tuple[Callable[[Path], pa.Table], ...] = (by_deltalake, by_duckdb, by_polars)


def stock(workspace: Workspace, name: str, **columns: pa.Array) -> None:
    path = workspace.write(f"stock/{name}.parquet", b"")
    pyarrow.parquet.write_table(pa.table(columns), path)


def plain(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.parametrize("workspace", ways(10), indirect=True)
def test_datasets_follow_their_sources(workspace: Workspace) -> None:
    workspace.write("shops.yaml", BLUEPRINT)
    for number, shop in enumerate("ab", 1):
        workspace.write(f"sales/{shop}.csv", f"shop,amount,discount\n{shop},{number},0.5\n")
        stock(workspace, shop, n=pa.array([number], pa.int32()))
    workspace.run("shops.yaml").assert_up_to_date()

    for number, shop in enumerate("ab", 1):
        workspace.write(f"sales/{shop}.csv", f"shop,amount\n{shop},{number}\n")
    workspace.write("sales/c.csv", "shop,amount\nc,3000000000\n")
    stock(workspace, "c", n=pa.array([3_000_000_000], pa.int64()))
    run = workspace.run("shops.yaml", code=1)

    states = {name: d["state"] for name, d in run.datasets.items()}
    assert states == dict.fromkeys(("sales", "amounts", "stock"), "up_to_date") | {
        "cheap": "failed"
    }
    (error,) = run.value["errors"]
    line = next(n for n, text in enumerate(BLUEPRINT.splitlines(), 1) if text.strip() == "discount")
    assert (error["dataset"], error["line"]) == ("shops.cheap", line)
    assert error["condition"].startswith("UNRESOLVED_COLUMN")
    kept = json.loads(workspace.call("records", "shops.cheap", "--home", workspace.home))
    assert kept == [{"shop": shop, "discount": 0.5} for shop in "ab"]

    folder = workspace.lake / "default" / "shops"
    wanted: dict[str, list[dict[str, Any]]] = {
        "sales": [{"shop": s, "amount": n} for s, n in (("a", 1), ("b", 2), ("c", 3_000_000_000))],
        "stock": [{"n": n} for n in (1, 2, 3_000_000_000)],
    }
    for name, expected in wanted.items():
        for read in READERS:
            assert plain(read(folder / name).to_pylist()) == plain(expected), (name, read)
    # of sales all files are new; of stock only the one that came
    assert run.tasks["executed"] == 3 + 3 + 1
    workspace.assert_tidy()
    workspace.assert_alone()
