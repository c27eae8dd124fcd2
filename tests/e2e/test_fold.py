"""Folds: running totals, the greatest so far and a merge; a new, a corrected, a withdrawn day.
Steps of one story."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import LASTING, closing, ways
from tests.e2e.tables import by_deltalake
from tests.e2e.workspace import Run, Workspace
from tests.slices import in_turn

# One mode's story a commit, and that of the example at each (`test_thrift`): its plans are asked of
# property, its rows of spark/test_fold. Here they go through processes.
pytestmark = in_turn(2, 4)

FLOW = """
dataflow: shop
components:
  days:
    read:
      connector: files
      path: days/*.csv
      format: csv
      options: {header: true}
      schema: "day STRING, customer STRING, amount INT"
  totals:
    transform:
      sql: |
        SELECT max(day) AS day, sum(amount) + coalesce((SELECT max(total) FROM self), 0) AS total FROM days
      inputs: {self: previous, days: each}
      schema: "day STRING, total BIGINT"
  best:
    transform:
      sql: SELECT max(amount) AS amount FROM (SELECT amount FROM self UNION ALL SELECT amount FROM days)
      inputs: {self: previous, days: each}
      schema: "amount INT"
  latest:
    transform:
      python: |
        from pyspark.sql import functions as F
        def transform(before, days):
            rows = before.unionByName(days)
            newest = [F.max_by(c, "day").alias(c) for c in ("day", "amount")]
            return rows.groupBy("customer").agg(*newest).select("day", "customer", "amount")
      inputs: {before: {from: self, mode: previous}, days: each}
      schema: "day STRING, customer STRING, amount INT"
"""
DAYS = {1: ("A", 10), 2: ("B", 5), 3: ("A", 7), 4: ("B", 3)}


@pytest.fixture(scope="module", params=ways(3))
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def story(module_folder: Path, way: str) -> Iterator[Workspace]:
    with closing(Workspace(module_folder / way, lasts=way == LASTING)) as workspace:
        workspace.write("shop.yaml", FLOW)
        for day, (customer, amount) in DAYS.items():
            put(workspace, day, customer, amount)
        yield workspace


def put(story: Workspace, day: int, customer: str, amount: int) -> None:
    story.write(f"days/{day:02}.csv", f"day,customer,amount\n{day:02},{customer},{amount}\n")


def settled(story: Workspace) -> Run:
    """A run, after which all is as it is from scratch."""
    run = story.run("shop.yaml")
    run.assert_up_to_date()
    totals: list[tuple[str, int]] = []
    best: list[tuple[int]] = []
    latest: list[tuple[str, str, int]] = []
    state: dict[str, tuple[str, int]] = {}
    for path in sorted((story.folder / "days").iterdir()):
        day, customer, amount = path.read_text().split()[1].split(",")
        totals.append((day, int(amount) + (totals[-1][1] if totals else 0)))
        best.append((max(int(amount), best[-1][0] if best else 0),))
        state[customer] = (day, int(amount))
        latest += [(day, customer, amount) for customer, (day, amount) in state.items()]
    assert rows(story, "totals") == sorted(totals)
    assert rows(story, "best") == sorted(best)
    assert rows(story, "latest") == sorted(latest)
    story.assert_tidy()
    return run


def rows(story: Workspace, name: str) -> list[tuple[object, ...]]:
    found = by_deltalake(story.lake / "default" / "shop" / name)
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_first_run(story: Workspace) -> None:
    assert settled(story).tasks == {"executed": 4 + 3 * 4}


def test_a_new_a_corrected_and_a_withdrawn_day_redo_what_follows_until_nothing_is_new(
    story: Workspace,
) -> None:
    put(story, 5, "A", 8)
    put(story, 2, "B", 6)
    (story.folder / "days" / "03.csv").unlink()
    run = settled(story)
    totals, best, latest = 3, 2, 3  # 10 is still the best on days 2 and 4
    assert run.tasks == {"executed": 2 + totals + best + latest}
    assert {run.datasets[name]["partitions"] for name in ("totals", "best", "latest")} == {4}


def test_days_that_come_back_cost_nothing(story: Workspace) -> None:
    put(story, 2, *DAYS[2])
    put(story, 3, *DAYS[3])
    (story.folder / "days" / "05.csv").unlink()
    settled(story).assert_idle()


def test_why_names_the_day_before(story: Workspace) -> None:
    why = story.ask("why", "shop.totals/04.csv")
    assert why["modes"]["self"] == {
        "mode": "previous",
        "reason": "the partition before, in the order of keys",
    }
    assert "03.csv" in why["reason"]
    assert "self, the partition before" in why["reason"]
