"""Rows of Spark written as fragments below an attempt's prefix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from dataplane.contract.claims import DriverClaim
from dataplane.contract.results import LABEL
from dataplane.contract.schemas import Field, Type, struct_of
from dataplane.fragments.attempt import Attempt
from dataplane.fragments.content import unsupported
from dataplane.fragments.spark.observing import ObservedRows
from dataplane.fragments.written import Written
from dataplane.spark.spark_schemas import schema_of, spark_type
from dataplane.spark.spark_schemas import written as schema_written
from dataplane.spark.spark_session import WRITING
from dataplane.storage.job_folders import fragment_folder
from dataplane.task_failures import TaskFailure

# Of all files together that one task of Spark writes at once. A column of an open file holds up to
# a page (1 MB) and a dictionary (1 MB)
OPEN_COLUMNS = 256
_OPEN_FILES = "spark.sql.maxConcurrentOutputFileWriters"


def storable(df: DataFrame, *, case_sensitive: bool, labelled: bool = False) -> DataFrame:
    """`df` with columns that files can hold: untyped NULLs become texts. TaskFailure for a column
    that cannot be stored.

    `labelled`: the last column is the label, and ours.
    """
    schema = schema_written(df)
    own, label = (
        (schema["fields"][:-1], schema["fields"][-1:]) if labelled else (schema["fields"], [])
    )
    _check_names([f["name"] for f in own], case_sensitive=case_sensitive)
    typed = [_typed(column) for column in own]
    for column in typed:
        if "__COLLATIONS" in column["metadata"]:
            raise TaskFailure(
                "UNSUPPORTED_OUTPUT_TYPE", f"column {column['name']} has a collation: cast it"
            )
        if bad := unsupported(column["type"]):
            raise TaskFailure(
                "UNSUPPORTED_OUTPUT_TYPE", f"column {column['name']} has type {bad}: cast it"
            )
    target = struct_of([*typed, *label])
    return df if target == schema else df.to(spark_type(target))


def _check_names(names: Sequence[str], *, case_sensitive: bool) -> None:
    if not names:
        raise TaskFailure("NO_COLUMNS", "the result has no columns")
    names_before: set[str] = set()
    for name in names:
        compared = name if case_sensitive else name.lower()
        if compared in names_before:
            raise TaskFailure("COLUMN_ALREADY_EXISTS", f"the result has two columns named {name!r}")
        names_before.add(compared)
    if LABEL in names_before:
        raise TaskFailure("RESERVED_COLUMN", f"a column may not be named {LABEL!r}")


def _typed(column: Field) -> Field:
    """With texts in place of untyped NULLs."""
    return {**column, "type": _without_void(column["type"])}


def _without_void(kind: Type) -> Type:
    if isinstance(kind, str):
        return "string" if kind == "void" else kind
    if kind["type"] == "struct":
        return {**kind, "fields": [_typed(member) for member in kind["fields"]]}
    if kind["type"] == "array":
        return {**kind, "elementType": _without_void(kind["elementType"])}
    if kind["type"] == "map":
        return {
            **kind,
            "keyType": _without_void(kind["keyType"]),
            "valueType": _without_void(kind["valueType"]),
        }
    return kind


def keep_files_open(session: SparkSession, columns: int) -> None:
    """Have tasks of this session write several labels at once, in place of sorting rows by label. A
    task with more labels than open files sorts the rest.

    For rows of files alone: a task reads 64 MB of them. Other tasks may read far more, and open
    files would hold it in memory.
    """
    session.conf.set(_OPEN_FILES, str(min(64, OPEN_COLUMNS // max(1, columns))))


def write_one(attempt: Attempt[DriverClaim], df: DataFrame, label: str) -> Written:
    """One task's rows."""
    schema = schema_of(df)
    job = attempt.staging()
    observed = ObservedRows.of(attempt, df, schema)
    files = _stored(attempt, job, fragment_folder(job, label), observed.rows)
    return Written(schema, files.get(label, {}), observed=observed.content(attempt))


def write_many(
    attempt: Attempt[DriverClaim], df: DataFrame, labels: Sequence[str]
) -> dict[str, Written]:
    """The rows of several tasks, by their labels in the column `_fragment`, written as one job
    without a shuffle."""
    schema = schema_of(df.drop(LABEL))
    observed = ObservedRows.of(attempt, df, schema) if len(labels) == 1 else ObservedRows(df)
    by_label = write_labelled(attempt, observed.rows)
    if strangers := by_label.keys() - set(labels):
        raise AssertionError(f"rows of no task: {sorted(strangers)[:3]}")
    content = observed.content(attempt)
    return {
        label: replace(by_label.get(label) or Written(schema), observed=content) for label in labels
    }


def write_labelled(attempt: Attempt[DriverClaim], df: DataFrame) -> dict[str, Written]:
    """A fragment for each value of the column `_fragment`, which are texts that may stand in a
    path."""
    schema = schema_of(df.drop(LABEL))
    job = attempt.staging()
    by_label = _stored(attempt, job, job, df, LABEL)
    return {label: Written(schema, files) for label, files in by_label.items()}


def _stored(
    attempt: Attempt[DriverClaim], job: str, target: str, df: DataFrame, *by: str
) -> dict[str, dict[str, int]]:
    """Files by label. Each job has a folder of its own, so that no other job's commit sweeps it
    away."""
    try:
        _configure(df.sparkSession)
        df.write.partitionBy(*by).mode(attempt.lake.begin(target)).parquet(
            attempt.lake.place(target)
        )
        return attempt.lake.settle(job, attempt.prefix)
    except BaseException:
        attempt.lake.delete_folder(job)
        raise


def _configure(session: SparkSession) -> None:
    for key, value in {**WRITING, "parquet.page.write-checksum.enabled": "true"}.items():
        session.conf.set(key, value)
