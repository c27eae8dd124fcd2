"""Tests made from committed rows: which rows, and their YAML. What becomes of them in Spark:
tests/spark."""

from __future__ import annotations

import pytest

from controlplane.cli.example_yaml import block
from controlplane.core.blueprint import parse
from controlplane.core.blueprint.example_model import (
    ExampleCell,
    ExampleRow,
    ExpectedRows,
    Given,
    Plain,
    TransformExample,
)
from controlplane.core.errors import NotFound
from controlplane.operations.desired.compile_edit import compile_texts
from controlplane.operations.desired.drafts import SentBlueprint
from controlplane.services.examples.making import NOWHERE, ExampleTask, NoSample, Rows, task_like
from tests.unit.examples.committed import InMemory

pytestmark = pytest.mark.unit

FLOW = """\
dataflow: shop
components:
  orders:
    read:
      connector: files
      path: /data
      format: csv
      partition: "{day}.csv"
      schema: "id INT, carrier STRING, dest STRING"
  names:
    read: {connector: files, path: /names.csv, format: csv, schema: "carrier STRING, name STRING"}
  named:
    transform:
      sql: SELECT o.id, n.name FROM orders o JOIN names n USING (carrier)
      inputs: {orders: each, names: all}
  upper:
    transform: {sql: SELECT max(name) AS name FROM names}
  by_carrier:
    transform:
      sql: SELECT carrier, count(*) AS n FROM orders GROUP BY carrier
      partition_by: [carrier]
  sums:
    transform:
      sql: SELECT id FROM self UNION ALL SELECT id FROM orders
      inputs: {self: previous, orders: each}
      schema: "id INT"
"""
DAY, LAST = "2013-12-30", "2013-12-31"
ORDERS = {
    DAY: [{"id": 1, "carrier": "UA"}],
    LAST: [{"id": 2, "carrier": "AA"}, {"id": 3, "carrier": "UA"}],
}
NAMES = [{"carrier": f"{n:02}", "name": "x"} for n in range(2_000)] + [
    {"carrier": "AA", "name": "American"}
]


COMMITTED = InMemory(
    {
        "shop.orders": ORDERS,
        "shop.names": {"": NAMES},
        "shop.named": {DAY: [], LAST: []},
        "shop.upper": {"": []},
        "shop.by_carrier": {"carrier=AA": [], "carrier=UA": []},
        "shop.sums": {DAY: [{"id": 1}], LAST: [{"id": 3}]},
    },
    {
        "shop.orders": "id INT, carrier STRING, dest STRING",
        "shop.names": "carrier STRING, name STRING",
        "shop.named": "id INT, name STRING",
        "shop.upper": "name STRING",
        "shop.by_carrier": "carrier STRING, n BIGINT",
        "shop.sums": "id INT",
    },
)


def like(key: str, dataset: str, committed: InMemory = COMMITTED) -> ExampleTask:
    return task_like(
        compile_texts([SentBlueprint("/shop.yaml", FLOW, {})]).require(), dataset, key, committed
    )


@pytest.mark.parametrize("name", [LAST, f"{LAST}.csv"])
def test_a_partition_or_an_object(name: str) -> None:
    task = like(name, "shop.named")
    assert (task.key, task.partition) == (LAST, None)
    orders, names = task.inputs
    assert orders.rows == ORDERS[LAST]
    # A row that the join finds comes first
    assert (names.rows[0]["name"], len(names.rows)) == ("American", 1_000)


def test_rows_of_a_key() -> None:
    task = like("carrier=UA", "shop.by_carrier")
    assert (task.partition, [row["id"] for row in task.inputs[0].rows]) == ("carrier=UA", [1, 3])


KEYED = """\
dataflow: shop
components:
  orders:
    read: {connector: files, path: /o.csv, format: csv, schema: "id INT, at TIMESTAMP, carrier STRING"}
  names:
    read: {connector: files, path: /names.csv, format: csv, schema: "carrier STRING, name STRING"}
  sold:
    transform:
      sql: SELECT carrier, at, id FROM orders
      partition_by: [PARTS]
      inputs: {orders: by}
  ranked:
    transform:
      sql: SELECT o.carrier, o.id, rank() OVER (ORDER BY o.id) AS r FROM orders o JOIN names n USING (carrier)
      partition_by: [carrier]
      inputs: {orders: all, names: all}
"""
SOLD: Rows = [
    {"id": 1, "at": "2013-07-04T22:30:00.000000Z", "carrier": "UA"},
    {"id": 2, "at": "2013-07-31T22:30:00.000000Z", "carrier": "ua"},
    {"id": 3, "at": "2013-08-01T10:00:00.000000Z", "carrier": None},
    {"id": 4, "at": None, "carrier": ""},
]


