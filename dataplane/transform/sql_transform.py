"""The `transform` kind of work in SQL: many tasks as one job where the query may be batched, else
one job each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from dataplane.contract.claims import LogicClaim, TransformClaim, TransformTask
from dataplane.contract.jobs import SqlJob, SqlLogic
from dataplane.contract.results import LABEL, TaskError
from dataplane.fragments.attempt import task_label
from dataplane.fragments.spark.input_frames import (
    add_views,
    inputs_of,
    inputs_of_batch,
    inputs_of_keys,
)
from dataplane.fragments.spark.row_conditions import write_kept
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.fragments.spark.writing import storable
from dataplane.fragments.written import Stored, Written
from dataplane.spark.spark_errors import ErrorSource, explain
from dataplane.spark.spark_session import query_session
from dataplane.spark.sql_positions import unedited
from dataplane.transform.batches import in_batches
from dataplane.transform.keyed_outputs import store, store_together
from dataplane.transform.parameters import sql
from dataplane.transform.result import result_of

Which: TypeAlias = Literal["sql", "batch_sql"]


def run_query(
    job: SqlLogic, session: SparkSession, inputs: Mapping[str, DataFrame], which: Which = "sql"
) -> DataFrame:
    """The result of a query of the job, over views of these inputs.

    Where a time was put into the text, columns without an alias keep the names that the user's own
    text gives them.
    """
    text = job[which]
    assert text is not None, "a job without such a query"
    views = add_views(inputs, job)
    rows = sql(session, text, job["params"], views)
    named = job["named"][which] if "named" in job else None
    return rows if named is None else rows.toDF(*sql(session, named, job["params"], views).columns)


def sql_job(attempt: SparkAttempt[TransformClaim]) -> SqlJob:
    """The job of an attempt whose language is SQL."""
    job = attempt.claim["job"]
    assert job["language"] == "sql"
    return job


def sql_one(attempt: SparkAttempt[TransformClaim], task: TransformTask) -> Stored:
    """One task as one job."""
    job = sql_job(attempt)
    session = query_session(attempt.spark, job["spark"])
    rows = run_query(job, session, inputs_of(attempt, session, task))
    return store(attempt, result_of(rows, job), task)


def sql_batches(attempt: SparkAttempt[TransformClaim]) -> dict[str, Stored | TaskError]:
    """All tasks of the attempt in as few jobs as possible."""
    batch = _together if sql_job(attempt).get("together") else _labelled_batch
    explain_error = partial(explain_sql, attempt)
    return in_batches(attempt, partial(batch, attempt), partial(sql_one, attempt), explain_error)


def _labelled_batch(
    attempt: SparkAttempt[TransformClaim], tasks: Sequence[TransformTask]
) -> dict[str, Written]:
    """Row-wise tasks: the label goes through the query."""
    job = sql_job(attempt)
    session = query_session(attempt.spark, job["spark"])
    result_rows = run_query(job, session, inputs_of_batch(attempt, session, tasks), "batch_sql")
    rows = _labelled(result_rows, case_sensitive=job["spark"]["case_sensitive"])
    return write_kept(attempt, rows, [task_label(t) for t in tasks])


def _together(
    attempt: SparkAttempt[TransformClaim], tasks: Sequence[TransformTask]
) -> dict[str, Written]:
    """Tasks by key, computed together: the query gives the same rows for many keys at once as for
    each."""
    job = sql_job(attempt)
    session = query_session(attempt.spark, job["spark"])
    result_rows = run_query(job, session, inputs_of_keys(attempt, session, tasks))
    rows = storable(result_rows, case_sensitive=job["spark"]["case_sensitive"])
    return store_together(attempt, rows, tasks)


def _labelled(rows: DataFrame, *, case_sensitive: bool) -> DataFrame:
    """A batch's result as it can be stored, with the label last. A star may have brought the label
    a second time."""
    label = rows.columns.index(LABEL)
    others = [i for i, name in enumerate(rows.columns) if name != LABEL]
    places = rows.toDF(*(f"c{i}" for i in range(len(rows.columns))))
    remaining = places.select(
        *(places[f"c{i}"].alias(rows.columns[i]) for i in others), places[f"c{label}"].alias(LABEL)
    )
    return storable(remaining, case_sensitive=case_sensitive, labelled=True)


def explain_sql(attempt: SparkAttempt[LogicClaim], error: BaseException) -> TaskError:
    return explain(error, source_of(attempt))


def source_of(attempt: SparkAttempt[LogicClaim]) -> ErrorSource:
    job = attempt.claim["job"]
    assert job["language"] == "sql"
    views = {input_job["view"]: name for name, input_job in job["inputs"].items()}
    edits = job["edits"]
    return ErrorSource(
        sql=job["sql"],
        edits=edits,
        original=unedited(edits, job["sql"]),
        views=views,
        renamed=attempt.renamed,
    )
