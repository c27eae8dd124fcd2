"""A transform's inputs as DataFrames of one session: files of the lake read under the schemas that
the claim names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame, SparkSession

from dataplane.contract.claims import DriverClaim, TransformClaim, TransformTask
from dataplane.contract.jobs import InputJob, Logic, keys_read
from dataplane.contract.schemas import Schema
from dataplane.fragments.attempt import Attempt, task_label
from dataplane.fragments.file_links import with_label
from dataplane.fragments.spark.reading import labelled_rows, rows_of
from dataplane.fragments.spark.spark_key_columns import any_of, only
from dataplane.spark.spark_schemas import spark_type


def inputs_of(
    attempt: Attempt[TransformClaim], session: SparkSession, task: TransformTask
) -> dict[str, DataFrame]:
    """One task's inputs by name."""
    return {name: _input(attempt, session, task, name) for name in attempt.claim["job"]["inputs"]}


def _input(
    attempt: Attempt[TransformClaim], session: SparkSession, task: TransformTask, name: str
) -> DataFrame:
    job = attempt.claim["job"]["inputs"][name]
    if job["mode"] == "all":
        return read_files(attempt, session, attempt.claim["job"]["shared"][name], job["schema"])
    rows = read_files(attempt, session, task["slots"][name], job["schema"])
    return only_read(rows, job, task["partition"]) if job["mode"] == "by" else rows


def only_read(rows: DataFrame, job: InputJob, key: str) -> DataFrame:
    """The rows that the task of this key reads of an input by key."""
    if "reach" in job:
        return any_of(rows, job["schema"], job["reach"]["key"], keys_read(job, key))
    return only(rows, job["schema"], job["key"], key)


def inputs_of_keys(
    attempt: Attempt[TransformClaim], session: SparkSession, tasks: Sequence[TransformTask]
) -> dict[str, DataFrame]:
    """The inputs of several tasks by key: of inputs that are read by key, the rows of all their
    keys."""
    return {
        name: _input_of_keys(attempt, session, tasks, name)
        for name in attempt.claim["job"]["inputs"]
    }


def _input_of_keys(
    attempt: Attempt[TransformClaim],
    session: SparkSession,
    tasks: Sequence[TransformTask],
    name: str,
) -> DataFrame:
    job = attempt.claim["job"]["inputs"][name]
    if job["mode"] != "by":
        return _input(attempt, session, tasks[0], name)
    # A file comes as often as partitions have it
    files = reduce(or_, (Counter(t["slots"][name]) for t in tasks))
    rows = read_files(attempt, session, files.elements(), job["schema"])
    return any_of(rows, job["schema"], job["key"], [t["partition"] for t in tasks])


def inputs_of_batch(
    attempt: Attempt[TransformClaim], session: SparkSession, tasks: Sequence[TransformTask]
) -> dict[str, DataFrame]:
    """Many tasks' inputs by name; that of `batch_input` has the rows of all, and the column
    `_fragment`."""
    job = attempt.claim["job"]
    assert job["language"] == "sql"
    each = job["batch_input"]
    assert each is not None
    labelled = [(path, task_label(t)) for t in tasks for path in t["slots"][each]]
    rest = {name: input_job for name, input_job in job["inputs"].items() if name != each}
    return {
        each: read_labelled(attempt, session, labelled, job["inputs"][each]["schema"]),
        **{
            name: read_files(attempt, session, job["shared"][name], input_job["schema"])
            for name, input_job in rest.items()
        },
    }


def read_files(
    attempt: Attempt[DriverClaim], session: SparkSession, paths: Iterable[str], schema: Schema
) -> DataFrame:
    """Rows of files of the lake; a column that a file lacks is NULL in its rows."""
    files = list(paths)
    return rows_of(attempt, session, files, schema) if files else empty(session, schema)


def read_labelled(
    attempt: Attempt[DriverClaim],
    session: SparkSession,
    files: Sequence[tuple[str, str]],
    schema: Schema,
) -> DataFrame:
    """As `read_files`, with the column `_fragment` at the end: the label that was given with each
    path."""
    return (
        labelled_rows(attempt, session, files, schema)
        if files
        else empty(session, with_label(schema))
    )


def empty(session: SparkSession, schema: Schema) -> DataFrame:
    return session.createDataFrame([], spark_type(schema))


def add_views(inputs: Mapping[str, DataFrame], job: Logic) -> dict[str, DataFrame]:
    """By the names that the query has for them."""
    views = {job["inputs"][name]["view"]: rows for name, rows in inputs.items()}
    for view, rows in views.items():
        rows.createTempView(view)
    return views
