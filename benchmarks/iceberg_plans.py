"""How long the first page of a plan of the Iceberg catalogue takes, over many partitions.

    python benchmarks/iceberg_plans.py [--days 1000] [--runs 3] [--scratch FOLDER] [--keep]

The table has 5,000 partitions a day, by keys of a day and a number. Each plan is answered over HTTP
by a service that has read nothing of the table before. `--keep` writes
benchmarks/results/iceberg_plans.json. Does not belong here: what a plan holds (tests/unit/iceberg).
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import pages
from benchmarks.planning import ours
from benchmarks.planning.memory import peak_mb
from controlplane.core import tree
from controlplane.core.model.tasks import Fragment
from controlplane.core.tree import Entry, NodeColumns
from controlplane.core.tree.codec import leaf_columns
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints
from controlplane.operations.planning.snapshot import desired
from tests.store.examples import state
from tests.unit.iceberg.world import catalogue
from tests.unit.lake.tables import struct
from tests.unit.records.world import RecordWorld

RESULTS = Path(__file__).parent / "results" / "iceberg_plans.json"
BLUEPRINT = """
dataflow: shop
components:
  raw:
    read: {connector: files, path: /data/*.csv, format: csv, schema: "day DATE, k BIGINT, v BIGINT"}
  daily: {transform: {sql: 'SELECT * FROM raw', partition_by: [day, k]}}
"""
DATASET, TABLE = "shop.daily", "main/namespaces/shop/tables/daily"
SCHEMA = struct(day="date", k="long", v="long")
NUMBERS = sorted(range(5_000), key=str)  # keys are ordered by their texts
FIRST_DAY = date(1970, 1, 1)
TARGET_S = 1.0


def main() -> None:
    options = _arguments()
    with tempfile.TemporaryDirectory(prefix="headgate-plans-", dir=options.scratch) as folder:
        url = f"sqlite:///{folder}/plans.db"
        began = time.perf_counter()
        _in_process(_seed, url, Path(folder), options.days)
        build_s = time.perf_counter() - began
        size_gb = Path(folder, "plans.db").stat().st_size / 1e9
        plans = [
            _in_process(_measure, url, Path(folder), name, filter, options.runs)
            for name, filter in _filters(options.days).items()
        ]
    partitions = options.days * len(NUMBERS)
    measured = {"partitions": partitions, "build_s": build_s, "size_gb": size_gb, "plans": plans}
    lines = _table(measured)
    print("\n".join(lines))
    if options.keep:
        _keep(measured, lines)


def _in_process(work: Any, *arguments: Any) -> Any:
    """In a process of its own: its memory is that of this work alone."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


# --- the table --------------------------------------------------------------------------------------


def _seed(url: str, folder: Path, days: int) -> None:
    ours.create(url)
    world = _world(url, folder)
    blueprints.apply(world.ctx, "main", [blueprints.SentBlueprint("/shop.yaml", BLUEPRINT, {})])
    fragments = [_fragment(world, k) for k in NUMBERS]
    with world.store.begin() as tx:
        tx.traces.put([], fragments)
        entries = [Entry(str(k), f.id, f.content) for k, f in zip(NUMBERS, fragments, strict=True)]
        gc.disable()  # rows of trees have no cycles
        root = tree.build_columns(tx.nodes, _columns(days, leaf_columns(entries)))
        node = desired(tx, "main").nodes[DATASET]
        assert node.is_transform
        count = days * len(NUMBERS)
        built = {"root": root, "schema": SCHEMA, "partitions": count, "rows": count}
        tx.states.commit(replace(state(1, DATASET, **built), logic=node.logic), 0)
    world.store.close()


def _fragment(world: RecordWorld, k: int) -> Fragment:
    """The file of each day with this number, so without statistics of the day."""
    fragment = world.fragment([{"k": k, "v": k % 100}], SCHEMA)
    [file] = fragment.files
    stats = {kind: _without_day(columns) for kind, columns in file["stats"].items()}
    return replace(fragment, files=({**file, "stats": stats},))


def _without_day(columns: Any) -> Any:
    if not isinstance(columns, dict):
        return columns
    return {name: value for name, value in columns.items() if name != "day"}


def _columns(days: int, of_day: NodeColumns) -> Iterator[NodeColumns]:
    """The rows of each day: the same fragments under other keys."""
    for number in range(days):
        day = f"day={FIRST_DAY + timedelta(number)}/k="
        yield NodeColumns([day + k for k in of_day.keys], of_day.ids, of_day.rest)


def _world(url: str, folder: Path) -> RecordWorld:
    world = RecordWorld(folder)
    world.store = ours.open_counted(url)
    world.ctx = Context(world.store)
    return world


# --- plans ------------------------------------------------------------------------------------------


def _filters(days: int) -> dict[str, Any]:
    day = _compared("eq", "day", str(FIRST_DAY + timedelta(days // 2)))
    week = _compared("gt-eq", "day", str(FIRST_DAY + timedelta(days - 7)))
    pair = {"type": "in", "term": "k", "values": [7, 4242]}
    return {
        "none": None,
        "`day = d`": day,
        "`day = d AND k IN (7, 4242)`": _both(day, pair),
        "`day >= d`, the last seven days": week,
        "`k IN (7, 4242)`": pair,
        "`k > 4990`": _compared("gt", "k", 4990),
        "`k BETWEEN 5 AND 8`": _both(_compared("gt-eq", "k", 5), _compared("lt-eq", "k", 8)),
        "`v = 42`, no key": _compared("eq", "v", 42),
        "`v > 100`, no key, no such row": _compared("gt", "v", 100),
    }


def _compared(operator: str, column: str, constant: Any) -> dict[str, Any]:
    return {"type": operator, "term": column, "value": constant}


def _both(left: Any, right: Any) -> dict[str, Any]:
    return {"type": "and", "left": left, "right": right}


def _measure(url: str, folder: Path, name: str, filter: Any, runs: int) -> dict[str, Any]:
    pages_of_runs = [_first_page(url, folder, filter) for _ in range(runs)]
    medians = {
        key: round(median(page[key] for page in pages_of_runs), 3)
        for key in ("seconds", "processor_s", "next_processor_s")
    }
    return {**pages_of_runs[0], **medians, "filter": name, "peak_mb": peak_mb()}


def _first_page(url: str, folder: Path, filter: Any) -> dict[str, Any]:
    """By a service that has no node in memory; and then the page after it, if there is one."""
    world = _world(url, folder)
    assert isinstance(world.store, ours.Counted)
    with catalogue(world) as place:
        place.get("config")
        nodes_before = world.store.nodes_read
        page, seconds, processor_s = _timed(lambda: place.post(f"{TABLE}/plan", {"filter": filter}))
        nodes = world.store.nodes_read - nodes_before
        next_s = 0.0
        for task in page["plan-tasks"]:
            follow = partial(place.post, f"{TABLE}/tasks", {"plan-task": task})
            _, _, next_s = _timed(follow)
    return {
        "seconds": seconds,
        "processor_s": processor_s,
        "next_processor_s": next_s,
        "nodes": nodes,
        "files": len(page["file-scan-tasks"]),
        "is_last": not page["plan-tasks"],
    }


def _timed(request: Callable[[], Any]) -> tuple[Any, float, float]:
    """The answer, the seconds of the clock, and those of the processors: of service and client,
    which are one process here."""
    began, processor_before = time.perf_counter(), time.process_time()
    answer = request()
    return answer, time.perf_counter() - began, time.process_time() - processor_before


# --- results ----------------------------------------------------------------------------------------


def _table(measured: dict[str, Any]) -> list[str]:
    lines = [
        "| filter | processor | clock | nodes read | files | next page, processor | peak memory |",
        "|---|---|---|---|---|---|---|",
    ]
    for plan in measured["plans"]:
        processor = f"{plan['processor_s']:.2f} s"
        shown = processor if plan["processor_s"] <= TARGET_S else f"**{processor}**"
        cells = (
            plan["filter"],
            shown,
            f"{plan['seconds']:.2f} s",
            plan["nodes"],
            plan["files"],
            "none" if plan["is_last"] else f"{plan['next_processor_s']:.2f} s",
            f"{plan['peak_mb']:.0f} MB",
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    size = f"{measured['partitions']:,} partitions, {measured['size_gb']:.1f} GB of SQLite"
    return [*lines, "", f"{size}, built in {measured['build_s']:.0f} s."]


def _keep(measured: dict[str, Any], lines: list[str]) -> None:
    result = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **pages.machine()}
    where = "Measured on {at}, commit {commit}, Python {python}, {cores} cores, load {load[0]}."
    caption = where.format(**{**result, "at": result["at"][:10]})
    pages.keep(RESULTS, {**result, **measured}, "iceberg-plans", [*lines, "", caption])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How long plans of Iceberg take.")
    parser.add_argument("--days", type=int, default=1_000, help="of 5,000 partitions each (1000)")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--scratch", type=Path, help="the folder for 70 bytes a partition")
    parser.add_argument("--keep", action="store_true", help="keep the results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
