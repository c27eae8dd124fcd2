"""Aggregates over many partitions, computed in parts: what a late, a corrected, a renamed and a
withdrawn file redo.

Steps of one story, counted. sales -all-> totals (in parts); sales, names -all-> named (in parts of
sales); events -each-> minutes -by-> per_minute, newest (both merged by key from parts)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.e2e.conftest import LASTING, closing, ways
from tests.e2e.tables import by_deltalake
from tests.e2e.workspace import Run, Workspace
from tests.slices import in_turn

# One mode's story a commit, and that of the example at each (`test_thrift`): its plans are asked of
# property, its rows of spark/test_parts and unit/sql. Here they go through processes.
pytestmark = in_turn(1, 4)

FILES = 20
EVENTS = 2_600  # of a shop in a file: parts by key are for 100,000 rows and more
FLOW = """
dataflow: shop
components:
  sales:
    read:
      connector: files
      path: sales/*.csv
      format: csv
      options: {header: true}
      schema: "k INT, amount DECIMAL(9,2), weight DOUBLE"
  names:
    read: {connector: files, path: names.csv, format: csv, options: {header: true}, schema: "k INT, name STRING"}
  totals:
    transform:
      sql: |
        SELECT count(*) AS n, sum(amount) AS total, avg(amount) AS mean, min(k) AS least, sum(weight) AS weight
        FROM sales WHERE k > :above
      params: {above: 0}
  named:
    transform:
      sql: |
        WITH known AS (SELECT k, name FROM names WHERE name IS NOT NULL)
        SELECT n.name, s.k % 2 AS odd, avg(s.amount) AS mean, 100 / count(s.weight) AS share
        FROM sales s JOIN known n ON s.k = n.k GROUP BY n.name, s.k % 2 HAVING sum(s.amount) > 1 ORDER BY n.name
  events:
    read:
      connector: files
      path: events/*.csv
      format: csv
      options: {header: true}
      schema: "shop STRING, seq INT, at TIMESTAMP, amount DECIMAL(9,2)"
  minutes:
    transform: {sql: "SELECT *, date_trunc('MINUTE', at) AS minute FROM events"}
  per_minute:
    transform:
      sql: SELECT minute, shop, count(*) AS n, sum(amount) AS total FROM minutes GROUP BY minute, shop
      partition_by: [{minute: hour}]
  newest:
    transform:
      sql: |
        SELECT shop, max(struct(seq, amount)).amount AS amount, min(struct(at, seq)) AS first
        FROM minutes GROUP BY shop
      partition_by: [shop]
"""
TOTALS = """
    SELECT count(*), sum(amount), avg(amount), min(k), sum(weight)
    FROM read_csv('{sales}', types = {{'amount': 'DECIMAL(9,2)'}}) WHERE k > 0
"""
NAMED = """
    SELECT n.name, s.k % 2, avg(s.amount), 100 / count(s.weight)
    FROM read_csv('{sales}', types = {{'amount': 'DECIMAL(9,2)'}}) s JOIN read_csv('{names}') n ON s.k = n.k
    WHERE n.name IS NOT NULL GROUP BY ALL HAVING sum(s.amount) > 1 ORDER BY ALL
"""
PER_MINUTE = """
    SELECT epoch(date_trunc('minute', "at")), shop, count(*), sum(amount)
    FROM read_csv('{events}', types = {{'amount': 'DECIMAL(9,2)'}}) GROUP BY ALL
"""
NEWEST = """
    SELECT shop, arg_max(amount, seq), epoch(min("at")), min(seq)
    FROM read_csv('{events}', types = {{'amount': 'DECIMAL(9,2)'}}) GROUP BY ALL
"""


@pytest.fixture(scope="module", params=ways(9))
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def story(module_folder: Path, way: str) -> Iterator[Workspace]:
    with closing(Workspace(module_folder / way, lasts=way == LASTING)) as workspace:
        workspace.write("shop.yaml", FLOW)
        for number in range(FILES):
            workspace.write(f"sales/{number:02}.csv", sales(number))
            workspace.write(f"events/{number:02}.csv", events(number))
        workspace.write("names.csv", "k,name\n1,one\n2,two\n3,three\n4,\n")
        yield workspace


def sales(number: int, more: int = 0) -> str:
    rows = (
        f"{k},{(number * 37 + k * 11 + more) % 100 - 20}.{k}5,{number + k / 10}" for k in range(6)
    )
    return "\n".join(["k,amount,weight", *rows, ",1.00,", ""])


def events(number: int, shops: str = "ab", more: int = 0) -> str:
    """Of two minutes, in milliseconds."""
    rows = (
        f"{shop},{number * EVENTS + n},{time_of(number, n)},{(n + more) * 37 % 100}.5"
        for shop in shops
        for n in range(EVENTS)
    )
    return "\n".join(["shop,seq,at,amount", *rows, ""])


def time_of(number: int, n: int) -> str:
    second, millisecond = n % 10, n // 10
    return f"2013-07-04T07:{number + second // 5:02}:{second:02}.{millisecond:03}Z"


def settled(story: Workspace) -> Run:
    """A run, after which all is as it is from scratch."""
    run = story.run("shop.yaml")
    run.assert_up_to_date()
    files = {name: f"{story.folder}/{name}/*.csv" for name in ("sales", "events")}
    files["names"] = f"{story.folder}/names.csv"
    results = {"totals": TOTALS, "named": NAMED, "per_minute": PER_MINUTE, "newest": NEWEST}
    for name, text in results.items():
        rows = by_deltalake(story.lake / "default" / "shop" / name).to_pylist()
        assert told(flat(row) for row in rows) == told(duckdb.sql(text.format(**files)).fetchall())
    story.assert_tidy()
    return run


def flat(row: dict[str, Any]) -> tuple[object, ...]:
    values: list[object] = []
    for value in row.values():
        values += value.values() if isinstance(value, dict) else [value]
    return tuple(v.timestamp() if isinstance(v, datetime) else v for v in values)


def told(rows: Iterable[tuple[object, ...]]) -> list[tuple[object, ...]]:
    rounded = (
        tuple(round(float(v), 6) if isinstance(v, float | Decimal) else v for v in row)
        for row in rows
    )
    return sorted(rounded, key=repr)


def test_first_run(story: Workspace) -> None:
    run = settled(story)
    keyed = FILES + FILES + 2 * FILES + 1 + 2  # parsed, each, indexed; an hour, and two shops
    assert run.tasks == {"executed": FILES + 1 + 2 * (FILES + 1) + keyed}


def test_nothing_changed(story: Workspace) -> None:
    (story.folder / "sales" / "03.csv").rename(story.folder / "sales" / "renamed.csv")
    settled(story).assert_idle()


def test_of_a_corrected_and_a_withdrawn_file_one_part_each_time(story: Workspace) -> None:
    story.write("sales/07.csv", sales(7, more=5))
    (story.folder / "sales" / "09.csv").unlink()
    run = settled(story)
    assert run.tasks == {"executed": 1 + 2 * (1 + 1)}


def test_a_late_file_is_one_part_and_a_merge_of_each_key(story: Workspace) -> None:
    read, indexed = 2, 2
    story.write("events/20.csv", events(20, "a"))
    run = settled(story)
    assert run.tasks == {"executed": read + indexed + 2 * (FILES + 1 + 1)}  # the first parts
    story.write("events/21.csv", events(21, "b"))
    run = settled(story)
    assert run.tasks == {"executed": read + indexed + 2 * (1 + 1)}
    story.write("events/21.csv", events(21, "a", more=3))  # corrected: of both shops
    (story.folder / "events" / "03.csv").unlink()
    run = settled(story)
    assert run.tasks == {"executed": read + indexed + 2 * 1 + 1 + 2}


def test_what_concerns_all_parts_is_done_at_once(story: Workspace) -> None:
    story.write("names.csv", "k,name\n1,one\n2,zwei\n3,three\n4,\n")
    story.edit("shop.yaml", ("{above: 0}", "{above: -1}"))
    story.edit("shop.yaml", ("{above: -1}", "{above: 0}"))
    run = settled(story)
    assert run.tasks == {"executed": 1 + 1}


def test_an_error_in_a_part_leads_to_the_users_line(story: Workspace) -> None:
    story.edit("shop.yaml", ("100 / count(s.weight)", "100 / (count(s.weight) - 20)"))
    story.write("sales/20.csv", "k,amount,weight\n1,1.00,1\n")
    run = story.run("shop.yaml", code=1)
    (error,) = run.value["errors"]
    assert (error["condition"], error["line"]) == ("DIVIDE_BY_ZERO", 23)
