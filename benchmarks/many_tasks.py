"""Many small tasks in few Spark jobs: row-wise partitions in SQL, and keys of a declared `by` in
Python, beside plain PySpark that computes the same rows as one job.

    python benchmarks/many_tasks.py [--rounds 3]

Prints ratios, appends all numbers to benchmarks/results/many_tasks.json, and writes a section of
docs/performance.md. Both sides are warm. Does not belong here: large data (incremental).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import duckdb
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks import pages
from benchmarks.processes import timed
from controlplane import settings
from controlplane.bootstrap import Server
from controlplane.cli import once, sources
from dataplane.spark.spark_session import conf_from_environment, start, stop

Json: TypeAlias = Any
HERE = Path(__file__).resolve()
RESULTS = HERE.parent / "results" / "many_tasks.json"
PARTS, KEYS, TOUCHED, FILES = 500, 2_000, 20, 10
ROWS = 1_000  # of a part
SALES = 50_000  # rows of each file with rows of all keys
PYTHON = """
from pyspark.sql import functions as F

def transform(sales):
    columns = [F.sum("v").alias("v"), F.max("d").alias("d"), F.count("*").alias("n")]
    return sales.groupBy("c").agg(*columns, F.lit({number}).alias("edit"))
"""
ROW_WISE = "SELECT id, upper(words) AS words, q * {number} AS q FROM parts"
# What, of which side's numbers: ours, plain, the target
RATIOS = {
    f"{PARTS} row-wise partitions / one job": ("parts", "parts", 2.2),
    f"{PARTS} row-wise partitions / one job that writes {PARTS} files": (
        "parts",
        "part_files",
        1.1,
    ),
    f"{KEYS} keys of a declared `by` / one grouped job": ("keys", "keys", 1.5),
    f"{KEYS} keys of a declared `by` / one grouped job that writes {KEYS} files": (
        "keys",
        "key_files",
        1.5,
    ),
    f"{TOUCHED} of {KEYS} keys touched / one grouped job that writes {KEYS} files": (
        "touched",
        "key_files",
        0.1,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Many small tasks, beside plain PySpark.")
    parser.add_argument("--rounds", type=int, default=3, help="of each step (3)")
    parser.add_argument("--plain", type=Path, help="only the script, over this folder")
    arguments = parser.parse_args()
    if arguments.plain:
        print(json.dumps(_plain(arguments.plain, arguments.rounds)))
        return
    with TemporaryDirectory(prefix="headgate-bench-") as folder:
        place = Path(folder)
        _write_data(place)
        command: list[str | Path] = [sys.executable, HERE, "--rounds", f"{arguments.rounds}"]
        plain = json.loads(timed([*command, "--plain", place], errors=place / "errors").output)
        headgate = _headgate(place, arguments.rounds)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    result = {"at": at, **pages.machine(), "plain": plain, "headgate": headgate}
    pages.keep(RESULTS, result, "many-tasks", list(_table(result)))


def _write_data(place: Path) -> None:
    (place / "sales").mkdir()
    columns = f"i AS id, i // {ROWS} AS part, 'words of ' || i AS words, i % 97 AS q"
    parts = f"SELECT {columns} FROM range({PARTS * ROWS}) t(i)"
    with duckdb.connect() as database:
        database.execute(f"COPY ({parts}) TO '{place}/parts' (FORMAT parquet, PARTITION_BY (part))")
    for number in range(FILES):
        columns = f"(i * 7919) % {KEYS} AS c, (i * 31 + {number}) % 1000 AS v"
        day = "DATE '2024-01-01' + CAST(i % 300 AS INT) AS d"
        _write_sales(place, f"{number:02}", f"SELECT {columns}, {day} FROM range({SALES}) t(i)")


def _write_late(place: Path, number: int) -> None:
    """Rows of a few keys."""
    rows = f"SELECT i + {number * TOUCHED} AS c, 7::BIGINT AS v, DATE '2024-06-01' AS d"
    _write_sales(place, f"late-{number}", f"{rows} FROM range({TOUCHED}) t(i)")


def _write_sales(place: Path, name: str, query: str) -> None:
    with duckdb.connect() as database:
        database.execute(f"COPY ({query}) TO '{place}/sales/{name}.parquet' (FORMAT parquet)")


# --- the two sides --------------------------------------------------------------------------------


def _plain(place: Path, rounds: int) -> Json:
    """Seconds of each job, without the first of each."""
    with TemporaryDirectory(prefix="plain-tasks-") as scratch:
        spark = start(Path(scratch) / "spark", conf_from_environment())

        def parts(number: int) -> DataFrame:
            rows = spark.read.parquet(f"{place}/parts")
            return rows.selectExpr("upper(words) AS words", f"q * {number} AS q", "part")

        def keys(number: int) -> DataFrame:
            columns = [F.sum("v").alias("v"), F.max("d").alias("d"), F.count("*").alias("n")]
            rows = spark.read.parquet(f"{place}/sales").groupBy("c")
            return rows.agg(*columns, F.lit(number).alias("edit"))

        jobs: dict[str, Callable[[int, str], None]] = {
            "parts": lambda n, to: parts(n).write.parquet(to),
            "part_files": lambda n, to: parts(n).write.partitionBy("part").parquet(to),
            "keys": lambda n, to: keys(n).write.parquet(to),
            "key_files": lambda n, to: (
                keys(n).repartition(2, "c").write.partitionBy("c").parquet(to)
            ),
        }
        seconds: dict[str, list[float]] = {name: [] for name in jobs}
        for number in range(rounds + 1):
            for name, job in jobs.items():
                began = time.monotonic()
                job(number, f"{scratch}/{name}-{number}")
                seconds[name].append(round(time.monotonic() - began, 3))
        stop(spark)
    return {name: of_job[1:] for name, of_job in seconds.items()}


def _headgate(place: Path, rounds: int) -> Json:
    """Seconds of whole runs: listing, planning, Spark and publishing; without the first of each."""
    parts = _read("parts/*/*.parquet")
    sales = _read("sales/*.parquet")

    def row_wise(number: int) -> Json:
        return {"parts": parts, "row_wise": {"transform": {"sql": ROW_WISE.format(number=number)}}}

    def by_key(number: int) -> Json:
        transform = {"python": PYTHON.format(number=number), "inputs": {"sales": "by"}}
        return {"sales": sales, "per": {"transform": {**transform, "partition_by": ["c"]}}}

    with Server(settings.read(place / "home"), "run") as server:
        seconds = {
            "parts": [_settled(server, place, "small", row_wise(n)) for n in range(rounds + 1)],
            "keys": [_settled(server, place, "keyed", by_key(n)) for n in range(rounds + 1)],
            "touched": [],
        }
        for number in range(rounds + 1):
            _write_late(place, number)
            seconds["touched"].append(_settled(server, place, "keyed", by_key(rounds)))
    return {name: of_step[1:] for name, of_step in seconds.items()}


def _read(path: str) -> Json:
    return {"read": {"connector": "files", "format": "parquet", "path": path}}


def _settled(server: Server, place: Path, dataflow: str, components: Json) -> float:
    """Seconds of a run."""
    file = place / f"{dataflow}.yaml"
    file.write_text(json.dumps({"dataflow": dataflow, "components": components}))
    request = once.RunRequest(sources.load([file]))
    value = once.make(server, request, lambda _: None, since=time.monotonic())
    assert value["state"] == "up_to_date", value
    return float(value["wall_s"])


# --- words ----------------------------------------------------------------------------------------


def _table(result: Json) -> Iterator[str]:
    """Markdown."""
    yield "| what, as a share of what plain Spark takes | target | median (worst) | seconds |"
    yield "|---|---|---|---|"
    for what, (ours, plain, target) in RATIOS.items():
        own, base = result["headgate"][ours], median(result["plain"][plain])
        shares = f"{median(own) / base:.2f} ({max(own) / base:.2f})"
        yield f"| {what} | {target} | {shares} | {median(own):.1f} / {base:.1f} |"
    yield ""
    rounds = len(result["headgate"]["keys"])
    yield f"{result['at'][:10]}, commit {result['commit']}, {rounds} rounds; {pages.where(result)}."


if __name__ == "__main__":
    for name in [name for name in os.environ if name.startswith("HEADGATE_")]:
        del os.environ[name]
    main()
