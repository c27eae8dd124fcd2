"""How long SQLMesh takes to tell what is to be done, on the graph that planning is measured on.

    python sqlmesh_plan.py COMPONENTS PARTITIONS RUNS

Needs sqlmesh, and nothing of this project. Ten layers of incremental models with a daily interval
for each partition, all recorded as filled; nothing is computed. Each run is a process of its own,
on a copy of its own where it changes the state. Prints a line of JSON for each scenario; one that
gives another number of intervals than there is to do is left out, with words on standard error. A
late partition has to be told to it (a restatement), and what follows from holes in one model is no
work to it (S7/second). Loading models is part of a new process' time (S1), and of no other; where
the other side is warm, this has made a plan of the same models before.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LAYERS = 10
END = dt.date(2026, 1, 1)
DAY_MS = 86_400_000
HUNDRED, SECOND = 100, 2
COLD = ("S0", "S7/holes", "S7/second")  # nothing was planned before in the process


class Project:
    """Models and state in a folder."""

    def __init__(self, folder: Path, width: int, days: int) -> None:
        self.folder, self.width, self.days = folder, width, days
        self.start = END - dt.timedelta(days=days)

    def write(self) -> None:
        (self.folder / "models").mkdir(parents=True)
        for layer in range(LAYERS):
            for column in range(self.width):
                self.write_model(layer, column)

    def write_model(self, layer: int, column: int, value: int = 1, comment: str = "") -> None:
        name = f"l{layer}_{column}"
        if layer:
            one, two = (f"m.l{layer - 1}_{c}" for c in (column, (column + 1) % self.width))
            query = (
                f"SELECT a.ds, a.k, a.v + b.v * {value} AS v FROM {one} AS a JOIN {two} AS b "
                "ON a.ds = b.ds AND a.k = b.k WHERE a.ds BETWEEN @start_ds AND @end_ds"
            )
        else:
            query = f"SELECT CAST(@start_ds AS DATE) AS ds, {column} AS k, {value} AS v"
        kind = "INCREMENTAL_BY_TIME_RANGE (time_column ds)"
        text = f"MODEL (name m.{name}, kind {kind}, cron '@daily', start '{self.start}');\n{comment}\n{query}\n"
        (self.folder / "models" / f"{name}.sql").write_text(text)

    def open(self) -> Any:
        from sqlmesh import Context
        from sqlmesh.core.config import (
            Config,
            DuckDBConnectionConfig,
            GatewayConfig,
            ModelDefaultsConfig,
        )
        from sqlmesh.core.console import NoopConsole, set_console

        set_console(NoopConsole())
        files = {
            kind: DuckDBConnectionConfig(database=str(self.folder / f"{kind}.db"))
            for kind in ("data", "state")
        }
        gateway = GatewayConfig(connection=files["data"], state_connection=files["state"])
        config = Config(
            gateways={"local": gateway},
            default_gateway="local",
            model_defaults=ModelDefaultsConfig(dialect="duckdb"),
            disable_anonymized_analytics=True,
        )
        return Context(paths=[str(self.folder)], config=config)

    def fill(self) -> None:
        """All intervals count as done, without data."""
        context = self.open()
        context.plan("prod", auto_apply=True, no_prompts=True, empty_backfill=True, **_quiet())
        context.close()

    def forget(self, step: int, first: int, names: list[str]) -> None:
        """Every so manyth interval of these models was never filled."""
        context = self.open()
        begin = int(dt.datetime.combine(self.start, dt.time(), dt.UTC).timestamp() * 1000)
        holes = [
            (begin + d * DAY_MS, begin + (d + 1) * DAY_MS) for d in range(first, self.days, step)
        ]
        context.state_sync.remove_intervals(
            [(context.get_snapshot(n), hole) for n in names for hole in holes]
        )
        context.close()

    def names(self) -> list[str]:
        return [f"m.l{layer}_{column}" for layer in range(LAYERS) for column in range(self.width)]


def _import() -> None:
    """What is imported late otherwise; imports are not timed."""
    import duckdb  # noqa: F401
    from sqlmesh import Context  # noqa: F401
    from sqlmesh.core.config import Config  # noqa: F401
    from sqlmesh.core.console import NoopConsole  # noqa: F401
    from sqlmesh.core.plan.builder import PlanBuilder  # noqa: F401


def _quiet() -> dict[str, Any]:
    return {"skip_tests": True, "skip_linter": True, "execution_time": END.isoformat()}


def _plan(context: Any, environment: str = "prod", **options: Any) -> int:
    """How many intervals are missing; the list of them is there then."""
    missing = context.plan_builder(environment, **_quiet(), **options).build().missing_intervals
    return sum(len(of.intervals) for of in missing)


# --- in a process of its own ------------------------------------------------------------------------


def measure(scenario: str, project: Project) -> tuple[int, float]:
    if scenario == "S1":
        began = time.perf_counter()
        found = _plan(project.open())
        return found, time.perf_counter() - began
    options: dict[str, Any] = {}
    if scenario == "S3":
        day = (project.start + dt.timedelta(days=project.days // 2)).isoformat()
        options = {"restate_models": ["m.l0_0"], "start": day, "end": day}
    context, environment = project.open(), "dev" if scenario == "S8/plan" else "prod"
    if scenario not in COLD:
        _plan(context)
    began = time.perf_counter()
    found = _plan(context, environment, **options)
    return found, time.perf_counter() - began


def child(scenario: str, folder: str, width: str, days: str) -> None:
    logging.disable(logging.CRITICAL)
    _import()
    items, seconds = measure(scenario, Project(Path(folder), int(width), int(days)))
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(json.dumps({"items": items, "seconds": seconds, "peak_mb": peak_mb}))


# --- all of them ------------------------------------------------------------------------------------


class Measuring:
    def __init__(self, scratch: Path, width: int, days: int, runs: int) -> None:
        self.scratch, self.width, self.days, self.runs = scratch, width, days, runs
        self.filled = self.project("filled")

    def project(self, name: str) -> Project:
        return Project(self.scratch / name, self.width, self.days)

    def run(self) -> None:
        self.filled.write()
        everything = LAYERS * self.width * self.days
        cone = sum(min(layer + 1, self.width) for layer in range(LAYERS))
        self.measure("S0", everything, self.filled)
        self.filled.fill()
        self.measure("S1", 0, self.filled)
        self.measure("S2", 0, self.filled)
        self.measure("S3", cone, self.filled)
        root = self.changed("root", lambda p: p.write_model(0, 0, value=2))
        self.measure("S5/full", cone * self.days, root)
        self.measure("S8/plan", cone * self.days, root)
        self.measure(
            "S5/sink",
            self.days,
            self.changed("sink", lambda p: p.write_model(LAYERS - 1, 0, value=2)),
        )
        self.measure(
            "S6",
            0,
            self.changed("comment", lambda p: p.write_model(0, 0, comment="-- looked at again")),
        )
        root.fill()
        root.write_model(0, 0)
        self.measure("S9", 0, root)
        holes = len(range(7, self.days, HUNDRED))
        everywhere = self.changed("holes", lambda p: p.forget(HUNDRED, 7, p.names()))
        self.measure("S7/holes", holes * LAYERS * self.width, everywhere)
        second = self.changed("second", lambda p: p.forget(SECOND, 0, ["m.l0_0"]))
        self.measure("S7/second", len(range(0, self.days, SECOND)), second)

    def changed(self, name: str, change: Callable[[Project], None]) -> Project:
        shutil.copytree(self.filled.folder, self.scratch / name)
        project = self.project(name)
        change(project)
        return project

    def measure(self, scenario: str, items: int, project: Project) -> None:
        found = [self.ask(scenario, project) for _ in range(self.runs)]
        if any(f["items"] != items for f in found):
            print(
                f"void: {scenario}: {found[0]['items']} intervals where there are {items}",
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

    def ask(self, scenario: str, project: Project) -> dict[str, float]:
        command = [
            sys.executable,
            __file__,
            "child",
            scenario,
            project.folder,
            self.width,
            self.days,
        ]
        done = subprocess.run(
            list(map(str, command)), check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]  # by our child


def main() -> None:
    os.environ["SQLMESH__DISABLE_ANONYMIZED_ANALYTICS"] = "true"
    os.environ["MAX_FORK_WORKERS"] = "1"
    if sys.argv[1] == "child":
        child(*sys.argv[2:])
        return
    logging.disable(logging.CRITICAL)
    components, partitions, runs = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="sqlmesh-plan-") as scratch:
        Measuring(Path(scratch), components // LAYERS, partitions, runs).run()


if __name__ == "__main__":
    main()
