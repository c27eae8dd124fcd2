"""Reading slices of a Kafka topic with Spark: exactly the offsets that were listed, as often as a
slice is read.

Messages of transactions that failed are none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dataplane.connectors.kafka.kafka_client import spark_options
from dataplane.connectors.kafka.kafka_server import Topic, check_held, look
from dataplane.connectors.kafka.message_values import shaped
from dataplane.contract.jobs import ConnectorSettings, SourceJob
from dataplane.contract.results import LABEL, TaskError
from dataplane.contract.schemas import Json, Schema
from dataplane.contract.source_objects import SourceObject
from dataplane.spark.spark_schemas import schema_of

HEADERS = "array<struct<key: string, value: binary>>"
# An end behind the last offset would block for so long; there is none, for it is looked at before
_POLL_MS = "20000"


@contextmanager
def reading(session: SparkSession, job: SourceJob) -> Iterator[KafkaReading]:
    """TaskFailure where the server does not answer."""
    settings = job["settings"]
    yield KafkaReading(
        session,
        settings,
        look(settings, settings["topic"]),
        job.get("on_bad_record", "fail") != "fail",
    )


@dataclass(frozen=True, slots=True)
class KafkaReading:
    """One topic, as it was when reading began."""

    session: SparkSession
    settings: ConnectorSettings
    topic: Topic
    drops: bool

    def schema(self, objects: Sequence[SourceObject]) -> Schema:
        """The declared schema, or the union of the schemas of these slices: messages have no
        columns of their own."""
        schemas = dict.fromkeys(source["detail"].get("schema") for source in objects) or {
            None: None
        }
        shapes = [
            shaped(self._none(), self.settings, schema_id, drops=False) for schema_id in schemas
        ]
        return schema_of(reduce(_united, shapes))

    def changed(self, _: Sequence[SourceObject]) -> frozenset[str]:
        """Empty: a range of offsets never changes. If it is gone, `rows` fails."""
        return frozenset()

    def may_pass(self, error: TaskError) -> bool:
        """A server that went away while it was read from."""
        return any(word in error["message"] for word in ("TimeoutException", "DisconnectException"))

    def rows(self, objects: Sequence[tuple[str, SourceObject]]) -> DataFrame:
        """Messages by their slices. TaskFailure where the topic does not hold all of them any
        more."""
        ranges = [
            (label, o["detail"])
            for label, o in objects
            if o["detail"]["first"] < o["detail"]["end"]
        ]
        check_held(self.topic, [detail for _, detail in ranges])
        if not ranges:
            none = self._none().withColumn(LABEL, F.lit(""))
            return shaped(
                none, self.settings, objects[0][1]["detail"].get("schema"), LABEL, drops=self.drops
            )
        by_schema: dict[int | None, list[tuple[str, Mapping[str, Json]]]] = {}
        for label, detail in ranges:
            by_schema.setdefault(detail.get("schema"), []).append((label, detail))
        return reduce(_united, [self._read(some, schema) for schema, some in by_schema.items()])

    def _read(
        self, ranges: Sequence[tuple[str, Mapping[str, Json]]], schema: int | None
    ) -> DataFrame:
        """Messages of slices whose values are read under one schema."""
        read = reduce(
            DataFrame.unionAll, [self._load(covers) for covers in together([d for _, d in ranges])]
        )
        labels = {label for label, _ in ranges}
        labelled = (
            read.withColumn(LABEL, F.lit(labels.pop()))
            if len(labels) == 1  # what is loaded is all of this slice
            else self._labelled(read, ranges)
        )
        return shaped(labelled, self.settings, schema, LABEL, drops=self.drops)

    def _labelled(
        self, read: DataFrame, ranges: Sequence[tuple[str, Mapping[str, Json]]]
    ) -> DataFrame:
        """Messages with the labels of their slices."""
        bounds = [(label, d["partition"], d["first"], d["end"]) for label, d in ranges]
        labels = self.session.createDataFrame(
            bounds, f"{LABEL} STRING, _of INT, _first BIGINT, _end BIGINT"
        )
        mine = (F.col("partition") == F.col("_of")) & F.col("offset").between(
            F.col("_first"), F.col("_end") - 1
        )
        return read.join(F.broadcast(labels), mine)

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


def _united(some: DataFrame, others: DataFrame) -> DataFrame:
    """Rows of both; a column that the one lacks is NULL in its rows."""
    return some.unionByName(others, allowMissingColumns=True)


def together(ranges: Sequence[Mapping[str, Json]]) -> Iterator[dict[int, tuple[int, int]]]:
    """Ranges by partition of the topic, those that follow each other as one; each answer has one of
    a partition."""
    joined: dict[int, list[tuple[int, int]]] = {}
    for detail in sorted(ranges, key=lambda d: (d["partition"], d["first"])):
        mine = joined.setdefault(detail["partition"], [])
        if mine and mine[-1][1] == detail["first"]:
            mine[-1] = (mine[-1][0], detail["end"])
        else:
            mine.append((detail["first"], detail["end"]))
    while joined:
        yield {partition: mine.pop(0) for partition, mine in joined.items()}
        joined = {partition: mine for partition, mine in joined.items() if mine}
