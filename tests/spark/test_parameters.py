"""Queries with parameters mean the same with Spark's own parser and behind one that forgets
them."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from dataplane.spark.spark_session import task_session
from dataplane.transform.parameters import sql

PARAMS: dict[str, Any] = {
    "n": 1,
    "text": "it's",
    "share": 1.5,
    "yes": True,
    "none": None,
    "list": [1, 2],
    "column": "id",
}
SETTINGS = {"ansi": True, "case_sensitive": True, "timezone": "UTC"}


@pytest.fixture
def own(spark: SparkSession) -> SparkSession:
    """A session with Spark's own parser, whatever other tests gave to the shared one."""
    return made(spark, with_delta=False)


@pytest.fixture
def extended(spark: SparkSession) -> SparkSession:
    """A session with Delta's parser, as drivers that read Delta tables have."""
    return made(spark, with_delta=True)


def made(spark: SparkSession, *, with_delta: bool) -> SparkSession:
    jvm, java = spark._jvm, spark._jsparkSession
    assert jvm is not None
    extensions = jvm.org.apache.spark.sql.SparkSessionExtensions()
    if with_delta:
        jvm.io.delta.sql.DeltaSparkSessionExtension().apply(extensions)
    nothing = jvm.PythonUtils.toScalaMap({})
    session = jvm.org.apache.spark.sql.classic.SparkSession(
        java.sparkContext(),
        jvm.scala.Option.apply(java.sharedState()),
        jvm.scala.Option.empty(),
        extensions,
        nothing,
        nothing,
    )
    return task_session(SparkSession(spark.sparkContext, session), SETTINGS)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT :n, :n + id, -:n, :text, :share, :yes, :none FROM range(3)",
        "SELECT :list AS list, element_at(:list, :n) FROM range(:n)",
        "SELECT id, count(*) FROM range(3) GROUP BY :n ORDER BY :n DESC LIMIT :n",
        "SELECT id, CAST(:n AS DECIMAL(:n, 0)) FROM range(2)",
        "SELECT ':n', \"it\" AS `:n` -- :n",
    ],
)
def test_names_types_and_rows(own: SparkSession, extended: SparkSession, query: str) -> None:
    there, here = sql(extended, query, PARAMS, {}), sql(own, query, PARAMS, {})
    assert there.schema == here.schema == own.sql(query, args=PARAMS).schema
    assert there.collect() == here.collect()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT :missing",
        "SELECT id AS i FROM range(3)\nWHERE id > :n AND idd = 1",
        "SELECT id,\n :n b c",
    ],
)
def test_errors_and_their_places(own: SparkSession, extended: SparkSession, query: str) -> None:
    def said(session: SparkSession) -> tuple[object, ...]:
        with pytest.raises(AnalysisException) as caught:
            sql(session, query, PARAMS, {})
        error, places = caught.value, caught.value.getQueryContext()
        return (
            error.getCondition(),
            [(p.startIndex(), p.fragment()) for p in places],
            str(error).split(";")[0],
        )

    assert said(extended) == said(own)


def test_settings_of_the_session(extended: SparkSession) -> None:
    extended.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    assert sql(extended, 'SELECT "id" + :n AS x FROM range(1)', {"n": 1}, {}).collect()[0].x == 1


def test_spark_still_forgets_them(extended: SparkSession) -> None:
    # Once it does not, `sql` is not needed
    with pytest.raises(AnalysisException, match="UNBOUND_SQL_PARAMETER"):
        extended.sql("SELECT :n", args={"n": 1})
