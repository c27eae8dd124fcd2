"""Outputs by key: what a late, a corrected, a split and a withdrawn file redo, counted. Steps of
one story.

orders -by month-> monthly; orders -by customer-> totals -each-> large; orders, refunds -by
customer-> met; orders -by customer-, labels -all-> named; orders -all-> shares, dealt out by
customer, -each-> after
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.e2e.conftest import LASTING, closing, ways
from tests.e2e.tables import by_deltalake
from tests.e2e.workspace import Run, Workspace
from tests.slices import in_turn

# One mode's story a commit, and that of the example at each (`test_thrift`): its plans are asked of
# property, its rows of spark/test_by. Here they go through processes.
pytestmark = in_turn(0, 4)

FLOW = """
dataflow: shop
components:
  orders:
    read:
      connector: files
      path: orders/*.csv
      format: csv
      options: {header: true}
      schema: "customer STRING, day DATE, amount DECIMAL(9,2)"
  refunds:
    read:
      connector: files
      path: refunds/*.csv
      format: csv
      options: {header: true}
      schema: "customer STRING, amount DECIMAL(9,2)"
  labels:
    read:
      connector: files
      path: labels.csv
      format: csv
      options: {header: true}
      schema: "customer STRING, label STRING"
  monthly:
    transform:
      sql: SELECT day, sum(amount) AS total FROM orders GROUP BY day
      inputs: {orders: by}
      partition_by: [{day: month}]
  totals:
    transform:
      python: |
        from pyspark.sql import functions as F
        def transform(orders):
            return orders.groupBy("customer").agg(F.sum("amount").alias("total"))
      inputs: {orders: by}
      partition_by: [customer]
  large:
    transform: {sql: "SELECT customer, total FROM totals WHERE total > 5"}
  shares:
    transform:
      sql: |
        SELECT customer, sum(amount) AS total, rank() OVER (ORDER BY sum(amount)) AS place
        FROM orders GROUP BY customer
      partition_by: [customer]
  after:
    transform: {sql: "SELECT customer, place FROM shares"}
  met:
    transform:
      sql: |
        SELECT o.customer, count(*) AS n, max(r.amount) AS back
        FROM orders o LEFT JOIN refunds r ON o.customer <=> r.customer GROUP BY o.customer
      inputs: {orders: by, refunds: by}
      partition_by: [customer]
  named:
    transform:
      sql: |
        SELECT o.customer, l.label, count(*) AS n
        FROM orders o LEFT JOIN labels l ON o.customer = l.customer GROUP BY o.customer, l.label
      partition_by: [customer]
"""
HEADER = "customer,day,amount\n"
A = "A,2013-01-05,1.00\nB,2013-01-06,2.00\n"
NOBODY = ",2013-02-01,4.00\n"
B = "B,2013-02-02,8.00\nC,2013-02-03,16.00\n"
# customers; and D
THREE = {"monthly": 2, "totals": 3, "large": 3, "met": 4, "named": 3, "shares": 3, "after": 3}
INDEXES = 4  # of one file: orders have other columns for monthly, totals, met and named


@pytest.fixture(scope="module", params=ways(0))
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def story(module_folder: Path, way: str) -> Iterator[Workspace]:
    with closing(Workspace(module_folder / way, lasts=way == LASTING)) as workspace:
        workspace.write("shop.yaml", FLOW)
        workspace.write("orders/a.csv", HEADER + A + NOBODY)
        workspace.write("orders/b.csv", HEADER + B)
        workspace.write("refunds/r.csv", "customer,amount\nB,0.50\nD,1.00\n")
        workspace.write("labels.csv", "customer,label\nA,first\nB,second\n")
        yield workspace


def settled(story: Workspace) -> Run:
    """A run, after which all is as it is from scratch."""
    run = story.run("shop.yaml")
    run.assert_up_to_date()
    rows = orders(story)
    assert table(story, "monthly", "day", "total") == sums(rows, 1)
    assert table(story, "totals", "customer", "total") == sums(rows, 0)
    assert table(story, "shares", "customer", "total") == sums(rows, 0)
    places = {
        k: 1 + sum(other < v for other in sums(rows, 0).values()) for k, v in sums(rows, 0).items()
    }
    assert table(story, "after", "customer", "place") == places
    assert table(story, "large", "customer", "total") == {
        k: v for k, v in sums(rows, 0).items() if v > 5
    }
    counts = Counter(customer for customer, _, _ in rows)
    assert table(story, "met", "customer", "n") == counts
    assert table(story, "named", "customer", "n") == counts
    story.assert_tidy()
    return run


Order = tuple[str | None, str, Decimal]


def orders(story: Workspace) -> list[Order]:
    found: list[Order] = []
    for path in (story.folder / "orders").iterdir():
        with path.open() as file:
            found += [
                (r["customer"] or None, r["day"], Decimal(r["amount"]))
                for r in csv.DictReader(file)
            ]
    return found


def sums(rows: list[Order], place: int) -> dict[str | None, Decimal]:
    found: dict[str | None, Decimal] = defaultdict(Decimal)
    for row in rows:
        key = row[place]
        assert not isinstance(key, Decimal)
        found[key] += row[2]
    return found


def table(story: Workspace, name: str, key: str, value: str) -> dict[str | None, object]:
    found = by_deltalake(story.lake / "default" / "shop" / name)
    keys = [None if k is None else str(k) for k in found[key].to_pylist()]
    assert len(set(keys)) == len(keys), keys
    return dict(zip(keys, found[value].to_pylist(), strict=True))


def partitions(run: Run) -> dict[str, int]:
    return {
        name: d["partitions"]
        for name, d in run.datasets.items()
        if name not in ("orders", "refunds", "labels")
    }


def test_first_run(story: Workspace) -> None:
    run = settled(story)
    parsed, indexed = 2 + 1 + 1, 2 * INDEXES + 1 + 1  # refunds and labels once
    assert run.tasks == {"executed": parsed + indexed + 2 + 4 + 4 + 5 + 4 + 1 + 4}
    assert partitions(run) == {
        "monthly": 2,
        "totals": 4,
        "large": 4,
        "met": 5,
        "named": 4,
        "shares": 4,
        "after": 4,
    }


def test_nothing_changed(story: Workspace) -> None:
    settled(story).assert_idle()


def test_a_late_row_redoes_its_keys(story: Workspace) -> None:
    story.write("orders/c.csv", HEADER + "A,2013-01-07,32.00\n")
    run = settled(story)
    everywhere = 1 + 4  # in shares, and after it: all others rank behind A now
    # January; and A in totals, large, met and named
    assert run.tasks == {"executed": 1 + INDEXES + 5 + everywhere}


def test_a_corrected_file_redoes_also_what_only_its_old_version_held(story: Workspace) -> None:
    story.write("orders/b.csv", HEADER + "B,2013-02-02,8.00\nA,2013-02-09,1.00\n")
    run = settled(story)
    ranked = 1 + 1  # of what shares gave, only A is other than before
    # February; A; C has gone, for which nothing runs
    assert run.tasks == {"executed": 1 + INDEXES + 5 + ranked}
    assert partitions(run) == THREE


def test_rows_that_move_between_files_redo_nothing(story: Workspace) -> None:
    story.write("orders/a.csv", HEADER + A)
    story.write("orders/e.csv", HEADER + NOBODY)
    run = settled(story)
    assert run.tasks == {"executed": 2 + 2 * INDEXES}
    assert partitions(run) == THREE


def test_a_key_left_empty_goes_without_a_task(story: Workspace) -> None:
    (story.folder / "orders" / "e.csv").unlink()
    run = settled(story)
    assert run.tasks == {"executed": 1 + 1 + 2}  # February; shares, and both that are left after it
    assert partitions(run) == {
        "monthly": 2,
        "totals": 2,
        "large": 2,
        "met": 3,
        "named": 2,
        "shares": 2,
        "after": 2,
    }


def test_what_comes_back_costs_nothing(story: Workspace) -> None:
    story.write("orders/e.csv", HEADER + NOBODY)
    run = settled(story)
    run.assert_idle()
    assert partitions(run) == THREE


def test_another_way_to_keep_keys_apart_is_other_code(story: Workspace) -> None:
    story.edit("shop.yaml", ("partition_by: [{day: month}]", "partition_by: [{day: year}]"))
    run = settled(story)
    assert run.tasks == {"executed": 4 + 1}  # an index of each file, and one year
    assert partitions(run)["monthly"] == 1


def test_an_output_that_does_not_keep_its_key_is_an_error(story: Workspace) -> None:
    before = story.edit(
        "shop.yaml", ("SELECT day, sum(amount)", "SELECT add_months(day, 12) AS day, sum(amount)")
    )
    run = story.run("shop.yaml", code=1)
    assert "the task of partition day=2013 gave rows of day=2014" in str(run.value["errors"])
    story.write("shop.yaml", before)
    settled(story).assert_idle()
