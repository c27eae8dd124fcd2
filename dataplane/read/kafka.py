"""Reading slices of a Kafka topic with Spark: exactly the offsets that were listed, as often as they are asked for.

Messages of transactions that failed are none. Does not belong here: listing (kafka_slices).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from dataplane.content import quoted
from dataplane.contract import LABEL, Json, Schema, SourceObject, TaskError, canonical_schema
from dataplane.failure import TaskFailure
from dataplane.kafka.client import spark_options
from dataplane.kafka.server import Topic, look

HEADERS = "array<struct<key: string, value: binary>>"
_POLL_MS = "20000"  # an end behind the last offset would block for so long; there is none, for it is looked at before


@contextmanager
def reading(session: SparkSession, job: Mapping[str, Json]) -> Iterator[KafkaReading]:
    """TaskFailure where the server does not answer."""
    yield KafkaReading(session, job["settings"], look(job["settings"], job["settings"]["topic"]))


@dataclass(frozen=True, slots=True)
class KafkaReading:
    """One topic, as it was when reading began."""

    session: SparkSession
    settings: Mapping[str, Json]
    topic: Topic

    def schema(self, _: Sequence[SourceObject]) -> Schema:
        """What is declared: messages have no columns of their own."""
        return canonical_schema(self._shaped(self._none()).schema.jsonValue())

    def changed(self, _: Sequence[SourceObject]) -> frozenset[str]:
        """None: a range of offsets is what it is, or it is gone, which `rows` says."""
        return frozenset()

    def may_pass(self, error: TaskError) -> bool:
        """A server that went away while it was read from."""
        return any(word in error["message"] for word in ("TimeoutException", "DisconnectException"))

    def rows(self, objects: Sequence[tuple[str, SourceObject]]) -> DataFrame:
        """Messages by their slices. TaskFailure where the topic does not hold all of them any more."""
        ranges = [
            (label, found["detail"]) for label, found in objects if found["detail"]["first"] < found["detail"]["end"]
        ]
        self._check([detail for _, detail in ranges])
        if not ranges:
            return self._shaped(self._none()).withColumn(LABEL, F.lit(""))
        read = reduce(DataFrame.unionAll, [self._load(covers) for covers in together([d for _, d in ranges])])
        told = [(label, d["partition"], d["first"], d["end"]) for label, d in ranges]
        labels = self.session.createDataFrame(told, f"{LABEL} STRING, _of INT, _first BIGINT, _end BIGINT")
        mine = (F.col("partition") == F.col("_of")) & F.col("offset").between(F.col("_first"), F.col("_end") - 1)
        return self._shaped(read.join(F.broadcast(labels), mine), LABEL)

    def _check(self, ranges: Sequence[Mapping[str, Json]]) -> None:
        bounds = {b.partition: b for b in self.topic.bounds}
        for one in ranges:
            held = bounds.get(one["partition"])
            if one["topic"] != self.topic.id or held is None or one["end"] > held.end:
                raise TaskFailure("topic-recreated", f"the topic {self.topic.name} was deleted and made again")
            if one["first"] < held.first:
                told = f"{one['first']} to {one['end']} of partition {held.partition}; it begins at {held.first}"
                raise TaskFailure("offsets-expired", f"the topic {self.topic.name} no longer holds offsets {told}")

    def _load(self, covers: Mapping[int, tuple[int, int]]) -> DataFrame:
        name = self.topic.name
        starts, ends = ({str(p): of[i] for p, of in covers.items()} for i in (0, 1))
        return (
            self.session.read.format("kafka")
            .options(**spark_options(self.settings))
            .option("kafka.isolation.level", "read_committed")
            .option("assign", json.dumps({name: sorted(covers)}))
            .option("startingOffsets", json.dumps({name: starts}))
            .option("endingOffsets", json.dumps({name: ends}))
            .option("failOnDataLoss", "true")
            .option("includeHeaders", "true")
            .option("kafkaConsumer.pollTimeoutMs", _POLL_MS)
            .load()
        )

    def _none(self) -> DataFrame:
        """No messages, with the columns that messages have."""
        kinds = f"key BINARY, value BINARY, headers {HEADERS}, partition INT, offset BIGINT, timestamp TIMESTAMP"
        return self.session.createDataFrame([], kinds)

    # columns

    def _shaped(self, messages: DataFrame, *others: str) -> DataFrame:
        if self.settings["format"] == "raw":
            raw = ("key", "value", "headers", "partition", "offset", "timestamp")
            return messages.select(*map(F.col, raw), *others)
        kind = cast("StructType", StructType.fromDDL(self.settings["schema"]))
        parsed = messages.withColumn("_value", F.from_json(F.col("value").cast("string"), kind, {"mode": "FAILFAST"}))
        own = [F.col(f"_value.{quoted(f.name)}") for f in kind]
        return parsed.select(*own, *_about(), *others)


def _about() -> list[Column]:
    """What is known of a message beside its value."""
    return [
        F.col("key").cast("string").alias("_key"),
        F.col("headers").alias("_headers"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("timestamp").alias("_timestamp"),
    ]


def together(ranges: Sequence[Mapping[str, Json]]) -> Iterator[dict[int, tuple[int, int]]]:
    """Ranges by partition of the topic, those that follow each other as one; each answer has one of a partition."""
    joined: dict[int, list[tuple[int, int]]] = {}
    for one in sorted(ranges, key=lambda d: (d["partition"], d["first"])):
        mine = joined.setdefault(one["partition"], [])
        if mine and mine[-1][1] == one["first"]:
            mine[-1] = (mine[-1][0], one["end"])
        else:
            mine.append((one["first"], one["end"]))
    while joined:
        yield {partition: mine.pop(0) for partition, mine in joined.items()}
        joined = {partition: mine for partition, mine in joined.items() if mine}
