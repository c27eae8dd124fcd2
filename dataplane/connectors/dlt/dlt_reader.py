"""Rows of loads, under the columns that the component declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from dataplane.connectors.files.json_texts import loses
from dataplane.connectors.parse_objects import work_on
from dataplane.connectors.source_reader import SourceWork
from dataplane.contract.claims import InferClaim, ParseClaim, SourceClaim
from dataplane.contract.jobs import SourceJob
from dataplane.contract.results import LABEL, TaskError, TaskResult
from dataplane.contract.schemas import Schema
from dataplane.contract.source_objects import SourceObject
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.spark.spark_schemas import schema_of
from dataplane.storage.lake import Lake

OWN = ("_load", "_row")  # columns that a load has beside its rows
C = TypeVar("C", bound=SourceClaim)
COLUMNS = "row STRING, _load BIGINT, _row BIGINT"


@dataclass(frozen=True, slots=True)
class DltReading:
    session: SparkSession
    job: SourceJob
    lake: Lake

    @property
    def _schema(self) -> StructType:
        return cast("StructType", StructType.fromDDL(self.job["settings"]["row_schema"]))

    def schema(self, _: Sequence[SourceObject]) -> Schema:
        """The declared schema."""
        return schema_of(self._schema)

    def changed(self, objects: Sequence[SourceObject]) -> frozenset[str]:
        """A load that was replaced so long ago that its file was deleted. Others never change."""
        if self.job["settings"]["write_disposition"] == "append":
            return frozenset()
        return frozenset(source["name"] for source in objects if not self._is_there(source))

    def _is_there(self, source: SourceObject) -> bool:
        path: str = source["detail"]["path"]
        return path in self.lake.sizes(path.rpartition("/")[0])

    def may_pass(self, _: TaskError) -> bool:
        return False

    def rows(self, objects: Sequence[tuple[str, SourceObject]]) -> DataFrame:
        """The rows of all objects. An error where a row does not fit the columns."""
        details = [(label, source["detail"]) for label, source in objects]
        paths = [self.lake.place(detail["path"]) for _, detail in details]
        loads = self.session.read.schema(COLUMNS).parquet(*paths)
        labels = self.session.createDataFrame(
            [(label, detail["load"]) for label, detail in details], f"{LABEL} STRING, _load BIGINT"
        )
        labelled = loads.join(F.broadcast(labels), "_load")
        return labelled.select(*self._columns(), LABEL)

    def _columns(self) -> list[Column]:
        own = StructType([field for field in self._schema if field.name not in OWN])
        row = F.from_json("row", own, {"mode": "FAILFAST"})
        refused = F.raise_error(
            F.concat(
                F.lit("a number has more digits than its column, or is too large for it: row "),
                "_row",
                F.lit(" of load "),
                "_load",
            )
        )
        sound = F.when(loses(F.col("row"), row, own), refused.cast(own)).otherwise(row)
        return [
            F.col(f.name).cast(f.dataType)
            if f.name in OWN
            else sound.getField(f.name).alias(f.name)
            for f in self._schema
        ]


def _work_on(attempt: SparkAttempt[C]) -> SourceWork:
    """The work on loads in the lake of an attempt."""

    @contextmanager
    def reading(session: SparkSession, job: SourceJob) -> Iterator[DltReading]:
        yield DltReading(session, job, attempt.lake)

    return work_on(reading)


def _parse(attempt: SparkAttempt[ParseClaim]) -> list[TaskResult]:
    return _work_on(attempt).parse(attempt)


def _infer(attempt: SparkAttempt[InferClaim]) -> list[TaskResult]:
    return _work_on(attempt).infer(attempt)


WORK = SourceWork(_parse, _infer)
