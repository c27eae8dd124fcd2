"""TPC-H's 22 queries run by hand: plain PySpark, each table and each answer written as Parquet.

    python benchmarks/plain_tpch.py FOLDER OUT SCALE ROUNDS

FOLDER holds `data` (see tests/tpch.py). Uses the Spark settings of
our driver. Prints one JSON line of seconds. Does not belong here: measuring of anything else than
its own steps.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dataplane.contract.results import LABEL
from dataplane.fragments.content import content_query
from dataplane.spark.spark_schemas import schema_of
from dataplane.spark.spark_session import conf_from_environment, start, stop
from tests import tpch


class Script:
    """Everything is timed until it is written."""

    def __init__(self, spark: SparkSession, folder: Path, out: Path) -> None:
        self._spark, self._folder, self._out = spark, folder, out

    def tables(self) -> dict[str, float]:
        return {name: self._timed(lambda name=name: self._table(name)) for name in tpch.TABLES}  # type: ignore[misc]

    def _table(self, name: str) -> None:
        self._write(name, self._spark.read.parquet(f"{self._folder}/data/{name}/*.parquet"))
        self._spark.read.parquet(str(self._out / name)).createOrReplaceTempView(name)

    def queries(self, scale: float) -> dict[str, float]:
        texts = tpch.queries(scale)
        return {name: self._timed(partial(self._query, name, texts[name])) for name in texts}

    def _query(self, name: str, text: str) -> None:
        self._write(name, self._spark.sql(text))

    def hashed(self, names: Iterable[str]) -> float:
        """All that was written, read again and hashed as Headgate does with what it writes."""
        return round(sum(self._timed(lambda name=name: self._hash(name)) for name in names), 3)  # type: ignore[misc]

    def _hash(self, name: str) -> None:
        rows = self._spark.read.parquet(str(self._out / name))
        rows.withColumn(LABEL, F.lit(name)).createOrReplaceTempView("written")
        self._spark.sql(content_query(schema_of(rows), "written")).collect()

    def _write(self, name: str, rows: DataFrame) -> None:
        shutil.rmtree(self._out / name, ignore_errors=True)
        rows.write.parquet(str(self._out / name))

    def _timed(self, work: Callable[[], None]) -> float:
        began = time.monotonic()
        work()
        return round(time.monotonic() - began, 3)


def main(folder: str, out: str, scale: str, rounds: str) -> None:
    began = time.monotonic()
    found: dict[str, Any] = {}
    with TemporaryDirectory(prefix="plain-tpch-") as scratch:
        spark = start(Path(scratch), conf_from_environment())
        script = Script(spark, Path(folder), Path(out))
        found["session"] = round(time.monotonic() - began, 3)
        found["tables"] = script.tables()
        found["first"] = script.queries(float(scale))
        found["again"] = [script.queries(float(scale)) for _ in range(int(rounds))]
        found["hashed"] = script.hashed([*tpch.TABLES, *found["first"]])
        stop(spark)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
