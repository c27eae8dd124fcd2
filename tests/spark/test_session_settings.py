"""Tests know whether Spark compiles their queries, and queries have equal rows both ways."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from dataplane.spark.spark_session import reading_session
from tests.spark.session_settings import COMPILED, INTERPRETED, code_generation, new_sessions_with

SQL = """
    SELECT k % 3 AS g, max(xxhash64(k, {})) AS hash, sum(k * 1.5) AS total
    FROM range(20) AS t(k) GROUP BY k % 3
    """


def compilations(spark: SparkSession) -> int:
    """Pieces of code that Spark has compiled so far."""
    jvm: Any = spark._jvm
    count: int = (
        jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME().getCount()
    )
    return count


def rows(session: SparkSession, depth: int) -> list[tuple[Any, ...]]:
    """Of a query whose code is new for each depth. The depth changes no row."""
    same_number = "abs(" * depth + "k" + ")" * depth
    return sorted(map(tuple, session.sql(SQL.format(same_number)).collect()))


def test_rows_are_equal_with_compiled_code_and_without(spark: SparkSession) -> None:
    begin = compilations(spark)
    with new_sessions_with(spark, INTERPRETED):
        interpreted = rows(reading_session(spark), 1)
    middle = compilations(spark)
    with new_sessions_with(spark, COMPILED):
        compiled = rows(reading_session(spark), 2)
    assert interpreted == compiled
    # Spark always compiles the joining of two rows
    assert middle - begin <= 1 < compilations(spark) - middle


@pytest.mark.usefixtures("compiled")
def test_a_file_may_ask_for_compiled_code(spark: SparkSession) -> None:
    for depth, session in enumerate([spark, spark.newSession()], 3):
        begin = compilations(spark)
        rows(session, depth)
        assert compilations(spark) > begin + 1


def test_one_turn_in_eight_compiles_everything() -> None:
    assert [turn for turn in range(16) if code_generation(turn) == COMPILED] == [0, 8]
    assert code_generation(1) == INTERPRETED


def test_open_files_that_share_the_heap_are_not_warned_of(spark: SparkSession) -> None:
    """Errors of theirs are."""
    jvm: Any = spark._jvm
    name = "org.apache.parquet.hadoop.MemoryManager"
    log = jvm.org.slf4j.LoggerFactory.getLogger(name)
    assert (log.isWarnEnabled(), log.isErrorEnabled()) == (False, True)
