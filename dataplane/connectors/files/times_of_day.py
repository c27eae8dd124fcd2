"""Times of day in files of text. Where no format of times is given, Spark reads `12:00` as noon of
the day on which it reads, so that the same file would be other rows tomorrow.

They are looked for where they may be: in files whose types are inferred, and in those with times of
the last day.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dataplane.connectors.files.reader_options import users_options
from dataplane.contract.results import FileEntry, TaskError
from dataplane.contract.schemas import Json, Schema
from dataplane.fragments.content import quoted
from dataplane.task_failures import TaskFailure, error_of

TIME_OF_DAY = r"^[\x00-\x20]*T?\d{1,2}:"  # a date has four digits first
DAY = timedelta(hours=25)  # today has begun less than that ago, wherever that is


def clock_columns(kind: str, options: Mapping[str, Json], schema: Schema) -> list[str]:
    """The columns of a file in which times of day would be taken for times."""
    if kind not in ("csv", "json") or "timestampformat" in users_options(options):
        return []
    return [f["name"] for f in schema["fields"] if f["type"] == "timestamp"]


def as_texts(schema: Schema) -> Schema:
    """The same columns, with any values."""
    return {**schema, "fields": [{**f, "type": "string"} for f in schema["fields"]]}


def first_times(rows: DataFrame, columns: Sequence[str], *by: str) -> DataFrame:
    """One time of day, or NULL, for each of `columns` in their order, for each group of rows of
    texts by `by`."""
    return rows.groupBy(*by).agg(
        *(first_time(F.col(quoted(name))).alias(f"t{i}") for i, name in enumerate(columns))
    )


def first_time(text: Column) -> Column:
    """A time of day among the texts of a column, or NULL; to be aggregated."""
    return F.min(F.when(text.rlike(TIME_OF_DAY), text))


def may_have(files: Iterable[FileEntry], columns: Sequence[str], now: datetime) -> bool:
    """Whether rows may have times of today, by the footers of the written files."""
    since = (now.astimezone(UTC) - DAY).replace(tzinfo=None).isoformat(
        timespec="milliseconds"
    ) + "Z"
    return any(_newest(file["stats"], name) >= since for file in files for name in columns)


def _newest(stats: Json, name: str) -> str:
    """The latest time of a column; none is before all others, and one that is not known is after
    them."""
    if stats["nullCount"].get(name) == stats["numRecords"]:
        return ""
    return str(stats["maxValues"].get(name, "~"))


def error(path: str, column: str, value: str) -> TaskError:
    message = f"{path}: column {column} has {value!r}, a time without a day, which Spark would take for a time of today"
    return error_of(
        TaskFailure("time-of-day", f"{message}: declare it as STRING, or give `timestampFormat`")
    )
