"""The flights example written by hand: one PySpark script, every dataset a Delta table.

    python benchmarks/handwritten.py DATA OUT

Runs the same SQL and the same PySpark as the blueprint, with the Spark settings of our driver.
Every dataset is computed once, from the tables written before it (keeping them in memory as well
took no less time). Prints one JSON line: seconds per step. Does not belong here: measuring, and
anything that a script without Headgate would not do.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import DataFrame, SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import yaml

from dataplane.spark.spark_session import conf_from_environment, start, stop
from tests.jars import DELTA_CONF, delta_classpath

EXAMPLE = Path(__file__).resolve().parents[1] / "blueprints" / "flights"
SOURCES = {
    "flights": "flights/*.csv",
    "weather": "weather/*.csv",
    "airlines": "airlines.csv",
    "airports": "airports.csv",
    "planes": "planes.csv",
}
# Each after those it reads
QUERIES = ("weather_hours", "legs", "named", "delays", "by_carrier", "by_route", "daily")


class Script:
    """`data` as `controlplane.demo.data` lays it out."""

    def __init__(self, spark: SparkSession, data: Path, out: Path) -> None:
        self._spark, self._data, self._out = spark, data, out
        self._components: dict[str, Any] = yaml.safe_load((EXAMPLE / "flights.yaml").read_text())[
            "components"
        ]
        self.seconds: dict[str, float] = {}

    def run(self) -> None:
        for name, pattern in SOURCES.items():
            with self._timed(name):
                self._keep(name, self._read(name, pattern))
        for name in QUERIES:
            with self._timed(name):
                self._keep(name, self._query(name))
        with self._timed("trend"):
            self._keep("trend", import_module("trend").transform(self._spark.table("daily")))
        with self._timed("daily_csv"):
            self._spark.table("daily").write.option("header", True).csv(
                str(self._out / "daily_csv")
            )

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - began, 3)

    def _read(self, name: str, pattern: str) -> DataFrame:
        told = self._components[name]["read"]
        reader = self._spark.read.options(**told["options"])
        reader = (
            reader.schema(told["schema"])
            if "schema" in told
            else reader.option("inferSchema", True)
        )
        return reader.csv(str(self._data / pattern))

    def _query(self, name: str) -> DataFrame:
        told = self._components[name]["transform"]
        text = told["sql"]
        for parameter, value in told.get("params", {}).items():  # Delta's SQL parser binds none
            text = text.replace(f":{parameter}", repr(value))
        return self._spark.sql(text)

    def _keep(self, name: str, rows: DataFrame) -> None:
        """Write the table; those who come after read it from there."""
        table = str(self._out / name)
        rows.write.format("delta").save(table)
        self._spark.read.format("delta").load(table).createOrReplaceTempView(name)


def main(data: str, out: str) -> None:
    began = time.monotonic()
    sys.path.insert(0, str(EXAMPLE / "transforms"))
    with TemporaryDirectory(prefix="handwritten-") as scratch:
        conf = {
            **DELTA_CONF,
            "spark.driver.extraClassPath": delta_classpath(),
            **conf_from_environment(),
        }
        spark = start(Path(scratch), conf)
        script = Script(spark, Path(data), Path(out))
        script.seconds["session"] = round(time.monotonic() - began, 3)
        script.run()
        stop(spark)
    print(json.dumps({**script.seconds, "all": round(time.monotonic() - began, 3)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
