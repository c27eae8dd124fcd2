"""Which readers keep the slices of a topic apart, and the sentence that says so."""

from __future__ import annotations

import pytest

from controlplane.core.compile.nodes import Source
from controlplane.core.explain.cause_sentences import of_objects
from controlplane.core.explain.steps import Differences
from controlplane.core.plan.slice_readers import SliceReaders, slice_readers, topics_of
from tests.unit.dataflow.test_event_time import compiled

TEXT = """\
dataflow: shop
timezone: UTC
components:
  orders:
    read: {connector: kafka, servers: "b:9092", topic: orders, schema: "id INT, at TIMESTAMP"}
  large: {transform: {sql: "SELECT id, at FROM orders WHERE id > 10"}}
  by_hour:
    transform:
      sql: SELECT date_trunc('hour', at) AS at, count(*) AS n FROM large GROUP BY 1
      partition_by: [{at: hour}]
      inputs: {large: by}
  total: {transform: {sql: "SELECT count(*) AS n FROM large"}}
  copy: {write: {connector: files, from: total, path: /out, format: csv}}
"""
LARGE = 'large: {transform: {sql: "SELECT id, at FROM orders WHERE id > 10"}}'


def readers(text: str, offered: str = "") -> SliceReaders:
    desired = compiled(text)
    [source] = topics_of(desired.nodes)
    return slice_readers(desired, source, {offered: "feed"} if offered else {})


def test_row_wise_sql_lets_slices_roll_up() -> None:
    assert readers(TEXT) == SliceReaders(("shop.orders", "shop.large"), None)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "from: total",
            "from: large",
            "shop.copy exports shop.large by partition",
        ),
        (
            LARGE,
            "large: {transform: {sql: 'SELECT max(id) AS id, max(at) AS at FROM orders', "
            "inputs: {orders: each}}}",
            "shop.large reads shop.orders by partition, and is not proven to be row-wise",
        ),
        (
            "id > 10",
            "id > rand()",
            "shop.large reads shop.orders by partition, and is not proven to be row-wise",
        ),
        (
            LARGE,
            LARGE.replace("large: {", "large: {append_only: true, "),
            "shop.large is append_only, so none of its partitions goes",
        ),
        (
            LARGE,
            LARGE.replace("large: {", "large: {expect: [{check: id IS NOT NULL}], "),
            "the expectations of shop.large are checked in each partition",
        ),
        (
            'schema: "id INT, at TIMESTAMP"}',
            'schema: "id INT, at TIMESTAMP", event_time: {column: at, delay: 1m}, late: drop}',
            "the expectations of shop.orders are checked in each partition",
        ),
        (
            'schema: "id INT, at TIMESTAMP"}',
            'format: avro, registry: "http://r:1"}',
            "the columns of shop.orders are those of its registry: declare `schema`",
        ),
    ],
)
def test_what_tells_slices_apart(old: str, new: str, sentence: str) -> None:
    assert old in TEXT
    obstacle = readers(TEXT.replace(old, new)).obstacle
    assert obstacle is not None
    assert obstacle.sentence == sentence


def test_a_feed_offers_partitions() -> None:
    obstacle = readers(TEXT, "shop.large").obstacle
    assert obstacle is not None
    assert obstacle.sentence == "the feed feed offers shop.large by partition"
    assert readers(TEXT, "shop.total").obstacle is None


FILES = """\
dataflow: shop
components:
  orders: {read: {connector: files, path: orders/*, format: csv, schema: id INT}}
"""
KEYS = [f"{n:012}-{n + 1:012}" for n in (1, 3, 5, 7)]


def source_of(text: str) -> Source:
    node = compiled(text).nodes["shop.orders"]
    assert node.is_source
    return node


def test_a_cause_names_some_spans_of_a_topic() -> None:
    differing = Differences(new=[*KEYS, f"{9:012}"], removed=[f"{n:012}" for n in range(1, 9)])
    assert of_objects(source_of(TEXT), differing) == (
        f"slices of shop.orders were rolled up: {KEYS[0]}, {KEYS[1]} and {KEYS[2]}, ...; "
        f"partition {9:012} of shop.orders is new"
    )


def test_a_file_may_have_the_name_of_a_span() -> None:
    differing = Differences(new=KEYS[:1], removed=["a.csv"])
    sentence = of_objects(source_of(FILES), differing)
    assert sentence == f"orders/{KEYS[0]} is new and orders/a.csv is gone"
