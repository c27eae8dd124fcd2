"""Files or a table read into Parquet by a script written by hand: plain PySpark, with our
driver's settings.

    python benchmarks/plain_connectors.py JOB ROUNDS

JOB is JSON: `{"out", "session": {conf}, "format", "options", "schema", "paths"}`, or `{"url",
"predicates", ...}` for a table. Prints one JSON line of seconds: the session, and each round. Does
not belong here: what the numbers mean.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dataplane.spark.hadoop import S3, provide
from dataplane.spark.spark_session import start, stop


def main(text: str, rounds: str) -> None:
    job, began = json.loads(text), time.monotonic()
    with TemporaryDirectory(prefix="plain-connectors-") as scratch:
        spark = start(Path(scratch), job["session"])
        if job.get("paths", "").startswith("s3a:"):
            provide(spark, S3)
        session = round(time.monotonic() - began, 3)
        read = [_timed(spark, job) for _ in range(int(rounds))]
        stop(spark)
    print(json.dumps({"session": session, "read": read}))


def _timed(spark: SparkSession, job: Any) -> float:
    shutil.rmtree(job["out"], ignore_errors=True)
    began = time.monotonic()
    _rows(spark, job).write.parquet(job["out"])
    return round(time.monotonic() - began, 3)


def _rows(spark: SparkSession, job: Any) -> DataFrame:
    if "url" in job:
        reader = spark.read.format("jdbc").options(**job["options"])
        return reader.jdbc(job["url"], job["table"], predicates=job["predicates"])
    return (
        spark.read.format(job["format"])
        .options(**job["options"])
        .schema(job["schema"])
        .load(job["paths"])
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
