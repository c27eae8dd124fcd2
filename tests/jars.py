"""Jars with which Spark itself reads Delta tables, which Headgate does not need, and with which it
reads topics."""

from __future__ import annotations

from pathlib import Path

from dataplane.spark.jars import classpath

POM = Path(__file__).with_name("pom.xml")
KAFKA = Path(__file__).with_name("spark-kafka.xml")
ICEBERG = Path(__file__).with_name("spark-iceberg.xml")
DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    # Sessions are short
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def delta_classpath() -> str:
    """For `spark.driver.extraClassPath` of a JVM that is still to start; `DELTA_CONF` is to be set
    as well."""
    return classpath(POM)


def kafka_classpath() -> str:
    """For the same, where topics are read."""
    return classpath(KAFKA)


def iceberg_classpath() -> str:
    """For the same, where tables of Iceberg are read."""
    return classpath(ICEBERG)
