"""A transform's inputs as DataFrames of one session: files of the lake read under the schemas that the claim names.

Does not belong here: what is done with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from dataplane.contract.claims import TaskSpec
from dataplane.contract.schemas import Json, Schema
from dataplane.fragments.attempt import Attempt, task_label
from dataplane.fragments.key_columns import any_of, only
from dataplane.fragments.links import with_label
from dataplane.fragments.reading import labelled_rows, rows_of


def inputs_of(attempt: Attempt, session: SparkSession, task: TaskSpec) -> dict[str, DataFrame]:
    """One task's inputs by name."""
    return {name: _input(attempt, session, task, name) for name in attempt.job["inputs"]}


def _input(attempt: Attempt, session: SparkSession, task: TaskSpec, name: str) -> DataFrame:
    one = attempt.job["inputs"][name]
    if one["mode"] == "all":
        return read_files(attempt, session, attempt.job["shared"][name], one["schema"])
    rows = read_files(attempt, session, task["slots"][name], one["schema"])
    return only(rows, one["schema"], one["key"], task["partition"]) if one["mode"] == "by" else rows


def inputs_of_keys(attempt: Attempt, session: SparkSession, tasks: Sequence[TaskSpec]) -> dict[str, DataFrame]:
    """The inputs of several tasks by key: of inputs that are read by key, the rows of all their keys."""
    return {name: _input_of_keys(attempt, session, tasks, name) for name in attempt.job["inputs"]}


def _input_of_keys(attempt: Attempt, session: SparkSession, tasks: Sequence[TaskSpec], name: str) -> DataFrame:
    one = attempt.job["inputs"][name]
    if one["mode"] != "by":
        return _input(attempt, session, tasks[0], name)
    files = reduce(or_, (Counter(t["slots"][name]) for t in tasks))  # a file comes as often as partitions have it
    rows = read_files(attempt, session, files.elements(), one["schema"])
    return any_of(rows, one["schema"], one["key"], [t["partition"] for t in tasks])


def inputs_of_batch(attempt: Attempt, session: SparkSession, tasks: Sequence[TaskSpec]) -> dict[str, DataFrame]:
    """Many tasks' inputs by name; that of `batch_input` has the rows of all, and the column `_fragment`."""
    job, each = attempt.job, attempt.job["batch_input"]
    labelled = [(path, task_label(t)) for t in tasks for path in t["slots"][each]]
    rest = {name: one for name, one in job["inputs"].items() if name != each}
    return {
        each: read_labelled(attempt, session, labelled, job["inputs"][each]["schema"]),
        **{name: read_files(attempt, session, job["shared"][name], one["schema"]) for name, one in rest.items()},
    }


def read_files(attempt: Attempt, session: SparkSession, paths: Iterable[str], schema: Schema) -> DataFrame:
    """Rows of files of the lake; a column that a file lacks is NULL in its rows."""
    found = list(paths)
    return rows_of(attempt, session, found, schema) if found else empty(session, schema)


def read_labelled(
    attempt: Attempt, session: SparkSession, files: Sequence[tuple[str, str]], schema: Schema
) -> DataFrame:
    """As `read_files`, with the column `_fragment` at the end: the label that was given with each path."""
    return labelled_rows(attempt, session, files, schema) if files else empty(session, with_label(schema))


def empty(session: SparkSession, schema: Schema) -> DataFrame:
    return session.createDataFrame([], StructType.fromJson(schema))


def add_views(inputs: Mapping[str, DataFrame], job: Mapping[str, Json]) -> dict[str, DataFrame]:
    """By the names that the query has for them."""
    views = {job["inputs"][name]["view"]: rows for name, rows in inputs.items()}
    for view, rows in views.items():
        rows.createTempView(view)
    return views
