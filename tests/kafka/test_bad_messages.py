"""Values of messages that do not fit the schema, quarantined by Spark."""

from __future__ import annotations

from typing import cast

from pyspark.sql import SparkSession

from dataplane.contract.claims import ParseClaim, ParseTask
from dataplane.contract.jobs import DropRule
from dataplane.contract.results import TaskResult
from tests.kafka.test_lane import ABOUT, Topic, rows_of
from tests.servers.kafka import Kafka
from tests.spark.conftest import Lake, done, lake, schema_of
from tests.spark.test_expectations import SPARK

__all__ = ["lake"]
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
    topic.send([fine, b'{"id": "one"}', fine, b"\xff\0"], key=b"k")
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


def quarantined(lake: Lake, result: TaskResult) -> list[tuple[object, ...]]:
    rows = rows_of(lake, result["quarantine"])
    assert {(row["id"], row["_reason"]) for row in rows} == {(None, "bad_record")}
    names = ("_partition", "_offset", "_key", "_record")
    return sorted(tuple(row[name] for name in names) for row in rows)
