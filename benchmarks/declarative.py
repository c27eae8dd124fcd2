"""Headgate beside Spark Declarative Pipelines, both by their commands, on one dataflow over a file
for each month.

    python benchmarks/declarative.py [--scale 1] [--rounds 3]

First run, nothing to do, one late file, one edited query. Both take turns; after each, both have
the same answers. Pipelines come from the same release of PySpark, in an environment of their own in
the user's cache. Appends all numbers to benchmarks/results/declarative.json and writes a section of
docs/performance.md. Does not belong here: how time is taken.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from benchmarks import pages
from benchmarks.processes import environment, timed
from controlplane.demo.download import cache_folder
from tests import tpch

Json: TypeAlias = Any
HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "declarative.json"
LATE = "1996-03"
PRICED = """SELECT l_orderkey, l_returnflag, l_shipmode, l_shipdate, upper(l_comment) AS words,
  CAST(l_extendedprice * (1 - l_discount) AS DECIMAL(18, 4)) AS volume FROM lines"""
DAILY = "SELECT l_shipdate, sum(volume) AS volume, count(*) AS n FROM priced GROUP BY l_shipdate"
MODES = "SELECT l_shipmode, l_returnflag, sum(volume) AS volume FROM priced GROUP BY l_shipmode, l_returnflag"
EDITED = "SELECT l_shipmode, l_returnflag, sum(volume) AS volume, max(l_shipdate) AS last FROM priced GROUP BY ALL"
QUERIES = {"priced": PRICED, "daily": DAILY, "modes": MODES}
STEPS = ("first", "nothing to do", "late file", "edited query")
SPARK = {"spark.sql.shuffle.partitions": "4"}  # as many as our own driver takes on two cores


def main() -> None:
    parser = argparse.ArgumentParser(description="Headgate beside Spark Declarative Pipelines.")
    parser.add_argument("--scale", type=float, default=1.0, help="of TPC-H's lineitem (1)")
    parser.add_argument("--rounds", type=int, default=3, help="of everything (3)")
    asked = parser.parse_args()
    rounds = [_round(asked.scale) for _ in range(asked.rounds)]
    found = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "scale": asked.scale,
        **pages.machine(),
    }
    result = {**found, "rounds": rounds}
    pages.keep(RESULTS, result, "declarative", list(_table(result)))


def _round(scale: float) -> dict[str, dict[str, float]]:
    """Seconds of each step, by each."""
    with TemporaryDirectory(prefix="headgate-bench-") as folder:
        place = Path(folder)
        shutil.copytree(tpch.data(scale) / "lineitem", place / "data")
        late = (place / "data" / f"{LATE}.parquet").rename(place / "late.parquet")
        sides = _Pipelines(place / "pipelines"), _Headgate(place / "headgate")
        found: dict[str, dict[str, float]] = {}
        for step in STEPS:
            if step == "late file":
                late.rename(place / "data" / late.name)
            queries = QUERIES | ({"modes": EDITED} if step == "edited query" else {})
            found[step] = {side.name: side.run(queries) for side in sides}
            _require_equal(*sides)
        return found


class _Pipelines:
    """A project with a materialised view for each dataset: nothing less follows corrected files."""

    name = "pipelines"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "transformations").mkdir(parents=True)
        spec = {
            "name": "lines",
            "storage": (folder / "storage").as_uri(),
            "libraries": [{"glob": {"include": "transformations/**"}}],
            "configuration": SPARK,
        }
        (folder / "spark-pipeline.yml").write_text(json.dumps(spec))
        # Without Hive it forgets tables
        (folder / "spark-defaults.conf").write_text("spark.sql.catalogImplementation hive\n")

    def run(self, queries: Mapping[str, str]) -> float:
        texts = {
            "lines": f"SELECT * FROM parquet.`{self._folder.parent}/data/*.parquet`",
            **queries,
        }
        views = [f"CREATE MATERIALIZED VIEW {name} AS\n{text};\n" for name, text in texts.items()]
        (self._folder / "transformations" / "all.sql").write_text("".join(views))
        bin_folder = _environment()
        # as an activated environment does: the command looks for its Spark by PATH
        setting = f'PATH="{bin_folder}:$PATH" SPARK_CONF_DIR="{self._folder}"'
        command = f'cd "{self._folder}" && {setting} exec spark-pipelines run'
        return round(timed(["sh", "-c", command], errors=self._folder / "errors.txt").wall_s, 2)

    def answer(self, name: str) -> pa.Table:
        return pq.read_table(self._folder / "spark-warehouse" / name)


class _Headgate:
    name = "headgate"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()

    def run(self, queries: Mapping[str, str]) -> float:
        read = {
            "read": {
                "connector": "files",
                "format": "parquet",
                "path": f"{self._folder.parent}/data/*.parquet",
            }
        }
        components = {"lines": read} | {
            name: {"transform": {"sql": text}} for name, text in queries.items()
        }
        text = self._folder / "lines.yaml"
        text.write_text(json.dumps({"dataflow": "lines", "components": components}))
        command: list[str | Path] = [
            Path(sys.executable).with_name("headgate"),
            "run",
            text,
            "--home",
            self._folder / "home",
        ]
        return round(timed(command, errors=self._folder / "errors.txt").wall_s, 2)

    def answer(self, name: str) -> pa.Table:
        location = self._folder / "home" / "lake" / "default" / "lines" / name
        return pa.table(DeltaTable(location).to_pyarrow_table())


def _require_equal(pipelines: _Pipelines, headgate: _Headgate) -> None:
    """The same rows in each small table."""
    for name in ("daily", "modes"):
        one, other = (
            Counter(map(str, side.answer(name).to_pylist())) for side in (pipelines, headgate)
        )
        if one != other:
            raise RuntimeError(f"{name} differs: {one.total()} rows and {other.total()}")


def _environment() -> Path:
    """Its folder of commands, made if it is not there."""
    wanted = f"pyspark[connect,pipelines]=={version('pyspark')}"
    folder = cache_folder() / "peers" / f"pipelines-{version('pyspark')}"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip: list[str | Path] = [
            folder / "bin" / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            wanted,
        ]
        subprocess.run(pip, check=True, env=environment())
        (folder / "ready").touch()
    return folder / "bin"


# --- words ------------------------------------------------------------------------------------------


def _table(result: Json) -> Iterator[str]:
    """Markdown."""
    yield "| one command, a new process | Declarative Pipelines | Headgate | ratio (worst) |"
    yield "|---|---|---|---|"
    for step in STEPS:
        one, other = (
            [found[step][side] for found in result["rounds"]] for side in ("pipelines", "headgate")
        )
        shares = [ours / theirs for theirs, ours in zip(one, other, strict=True)]
        yield f"| {step} | {median(one):.1f} s | {median(other):.1f} s | {median(shares):.2f} ({max(shares):.2f}) |"
    yield ""
    when, rounds = result["at"][:10], len(result["rounds"])
    yield f"Scale {result['scale']:g}, {when}, commit {result['commit']}, {rounds} rounds; {pages.where(result)}."


if __name__ == "__main__":
    main()
