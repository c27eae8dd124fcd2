"""Queries with named parameters, bound by Spark itself whatever parser an extension has put before its own.

Does not belong here: which parameters there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.column import _to_java_column
from pyspark.sql.functions import lit

from dataplane import plan_guard
from dataplane.contract import Json
from dataplane.session import under


def sql(session: SparkSession, text: str, params: Mapping[str, Json], views: Collection[str]) -> DataFrame:
    """The rows of a query that may read these views of the session, and nothing else. Raises TaskFailure.

    Spark 4.1 and later bind parameters while they parse, and a parser of an extension that knows nothing of it forgets
    them (Delta 4.4.0: https://github.com/delta-io/delta/issues/7640). So Spark's own parser is used in any case. Its
    setting for binding later is none: `GROUP BY :n` would be another thing, and `DECIMAL(:n, 0)` none, beside the
    extension.
    """
    jvm, java = session._jvm, session._jsparkSession
    assert jvm is not None
    with _active(session), under(session, plan_guard.CLOSED):  # under whose settings a parser works
        plan = _parsed(session, text, params)
        plan_guard.check_parsed(plan, views)
        rows = DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(java, plan), session)
        plan_guard.check_resolved(session, rows._jdf.queryExecution().analyzed(), views, text)
        return rows


def _parsed(session: SparkSession, text: str, params: Mapping[str, Json]) -> JavaObject:
    jvm, java = session._jvm, session._jsparkSession
    assert jvm is not None
    parser = jvm.org.apache.spark.sql.execution.SparkSqlParser()
    if not params:
        return parser.parsePlan(text)
    given = {name: java.expression(_to_java_column(lit(value))) for name, value in params.items()}
    literals = java.resolveAndValidateParameters(jvm.PythonUtils.toScalaMap(given))
    return parser.parsePlanWithParameters(
        text, jvm.org.apache.spark.sql.catalyst.parser.NamedParameterContext(literals)
    )


@contextmanager
def _active(session: SparkSession) -> Iterator[None]:
    sessions: JavaObject = session._get_j_spark_session_class(session._jvm)
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
