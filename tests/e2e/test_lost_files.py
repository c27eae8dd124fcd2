"""A lake that loses files, and what is made again: exactly that, and all that is published can be
read again.

Steps of one story. sales -each-> doubled; sales -all-> totals (in parts); sales -by k-> best
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.e2e.conftest import LASTING, closing, ways
from tests.e2e.tables import by_deltalake
from tests.e2e.workspace import Run, Workspace
from tests.slices import in_turn

# Takes turns with results that are forced: both make results again; see store/test_fsck,
# store/test_repair.
pytestmark = in_turn(3, 4)

FILES = 20
FLOW = """
dataflow: shop
components:
  sales:
    read:
      connector: files
      path: sales/*.csv
      format: csv
      options: {header: true}
      schema: "k INT, amount DECIMAL(9,2)"
  doubled:
    transform: {sql: "SELECT k, amount * 2 AS amount FROM sales"}
  totals:
    transform: {sql: "SELECT count(*) AS n, sum(amount) AS total, max(k) AS most FROM sales"}
  best:
    transform: {sql: "SELECT k, max(amount) AS amount FROM sales GROUP BY k", inputs: {sales: by}, partition_by: [k]}
"""
SALES = "read_csv('{folder}/sales/*.csv', types = {{'amount': 'DECIMAL(9,2)'}})"
WANTED = {
    "sales": "FROM {sales}",
    "doubled": "SELECT k, amount * 2 FROM {sales}",
    "totals": "SELECT count(*), sum(amount), max(k) FROM {sales}",
    "best": "SELECT k, max(amount) FROM {sales} GROUP BY k",
}


@pytest.fixture(scope="module", params=ways(5))
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def story(module_folder: Path, way: str) -> Iterator[Workspace]:
    with closing(Workspace(module_folder / way, lasts=way == LASTING)) as workspace:
        workspace.write("shop.yaml", FLOW)
        for number in range(FILES):
            rows = (f"{k},{(number * 37 + k * 11) % 100}.{k}5" for k in range(6))
            workspace.write(f"sales/{number:02}.csv", "\n".join(["k,amount", *rows, ""]))
        yield workspace


def settled(story: Workspace, *, lost: int = 0) -> Run:
    """A run, after which all that is published is as it is from scratch, and all files are there
    but those of so many partitions of older generations."""
    run = story.run("shop.yaml")
    run.assert_up_to_date()
    sales = SALES.format(folder=story.folder)
    for name, text in WANTED.items():
        found = [tuple(row.values()) for row in by_deltalake(table(story, name)).to_pylist()]
        assert sorted(found) == sorted(duckdb.sql(text.format(sales=sales)).fetchall()), name
    findings = story.ask("fsck", "--files", code=1 if lost else 0)["findings"]
    assert [f["code"] for f in findings] == ["fragment-not-stored"] * lost
    assert not any(
        f["where"].startswith(f"state main/{d['name']} {d['generation']},")
        for f in findings
        for d in run.value["datasets"]
    )
    return run


def table(story: Workspace, name: str) -> Path:
    return story.lake / "default" / "shop" / name


def files(story: Workspace, name: str) -> list[Path]:
    """Of all fragments of a dataset that has no others than those of its newest generation."""
    # ours
    rows = story.query(f"SELECT files FROM fragments WHERE home = 'shop.{name}' ORDER BY id")
    return [story.lake / file["path"] for (text,) in rows for file in json.loads(text)]


def generations(run: Run) -> dict[str, int]:
    return {name: dataset["generation"] for name, dataset in run.datasets.items()}


def test_what_is_lost_is_made_again(story: Workspace) -> None:
    before = settled(story)
    gone = {files(story, name)[0] for name in ("sales", "best")}
    short = files(story, "doubled")[-1]
    for path in gone:
        path.unlink()
    short.write_bytes(short.read_bytes()[:100])
    findings = story.ask("fsck", "--files", code=1)["findings"]
    assert sorted(f["code"] for f in findings) == ["file-gone", "file-gone", "file-size-differs"]
    story.run("shop.yaml").assert_idle()  # nothing is looked for that nobody doubts

    told = story.ask("fsck", "--repair")
    names = ["sales", "best", "doubled"]
    assert told["repaired"] == {
        "fragments": 3,
        "datasets": sorted(f"main/shop.{name}" for name in names),
    }
    run = settled(story)
    assert run.executed == 3
    assert run.roots == before.roots
    was = generations(before)
    assert generations(run) == {name: was[name] + (name in names) for name in was}
    story.run("shop.yaml").assert_idle()


def test_what_is_damaged_is_found_and_made_again(story: Workspace) -> None:
    """A byte of a file has changed, which neither its name nor its size tells."""
    before = settled(story)
    path = files(story, "sales")[3]
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.unlink()  # it may be linked to
    path.write_bytes(data)
    assert story.ask("fsck", "--files")["findings"] == []
    assert story.ask("fsck", "--contents", "shop.doubled")["findings"] == []
    (finding,) = story.ask("fsck", "--contents", code=1)["findings"]
    assert finding["code"] == "file-damaged"
    assert "of shop.sales" in finding["where"]
    assert path.name in finding["where"]
    told = story.ask("fsck", "--contents", "--repair")
    assert told["repaired"] == {"fragments": 1, "datasets": ["main/shop.sales"]}
    run = settled(story)
    assert (run.executed, run.roots) == (1, before.roots)
    assert story.ask("fsck", "--contents")["findings"] == []


def test_partial_results_are_made_again_where_they_are_needed(story: Workspace) -> None:
    parts = files(story, "totals")
    assert len(parts) == FILES + 1
    for path in parts:
        path.unlink()
    assert story.ask("fsck", "--repair")["repaired"] == {
        "fragments": len(parts),
        "datasets": ["main/shop.totals"],
    }
    assert settled(story).executed == len(parts)
    story.write("sales/20.csv", "k,amount\n1,99.99\n")
    settled(story)


def test_a_lake_that_is_gone_is_filled_again(story: Workspace) -> None:
    before = settled(story)
    shutil.rmtree(story.lake)
    story.lake.mkdir()
    assert "main/shop.sales: what it lacks is made again\n" in story.call(
        "fsck", "--repair", "--home", story.home
    )
    run = settled(story, lost=2)  # those that the last late file changed
    assert run.roots == before.roots
    story.run("shop.yaml").assert_idle()
