"""Queries with named parameters, bound by Spark itself whatever parser an extension has put before its own.

Does not belong here: which parameters there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.column import _to_java_column
from pyspark.sql.functions import lit

from dataplane.contract import Json

_OWN = "org.apache.spark.sql.execution.SparkSqlParser"


def sql(session: SparkSession, text: str, params: Mapping[str, Json]) -> DataFrame:
    """The rows of a query.

    Spark 4.1 and later bind parameters while they parse, and a parser of an extension that knows nothing of it forgets
    them (Delta 4.4.0: https://github.com/delta-io/delta/issues/7640). Spark's own parser binds them then. Its setting
    for binding later is none: `GROUP BY :n` would be another thing, and `DECIMAL(:n, 0)` none, beside the extension.
    """
    if not params or session._jsparkSession.sessionState().sqlParser().getClass().getName() == _OWN:
        return session.sql(text, args=dict(params) or None)
    jvm, java = session._jvm, session._jsparkSession
    assert jvm is not None
    given = {name: java.expression(_to_java_column(lit(value))) for name, value in params.items()}
    literals = java.resolveAndValidateParameters(jvm.PythonUtils.toScalaMap(given))
    bound = jvm.org.apache.spark.sql.catalyst.parser.NamedParameterContext(literals)
    with _active(session):  # under whose settings a parser works
        plan = jvm.org.apache.spark.sql.execution.SparkSqlParser().parsePlanWithParameters(text, bound)
        return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(java, plan), session)


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
