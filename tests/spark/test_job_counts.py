"""Jobs and stages are counted by group, and Spark says where it tells more."""

from __future__ import annotations

from pyspark.sql import SparkSession

from dataplane.spark.job_counts import counts, places
from dataplane.spark.spark_session import claim_thread


def test_each_group_has_its_own(spark: SparkSession) -> None:
    for group, times in {"first": 2, "second": 1}.items():
        claim_thread(spark, group)
        for _ in range(times):
            spark.range(10).rdd.count()
    claim_thread(spark, "first")
    spark.range(10).rdd.count()
    assert counts(spark, "first") == {"spark_jobs": 3, "spark_stages": 3}
    assert counts(spark, "second") == {"spark_jobs": 1, "spark_stages": 1}
    assert counts(spark, "third") == {"spark_jobs": 0, "spark_stages": 0}


def test_without_pages_and_event_log_there_is_no_place(spark: SparkSession) -> None:
    assert places(spark) == {}
