"""How long Dagster takes to tell what is to be done, on the graph that planning is measured on.

    python dagster_tick.py COMPONENTS PARTITIONS RUNS

Needs dagster, and nothing of this project. Ten layers of assets with static partitions, all
materialised (one genuine event of each asset, copied by SQL for each partition; SQLite); nothing is
computed. Timed is one tick of declarative automation, which its daemon makes over and over: what is
missing, has newer inputs, or other code. Each run is a process of its own, which goes on from the
cursor of the tick before and, but for S0 and S1, has made a tick already. A late partition of a
root is a report that somebody else materialised it, so that the root itself is no work. Prints a
line of JSON for each scenario; one that requests another number of partitions than there is to do
is left out, with words on standard error.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LAYERS = 10
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
MARK = "@@partition@@"
FIRST_ID = 1000
FEW = 100


def _compute() -> None:
    """Never run."""


class Graph:
    def __init__(self, width: int, partitions: int) -> None:
        self.width = width
        self.keys = [f"p{number:06d}" for number in range(partitions)]

    def names(self) -> list[str]:
        return [f"l{layer}_{column}" for layer in range(LAYERS) for column in range(self.width)]

    def definitions(self, changed: str = "", *, only_missing: bool = False) -> Any:
        import dagster as dg

        condition = dg.AutomationCondition.missing()
        if not only_missing:
            condition |= (
                dg.AutomationCondition.any_deps_updated()
                | dg.AutomationCondition.code_version_changed()
            )
        partitions = dg.StaticPartitionsDefinition(self.keys)

        def asset(layer: int, column: int) -> Any:
            name = f"l{layer}_{column}"
            above = (column, (column + 1) % self.width) if layer else ()

            settled = dg.asset(
                name=name,
                deps=[f"l{layer - 1}_{c}" for c in above],
                partitions_def=partitions,
                automation_condition=condition,
                code_version="2" if name == changed else "1",
            )
            return settled(_compute)

        return dg.Definitions(
            [asset(layer, column) for layer in range(LAYERS) for column in range(self.width)]
        )


def open_instance(home: Path) -> Any:
    import dagster as dg

    return dg.DagsterInstance.local_temp(str(home))


# --- everything is materialised -----------------------------------------------------------------------


def seed(home: Path, graph: Graph) -> None:
    instance = open_instance(home)
    for name in graph.names():
        report(instance, name, MARK, "1")
    instance.dispose()
    [file] = home.glob("**/index.db")
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA synchronous=off")
        _copy(connection, graph)
        connection.execute("ANALYZE")
    connection.close()


def report(instance: Any, name: str, partition: str, version: str) -> None:
    import dagster as dg

    tags = {"dagster/code_version": "1", "dagster/data_version": f"{name} {version}"}
    instance.report_runless_asset_event(
        dg.AssetMaterialization(name, partition=partition, tags=tags)
    )


def _copy(connection: sqlite3.Connection, graph: Graph) -> None:
    """Ids ascend by partition and then by layer, as if each partition had run down the graph."""
    events, event_columns = _rows(connection, "event_logs", "")
    tags, tag_columns = _rows(connection, "asset_event_tags", "WHERE key = 'dagster/data_version'")
    names = graph.names()

    def ids() -> Iterator[tuple[int, str, str]]:
        places = ((key, name) for key in graph.keys for name in names)
        yield from ((number, key, name) for number, (key, name) in enumerate(places, FIRST_ID))

    def event(number: int, key: str, name: str) -> dict[str, Any]:
        row = events[name]
        return {**row, "id": number, "partition": key, "event": row["event"].replace(MARK, key)}

    for table in ("event_logs", "asset_event_tags"):
        connection.execute(f"DELETE FROM {table}")
    _insert(connection, "event_logs", event_columns, (event(*place) for place in ids()))
    tagged = ({**tags[name], "id": number, "event_id": number} for number, _, name in ids())
    _insert(connection, "asset_event_tags", tag_columns, tagged)
    last = {name: (number, key) for number, key, name in list(ids())[-len(names) :]}
    for name, (number, key) in last.items():
        _point(connection, name, number, json.loads(event(number, key, name)["event"]))


def _rows(
    connection: sqlite3.Connection, table: str, where: str
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """By asset."""
    cursor = connection.execute(f"SELECT * FROM {table} {where}")
    columns = [column[0] for column in cursor.description]
    rows = (dict(zip(columns, row, strict=True)) for row in cursor.fetchall())
    return {json.loads(row["asset_key"])[0]: row for row in rows if row["asset_key"]}, columns


def _insert(
    connection: sqlite3.Connection, table: str, columns: list[str], rows: Iterator[dict[str, Any]]
) -> None:
    marks = ", ".join("?" * len(columns))
    statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
    connection.executemany(statement, ([row[column] for column in columns] for row in rows))


def _point(connection: sqlite3.Connection, name: str, number: int, entry: Any) -> None:
    """The asset's newest materialisation is this event."""
    where, key = "WHERE asset_key = ?", json.dumps([name])
    [text] = connection.execute(
        f"SELECT last_materialization FROM asset_keys {where}", (key,)
    ).fetchone()
    record = {**json.loads(text), "storage_id": number, "event_log_entry": entry}
    change = f"UPDATE asset_keys SET last_materialization = ?, cached_status_data = NULL {where}"
    connection.execute(change, (json.dumps(record), key))


