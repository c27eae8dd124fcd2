"""A session for one query: views over just the files of its tables, under settings that read
nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from dataplane.contract.query_protocol import SparkTable
from dataplane.contract.schemas import Json
from dataplane.spark.spark_schemas import spark_type
from dataplane.spark.spark_session import query_session
from dataplane.storage.lake import Lake, LocalLake
from dataplane.task_failures import GONE, MADE_AGAIN, TaskFailure

FOR_FEW = {
    "spark.sql.shuffle.partitions": "2",  # as many as threads
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
}


def session_for(spark: SparkSession, settings: Mapping[str, Json]) -> SparkSession:
    """Nothing of another query is in it."""
    session = query_session(spark, settings)
    for name, value in FOR_FEW.items():
        session.conf.set(name, value)
    return session


def add_views(
    session: SparkSession, lake: Lake, tables: Iterable[SparkTable]
) -> dict[str, DataFrame]:
    """By their names. Raises TaskFailure for a file that is not there."""
    views = {table["view"]: _rows(session, lake, table) for table in tables}
    for name, rows in views.items():
        rows.createOrReplaceTempView(name)
    return views


def _rows(session: SparkSession, lake: Lake, table: SparkTable) -> DataFrame:
    """A column that a file lacks is NULL in its rows; a file that is named twice gives its rows
    twice."""
    kind = spark_type(table["schema"])
    if not table["files"]:
        return session.createDataFrame([], kind)
    places = [lake.place(path) for path in table["files"]]
    if isinstance(lake, LocalLake):
        _check_there(places)
    once = list(dict.fromkeys(places))
    rows = session.read.schema(kind).parquet(*once)
    while again := _repeated(places, once):
        rows, places, once = (
            rows.unionAll(session.read.schema(kind).parquet(*again)),
            again,
            list(dict.fromkeys(again)),
        )
    return rows


def _repeated(places: list[str], once: list[str]) -> list[str]:
    """The rest of `places` after each of `once` was removed one time."""
    left = list(places)
    for place in once:
        left.remove(place)
    return left


def _check_there(places: Iterable[str]) -> None:
    for place in places:
        if not Path(place).exists():
            raise TaskFailure(GONE, f"{place} is not there: {MADE_AGAIN}", "infrastructure")
