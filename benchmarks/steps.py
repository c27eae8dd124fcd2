"""Where the time of one step goes: a small file through a warm `serve`, taken apart.

    python benchmarks/steps.py [--rounds N] [--steps N] [--rows N]

A dataflow reads small CSV files, and a chain of row-wise SQL transforms follows. Each round one
more file comes. Prints the parts of the round as a table, beside what Spark alone takes for the
same SQL in a warm session, and appends all numbers to benchmarks/results/steps.json. Does not
belong here: how time is taken.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import pages
from benchmarks.processes import cpu_by_thread, family, timed
from benchmarks.service import serving
from controlplane.client import Headgate

Json: TypeAlias = Any
HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "steps.json"
WARM = 2  # rounds that are shown and not counted: Spark and its compilers begin in them
SQL = "SELECT k, v + 1 AS v, concat(t, 'x') AS t FROM {source} WHERE v > -1000"


def main() -> None:
    parser = argparse.ArgumentParser(description="The parts of one step through a warm service.")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds (5)")
    parser.add_argument("--steps", type=int, default=5, help="transforms in a chain (5)")
    parser.add_argument("--rows", type=int, default=1_000, help="of each file (1000)")
    parser.add_argument("--jvm", default="", help="further options of the driver's JVM")
    parser.add_argument("--conf", default="{}", help="further settings of Spark, JSON")
    arguments = parser.parse_args()
    variables = {"HEADGATE_JVM": arguments.jvm, "HEADGATE_SPARK_CONF": arguments.conf}
    with TemporaryDirectory(prefix="headgate-bench-") as folder:
        chain = Chain(Path(folder), arguments.steps, arguments.rows, variables)
        rounds = chain.run(arguments.rounds)
        plain = chain.plain(arguments.rounds)
    result = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **pages.machine(),
        "steps": arguments.steps,
        "rows": arguments.rows,
        "jvm": arguments.jvm,
        "conf": arguments.conf,
        "rounds": rounds,
        "plain": plain,
    }
    pages.store(RESULTS, [*pages.known_in(RESULTS), result])
    print("\n".join(table(result)))


class Chain:
    """A folder of small files, a dataflow over it, and a service."""

    def __init__(self, folder: Path, steps: int, rows: int, variables: Mapping[str, str]) -> None:
        """`variables`: of the service's environment."""
        self._variables = variables
        self._folder, self._steps, self._rows = folder, steps, rows
        self._home, self._errors = folder / "home", folder / "errors"
        self._files = 0
        (folder / "data").mkdir()
        self._land()
        names = [f"s{number}" for number in range(1, steps + 1)]
        sources = ["rows", *names]
        read = {
            "connector": "files",
            "path": f"{folder}/data/*.csv",
            "format": "csv",
            "options": {"header": True},
            "schema": "k INT, v INT, t STRING",
        }
        transforms = {
            name: {"transform": {"sql": SQL.format(source=source)}}
            for name, source in zip(names, sources, strict=False)
        }
        self._last = f"chain.{names[-1]}"
        self._blueprint = folder / "chain.yaml"
        self._blueprint.write_text(
            json.dumps({"dataflow": "chain", "components": {"rows": {"read": read}, **transforms}})
        )

    def run(self, rounds: int) -> list[Json]:
        """The parts of each counted round."""
        with serving(self._home, self._errors, self._variables) as (client, pid):
            client.apply([{"name": "/chain.yaml", "text": self._blueprint.read_text()}])
            self._wait(client, 0)
            every = [self._round(client, pid) for _ in range(WARM + rounds)]
        return every[WARM:]

    def plain(self, rounds: int) -> list[float]:
        """Seconds of one step in Spark alone, in a warm session, without anything of ours."""
        out = self._folder / "plain"
        command: list[str | Path] = [
            *(sys.executable, HERE / "plain_chain.py", self._folder / "data", out),
            *map(str, (self._steps, WARM + rounds)),
        ]
        text = timed(command, errors=self._errors).output
        seconds: list[float] = json.loads(text)[WARM:]
        return seconds

    def _land(self) -> None:
        """One more file, of rows that were never there."""
        self._files += 1
        begin = self._files * self._rows
        lines = [f"{n},{n},t{n}" for n in range(begin, begin + self._rows)]
        landing = self._folder / "landing"
        landing.write_text("\n".join(["k,v,t", *lines, ""]))
        landing.rename(self._folder / "data" / f"{self._files:06}.csv")

    def _round(self, client: Headgate, pid: int) -> Json:
        before = self._generation(client)
        cpu_before = _cpu(pid)
        began_at, began = time.time(), time.monotonic()
        self._land()
        client.refresh("chain")
        self._wait(client, before)
        wall_s = time.monotonic() - began
        cpu_s = {name: value - cpu_before.get(name, 0.0) for name, value in _cpu(pid).items()}
        attempts = self._attempts(began_at)
        result = {
            "wall_s": round(wall_s, 3),
            "cpu_s": {name: round(value, 2) for name, value in sorted(cpu_s.items())},
            "parts": {name: round(value, 3) for name, value in parts(began_at, wall_s, attempts)},
        }
        print(f"{wall_s:7.2f} s, CPU {result['cpu_s']}", file=sys.stderr, flush=True)
        return result

    def _wait(self, client: Headgate, generation: int) -> None:
        for event in client.events():
            if event and event["kind"] == "task_failed":
                raise SystemExit(f"a task failed: {event}")
            is_last = event is not None and event["dataset"] == self._last
            if is_last and self._generation(client) > generation:
                return

    def _generation(self, client: Headgate) -> int:
        """That is published of the last dataset of the chain."""
        datasets = client.status("chain")["dataflows"][0]["datasets"]
        return next(d["published_generation"] or 0 for d in datasets if d["name"] == self._last)

    def _attempts(self, since: float) -> list[Attempt]:
        """Those that began since, in the order of their ends, from the database of the home."""
        query = """SELECT kind, queued_at, started_at, ended_at, seconds
            FROM past_attempts WHERE started_at >= ? ORDER BY ended_at"""
        with sqlite3.connect(f"file:{self._home}/metadata.db?mode=ro", uri=True) as database:
            return [Attempt(*row) for row in database.execute(query, (since,))]


