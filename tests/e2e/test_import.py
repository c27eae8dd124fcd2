"""Tables of another writer become generations of components: nothing of them is computed, and a
late file runs what it touches.

Steps of one story, told to one service.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from tests.e2e.conftest import closing
from tests.e2e.served import Served
from tests.e2e.workspace import Workspace
from tests.iceberg_tables import IcebergTables

pytestmark = pytest.mark.soak

BLUEPRINT = """\
dataflow: shop
components:
  orders:
    read:
      connector: files
      path: orders/*.csv
      format: csv
      options: {header: true}
      partition: "{day}.csv"
      refresh: manual
      schema: "day DATE, customer STRING, amount BIGINT"
  doubled:
    paused: true
    transform: {sql: "SELECT day, customer, amount * 2 AS amount FROM orders"}
  by_customer:
    paused: true
    transform:
      sql: SELECT customer, sum(amount) AS amount FROM orders GROUP BY customer
      partition_by: [customer]
  total:
    paused: true
    transform: {sql: "SELECT count(*) AS n, sum(amount) AS amount FROM orders"}
"""
DAYS = ("2026-11-01", "2026-11-02", "2026-11-03")


@pytest.fixture(scope="module")
def story(module_folder: Path) -> Iterator[Served]:
    with closing(Workspace(module_folder)) as workspace:
        for number, day in enumerate(DAYS):
            put(workspace, day, ("ann", number), ("bob", 10))
        workspace.write("shop.yaml", BLUEPRINT)
        with workspace.serving() as service:
            workspace.ask("apply", "shop.yaml", "--wait")
            with service.client() as api:
                yield Served(workspace, service, api, "shop", reads=1)


def put(workspace: Workspace, day: str, *orders: tuple[str, int]) -> None:
    lines = ["day,customer,amount", *(f"{day},{who},{amount}" for who, amount in orders)]
    workspace.write(f"orders/{day}.csv", "\n".join(lines) + "\n")


def bring(story: Served, name: str, source: str, *more: str, code: int = 0) -> str:
    words = ("import", f"shop.{name}", "--from", source, *more)
    return story.workspace.call(*words, "--home", story.workspace.home, code=code)


def resume(story: Served) -> None:
    story.workspace.write("shop.yaml", BLUEPRINT.replace("    paused: true\n", ""))
    story.workspace.ask("apply", "shop.yaml", "--wait")


def test_a_table_with_other_columns_is_refused(story: Served) -> None:
    rows = pa.table({"n": ["three"], "amount": pa.array([9], pa.int64())})
    write_deltalake(str(story.workspace.folder / "wrong"), rows)
    bring(story, "total", "delta:wrong", code=1)
    write_deltalake(str(story.workspace.folder / "narrow"), rows.select(["amount"]))
    bring(story, "total", "delta:narrow", code=1)
    names = {entry["name"] for entry in story.api.dataflows()}
    assert names == {"shop"}
    assert story.api.dataset("shop.total")["generation"] == 0


def test_tables_are_taken_without_computing_them(story: Served) -> None:
    folder = story.workspace.folder
    days = pa.array([day for day in DAYS for _ in "ab"]).cast(pa.date32())
    doubled = pa.table(
        {"day": days, "customer": ["ann", "bob"] * 3, "amount": pa.array([1, 20] * 3, pa.int64())}
    )
    write_deltalake(str(folder / "doubled"), doubled, partition_by=["day"])
    by_customer = pa.table({"customer": ["ann", "bob"], "amount": pa.array([7, 30], pa.int64())})
    ds.write_dataset(by_customer, folder / "by_customer", format="parquet")
    total = pa.table({"n": pa.array([99], pa.int64()), "amount": pa.array([990], pa.int64())})
    tables = IcebergTables(folder)
    place = tables.create(total).metadata_location.removeprefix("file://")
    tables.close()
    bring(story, "doubled", "delta:doubled", "--key", "day")
    bring(story, "by_customer", "parquet:by_customer")
    bring(story, "total", f"iceberg:{place}")
    story.work()
    resume(story)
    assert story.work() == 3, "the index of each day"
    assert sorted(row["amount"] for row in story.rows("doubled")) == [1, 1, 1, 20, 20, 20]
    assert story.rows("total") == [{"n": 99, "amount": 990}]
    assert sorted((r["customer"], r["amount"]) for r in story.rows("by_customer")) == [
        ("ann", 7),
        ("bob", 30),
    ]
    why = story.api.why("shop.doubled")
    assert "imported rows of shop.doubled" in str(why)


def test_a_late_file_runs_what_it_touches(story: Served) -> None:
    put(story.workspace, "2026-11-04", ("cem", 4))
    story.refresh()
    # parse, doubled, the index, the key cem, the total
    assert story.work() == 5
    assert sorted(row["amount"] for row in story.rows("doubled")) == [1, 1, 1, 8, 20, 20, 20]
    assert sorted((r["customer"], r["amount"]) for r in story.rows("by_customer")) == [
        ("ann", 7),
        ("bob", 30),
        ("cem", 4),
    ]
    assert [row["n"] for row in story.rows("total")] == [7]


LINKED = """\
  linked:
    paused: true
    transform: {sql: "SELECT customer, amount * 3 AS amount FROM orders"}
"""


def test_files_are_linked_once_the_code_gives_the_rows_of_a_sample(story: Served) -> None:
    workspace = story.workspace
    workspace.write("shop.yaml", BLUEPRINT.replace("    paused: true\n", "") + LINKED)
    workspace.ask("apply", "shop.yaml", "--wait")
    folder = workspace.folder / "archive"
    folder.mkdir()
    for number, day in enumerate((*DAYS, "2026-11-04")):
        # Of the second day, the table has a row that the code does not give
        people = {0: ["ann", "bob"], 1: ["ann", "eve"], 2: ["ann", "bob"], 3: ["cem"]}[number]
        orders = {"ann": 3 * number, "bob": 30, "eve": 30, "cem": 12}
        rows = {"customer": people, "amount": [orders[who] for who in people]}
        pq.write_table(pa.table(rows), folder / f"{day}.parquet")
        (folder / f"{day}.parquet").chmod(0o444)
    source = "parquet:archive/{day}.parquet"
    output = bring(story, "linked", source, "--link", "--verify", "9", code=1)
    [command] = [line for line in output.splitlines() if line.startswith("headgate diff")]
    assert command.endswith("--partition 2026-11-02")
    rows_of_diff = workspace.call(*command.split()[1:], "--home", workspace.home)
    assert "eve" in rows_of_diff
    bring(story, "linked", source, "--link")
    assert story.api.dataset("shop.linked")["generation"] == 0, "until it is resumed"
    workspace.write(
        "shop.yaml",
        BLUEPRINT.replace("    paused: true\n", "") + LINKED.replace("    paused: true\n", ""),
    )
    workspace.ask("apply", "shop.yaml", "--wait")
    assert [row["amount"] for row in story.rows("linked") if row["customer"] == "eve"] == [30]
    lake = {file.stat().st_ino for file in workspace.home.joinpath("lake").rglob("*.parquet")}
    assert {file.stat().st_ino for file in folder.iterdir()} <= lake
