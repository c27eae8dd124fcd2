"""Published tables through the eyes of four readers, and the comparison with what DuckDB makes of
the raw data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import duckdb
import duckdb_extension_delta  # type: ignore[import-untyped]  # a folder with the extension
import polars
import pyarrow as pa
from deltalake import DeltaTable

from tests.flights import oracle
from tests.jars import DELTA_CONF, delta_classpath

Rows = Callable[[Path], pa.Table]
RAW = ("flights", "weather", "airlines", "airports", "planes")
DERIVED = ("legs", "named", "weather_hours", "delays", "by_carrier", "by_route", "daily", "trend")
DATASETS = (*RAW, *DERIVED)

BY_SPARK = """\
import json, sys
from pyspark.sql import SparkSession
conf, tables, out = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[2]")
for key, value in conf.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
for name, location in tables.items():
    spark.read.format("delta").load(location).write.parquet(f"{out}/{name}")
spark.stop()
"""


def by_deltalake(location: Path) -> pa.Table:
    return DeltaTable(str(location)).to_pyarrow_table()


def by_polars(location: Path) -> pa.Table:
    return polars.read_delta(str(location)).to_arrow()


def by_duckdb(location: Path) -> pa.Table:
    (folder,) = duckdb_extension_delta.__path__
    (extension,) = Path(folder).rglob("delta.duckdb_extension")
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute("SET TimeZone = 'UTC'")
        return connection.execute("SELECT * FROM delta_scan(?)", [str(location)]).to_arrow_table()


def all_by_spark(tables: Mapping[str, Path], out: Path) -> Mapping[str, Path]:
    """Each table as a folder of Parquet files that Spark with Delta's own jars wrote from it."""
    conf = DELTA_CONF | {
        "spark.driver.extraClassPath": delta_classpath(),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(out / "warehouse"),
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }
    argument = json.dumps([conf, {name: str(path) for name, path in tables.items()}, str(out)])
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    subprocess.run(
        [sys.executable, "-c", BY_SPARK, argument], check=True, env=environment, capture_output=True
    )
    return {name: out / name for name in tables}


def by_parquet(folder: Path) -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.execute(f"FROM read_parquet('{folder}/*.parquet')").to_arrow_table()


class Truth:
    """What every dataset must hold, computed from the raw files as they are now."""

    def __init__(self, data: Path, edits: Mapping[str, str] | None = None) -> None:
        """`edits`: other queries of datasets."""
        self._database = oracle(data, edits)

    def assert_equal(self, name: str, found: pa.Table) -> None:
        """The same columns in the same order, and the same rows as often."""
        database = self._database
        database.register("found", found)
        columns = {row[0]: row[1] for row in database.execute("DESCRIBE found").fetchall()}
        assert list(columns) == [
            row[0] for row in database.execute(f"DESCRIBE {name}").fetchall()
        ], name
        casts = ", ".join(
            f'CAST("{column}" AS {kind}) AS "{column}"' for column, kind in columns.items()
        )
        wanted, got = (_comparable(r, columns) for r in (f"(SELECT {casts} FROM {name})", "found"))
        if self._fingerprint(wanted) != self._fingerprint(got):
            missing, surplus = (
                database.execute(f"{a} EXCEPT ALL {b} LIMIT 3").fetchall()
                for a, b in ((wanted, got), (got, wanted))
            )
            raise AssertionError(f"{name} lacks {missing} and has too much of {surplus}")

    def _fingerprint(self, rows: str) -> tuple[object, ...] | None:
        """Of the multiset of rows, as DuckDB hashes them."""
        return self._database.execute(
            f"SELECT count(*), sum(hash(r)::HUGEINT) FROM ({rows}) AS r"
        ).fetchone()

    def assert_all(
        self, folder: Path, names: Iterable[str] = DATASETS, read: Rows = by_deltalake
    ) -> None:
        for name in names:
            self.assert_equal(name, read(folder / name))

    def rows(self, query: str) -> list[tuple[object, ...]]:
        return self._database.execute(query).fetchall()


def _comparable(relation: str, columns: Mapping[str, str]) -> str:
    """Doubles count to nine digits: sums in another order differ in the last ones."""
    texts = (
        f'format(\'{{:.9e}}\', "{c}") AS "{c}"' if t == "DOUBLE" else f'"{c}"'
        for c, t in columns.items()
    )
    return f"SELECT {', '.join(texts)} FROM {relation}"