@dataclass(frozen=True, slots=True)
class Attempt:
    """Times are seconds since 1970."""

    kind: str
    queued_at: float
    started_at: float
    ended_at: float
    seconds: float | None


def parts(began_at: float, wall_s: float, attempts: Sequence[Attempt]) -> list[tuple[str, float]]:
    """The wall time of a round by what it was spent on: it adds up.

    Attempts of a chain follow each other. What of an attempt lies in the time of one before it is
    not counted again.
    """
    sums: defaultdict[str, float] = defaultdict(float)
    now = began_at
    for attempt in attempts:
        worked = min(attempt.seconds or 0.0, attempt.ended_at - attempt.started_at)
        reported_at = attempt.ended_at
        worked_until = min(reported_at, attempt.started_at + worked)
        for name, until in (
            ("decide and request", attempt.queued_at),
            ("wait for a claim", attempt.started_at),
            (f"work: {attempt.kind}", worked_until),
            ("hand over and report", reported_at),
        ):
            if until > now:
                sums[name] += until - now
                now = until
    sums["commit and publish the last"] = max(0.0, began_at + wall_s - now)
    return list(sums.items())


def _cpu(pid: int) -> dict[str, float]:
    """CPU seconds of the service's processes, and of the threads of the JVM by their use."""
    sums: defaultdict[str, float] = defaultdict(float)
    for process in family(pid):
        if "java" in process.command.split(" ")[0]:
            for name, seconds in cpu_by_thread(process.pid).items():
                sums[f"JVM {_use(name)}"] += seconds
        else:
            sums[_role(process.command)] += process.cpu_s
    return dict(sums)


USES: Mapping[str, str] = {
    "C1": "compilers",
    "C2": "compilers",
    "GC": "collection",
    "Executor": "executors",
}


def _use(thread: str) -> str:
    return next((use for begin, use in USES.items() if thread.startswith(begin)), "others")


def _role(command: str) -> str:
    roles = {"dataplane driver": "driver", "dataplane worker": "worker", " serve": "service"}
    return next((role for text, role in roles.items() if text in command), "others")


def table(result: Json) -> list[str]:
    """The medians of the counted rounds."""
    rounds, steps = result["rounds"], result["steps"]
    walls = [r["wall_s"] for r in rounds]
    plain = median(result["plain"])
    lines = [
        f"{pages.where(result)}, {result['at'][:10]}, commit {result['commit']}",
        "",
        f"| {steps} steps, a file of {result['rows']} rows | median of {len(rounds)}, s |",
        "|---|---|",
        f"| wall | {median(walls):.2f} |",
        f"| the same SQL in Spark alone | {plain * steps:.2f} |",
        f"| more for each step | {(median(walls) - plain * steps) / steps:.2f} |",
    ]
    for group, title in (("parts", "wall"), ("cpu_s", "CPU")):
        names = dict.fromkeys(name for r in rounds for name in r[group])
        values = {name: median(r[group].get(name, 0.0) for r in rounds) for name in names}
        lines += [f"| {title}: {name} | {value:.2f} |" for name, value in values.items()]
    return lines


if __name__ == "__main__":
    main()
