"""Batches of change data merged into a Delta table by a script written by hand, with our driver's
settings.

    python benchmarks/plain_merge.py FOLDER BATCHES

FOLDER holds `first.parquet` and `wide-N.parquet`. Prints a JSON list of the cost of each batch.
Does not belong here: making of events.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.processes import Cost, cpu_of
from dataplane.spark.jars import CONNECTORS, DELTA, classpath
from dataplane.spark.spark_session import start, stop

CREATE = """CREATE TABLE delta.`{table}` USING delta
TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')
AS SELECT id, seq, name, amount FROM parquet.`{file}`"""
MERGE = """MERGE INTO delta.`{table}` AS t USING (
    SELECT id, latest.* FROM (
        SELECT id, max(struct(seq, op, name, amount)) AS latest FROM parquet.`{file}` GROUP BY id
    )
) AS c ON t.id = c.id
WHEN MATCHED AND c.seq > t.seq AND c.op = 'D' THEN DELETE
WHEN MATCHED AND c.seq > t.seq THEN
    UPDATE SET seq = c.seq, name = c.name, amount = c.amount
WHEN NOT MATCHED AND c.op <> 'D' THEN
    INSERT (id, seq, name, amount) VALUES (c.id, c.seq, c.name, c.amount)"""


def main(folder: Path, batches: int) -> None:
    conf = {**DELTA, "spark.driver.extraClassPath": classpath(CONNECTORS)}
    with TemporaryDirectory(prefix="plain-merge-") as scratch:
        spark = start(Path(scratch), conf)
        table = f"{scratch}/table"
        spark.sql(CREATE.format(table=table, file=folder / "first.parquet"))
        files = [folder / f"wide-{number}.parquet" for number in range(batches)]
        print(json.dumps([_merged(spark, table, file).json() for file in files]))
        stop(spark)


def _merged(spark: SparkSession, table: str, file: Path) -> Cost:
    cpu_s, began = cpu_of(os.getpid()), time.monotonic()
    spark.sql(MERGE.format(table=table, file=file))
    return Cost(time.monotonic() - began, cpu_of(os.getpid()) - cpu_s)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
