"""Tests of blueprints, run over the session of all tests here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from controlplane.cli.example_yaml import block
from controlplane.core.blueprint.example_model import ExpectedRows
from controlplane.core.model.answers.examples import ExampleEntry
from controlplane.operations.desired.compile_edit import compile_texts
from controlplane.operations.desired.drafts import SentBlueprint
from controlplane.services.examples.example_verdicts import named_tests, run
from controlplane.services.examples.making import Rows, made, task_like
from dataplane.contract.example_protocol import Answer, Question
from dataplane.runtime.example_process import ExampleAnswers
from tests.unit.examples.committed import InMemory

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
FLOW = """\
dataflow: shop
timezone: Europe/Berlin
components:
  orders:
    read:
      connector: files
      path: data/*.csv
      format: csv
      options: {header: true, nullValue: NA}
      schema: "id INT, at TIMESTAMP, price DOUBLE"
  lines:
    transform: {sql: "SELECT id, at, price / 2 AS half FROM orders"}
  halves:
    transform:
      sql: SELECT id, at, half, date(current_timestamp()) AS today FROM lines
    tests:
      - {name: upstream types, given: {lines: [{id: 1, at: "2013-07-04 12:00:00", half: 1}]},
         as_of: 2013-07-04 23:30:00, expect: [{id: 1, at: "2013-07-04T10:00:00Z", today: 2013-07-04}]}
      - {name: changed, given: {lines: [{id: 1, half: 1}, {id: 2}]}, expect: [{id: 1, half: 2}, {id: 2}]}
      - {name: unknown column of a transform, given: {lines: [{idd: 1}]}, expect: []}
  counted:
    transform:
      inputs: {orders: all}
      python: |
        import pandas as pd
        def transform(orders, params):
            def total(batches):
                for batch in batches:
                    yield pd.DataFrame({"total": [int(batch["price"].sum()) * params["times"]]})
            if params["times"] < 0:
                raise ValueError("times is negative")
            return orders.coalesce(1).mapInPandas(total, "total BIGINT")
      params: {times: 1}
    tests:
      - {name: from a file, given: {orders: {file: rows.csv}}, params: {times: 2}, expect: [{total: 6}]}
      - {name: an error, params: {times: -1}, expect: {error: times is negative}}
      - {name: at its line, params: {times: -1}, expect: []}
      - {name: a check, given: {orders: [{price: 3}]}, expect: {check: total > 3}}
  balance:
    transform:
      sql: SELECT coalesce((SELECT max(total) FROM self), 0) + sum(id) AS total FROM orders
      inputs: {self: previous, orders: each}
      schema: "total BIGINT"
    tests:
      - {name: goes on, given: {previous: [{total: 5}], orders: [{id: 2}]}, expect: [{total: 7}]}
"""


class Runner:
    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._examples = ExampleAnswers(spark, folder)

    def ask(self, question: Question) -> Answer:
        return self._examples.answer(question)


def results(spark: SparkSession, folder: Path, text: str) -> dict[str, ExampleEntry]:
    desired = compile_texts([SentBlueprint(str(folder / "shop.yaml"), text, {})]).require()
    return {
        entry["name"]: entry
        for entry in run(desired, named_tests(desired), Runner(spark, folder), 0.0)
    }


def test_the_page(spark: SparkSession, tmp_path: Path) -> None:
    found = re.search(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    entries = results(spark, tmp_path, found[1])
    assert [(e["state"], e["message"]) for e in entries.values()] == [("passed", "")] * 3


def test_outcomes(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,price\n1,1.0\n2,NA\n3,2.5\n")
    entries = results(spark, tmp_path, FLOW)
    failed = {
        name: entry["message"] for name, entry in entries.items() if entry["state"] == "failed"
    }
    assert failed == {
        "changed": "rows differ: 1 changed",
        "unknown column of a transform": "line 20: lines has no column 'idd' (did you mean 'id'?)",
        "at its line": "ValueError: times is negative",
        "a check": "rows do not meet the check: total > 3",
    }
    differs = entries["changed"]["difference"]
    assert differs is not None
    assert differs["changed"] == [{"expected": [1, 2.0], "found": [1, 1.0], "columns": ["half"]}]
    error = entries["at its line"]["error"]
    assert error is not None
    assert (Path(error["file"] or "").name, error["line"]) == ("shop.yaml", 31)


LIKE = """\
dataflow: shop
timezone: Europe/Berlin
components:
  orders:
    read: {connector: files, path: /data/*.json, format: json}
  prices:
    read: {connector: files, path: /prices.json, format: json}
  sold:
    transform:
      sql: |
        SELECT o.id, o.at, o.n * p.price AS total, o.data, current_date() AS today
        FROM orders o JOIN prices p ON p.id = o.product
      inputs: {orders: each, prices: all}
"""
SCHEMAS = {
    "shop.orders": "id INT, at TIMESTAMP, product STRING, n INT, data BINARY, other STRING",
    "shop.prices": "id STRING, price DECIMAL(10,2)",
}
ORDERS: Rows = [
    {
        "id": n,
        "at": "2013-07-04T10:00:00.000000Z",
        "product": f"p{n}",
        "n": 2,
        "data": "aGk=",
        "other": "x",
    }
    for n in range(300)
]
COMMITTED = InMemory(
    {
        "shop.orders": {"a.json": ORDERS},
        "shop.prices": {"": [{"id": "p250", "price": "1.50"}, {"id": "q", "price": "2.00"}]},
    },
    SCHEMAS,
)


def test_one_that_is_made_from_real_rows_passes(spark: SparkSession, tmp_path: Path) -> None:
    desired = compile_texts([SentBlueprint("/shop.yaml", LIKE, {})]).require()
    task = task_like(desired, "shop.sold", "a.json", COMMITTED)
    test = made(desired, task, Runner(spark, tmp_path), most=40, now=1_372_975_200.5)
    (tmp_path / "again").mkdir()
    [entry] = results(spark, tmp_path / "again", LIKE + block(test)).values()
    assert (entry["name"], entry["state"], entry["message"]) == ("like a.json", "passed", "")
    orders, prices = test.given
    # What the code reads
    assert orders.schema == "id INT, at TIMESTAMP, product STRING, n INT, data BINARY"
    assert (0 < len(orders.rows) <= 40, len(prices.rows)) == (True, 2)
    assert isinstance(test.expect, ExpectedRows)
    today = "2013-07-05"  # in Berlin
    values = {
        "id": 250,
        "at": "2013-07-04 12:00:00",
        "total": "3.00",
        "data": "aGk=",
        "today": today,
    }
    assert [row.values for row in test.expect.rows] == [values]
