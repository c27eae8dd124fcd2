"""What profiles add to the pass that measures contents: CPU seconds of the driver and its JVM, without and with them.

    python -m benchmarks.profiles [--json benchmarks/results/profiles.json]

Files are written once; then the pass runs over them in turn under each mode, and the medians are compared. `hll` is the
same query with a sketch of DataSketches for each column, which is why distinct values are told of samples. Does not
belong here: reading profiles.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from dataplane.contract.profiles import packed
from dataplane.fragments.attempt import Attempt
from dataplane.fragments.content import content_query, quoted
from dataplane.fragments.reading import labelled_rows
from dataplane.fragments.writing import Written, measure, write_labelled
from dataplane.spark.session import reading_session, start, stop
from dataplane.storage.lake import LocalLake

COLUMNS = """id, CAST(id % 200 AS INT) AS few, concat('c', id % 17) AS carrier, rand(1) * 1000 AS number,
  CAST(rand(2) * 100 AS DECIMAL(12,2)) AS price, timestamp_seconds(1500000000 + id * 7) AS at,
  date_add(DATE'2013-01-01', CAST(id % 365 AS INT)) AS day, uuid() AS name"""
CASES = {  # rows, fragments
    "one of 500,000 rows": (500_000, 1),
    "50 of 10,000 rows": (500_000, 50),
    "one of 20,000 rows": (20_000, 1),
    "20 of 1,000 rows": (20_000, 20),
}
REPEATS = 4


class Bench:
    def __init__(self, folder: Path) -> None:
        (folder / "lake").mkdir()
        self.spark = start(folder / "spark", {"spark.log.level": "OFF", "spark.driver.memory": "2g"})
        self.lake, self.folder = LocalLake(folder / "lake"), folder
        self.threads = ThreadPoolExecutor(4)

    def attempt(self, name: str, mode: str) -> Attempt[Any]:
        claim: Any = {"kind": "transform", "attempt": name, "prefix": f"f/{name}", "job": {"profile": mode}}
        scratch = self.folder / "scratch" / f"{name}-{mode}-{time.monotonic_ns()}"
        scratch.mkdir(parents=True)
        return Attempt(claim, self.spark, self.lake, scratch, self.threads, threading.Event())

    def cpu_s(self) -> float:
        """Of this process and the JVM."""
        jvm: Any = self.spark._jvm
        pid = jvm.java.lang.ProcessHandle.current().pid()
        spent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return time.process_time() + (int(spent[11]) + int(spent[12])) / os.sysconf("SC_CLK_TCK")

    def timed(self, work: Callable[[], object], times: int) -> float:
        before = self.cpu_s()
        for _ in range(times):
            work()
        return (self.cpu_s() - before) / times

    def case(self, rows: int, fragments: int) -> dict[str, Any]:
        name = f"c{rows}-{fragments}"
        label = f"lpad(CAST(CAST(id * {fragments} / {rows} AS INT) AS STRING), 32, '0') AS _fragment"
        df = self.spark.sql(f"SELECT {COLUMNS}, {label} FROM range(0, {rows}, 1, {min(fragments, 20)})")
        written = write_labelled(self.attempt(name, "off"), df)
        times = 1 if rows > 100_000 else 10
        spent: dict[str, list[float]] = {mode: [] for mode in ("off", "basic", "full")}
        for turn in range(REPEATS + 1):
            for mode, of in spent.items():
                found = self.timed(lambda mode=mode: self.measured(name, mode, written), times)  # type: ignore[misc]
                if turn:  # the first one warms up
                    of.append(found)
        medians = {mode: statistics.median(of) for mode, of in spent.items()}
        kept = [packed(f.profile) for f in self.measured(name, "full", written).values() if f.profile]
        size = sum(sum(one.files.values()) for one in written.values())
        return {
            **{f"{mode}_cpu_s": round(one, 4) for mode, one in medians.items()},
            **{f"{mode}_adds": round(medians[mode] / medians["off"] - 1, 3) for mode in ("basic", "full")},
            "profile_bytes": sum(map(len, kept)),
            "file_bytes": size,
        }

    def measured(self, name: str, mode: str, written: Mapping[str, Written]) -> Any:
        return measure(self.attempt(name, mode), written)

    def sketched(self) -> float:
        """The query of contents with an HLL sketch for each column, in place of a sample."""
        name = "c500000-1"
        attempt = self.attempt(name, "off")
        files = [
            (str(p.relative_to(self.lake.root)), "x") for p in sorted(self.lake.root.glob(f"f/{name}/**/*.parquet"))
        ]
        schema = json.loads(self.spark.sql(f"SELECT {COLUMNS} FROM range(1)").schema.json())
        session = reading_session(self.spark)
        labelled_rows(attempt, session, files, schema).createTempView("written")
        plain = content_query(schema, "written")
        sketches = ", ".join(f"hll_sketch_agg(CAST({quoted(f['name'])} AS STRING))" for f in schema["fields"])
        query = plain.replace("count(*)", f"count(*), {sketches}").replace(
            "SELECT _fragment, xxhash64", "SELECT *, xxhash64"
        )
        self.timed(lambda: session.sql(query).collect(), 1)
        return statistics.median(self.timed(lambda: session.sql(query).collect(), 1) for _ in range(3))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        try:
            found: dict[str, Any] = {}
            for name, (rows, fragments) in CASES.items():
                found[name] = bench.case(rows, fragments)
                print(name, found[name], flush=True)
            found["hll_cpu_s of one of 500,000 rows"] = round(bench.sketched(), 2)
            print(found["hll_cpu_s of one of 500,000 rows"])
        finally:
            bench.threads.shutdown()
            stop(bench.spark)
    if wanted.json:
        wanted.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
