"""Values of messages that do not fit the schema, quarantined by Spark."""

from __future__ import annotations

import json
from typing import cast

from pyspark.sql import SparkSession

from controlplane.core.blueprint.kafka import EVENT
from dataplane.contract.claims import ParseClaim, ParseTask
from dataplane.contract.jobs import DropRule
from dataplane.contract.results import TaskResult
from tests.kafka.test_lane import ABOUT, Topic, encoded, registry, rows_of, under_schema
from tests.servers.kafka import Kafka
from tests.servers.registry import SchemaRegistry
from tests.spark.conftest import Lake, done, lake, schema_of
from tests.spark.test_expectations import SPARK

__all__ = ["lake", "registry"]
OF_RECORDS: DropRule = {
    "id": f"{7:064x}",
    "name": "bad_record",
    "check": "",
    "quarantine": True,
    "record_columns": ["_record"],
}


def claim(lake: Lake, topic: Topic, task: ParseTask) -> ParseClaim:
    whole = topic.claim(lake, task, on_bad_record="quarantine")
    expect = {"drop": [OF_RECORDS], "spark": SPARK}
    return cast("ParseClaim", {**whole, "job": {**whole["job"], "expect": expect}})


def test_a_bad_message_has_its_text_its_partition_and_its_offset(
    lake: Lake, kafka: Kafka, spark: SparkSession
) -> None:
    topic = Topic(kafka, format="json", schema="id INT")
    fine = b'{"id": 1}'
    framed = b"\0\0\0\0\1"  # as a serializer with a registry writes JSON
    topic.send([fine, framed + b'{"id": "one"}', fine, b"\xff\0"], key=b"k")
    topic.send([b'{"id": 5000000000}'], partition=1)
    task = topic.task(schema_of(spark, f"id INT, {ABOUT}"))
    [result] = lake.executor.run(claim(lake, topic, task))
    assert [row["_offset"] for row in rows_of(lake, done(result))] == [0, 2]
    assert quarantined(lake, result) == [
        (0, 1, "k", '{"id": "one"}'),
        (0, 3, "k", "0xFF00"),
        (1, 0, None, '{"id": 5000000000}'),
    ]
    assert result["metrics"] == {"dropped": {OF_RECORDS["id"]: 3}, "dropped_rows": 3}


def test_bytes_that_are_no_value_of_avro_are_hexadecimal_digits(
    lake: Lake, kafka: Kafka, registry: SchemaRegistry, spark: SparkSession
) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    number = registry.register("bad-value", json.dumps(schema))
    topic = Topic(kafka, format="avro", registry=registry.url, subject="bad-value")
    fine = encoded(number, schema, {"id": 1})
    topic.send([fine, fine + b"\2", b"{no Avro}", fine])
    task = topic.task(under_schema(spark, topic, number), schema=number)
    [result] = lake.executor.run(claim(lake, topic, task))
    assert [(row["_offset"], row["id"]) for row in rows_of(lake, done(result))] == [(0, 1), (3, 1)]
    assert quarantined(lake, result) == [
        (0, 1, None, f"0x00{number:08X}0202"),
        (0, 2, None, "{no Avro}"),
    ]
    assert result["metrics"] == {"dropped": {OF_RECORDS["id"]: 2}, "dropped_rows": 2}


def test_refused_events_are_quarantined_without_values(
    lake: Lake, kafka: Kafka, spark: SparkSession
) -> None:
    topic = Topic(kafka, format="debezium", schema="id INT")
    fine, unknown, rowless = (
        json.dumps({"before": None, "after": row, "op": op})
        for row, op in (({"id": 1}, "c"), ({"id": 2}, "m"), (None, "u"))
    )
    topic.send([text.encode() for text in (fine, unknown, rowless)])
    topic.send([None])  # as it follows a delete
    task = topic.task(schema_of(spark, f"id INT, {EVENT}, {ABOUT}"))
    [result] = lake.executor.run(claim(lake, topic, task))
    assert [(row["_op"], row["id"]) for row in rows_of(lake, done(result))] == [("c", 1)]
    assert quarantined(lake, result) == [(0, 1, None, unknown), (0, 2, None, rowless)]
    assert {row["_op"] for row in rows_of(lake, result["quarantine"])} == {None}


def quarantined(lake: Lake, result: TaskResult) -> list[tuple[object, ...]]:
    rows = rows_of(lake, result["quarantine"])
    assert {(row["id"], row["_reason"]) for row in rows} == {(None, "bad_record")}
    names = ("_partition", "_offset", "_key", "_record")
    return sorted(tuple(row[name] for name in names) for row in rows)
