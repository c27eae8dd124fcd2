"""`distinct:` on Spark: what its queries keep equals what a walk over the rows of each key keeps, and
does not depend on the order in which rows came."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from controlplane.core.blueprint import SqlTransform, parse

DDL = "id BIGINT, shop STRING, at TIMESTAMP_NTZ, place INT, v INT"
HISTORIES = 2000
WITHIN = timedelta(minutes=10)
START = datetime.fromisoformat("2026-11-27T00:00:00")


class Order(NamedTuple):
    id: int | None
    shop: str | None
    at: datetime | None
    place: int
    v: int | None

    @property
    def rank(self) -> tuple[object, ...]:
        """NULL comes first."""
        return self.at is not None, self.at or START, self.place, self.v is not None, self.v or 0


DISTINCT = {
    "from": "orders",
    "keys": "[id, shop]",
    "order_by": "[at, place]",
    "on_tie": "least",
}


def text(distinct: Mapping[str, str]) -> str:
    lines = "\n".join(f"      {key}: {value}" for key, value in distinct.items())
    blueprint = (
        f"dataflow: shop\ncomponents:\n"
        f"  orders: {{read: {{connector: files, path: /o/*.parquet, format: parquet}}}}\n"
        f"  unique:\n    distinct:\n{lines}\n"
    )
    body = parse(blueprint, file="/shop.yaml").components[1].body
    assert isinstance(body, SqlTransform)
    return body.sql


def results(
    spark: SparkSession, distinct: Mapping[str, str], orders: Sequence[Order]
) -> list[Order]:
    spark.createDataFrame(list(orders), DDL).createOrReplaceTempView("orders")
    rows = spark.sql(text(distinct)).collect()
    return sorted((Order(*row) for row in rows), key=repr)


def kept(orders: Sequence[Order], within: timedelta | None) -> list[Order]:
    """A walk over the rows of each key in their order, of equal places the least row alone."""
    before: dict[object, Order] = {}
    rows: list[Order] = []
    for order in sorted(orders, key=lambda order: order.rank):
        last = before.get((order.id, order.shop))
        if last is not None and (last.at, last.place) == (order.at, order.place):
            continue
        before[order.id, order.shop] = order
        if last is None or _is_apart(last, order, within):
            rows.append(order)
    return sorted(rows, key=repr)


def _is_apart(last: Order, order: Order, within: timedelta | None) -> bool:
    if within is None or order.at is None:
        return False
    return last.at is None or order.at - last.at > within


def histories(chance: random.Random, *, ties: bool) -> list[Order]:
    """Some rows come twice, some have no time, and some of one key are equal in their places."""
    orders = []
    for number in range(HISTORIES):
        key = (None if number < 4 else number // 2, "xy"[number % 2])
        for place in range(chance.randrange(0, 8)):
            at = START + timedelta(minutes=chance.randrange(0, 60))
            when = None if chance.random() < 0.1 else at
            orders.append(Order(*key, when, place // (1 + ties), chance.choice([1, 2, None])))
    orders += chance.sample(orders, len(orders) // 10)
    chance.shuffle(orders)
    return orders


@pytest.mark.parametrize("within", [None, WITHIN])
def test_results_are_those_of_a_walk(spark: SparkSession, within: timedelta | None) -> None:
    orders = histories(random.Random(3), ties=True)
    distinct = DISTINCT if within is None else {**DISTINCT, "within": "10m"}
    expected = kept(orders, within)
    assert HISTORIES / 2 < len(expected) < len(orders) * 2 / 3
    assert results(spark, distinct, orders) == expected
    # A key is known by its rows alone: without half of the keys, the others are as they were
    half = [order for order in orders[::-1] if order.id is not None and order.id % 2]
    assert results(spark, distinct, half) == [o for o in expected if o in set(half)]


@pytest.mark.parametrize("within", ["", "10m"])
def test_rows_that_are_equal_in_keys_and_order(spark: SparkSession, within: str) -> None:
    strict = {key: value for key, value in DISTINCT.items() if key != "on_tie"}
    strict |= {"within": within} if within else {}
    first, second = (Order(7, "x", START, 0, v) for v in (1, 2))
    later = [Order(7, "x", START + timedelta(minutes=1), 0, v) for v in (1, 2)]
    assert results(spark, strict, [first, *later, first]) == [first]  # those are duplicates
    message = 'distinct-ambiguous: orders .*"id":7'
    with pytest.raises(PySparkException, match=message):
        results(spark, strict, [second, first])
    [row] = spark.sql(text({**strict, "columns": "[place]"})).collect()
    assert row.asDict() == {"id": 7, "shop": "x", "place": 0}


@pytest.mark.parametrize("kind", ["STRING", "BIGINT"])
@pytest.mark.parametrize("order_by", ["[at]", "[at, place]"])
def test_what_is_no_time_is_refused(spark: SparkSession, kind: str, order_by: str) -> None:
    value = {"STRING": "2026-11-27 00:00:00", "BIGINT": 1}[kind]
    spark.createDataFrame(
        [(1, "x", value, 0, 1)], DDL.replace("TIMESTAMP_NTZ", kind)
    ).createOrReplaceTempView("orders")
    words = "distinct-no-time: at of orders .* but string|DATATYPE_MISMATCH"
    with pytest.raises(PySparkException, match=words):
        spark.sql(text({**DISTINCT, "order_by": order_by, "within": "1h"})).collect()


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP"])
def test_dates_and_times_of_the_session_are_times(spark: SparkSession, kind: str) -> None:
    days = [START + timedelta(days=day) for day in (0, 1, 3)]
    values = [day.date() if kind == "DATE" else day for day in days]
    spark.createDataFrame(
        [(1, "x", value, 0, 1) for value in values], DDL.replace("TIMESTAMP_NTZ", kind)
    ).createOrReplaceTempView("orders")
    rows = spark.sql(text({**DISTINCT, "within": "1d"})).collect()
    assert sorted(row["at"] for row in rows) == [values[0], values[2]]


# --- the examples of docs/distinct.md -------------------------------------------------------------

EXAMPLES = re.findall(
    r"^\| (\d\d:.*?) \| (.*?) \| (.*?) \|$",
    (Path(__file__).parents[2] / "docs" / "distinct.md").read_text(encoding="utf-8"),
    re.M,
)


def _times(cell: str) -> list[datetime]:
    return [datetime.fromisoformat(f"2026-11-27T{t}:00") for t in cell.split(", ")]


def test_the_examples_of_the_page(spark: SparkSession) -> None:
    assert len(EXAMPLES) == 3
    for came, forever, within_an_hour in EXAMPLES:
        orders = [Order(1, "x", at, 0, None) for at in _times(came)]
        for more, cell in (({}, forever), ({"within": "1h"}, within_an_hour)):
            rows = results(spark, {**DISTINCT, **more}, orders)
            assert sorted(row.at for row in rows if row.at) == _times(cell)
