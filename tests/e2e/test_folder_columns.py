"""Files in folders `key=value`, and CSV in UTF-16: from the blueprint to the rows."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.e2e.conftest import ways
from tests.e2e.workspace import Workspace
from tests.slices import in_turn

# Takes turns with the other two stories of columns: what schema a dataset gets, unit/schema and
# spark/test_folder_columns ask at each commit.
pytestmark = in_turn(0, 6)

HIVE = """\
dataflow: hive
components:
  src: {read: {connector: files, path: data/**/*.parquet, format: parquet}}
  totals: {transform: {sql: "SELECT region, count(*) AS n FROM src GROUP BY region"}}
"""
UTF16 = """\
dataflow: utf16
components:
  marked: {read: {connector: files, path: texts/a.csv, format: csv, options: {header: true, encoding: UTF-16}}}
"""


def rows(workspace: Workspace, dataset: str) -> list[list[object]]:
    found = json.loads(workspace.call("records", dataset, "--home", workspace.home))
    return sorted([list(row.values()) for row in found], key=repr)


@pytest.mark.parametrize("workspace", ways(4), indirect=True)
def test_folders_are_columns_and_utf_16_is_read(workspace: Workspace) -> None:
    workspace.write("hive.yaml", HIVE)
    for region, ids in (("EU", [1, 2]), ("US", [3])):
        folder = workspace.folder / f"data/region={region}/day=2024-01-01"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": ids}), folder / "part-0.parquet")
    workspace.run("hive.yaml").assert_up_to_date()
    assert rows(workspace, "hive.totals") == [["EU", 2], ["US", 1]]
    assert rows(workspace, "hive.src") == [
        [1, "EU", "2024-01-01"],
        [2, "EU", "2024-01-01"],
        [3, "US", "2024-01-01"],
    ]

    (workspace.folder / "data/region=US").rename(workspace.folder / "data/region=UK")
    run = workspace.run("hive.yaml")
    run.assert_up_to_date()
    assert run.executed == 2
    assert rows(workspace, "hive.totals") == [["EU", 2], ["UK", 1]]

    workspace.write("utf16.yaml", UTF16)
    (workspace.folder / "texts").mkdir()
    (workspace.folder / "texts/a.csv").write_bytes("id,name\n8,\u00fc\n9,b\n".encode("utf-16"))
    workspace.run("utf16.yaml").assert_up_to_date()
    assert rows(workspace, "utf16.marked") == [[8, "\u00fc"], [9, "b"]]
