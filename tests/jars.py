"""Jars with which Spark itself reads Delta tables. Headgate needs none; tests and benchmarks do."""

from __future__ import annotations

from pathlib import Path

from dataplane.jars import classpath

POM = Path(__file__).with_name("pom.xml")
DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def delta_classpath() -> str:
    """For `spark.driver.extraClassPath` of a JVM that is still to start; `DELTA_CONF` is to be set as well."""
    return classpath(POM)
