"""One task of a transform over rows that are given, with its result told instead of stored: the tests of blueprints.

The code is run as tasks run it. Does not belong here: whether the result is the expected one.
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
from dataplane.contract.examples import CHECK, Answer, Run
from dataplane.contract.jobs import InputJob
from dataplane.contract.results import LABEL
from dataplane.contract.schemas import Json
from dataplane.contract.zones import zone
from dataplane.errors import TaskFailure
from dataplane.fragments.attempt import Attempt, Failed
from dataplane.fragments.expectations import condition, sorted_out
from dataplane.fragments.inputs import read_files
from dataplane.fragments.key_columns import only
from dataplane.spark.schemas import schema_of, spark_type
from dataplane.spark.session import closed, query_session, under
from dataplane.transform.bundle import opened
from dataplane.transform.environment import seeing
from dataplane.transform.python import call, explain_python, user_session
from dataplane.transform.result import result_of
from dataplane.transform.sql import explain_sql, run_query

MOST_BYTES = 32 << 20  # of the rows of a result, as JSON
Parsed: TypeAlias = Mapping[str, list[str]]  # the fragments' files of an input that is given as a file


def run_example(attempt: Attempt[AnalyseClaim], asked: Run, parsed: Parsed) -> Answer:
    """Rows of the result, or the error that it came to. Users' errors are answers."""
    attempt.enter()
    try:
        return _python(attempt, asked, parsed) if asked["job"]["language"] == "python" else _sql(attempt, asked, parsed)
    except Failed as e:
        return {"error": e.error}


def _sql(attempt: Attempt[AnalyseClaim], asked: Run, parsed: Parsed) -> Answer:
    job = asked["job"]
    assert job["language"] == "sql"
    try:
        session = query_session(attempt.spark, job["spark"])
        rows = run_query(job, session, _inputs(attempt, session, asked, parsed))
        return _told(result_of(rows, job), asked)
    except Failed:
        raise
    except Exception as e:
        raise Failed(explain_sql(attempt, e)) from e


def _python(attempt: Attempt[AnalyseClaim], asked: Run, parsed: Parsed) -> Answer:
    job = asked["job"]
    assert job["language"] == "python"
    with opened(job["modules"], job["main"]) as bundle:
        try:
            with seeing(job.get("requirements") or (), attempt.spark.sparkContext):
                session = user_session(attempt.spark, job)
                return _told(call(bundle, job, session, _inputs(attempt, session, asked, parsed)), asked)
        except BaseException as e:  # `sys.exit` as well
            raise Failed(explain_python(attempt, bundle, e)) from e


# --- inputs ---------------------------------------------------------------------------------------


def _inputs(attempt: Attempt[AnalyseClaim], session: SparkSession, asked: Run, parsed: Parsed) -> dict[str, DataFrame]:
    return {name: _input(attempt, session, asked, parsed, name) for name in asked["job"]["inputs"]}


def _input(attempt: Attempt[AnalyseClaim], session: SparkSession, asked: Run, parsed: Parsed, name: str) -> DataFrame:
    one = asked["job"]["inputs"][name]
    rows = read_files(attempt, session, parsed[name], one["schema"]) if name in parsed else _given(session, asked, name)
    return _of_partition(rows, one, asked["partition"])


def _given(session: SparkSession, asked: Run, name: str) -> DataFrame:
    schema, place = asked["job"]["inputs"][name]["schema"], zone(asked["job"]["spark"]["timezone"])
    try:
        rows = [typed_row(schema, values, place) for values in asked["rows"].get(name, ())]
    except BadCell as e:
        raise TaskFailure("invalid-value", f"{name}: {e}") from e
    return session.createDataFrame(rows, spark_type(schema))


def _of_partition(rows: DataFrame, one: InputJob, partition: str | None) -> DataFrame:
    """Of an input that is read by key, what the task of this key reads."""
    if one["mode"] != "by" or partition is None:
        return rows
    return only(rows, one["schema"], one["key"], partition)


# --- the result -----------------------------------------------------------------------------------


def _told(found: DataFrame, asked: Run) -> Answer:
    rows = _kept(found, asked)
    count = rows.count() if "check" in asked else 0
    shown = _failing(rows, asked["check"], asked) if "check" in asked else rows
    collected = shown.limit(asked["limit"]).collect()
    schema, place = schema_of(rows), zone(asked["job"]["spark"]["timezone"])
    types = [field["type"] for field in schema["fields"]]
    told = [_plain_row(types, row, place) for row in collected]
    _refuse_large(told)
    return {"schema": schema, "rows": told, "count": count or len(told)}


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


def _kept(rows: DataFrame, asked: Run) -> DataFrame:
    """Without the rows that the component's expectations take out."""
    expect = asked["job"].get("expect")
    if not expect:
        return rows
    label = "kept"
    marked = sorted_out(rows.withColumn(LABEL, F.lit(label)), expect)
    return marked.where(F.col(LABEL) == label).drop(LABEL)


def _failing(rows: DataFrame, text: str, asked: Run) -> DataFrame:
    """The rows for which a condition is false."""
    with under(rows.sparkSession, closed(asked["job"]["spark"])):
        found = condition(rows, {"id": "", "name": CHECK, "check": text})
        return rows.where(~found)
