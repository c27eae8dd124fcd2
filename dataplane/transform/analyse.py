"""The `analyse` kind of work: the schema of a transform's result, without data.

Does not belong here: running tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from dataplane.contract.schemas import Json, Schema, canonical_schema
from dataplane.errors import TaskFailure
from dataplane.fragments.attempt import Attempt, Failed
from dataplane.fragments.expectations import check_conditions
from dataplane.fragments.inputs import empty
from dataplane.spark.session import query_session
from dataplane.transform.bundle import opened
from dataplane.transform.environment import seeing
from dataplane.transform.python import call, explain_python, user_session
from dataplane.transform.result import result_of
from dataplane.transform.sql import run_query


def analyse_sql(attempt: Attempt) -> Schema:
    attempt.enter()
    job, session = attempt.job, query_session(attempt.spark, attempt.job["spark"])
    rows = result_of(run_query(attempt, session, _inputs(session, job)), job)
    check_conditions(rows, job.get("expect"))
    return canonical_schema(rows.schema.jsonValue())


def analyse_python(attempt: Attempt) -> Schema | None:
    """None where the code looks at data before it has a result: on no data it may come to another one, or to none.

    Raises Failed for what no data would mend.
    """
    attempt.enter()
    job = attempt.job
    with opened(job["modules"], job["main"]) as bundle:
        try:
            with seeing(job.get("requirements") or (), attempt.spark.sparkContext):
                session = user_session(attempt.spark, job)
                bundle.load()
                return _on_no_data(attempt, lambda: call(bundle, job, session, _inputs(session, job)))
        except BaseException as e:  # `sys.exit` as well
            raise Failed(explain_python(attempt, bundle, e)) from e


def _on_no_data(attempt: Attempt, transform: Callable[[], DataFrame]) -> Schema | None:
    try:
        rows = transform()
        check_conditions(rows, attempt.job.get("expect"))
    except (AnalysisException, TaskFailure, Failed):
        if _ran_jobs(attempt):
            return None
        raise
    except BaseException:  # noqa: BLE001  # code that fails without data may work with it; tasks will tell
        return None
    return None if _ran_jobs(attempt) else canonical_schema(rows.schema.jsonValue())


def _inputs(session: SparkSession, job: Mapping[str, Json]) -> dict[str, DataFrame]:
    return {name: empty(session, one["schema"]) for name, one in job["inputs"].items()}


def _ran_jobs(attempt: Attempt) -> bool:
    context = attempt.spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty()
    return bool(context.statusTracker().getJobIdsForGroup(attempt.claim["attempt"]))