# --- in a process of its own ------------------------------------------------------------------------


class Ticking:
    """Ticks from a cursor that is kept beside the instance."""

    def __init__(self, home: Path, graph: Graph) -> None:
        self.home, self.graph, self.number = home, graph, time.time_ns()
        self.file = home / "cursor.json"

    def tick(self, definitions: Any, instance: Any, cursor: Any) -> Any:
        import dagster as dg

        now = NOW + dt.timedelta(microseconds=self.number // 1000 % 10**12)
        return dg.evaluate_automation_conditions(
            definitions, instance, evaluation_time=now, cursor=cursor
        )

    def cursor(self) -> Any:
        import dagster as dg

        return dg.deserialize_value(self.file.read_text()) if self.file.exists() else None

    def keep(self, cursor: Any) -> None:
        import dagster as dg

        self.file.write_text(dg.serialize_value(cursor))

    def measure(self, scenario: str) -> tuple[int, float]:
        if scenario == "S0":
            return self._nothing()
        began = time.perf_counter()
        changed = {"S5/full": "l0_0", "S5/sink": f"l{LAYERS - 1}_0"}.get(scenario, "")
        definitions, instance, cursor = (
            self.graph.definitions(changed),
            open_instance(self.home),
            self.cursor(),
        )
        if scenario == "first":
            result = self.tick(definitions, instance, cursor)
            self.keep(result.cursor)
            return result.total_requested, time.perf_counter() - began
        if scenario != "S1":
            cursor = self.tick(self.graph.definitions(), instance, cursor).cursor
            self._happen(scenario, instance)
            began = time.perf_counter()
        result = self.tick(definitions, instance, cursor)
        seconds = time.perf_counter() - began
        if scenario in ("S3", "S4"):
            self.keep(result.cursor)
        return result.total_requested, seconds

    def _nothing(self) -> tuple[int, float]:
        import dagster as dg

        definitions = self.graph.definitions(only_missing=True)
        with dg.DagsterInstance.ephemeral() as empty:
            began = time.perf_counter()
            result = self.tick(definitions, empty, None)
            return result.total_requested, time.perf_counter() - began

    def _happen(self, scenario: str, instance: Any) -> None:
        count = {"S3": 1, "S4": FEW}.get(scenario, 0)
        keys = self.graph.keys
        step = max(1, len(keys) // count) if count else 1
        for number in range(min(count, len(keys))):
            report(instance, "l0_0", keys[number * step], str(self.number))


def _import() -> None:
    """Imports are not timed."""
    import dagster  # noqa: F401
    from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor  # noqa: F401


def child(scenario: str, home: str, width: str, partitions: str) -> None:
    logging.disable(logging.CRITICAL)
    _import()
    items, seconds = Ticking(Path(home), Graph(int(width), int(partitions))).measure(scenario)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(json.dumps({"items": items, "seconds": seconds, "peak_mb": peak_mb}))


# --- all of them ------------------------------------------------------------------------------------


class Measuring:
    def __init__(self, home: Path, width: int, partitions: int, runs: int) -> None:
        self.home, self.width, self.partitions, self.runs = home, width, partitions, runs

    def run(self) -> None:
        cone = sum(min(layer + 1, self.width) for layer in range(LAYERS))
        self.measure("S0", LAYERS * self.width * self.partitions)
        seed(self.home, Graph(self.width, self.partitions))
        first = self.ask("first")
        if first["items"]:
            print(
                f"void: {first['items']} partitions requested where all are there", file=sys.stderr
            )
            return
        self.measure("S1", 0)
        self.measure("S2", 0)
        self.measure("S5/full", cone * self.partitions)
        self.measure("S5/sink", self.partitions)
        self.measure("S3", cone - 1)
        self.measure("S4", (cone - 1) * min(FEW, self.partitions))

    def measure(self, scenario: str, items: int) -> None:
        found = [self.ask(scenario) for _ in range(self.runs)]
        if any(f["items"] != items for f in found):
            print(
                f"void: {scenario}: {found[0]['items']} requested where there are {items}",
                file=sys.stderr,
            )
            return
        seconds = [f["seconds"] for f in found]
        line = {
            "scenario": scenario,
            "items": items,
            "median_s": round(statistics.median(seconds), 4),
            "worst_s": round(max(seconds), 4),
            "peak_mb": round(max(f["peak_mb"] for f in found), 1),
        }
        print(json.dumps(line), flush=True)

    def ask(self, scenario: str) -> dict[str, float]:
        command = [
            sys.executable,
            "-W",
            "ignore",
            __file__,
            "child",
            scenario,
            self.home,
            self.width,
            self.partitions,
        ]
        done = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]  # by our child


def main() -> None:
    os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
    if sys.argv[1] == "child":
        child(*sys.argv[2:])
        return
    logging.disable(logging.CRITICAL)
    components, partitions, runs = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="dagster-tick-") as home:
        Measuring(Path(home), components // LAYERS, partitions, runs).run()


if __name__ == "__main__":
    main()
