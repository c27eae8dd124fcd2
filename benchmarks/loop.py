"""Headgate beside a hand-written script that makes the same tables: first run, late file, nothing
to do, at rest.

    python benchmarks/loop.py [--runs N] [--by month,day] [--rest SECONDS]

Both take turns, so that whatever else the machine does meets both. Prints ratios, appends all
numbers to benchmarks/results/loop.json, and writes the table of docs/performance.md. Does not
belong here: how time is taken.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import shutil
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias, get_args

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import pages
from benchmarks.processes import Cost, at_rest, cpu_of, timed
from benchmarks.report import summary, table
from benchmarks.service import serving
from controlplane.client import Headgate
from controlplane.demo.data import By, lay_out
from tests.jars import delta_classpath

Json: TypeAlias = Any
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "results" / "loop.json"
SETTLED_S = 20.0  # after a start its first looks are over
LATE_FILES = 4  # through a service; the first of them starts Spark and is not counted
DOWNSTREAM = frozenset(
    ("flights", "legs", "named", "delays", "by_carrier", "by_route", "daily", "trend")
)


def main() -> None:
    asked = _arguments()
    delta_classpath()  # fetched now if they are not there
    for by in asked.by:
        with TemporaryDirectory(prefix="headgate-bench-") as folder:
            found = _Shape(Path(folder), by).run(asked.runs, asked.rest)
        _keep(
            {
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "by": by,
                **pages.machine(),
                **found,
            }
        )


def _keep(result: Json) -> None:
    """Results of one shape: appended to all, shown, and put into the page beside the newest of the
    other shape."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps([*known, result], indent=1) + "\n")
    newest = {r["by"]: r for r in [*known, result]}
    lines = table([newest[by] for by in get_args(By) if by in newest])
    print("\n".join(lines))
    pages.write("loop", lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Headgate beside a hand-written PySpark script.")
    parser.add_argument("--runs", type=int, default=3, help="rounds (3)")
    parser.add_argument(
        "--by",
        type=lambda t: t.split(","),
        default=["month", "day"],
        help="shapes of data (month,day)",
    )
    parser.add_argument(
        "--rest", type=float, default=60.0, help="seconds to watch an idle service (60)"
    )
    return parser.parse_args()


class _Shape:
    """All measurements over files by month, or by day."""

    def __init__(self, folder: Path, by: By) -> None:
        self._folder, self._by = folder / by, by
        self._data, self._home = self._folder / "data", self._folder / "home"
        self._errors = folder / f"{by}.err"
        self._late = 0
        shutil.copytree(
            ROOT / "blueprints" / "flights",
            self._folder,
            ignore=shutil.ignore_patterns("data", "out"),
        )
        lay_out(self._data, by)
        self._files = sorted((self._data / "flights").iterdir())

    def run(self, runs: int, rest_s: float) -> Json:
        self._empty_session()  # pages and bytecode are in memory for everybody
        self._headgate("validate", self._folder / "flights.yaml")
        rounds = [self._round(number) for number in range(runs)]
        with serving(self._home, self._errors) as (client, pid):
            served = [self._served(client, pid) for _ in range(LATE_FILES)][1:]
        rest = self._at_rest(rest_s) if self._by == "month" else []
        return {
            "summary": summary(rounds, served, rest),
            "rounds": rounds,
            "served": served,
            "rest": rest,
        }

    def _round(self, number: int) -> Json:
        steps: dict[str, Callable[[], Cost]] = {
            "handwritten": self._handwritten,
            "first": self._first_run,
            "nothing": self._run,
            "empty_session": self._empty_session,
            "late": self._late_run,
        }
        costs = {}
        for name, step in steps.items():
            cost = step()
            costs[name] = cost.json()
            _say(
                f"{self._by} {number + 1} {name:14} {cost.wall_s:7.2f} s, of CPU {cost.cpu_s:7.2f} s"
            )
        return costs

    # --- what is measured ---------------------------------------------------------------------------

    def _handwritten(self) -> Cost:
        out = self._folder / "handwritten"
        shutil.rmtree(out, ignore_errors=True)
        return timed(
            [sys.executable, HERE / "handwritten.py", self._data, out], errors=self._errors
        )

    def _empty_session(self) -> Cost:
        return timed([sys.executable, HERE / "empty_session.py"], errors=self._errors)

    def _first_run(self) -> Cost:
        """From an empty home, over the files that the script reads."""
        shutil.rmtree(self._home, ignore_errors=True)
        shutil.rmtree(self._folder / "out", ignore_errors=True)
        for file in (self._data / "flights").iterdir():
            if file not in self._files:
                file.unlink()
        self._late = 0
        cost = self._run()
        assert _tasks(cost) > len(self._files), cost.output
        return cost

    def _late_run(self) -> Cost:
        """A run of a process of its own after one more file came."""
        self._land()
        cost = self._run()
        assert 0 < _tasks(cost) < 10, cost.output
        return cost

    def _run(self) -> Cost:
        return self._headgate(
            "run", self._folder / "flights.yaml", "--home", self._home, "--output", "json"
        )

    def _headgate(self, *arguments: str | Path) -> Cost:
        return timed([sys.executable, "-m", "controlplane", *arguments], errors=self._errors)

    # --- late files ---------------------------------------------------------------------------------

    def _land(self) -> None:
        """One more file, as large as the others: one of them, a year or more later."""
        years, place = divmod(self._late, len(self._files))
        source = self._files[place]
        self._late += 1
        text = _moved(source.read_text(), years + 1)
        landing = self._folder / "landing"
        landing.write_text(text)
        landing.rename(source.with_name(source.name.replace("2013", str(2014 + years))))

    def _at_rest(self, seconds: float) -> list[Json]:
        """Of a service that was started over the finished home, where no driver has work."""
        with serving(self._home, self._errors) as (_, pid):
            time.sleep(SETTLED_S)
            return [process.json() for process in at_rest(pid, seconds)]

    def _served(self, client: Headgate, pid: int) -> Json:
        """Seconds from a file's arrival, with a request to look, to all tables published and the
        target written."""
        before = _published(client)
        cpu_s, began = cpu_of(pid), time.monotonic()
        self._land()
        client.refresh("flights")
        for _ in client.events():
            if all(generation > before[name] for name, generation in _published(client).items()):
                break
        cost = Cost(time.monotonic() - began, cpu_of(pid) - cpu_s)
        _say(f"{self._by}   served         {cost.wall_s:7.2f} s, of CPU {cost.cpu_s:7.2f} s")
        return cost.json()


def _moved(text: str, years: int) -> str:
    """A file of flights with later dates."""
    rows = list(csv.reader(io.StringIO(text)))
    header, body = rows[0], rows[1:]
    year, hour = header.index("year"), header.index("time_hour")
    for row in body:
        row[year] = str(int(row[year]) + years)
        row[hour] = str(int(row[hour][:4]) + years) + row[hour][4:]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([header, *body])
    return out.getvalue()


def _tasks(cost: Cost) -> int:
    return int(json.loads(cost.output)["tasks"]["executed"])


def _published(client: Headgate) -> dict[str, int]:
    """Generations of the tables that a late file changes. -1 for all while the target lags
    behind."""
    flow = client.status("flights")["dataflows"][0]
    is_written = all(t["state"] == "up_to_date" for t in flow["targets"])
    tables = {d["name"].partition(".")[2]: d["published_generation"] for d in flow["datasets"]}
    return {name: tables[name] if is_written else -1 for name in DOWNSTREAM}


# --- words ------------------------------------------------------------------------------------------


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
