"""What profiles add to the pass that measures contents: CPU seconds of the driver and its JVM,
without and with them.

    python -m benchmarks.profiles [--json benchmarks/results/profiles.json]

Files are written once. Each turn measures copies of them under other names in each mode, as each
attempt has files of its own. A mode adds the median of its differences to `off` in the same turn,
so that a load which changes is in both. Left out are the JVM's compilers: a driver that is warm
needs them no more. Does not belong here: reading profiles.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from dataplane.contract.profiles import as_text, packed
from dataplane.fragments.spark.hashing import measure_with_spark
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.fragments.spark.writing import write_labelled
from dataplane.fragments.written import Written
from dataplane.spark.spark_session import MORE, start, stop
from dataplane.storage.lake import LocalLake

FLIGHTS = """2013 AS year, CAST(id % 12 AS INT) + 1 AS month, CAST(rand(1) * 28 AS INT) + 1 AS day,
  IF(rand(2) < 0.03, NULL, CAST(rand(3) * 2400 AS INT)) AS dep_time, CAST(rand(4) * 2400 AS INT) AS sched_dep_time,
  IF(rand(5) < 0.03, NULL, round(randn(6) * 30)) AS dep_delay, CAST(rand(7) * 2400 AS INT) AS arr_time,
  IF(rand(8) < 0.03, NULL, round(randn(9) * 30)) AS arr_delay, concat('c', id % 17) AS carrier,
  CAST(rand(10) * 6000 AS INT) AS flight, concat('N', CAST(rand(11) * 3000 AS INT)) AS tailnum,
  element_at(array('JFK', 'LGA', 'EWR'), CAST(id % 3 AS INT) + 1) AS origin,
  concat('D', CAST(rand(12) * 100 AS INT)) AS dest, rand(13) * 600 AS air_time,
  CAST(rand(14) * 5000 AS BIGINT) AS distance,
  timestamp_seconds(1356998400 + id * 60) AS time_hour"""
LINEITEM = """id AS l_orderkey, CAST(rand(1) * 200000 AS BIGINT) AS l_partkey,
  CAST(rand(2) * 10000 AS BIGINT) AS l_suppkey, CAST(id % 7 AS INT) AS l_linenumber,
  CAST(rand(3) * 50 AS DECIMAL(12,2)) AS l_quantity, CAST(rand(4) * 100000 AS DECIMAL(12,2)) AS l_extendedprice,
  CAST(rand(5) / 10 AS DECIMAL(12,2)) AS l_discount, CAST(rand(6) / 12 AS DECIMAL(12,2)) AS l_tax,
  substr('ANR', CAST(id % 3 AS INT) + 1, 1) AS l_returnflag, IF(rand(7) < 0.5, 'O', 'F') AS l_linestatus,
  date_add(DATE'1992-01-01', CAST(rand(8) * 2500 AS INT)) AS l_shipdate,
  date_add(DATE'1992-01-01', CAST(rand(9) * 2500 AS INT)) AS l_commitdate,
  date_add(DATE'1992-01-01', CAST(rand(10) * 2500 AS INT)) AS l_receiptdate,
  concat('DELIVER IN PERSON ', id % 4) AS l_shipinstruct, concat('TRUCK ', id % 7) AS l_shipmode,
  concat('carefully final deposits ', uuid()) AS l_comment"""


class Case(NamedTuple):
    columns: str
    rows: int
    fragments: int
    by_spark: bool


CASES = {
    "lineitem, one of 500,000 rows": Case(LINEITEM, 500_000, 1, True),
    "flights, one of 300,000 rows": Case(FLIGHTS, 300_000, 1, True),
    "flights, 50 of 6,000 rows": Case(FLIGHTS, 300_000, 50, True),
    "flights, one of 15,000 rows": Case(FLIGHTS, 15_000, 1, False),
    "lineitem, 12 of 1,000 rows": Case(LINEITEM, 12_000, 12, False),
    "flights, 12 of 1,000 rows": Case(FLIGHTS, 12_000, 12, False),
    "flights, 20 of 100 rows": Case(FLIGHTS, 2_000, 20, False),
    "flights, one of 1,000 rows": Case(FLIGHTS, 1_000, 1, False),
}
MODES = ("off", "basic", "full")
REPEATS = 12  # of those that Spark measures; of others five times as many


class Bench:
    def __init__(self, folder: Path) -> None:
        (folder / "lake").mkdir()
        # None of them ends, so their time can be left out
        os.environ[MORE] = "-XX:-UseDynamicNumberOfCompilerThreads"
        self.spark = start(
            folder / "spark", {"spark.log.level": "OFF", "spark.driver.memory": "2g"}
        )
        self.lake, self.folder = LocalLake(folder / "lake"), folder
        self.threads = ThreadPoolExecutor(4)
        jvm: Any = self.spark._jvm
        self.jvm = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}")
        self.compilers = [place for place in self.jvm.glob("task/*") if "Compiler" in _name(place)]

    def attempt(self, name: str, mode: str) -> SparkAttempt[Any]:
        claim: Any = {
            "kind": "transform",
            "attempt": name,
            "prefix": f"f/{name}",
            "job": {"profile": mode},
        }
        scratch = self.folder / "scratch" / f"{name}-{mode}-{time.monotonic_ns()}"
        scratch.mkdir(parents=True)
        return SparkAttempt(claim, self.lake, scratch, self.threads, threading.Event(), self.spark)

    def cpu_s(self, *, with_jvm: bool) -> float:
        """Of this process, and of the JVM without its compilers."""
        if not with_jvm:
            return time.process_time()
        return time.process_time() + _spent_s(self.jvm) - sum(map(_spent_s, self.compilers))

    def timed(self, work: Callable[[], object], *, with_jvm: bool) -> float:
        before = self.cpu_s(with_jvm=with_jvm)
        work()
        return self.cpu_s(with_jvm=with_jvm) - before

    def case(self, case: Case) -> dict[str, Any]:
        columns, rows, fragments, by_spark = case
        name = f"c{columns[:4].strip()}{rows}-{fragments}"
        label = (
            f"lpad(CAST(CAST(id * {fragments} / {rows} AS INT) AS STRING), 32, '0') AS _fragment"
        )
        df = self.spark.sql(
            f"SELECT {columns}, {label} FROM range(0, {rows}, 1, {min(fragments, 20)})"
        )
        written = write_labelled(self.attempt(name, "off"), df)
        turns = [
            self.turn(f"{name}-{n}", n, written, by_spark=by_spark)
            for n in range(REPEATS * (1 if by_spark else 5))
        ]
        turns = turns[2:]  # what is first warms up
        off = statistics.median(turn["off"] for turn in turns)
        adds = {
            mode: statistics.median(turn[mode] - turn["off"] for turn in turns)
            for mode in MODES[1:]
        }
        kept = [
            packed(f.profile) for f in self.measured(name, "full", written).values() if f.profile
        ]
        return {
            "off_cpu_s": round(off, 4),
            **{f"{mode}_adds_cpu_s": round(one, 5) for mode, one in adds.items()},
            **{f"{mode}_adds": round(one / off, 3) for mode, one in adds.items()},
            "profile_bytes": sum(map(len, kept)),
            "file_bytes": sum(sum(one.files.values()) for one in written.values()),
        }

    def turn(
        self, name: str, number: int, written: Mapping[str, Written], *, by_spark: bool
    ) -> dict[str, float]:
        """Of each mode, in an order that changes."""
        spent = {}
        for i in range(len(MODES)):
            mode = MODES[(i + number) % len(MODES)]
            copies = {
                label: replace(one, files=self.copied(name, mode, one.files))
                for label, one in written.items()
            }
            spent[mode] = self.timed(partial(self.measured, name, mode, copies), with_jvm=by_spark)
            shutil.rmtree(self.lake.root / "f" / f"{name}-{mode}")
        return spent

    def copied(self, name: str, mode: str, files: Mapping[str, int]) -> dict[str, int]:
        folder = f"f/{name}-{mode}"
        (self.lake.root / folder).mkdir(parents=True, exist_ok=True)
        paths = {path: f"{folder}/{Path(path).name}" for path in files}
        for path, to in paths.items():
            shutil.copyfile(self.lake.root / path, self.lake.root / to)
        return {paths[path]: size for path, size in files.items()}

    def measured(self, name: str, mode: str, written: Mapping[str, Written]) -> Any:
        """With each profile as it is reported."""
        found = measure_with_spark(self.attempt(name, mode), written)
        for one in found.values():
            if one.profile is not None:
                as_text(one.profile)
        return found


def _name(thread: Path) -> str:
    try:
        return (thread / "comm").read_text()
    except OSError:  # it has ended
        return ""


def _spent_s(place: Path) -> float:
    """CPU seconds of a process or thread."""
    spent = (place / "stat").read_text().rsplit(")", 1)[1].split()
    return (int(spent[11]) + int(spent[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        try:
            found: dict[str, Any] = {}
            for name, case in CASES.items():
                found[name] = bench.case(case)
                print(name, found[name], flush=True)
        finally:
            bench.threads.shutdown()
            stop(bench.spark)
    if wanted.json:
        wanted.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
