"""One task of a transform over given rows; its result is answered, not stored: the tests of
blueprints.

The code is run as tasks run it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import tzinfo
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dataplane.contract.cells import BadCell, plain, typed_row
from dataplane.contract.claims import AnalyseClaim
from dataplane.contract.example_protocol import CHECK, Answer, ExampleQuestion
from dataplane.contract.jobs import InputJob
from dataplane.contract.results import LABEL
from dataplane.contract.schemas import Json
from dataplane.contract.zones import zone
from dataplane.fragments.attempt import Failed
from dataplane.fragments.spark.input_frames import only_read, read_files
from dataplane.fragments.spark.row_conditions import condition, sorted_out
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.spark.spark_schemas import schema_of, spark_type
from dataplane.spark.spark_session import closed, query_session, under
from dataplane.task_failures import TaskFailure
from dataplane.transform.bundle import opened
from dataplane.transform.environment import seeing
from dataplane.transform.python_transform import call, explain_python, user_session
from dataplane.transform.result import result_of
from dataplane.transform.sql_transform import explain_sql, run_query

MOST_BYTES = 32 << 20  # of the rows of a result, as JSON
# The fragments' files of an input that is given as a file
Parsed: TypeAlias = Mapping[str, list[str]]


def run_example(
    attempt: SparkAttempt[AnalyseClaim], question: ExampleQuestion, parsed: Parsed
) -> Answer:
    """Rows of the result, or the error that it came to. Users' errors are answers."""
    attempt.enter()
    try:
        return (
            _python(attempt, question, parsed)
            if question["job"]["language"] == "python"
            else _sql(attempt, question, parsed)
        )
    except Failed as e:
        return {"error": e.error}


def _sql(attempt: SparkAttempt[AnalyseClaim], question: ExampleQuestion, parsed: Parsed) -> Answer:
    job = question["job"]
    assert job["language"] == "sql"
    try:
        session = query_session(attempt.spark, job["spark"])
        rows = run_query(job, session, _inputs(attempt, session, question, parsed))
        return _answer(result_of(rows, job), question)
    except Failed:
        raise
    except Exception as e:
        raise Failed(explain_sql(attempt, e)) from e


def _python(
    attempt: SparkAttempt[AnalyseClaim], question: ExampleQuestion, parsed: Parsed
) -> Answer:
    job = question["job"]
    assert job["language"] == "python"
    with opened(job["modules"], job["main"]) as bundle:
        try:
            with seeing(job.get("requirements") or (), attempt.spark.sparkContext):
                session = user_session(attempt.spark, job)
                return _answer(
                    call(bundle, job, session, _inputs(attempt, session, question, parsed)),
                    question,
                )
        except BaseException as e:  # `sys.exit` as well
            raise Failed(explain_python(attempt, bundle, e)) from e


# --- inputs ---------------------------------------------------------------------------------------


def _inputs(
    attempt: SparkAttempt[AnalyseClaim],
    session: SparkSession,
    question: ExampleQuestion,
    parsed: Parsed,
) -> dict[str, DataFrame]:
    return {
        name: _input(attempt, session, question, parsed, name) for name in question["job"]["inputs"]
    }


def _input(
    attempt: SparkAttempt[AnalyseClaim],
    session: SparkSession,
    question: ExampleQuestion,
    parsed: Parsed,
    name: str,
) -> DataFrame:
    input_job = question["job"]["inputs"][name]
    rows = (
        read_files(attempt, session, parsed[name], input_job["schema"])
        if name in parsed
        else _rows_of_question(session, question, name)
    )
    return _of_partition(rows, input_job, question["partition"])


def _rows_of_question(session: SparkSession, question: ExampleQuestion, name: str) -> DataFrame:
    schema, place = (
        question["job"]["inputs"][name]["schema"],
        zone(question["job"]["spark"]["timezone"]),
    )
    try:
        rows = [typed_row(schema, values, place) for values in question["rows"].get(name, ())]
    except BadCell as e:
        raise TaskFailure("invalid-value", f"{name}: {e}") from e
    return session.createDataFrame(rows, spark_type(schema))


def _of_partition(rows: DataFrame, input_job: InputJob, partition: str | None) -> DataFrame:
    """The rows that the task of this key reads of an input by key."""
    if input_job["mode"] != "by" or partition is None:
        return rows
    return only_read(rows, input_job, partition)


# --- the result -----------------------------------------------------------------------------------


def _answer(result_rows: DataFrame, question: ExampleQuestion) -> Answer:
    rows = _expected_rows(result_rows, question)
    count = rows.count() if "check" in question else 0
    shown = _failing(rows, question["check"], question) if "check" in question else rows
    collected = shown.limit(question["limit"]).collect()
    schema, place = schema_of(rows), zone(question["job"]["spark"]["timezone"])
    types = [field["type"] for field in schema["fields"]]
    plain_rows = [_plain_row(types, row, place) for row in collected]
    _refuse_large(plain_rows)
    return {"schema": schema, "rows": plain_rows, "count": count or len(plain_rows)}


def _refuse_large(rows: list[list[Json]]) -> None:
    """Raises TaskFailure where the rows are more than a test compares."""
    left = MOST_BYTES
    for row in rows:
        left -= len(json.dumps(row))
        if left < 0:
            raise TaskFailure(
                "result-too-large",
                f"the result has more than {MOST_BYTES >> 20} MiB in its first {len(rows):,} rows: "
                "use a check, give fewer rows, or shorten their values",
            )


def _plain_row(types: list[Json], row: Json, place: tzinfo) -> list[Json]:
    return [plain(kind, value, place) for kind, value in zip(types, row, strict=True)]


def _expected_rows(rows: DataFrame, question: ExampleQuestion) -> DataFrame:
    """Without the rows that the component's expectations take out."""
    expect = question["job"].get("expect")
    if not expect:
        return rows
    label = "kept"
    marked = sorted_out(rows.withColumn(LABEL, F.lit(label)), expect)
    return marked.where(F.col(LABEL) == label).drop(LABEL)


def _failing(rows: DataFrame, text: str, question: ExampleQuestion) -> DataFrame:
    """The rows for which a condition is false."""
    with under(rows.sparkSession, closed(question["job"]["spark"])):
        is_true = condition(rows, {"id": "", "name": CHECK, "check": text})
        return rows.where(~is_true)
