"""Windows of time on Spark: kept by granule, they are what one computation over all files gives.

Does not belong here: which windows may be kept by granule (tests.unit.sql, tests.unit.dataflow).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from controlplane.core import tree
from controlplane.lake.lake_objects import LocalObjects
from controlplane.operations.planning.apply_plan import Pass, PlanExecutor
from controlplane.operations.planning.planner import Planner
from dataplane.runtime.driver import CLAIMERS
from dataplane.runtime.executor import Executor
from dataplane.storage.lake import LocalLake
from tests.property.engine import MemoryLake
from tests.spark.oracle import SparkEngine
from tests.unit.expectations.world import BRANCH, Same, World

EVENTS = "at TIMESTAMP, shop STRING, v BIGINT"
READ = """
  events:
    read:
      connector: files
      path: {home}/events/*.csv
      format: csv
      options: {{header: true}}
      schema: "at TIMESTAMP, shop STRING, v BIGINT"
"""
TUMBLING = (
    "SELECT window(at, '10 minutes').start AS since, shop, count(*) AS n, sum(v) AS total"
    " FROM events GROUP BY window(at, '10 minutes').start, shop"
)
SLIDING = (
    "SELECT window(at, '20 minutes', '10 minutes').start AS since, shop, count(*) AS n"
    " FROM events GROUP BY window(at, '20 minutes', '10 minutes'), shop"
)
SESSIONS = (
    "SELECT session_window(at, '15 minutes').start AS since, shop, count(*) AS n"
    " FROM events GROUP BY session_window(at, '15 minutes'), shop"
)
QUERIES = {
    "tumbling": (TUMBLING, "[{since: hour}]"),
    "sliding": (SLIDING, "[{since: hour}]"),
    "sessions": (SESSIONS, "[{shop: bucket 4}]"),
}


class SparkWorld(World):
    """A blueprint over files of events."""

    def __init__(self, home: Path, spark: SparkSession) -> None:
        lake = LocalObjects(home / "lake")
        (home / "lake").mkdir()
        (home / "events").mkdir()
        super().__init__(home, lake=cast("MemoryLake", lake))
        planner = Planner(self.store, branch=BRANCH, fewest=2, min_rows=0)
        self.settling = PlanExecutor(self.store, planner, "default", BRANCH)
        self.executor = Executor(spark, LocalLake(home / "lake"), home / "scratch")
        self.spark = spark
        self.reasons: defaultdict[str, set[str]] = defaultdict(set)
        self.engine = SparkEngine(
            self.ctx,
            lake,
            Same(),
            lambda _: None,
            at_once=CLAIMERS,
            executor=self.executor,
        )

    def once(self) -> Pass:
        done = super().once()
        for item in done.plan.items:
            self.reasons[item.dataset].add(item.reason)
        return done

    def check_kept_plan(self) -> None:
        """The planner of this world has another idea of what parts cost."""

    def close(self) -> None:
        self.executor.close()
        self.store.close()

    def arrive(self, name: str, *rows: str) -> None:
        (self.home / "events" / name).write_text("\n".join(["at,shop,v", *rows]) + "\n")

    def withdraw(self, name: str) -> None:
        (self.home / "events" / name).unlink()

    def table(self, dataset: str) -> list[str]:
        with self.store.read() as tx:
            state = tx.states.newest(BRANCH, [dataset])[dataset]
            ids = [entry.fragment for entry in tree.scan(tx.nodes, state.root)]
            fragments = tx.traces.fragments(ids)
        files = [file["path"] for id in ids for file in fragments[id].files]
        tables = (pq.ParquetFile(self.home / "lake" / path).read() for path in files)
        return sorted(repr(_plain(row)) for table in tables for row in table.to_pylist())

    def from_scratch(self, query: str) -> list[str]:
        rows = self.spark.read.csv(str(self.home / "events"), schema=EVENTS, header=True)
        rows.createOrReplaceTempView("events")
        table = self.spark.sql(query).toArrow()
        return sorted(repr(_plain(row)) for row in table.to_pylist())

    def check(self) -> None:
        for name, (query, _) in QUERIES.items():
            assert self.table(f"shop.{name}") == self.from_scratch(query), name


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Times of files and of Spark's own answers have one zone."""
    return {
        name: value.isoformat()[:19] if hasattr(value, "isoformat") else value
        for name, value in row.items()
    }


def minutes(hour: int, *rows: tuple[int, str, int]) -> list[str]:
    return [f"2026-11-24T{hour:02}:{minute:02}:30Z,{shop},{v}" for minute, shop, v in rows]


@contextmanager
def filled(home: Path, spark: SparkSession) -> Iterator[SparkWorld]:
    with closing(SparkWorld(home, spark)) as world:
        world.put("a.csv", (1, 1))
        for number in range(4):
            events = minutes(6 + number % 2, (number, "x", number), (9, "y", 2), (10, "y", 3))
            world.arrive(f"{number}.csv", *events, *events)
        world.arrive("5.csv", ",x,7", "1969-12-31T23:59:59Z,x,8", "2026-11-24T08:00:00Z,y,9")
        world.apply(READ.format(home=home) + "".join(map(_component, QUERIES)))
        yield world


def _component(name: str) -> str:
    query, key = QUERIES[name]
    return f'  {name}:\n    transform:\n      sql: "{query}"\n      partition_by: {key}\n'


def test_windows_are_those_of_one_computation_over_all_files(
    tmp_path: Path, spark: SparkSession
) -> None:
    with filled(tmp_path, spark) as world:
        world.settle()
        world.check()
        # Late: into two hours, and between two sessions, which it joins
        late = minutes(6, *[(20, "y", 5), (59, "x", 1)] * 3)
        world.arrive("6.csv", *late, *minutes(7, *[(3, "x", 1)] * 3))
        world.arrive("2.csv", *minutes(9, (1, "z", 4)))  # a correction, and another hour
        world.withdraw("5.csv")
        world.settle()
        assert "input, merged by key from parts" in world.reasons["shop.tumbling"]
        world.check()
        assert world.decision("shop.tumbling").status == "up_to_date"
