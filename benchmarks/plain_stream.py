"""A topic read into a Delta table by a script written by hand: one Structured Streaming query, with
our driver's settings.

    python benchmarks/plain_stream.py JOB

JOB is JSON: `{"servers", "out", "jars", "windows"}`. With `windows`, the table has the totals of
each minute. Runs until it is ended. Does not belong here: what is measured.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dataplane.spark.jars import CONNECTORS, DELTA, classpath
from dataplane.spark.spark_session import start

SCHEMA = "n BIGINT, text STRING"


def main(text: str) -> None:
    job = json.loads(text)
    jars = os.pathsep.join((job["jars"], classpath(CONNECTORS)))
    conf = {**DELTA, "spark.driver.extraClassPath": jars}
    with TemporaryDirectory(prefix="plain-stream-") as scratch:
        spark = start(Path(scratch), conf)
        rows = _rows(spark, job["servers"])
        checkpoint = f"{scratch}/checkpoint"
        if job["windows"]:
            query = _totals(rows).writeStream.format("delta").outputMode("complete")
        else:
            query = rows.writeStream.format("delta")
        query = query.option("checkpointLocation", checkpoint)
        query.trigger(processingTime="0 seconds").start(job["out"]).awaitTermination()


def _rows(spark: SparkSession, servers: str) -> DataFrame:
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", "messages")
        .option("startingOffsets", "earliest")
        .load()
    )
    value = F.from_json(F.col("value").cast("string"), SCHEMA)
    about = [F.col(name).alias(f"_{name}") for name in ("partition", "offset", "timestamp")]
    return messages.select(value.alias("v"), *about).select(
        "v.*", "_partition", "_offset", "_timestamp"
    )


def _totals(rows: DataFrame) -> DataFrame:
    """Of each minute and kind of message. Complete, as a late row may change any minute."""
    minute = F.window("_timestamp", "1 minute").start.alias("minute")
    kind = (F.col("n") % 10).alias("kind")
    return rows.groupBy(minute, kind).agg(F.count("*").alias("messages"))


if __name__ == "__main__":
    main(sys.argv[1])
