"""Users' queries with named parameters: parsed, looked at, and only then analysed, and looked at
again.

All SQL of users goes through here. Spark itself binds parameters, with any parser that an extension
has put before its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.column import _to_java_column
from pyspark.sql.functions import lit

from dataplane.contract.jobs import Parameters
from dataplane.spark.plan_guard import check_analysed, check_parsed
from dataplane.spark.spark_session import active

_OWN = "org.apache.spark.sql.execution.SparkSqlParser"


def sql(
    session: SparkSession, text: str, params: Parameters, views: Mapping[str, DataFrame]
) -> DataFrame:
    """The rows of a query over views of this session. Raises TaskFailure for a query that reads
    anything else.

    The checked plan is the one that runs: the text is parsed once.
    """
    jvm, java = session._jvm, session._jsparkSession
    assert jvm is not None
    with active(session):
        plan = _parsed(session, text, params)
        check_parsed(session, plan, views)
        rows = DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(java, plan), session)
    check_analysed(rows, views.values())
    return rows


def _parsed(session: SparkSession, text: str, params: Parameters) -> JavaObject:
    """Spark 4.1 and later bind parameters while they parse, and a parser of an extension that knows
    nothing of it forgets them (Delta 4.4.0: https://github.com/delta-io/delta/issues/7640). Spark's
    own parser binds them then. Its setting for binding later is none: `GROUP BY :n` would be
    another thing, and `DECIMAL(:n, 0)` none, beside the extension.
    """
    jvm, java = session._jvm, session._jsparkSession
    assert jvm is not None
    parser = java.sessionState().sqlParser()
    if not params:
        return parser.parsePlan(text)
    if parser.getClass().getName() != _OWN:
        parser = jvm.org.apache.spark.sql.execution.SparkSqlParser()
    expressions = {
        name: java.expression(_to_java_column(lit(value))) for name, value in params.items()
    }
    literals = java.resolveAndValidateParameters(jvm.PythonUtils.toScalaMap(expressions))
    return parser.parsePlanWithParameters(
        text, jvm.org.apache.spark.sql.catalyst.parser.NamedParameterContext(literals)
    )