@pytest.mark.parametrize(
    ("parts", "key", "ids"),
    [
        ("{at: month}", "at=2013-07", [1]),
        ("{at: month}", "at=2013-08", [2, 3]),  # the second one is of August in Berlin
        ("{at: week}", "at=2013-W31", [2, 3]),
        ("{at: month}", "at", [4]),
        ("carrier", "carrier=UA", [1]),
        ("carrier", "carrier=", [4]),
        ("carrier", "carrier", [3]),
        ("{carrier: bucket 4}", "carrier=3", [1]),
    ],
)
def test_rows_are_of_the_key_alone(parts: str, key: str, ids: list[int]) -> None:
    flow = "timezone: Europe/Berlin\n" + KEYED.replace("PARTS", parts)
    desired = compile_texts([SentBlueprint("/shop.yaml", flow, {})]).require()
    schemas = {"shop.orders": "id INT, at TIMESTAMP, carrier STRING", "shop.sold": "id INT"}
    committed = InMemory({"shop.orders": {"": SOLD}, "shop.sold": {key: []}}, schemas)
    task = task_like(desired, "shop.sold", key, committed)
    assert (task.partition, [row["id"] for row in task.inputs[0].rows]) == (key, ids)
    misleading = InMemory({"shop.orders": {key: [], "": SOLD}, "shop.sold": {key: []}}, schemas)
    assert task_like(desired, "shop.sold", key, misleading).inputs == task.inputs
    own = InMemory(
        {
            "shop.orders": {key: SOLD, "": [{**row, "id": 9} for row in SOLD]},
            "shop.sold": {key: []},
        },
        schemas,
    )
    assert task_like(desired, "shop.sold", key, own).inputs == task.inputs


def test_rows_of_inputs_that_are_read_whole_are_of_the_key_too() -> None:
    desired = compile_texts(
        [SentBlueprint("/shop.yaml", KEYED.replace("PARTS", "carrier"), {})]
    ).require()
    schemas = {
        "shop.orders": "id INT, at TIMESTAMP, carrier STRING",
        "shop.names": "carrier STRING, name STRING",
    }
    rows: dict[str, dict[str, Rows]] = {
        "shop.orders": {"": SOLD},
        "shop.names": {"": NAMES},
        "shop.ranked": {"carrier=UA": [], "carrier=AA": []},
    }
    committed = InMemory(rows, schemas)
    orders, names = task_like(desired, "shop.ranked", "carrier=UA", committed).inputs
    assert [row["id"] for row in orders.rows] == [1]
    orders, names = task_like(desired, "shop.ranked", "carrier=AA", committed).inputs
    assert names.rows == NAMES[-1:]


def test_the_partition_before() -> None:
    before = [(one.name, one.rows) for one in like(LAST, "shop.sums").inputs][-1]
    assert before == ("previous", [{"id": 1}])
    assert [one.name for one in like(DAY, "shop.sums").inputs] == ["orders"]


def test_what_does_not_exist_is_told() -> None:
    with pytest.raises(NotFound, match=r"no dataset shop.other"):
        like(LAST, "shop.other")
    with pytest.raises(
        NotFound, match=rf"'x' is no partition of shop.named.*; there is {DAY}, {LAST}"
    ):
        like("x", "shop.named")
    with pytest.raises(NotFound, match="whose key is empty: --like ''"):
        like("x", "shop.upper")
    assert like("", "shop.upper").inputs[0].rows == NAMES[:1_000]
    with pytest.raises(
        NotFound, match=r"shop.orders, which shop.named reads, has no committed data yet"
    ):
        like(LAST, "shop.named", InMemory({}, {}))
    with pytest.raises(NoSample, match=r"shop.orders is no transform") as told:
        like(LAST, "shop.orders")
    assert told.value.code == "no-sample"


VALUES: dict[str, Plain] = {
    "a b: c": "- x: {y}, #z",
    "on": "no",
    "n": "Null",
    "1": "2013-07-04",
    "e": "\x85\u2028\U000e0001 \U0001f600\n'\"\\",
    "f": 1e-9,
    "g": [1, None, {"k": "v", "2": ""}],
    "h": "NaN",
    "i": "",
    "j": "~",
    "k": True,
    "l": None,
}


def test_the_block_is_read_back() -> None:
    row = ExampleRow(
        NOWHERE, tuple(ExampleCell(name, NOWHERE, value) for name, value in VALUES.items())
    )
    given = (Given("orders", NOWHERE, (row,), "id INT, `a b` STRING"), Given("names", NOWHERE, ()))
    at, expect = "2013-07-04 12:00:00", ExpectedRows((row,), False, 1e-9)
    made = TransformExample("like: x", NOWHERE, given, (), NOWHERE, "carrier=UA", at, expect)
    head = FLOW[: FLOW.index("  upper")]
    [read] = parse(head + block(made), file="f").components[-1].tests
    assert (read.name, read.partition, read.as_of) == (made.name, made.partition, made.as_of)
    assert [(one.name, one.schema, [r.values for r in one.rows]) for one in read.given] == [
        ("orders", "id INT, `a b` STRING", [VALUES]),
        ("names", "", []),
    ]
    assert isinstance(read.expect, ExpectedRows)
    assert [r.values for r in read.expect.rows] == [VALUES]
