"""Files of the lake as rows, with a label for each where the caller gives labels.

In a local folder Spark reads them through links that carry the label. An object store has no links:
there a file's own path is joined to its labels, as often as a file is requested.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from urllib.parse import unquote
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dataplane.contract.claims import DriverClaim
from dataplane.contract.results import LABEL
from dataplane.contract.schemas import Schema
from dataplane.fragments.attempt import Attempt
from dataplane.fragments.file_links import with_label
from dataplane.spark.spark_schemas import spark_type
from dataplane.storage.lake import LocalLake
from dataplane.task_failures import GONE, MADE_AGAIN, TaskFailure

# Thousands of paths are looked at by a Spark job rather than one after the other.
LISTING = {
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "32",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
}


def rows_of(
    attempt: Attempt[DriverClaim], session: SparkSession, paths: Iterable[str], schema: Schema
) -> DataFrame:
    """Rows of files, of one that is named twice twice; a column that a file lacks is NULL in its
    rows."""
    files = list(paths)
    if isinstance(attempt.lake, LocalLake):
        return _linked(attempt, attempt.lake, session, [(path, None) for path in files], schema)
    repeated = Counter(files)
    rows = _scan(attempt, session, list(repeated), schema)
    if len(repeated) == len(files):
        return rows
    return _labelled(attempt, session, [(path, "") for path in files], schema).drop(LABEL)


def labelled_rows(
    attempt: Attempt[DriverClaim],
    session: SparkSession,
    files: Sequence[tuple[str, str]],
    schema: Schema,
) -> DataFrame:
    """As `rows_of`, with the column `_fragment` at the end: the label that was given with each
    path."""
    if isinstance(attempt.lake, LocalLake):
        return _linked(attempt, attempt.lake, session, files, with_label(schema))
    return _labelled(attempt, session, files, schema)


def _linked(
    attempt: Attempt[DriverClaim],
    lake: LocalLake,
    session: SparkSession,
    files: Sequence[tuple[str, str | None]] | Sequence[tuple[str, str]],
    schema: Schema,
) -> DataFrame:
    links = attempt.links()
    places: dict[str | None, list[str]] = {}
    for path, label in files:
        if not os.path.exists(place := lake.place(path)):  # Spark passes over a link to nothing
            raise TaskFailure(GONE, f"{place} is not there: {MADE_AGAIN}", "infrastructure")
        places.setdefault(label, []).append(place)
    for label, of_label in places.items():
        links.add_all(of_label, label)
    return session.read.schema(spark_type(schema)).parquet(str(links.folder))


def _scan(
    attempt: Attempt[DriverClaim], session: SparkSession, paths: Sequence[str], schema: Schema
) -> DataFrame:
    for name, value in LISTING.items():
        session.conf.set(name, value)
    return session.read.schema(spark_type(schema)).parquet(*map(attempt.lake.place, paths))


def _labelled(
    attempt: Attempt[DriverClaim],
    session: SparkSession,
    files: Sequence[tuple[str, str]],
    schema: Schema,
) -> DataFrame:
    named = [(attempt.lake.place(path), (label,)) for path, label in files]
    scan = _scan(attempt, session, list(dict.fromkeys(path for path, _ in files)), schema)
    return joined_by_path(session, scan, named, f"{LABEL} STRING")


def joined_by_path(
    session: SparkSession,
    scan: DataFrame,
    named: Iterable[tuple[str, tuple[object, ...]]],
    kinds: str,
) -> DataFrame:
    """Rows of files, joined with the values that `named` gives for each path: values of these
    kinds, the label first.

    A file that is not named would lose its rows, so that is an error.
    """
    path, spark_paths = f"_path_{uuid4().hex}", _spark_paths(scan)
    path_rows = [(spark_paths[place], *values) for place, values in named if place in spark_paths]
    names = F.broadcast(session.createDataFrame(path_rows, f"{path} STRING, {kinds}"))
    label = F.coalesce(
        F.col(LABEL), F.raise_error(F.concat(F.lit("no label for "), F.col(path))).cast("string")
    )
    rows = scan.withColumn(path, scan.metadataColumn("_metadata")["file_path"])
    return rows.join(names, path, "left").withColumn(LABEL, label).drop(path)


def _spark_paths(scan: DataFrame) -> dict[str, str]:
    """The path that each row of a file reports, which is a URI, by the path itself: one call of the
    JVM for all files."""
    jvm = scan.sparkSession._jvm
    assert jvm is not None
    text: str = jvm.org.apache.hadoop.util.StringUtils.join("\n", scan._jdf.inputFiles())
    return {unquote(uri): uri for uri in text.split("\n")}
