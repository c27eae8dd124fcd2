"""The `analyse` kind of work: the schema of a transform's result and what its columns are made of,
without data."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from dataplane.contract.claims import AnalyseClaim
from dataplane.contract.jobs import AnalyseJob
from dataplane.contract.results import SchemaAnswer
from dataplane.fragments.attempt import Failed
from dataplane.fragments.spark.input_frames import empty
from dataplane.fragments.spark.row_conditions import check_conditions
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.spark.job_counts import has_own_jobs, next_job_number
from dataplane.spark.plan_by_key import is_proven_by_key
from dataplane.spark.plan_lineage import column_lineage
from dataplane.spark.spark_schemas import schema_of
from dataplane.spark.spark_session import query_session
from dataplane.task_failures import TaskFailure
from dataplane.transform.bundle import opened
from dataplane.transform.environment import seeing
from dataplane.transform.python_transform import call, explain_python, user_session
from dataplane.transform.result import result_of
from dataplane.transform.sql_transform import run_query


def analyse_sql(attempt: SparkAttempt[AnalyseClaim]) -> SchemaAnswer:
    attempt.enter()
    job = attempt.claim["job"]
    assert job["language"] == "sql"
    session = query_session(attempt.spark, job["spark"])
    inputs = _inputs(session, job)
    rows = result_of(run_query(job, session, inputs), job)
    check_conditions(rows, job.get("expect"))
    return _answer(rows, inputs, job)


def analyse_python(attempt: SparkAttempt[AnalyseClaim]) -> SchemaAnswer:
    """No schema where the code looks at data before it has a result: on no data it may come to
    another one, or to none.

    Raises Failed for an error that occurs with any data.
    """
    attempt.enter()
    job = attempt.claim["job"]
    assert job["language"] == "python"
    with opened(job["modules"], job["main"]) as bundle:
        try:
            with seeing(job.get("requirements") or (), attempt.spark.sparkContext):
                session = user_session(attempt.spark, job)
                bundle.load()
                inputs = _inputs(session, job)
                rows = _on_no_data(attempt, lambda: call(bundle, job, session, inputs))
                return {"schema": None} if rows is None else _answer(rows, inputs, job)
        except BaseException as e:  # `sys.exit` as well
            raise Failed(explain_python(attempt, bundle, e)) from e


def _on_no_data(
    attempt: SparkAttempt[AnalyseClaim], transform: Callable[[], DataFrame]
) -> DataFrame | None:
    before = next_job_number(attempt.spark)
    try:
        rows = transform()
        check_conditions(rows, attempt.claim["job"].get("expect"))
    except (AnalysisException, TaskFailure, Failed):
        if has_own_jobs(attempt.spark, attempt.claim["attempt"], before):
            return None
        raise
    except BaseException:  # noqa: BLE001  # code that fails without data may work with it; tasks will show
        return None
    return None if has_own_jobs(attempt.spark, attempt.claim["attempt"], before) else rows


def _answer(rows: DataFrame, inputs: Mapping[str, DataFrame], job: AnalyseJob) -> SchemaAnswer:
    answer: SchemaAnswer = {"schema": schema_of(rows)}
    lineage = column_lineage(rows, inputs)
    if lineage is not None:
        answer["lineage"] = lineage
    if "key" in job and is_proven_by_key(rows, inputs, job):
        answer["together"] = True
    return answer


def _inputs(session: SparkSession, job: AnalyseJob) -> dict[str, DataFrame]:
    return {name: empty(session, input_job["schema"]) for name, input_job in job["inputs"].items()}
