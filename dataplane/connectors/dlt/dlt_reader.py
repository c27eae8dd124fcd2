"""Rows of loads, under the columns that the component declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from dataplane.connectors.dlt.load_files import checked_path, name_of
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
    namespace: str

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

    def _path(self, source: SourceObject) -> str:
        return checked_path(source["detail"]["path"], self.namespace, self.job["settings"])

    def _is_there(self, source: SourceObject) -> bool:
        path = self._path(source)
        return path in self.lake.sizes(path.rpartition("/")[0])

    def may_pass(self, _: TaskError) -> bool:
        return False

    def rows(self, objects: Sequence[tuple[str, SourceObject]]) -> DataFrame:
        """The rows of all objects. An error where a row does not fit the columns."""
        paths = [(label, self._path(source)) for label, source in objects]
        # A name has the number and a hash of all that the file holds: equal names are equal rows
        files = {name_of(path): self.lake.place(path) for _, path in paths}
        loads = self.session.read.schema(COLUMNS).parquet(*files.values())
        labels = self.session.createDataFrame(
            [(label, name_of(path)) for label, path in paths], f"{LABEL} STRING, _file STRING"
        )
        named = loads.withColumn("_file", F.col("_metadata.file_name"))
        labelled = named.join(F.broadcast(labels), "_file")
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
        yield DltReading(session, job, attempt.lake, attempt.prefix.partition("/")[0])

    return work_on(reading)


def _parse(attempt: SparkAttempt[ParseClaim]) -> list[TaskResult]:
    return _work_on(attempt).parse(attempt)


def _infer(attempt: SparkAttempt[InferClaim]) -> list[TaskResult]:
    return _work_on(attempt).infer(attempt)


WORK = SourceWork(_parse, _infer)
