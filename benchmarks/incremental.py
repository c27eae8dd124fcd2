"""Only what changed: TPC-H with a file for each month through Headgate, beside plain PySpark that
computes all anew.

    python benchmarks/incremental.py [--scale 1] [--rounds 2]

Prints ratios, appends all numbers to benchmarks/results/incremental.json, and writes a section of
docs/performance.md. Each round has both. Does not belong here: what the answers are (tests),
planning without data (planner).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import pages
from benchmarks.processes import timed
from controlplane import settings
from controlplane.bootstrap import Server
from controlplane.cli import once, sources
from controlplane.operations.desired import controls
from tests import tpch

Json: TypeAlias = Any
HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "incremental.json"
CORRECTED = ("1994-05", "1995-09", "1996-03", "1993-08")
TARGETS = {"first": 1.15, "hashing": 0.2, "all": 0.4, "q1": 0.1, "q6": 0.6, "q12": 0.3, "q14": 0.3}


def main() -> None:
    parser = argparse.ArgumentParser(
        description="TPC-H by month through Headgate, beside plain PySpark."
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of TPC-H (1)")
    parser.add_argument("--rounds", type=int, default=2, help="of everything (2)")
    asked = parser.parse_args()
    rounds = [_round(asked.scale) for _ in range(asked.rounds)]
    found = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "scale": asked.scale,
        **pages.machine(),
    }
    result = {**found, "rounds": rounds}
    pages.keep(RESULTS, result, "incremental", list(_table(result)))


def _round(scale: float) -> Json:
    with TemporaryDirectory(prefix="headgate-bench-") as folder:
        place = Path(folder)
        shutil.copytree(tpch.data(scale), place / "data")
        command: list[str | Path] = [
            sys.executable,
            HERE / "plain_tpch.py",
            place,
            place / "plain",
            f"{scale}",
            "2",
        ]
        plain = json.loads(timed(command, errors=place / "plain.err").output)
        return {"plain": plain, "headgate": Story(place, scale).run()}


class Story:
    """A first run, a corrected month for all queries at once, and one for each by itself."""

    def __init__(self, place: Path, scale: float) -> None:
        self._place, self._scale = place, scale
        self._text = place / "tpch.yaml"
        self._text.write_text(
            json.dumps({"dataflow": "tpch", "components": tpch.components(scale)})
        )

    def run(self) -> Json:
        began = time.monotonic()
        with Server(settings.read(self._place / "home"), "run") as server:
            self._server = server
            found: dict[str, Json] = {"first": self._settled(since=began), "modes": self._modes()}
            found["all"] = [self._corrected(month) for month in CORRECTED[:2]]
            found["one"] = self._one_by_one(CORRECTED[2])
        return found

    def _settled(self, *texts: Path, since: float | None = None) -> float:
        """Seconds of a run."""
        wish = once.RunRequest(sources.load(texts or [self._text]))
        value = once.make(self._server, wish, lambda _: None, since=since or time.monotonic())
        assert value["state"] in ("up_to_date", "paused"), value
        return float(value["wall_s"])

    def _corrected(self, month: str) -> float:
        tpch.correct(self._place / "data" / "lineitem" / f"{month}.parquet")
        return self._settled()

    def _modes(self) -> Json:
        """Of the queries that read lineitem: how they read it."""
        from controlplane.operations.inspect.json_views import modes

        context = self._server.context("bench")
        with context.read_plan("main") as (_, facts):
            nodes = facts.desired.nodes
            found = {
                name: modes(context, nodes[f"tpch.{name}"]) for name in tpch.queries(self._scale)
            }
        return {name: slots["lineitem"] for name, slots in found.items() if "lineitem" in slots}

    def _one_by_one(self, month: str) -> dict[str, float]:
        """Seconds that each query takes by itself, once its tables are there."""
        context = self._server.context("bench")
        names = list(self._modes())
        for name in names:
            controls.pause(context, "main", f"tpch.{name}")
        self._corrected(month)
        return {name: self._resumed(f"tpch.{name}") for name in names}

    def _resumed(self, dataset: str) -> float:
        began = time.monotonic()
        controls.resume(self._server.context("bench"), "main", dataset)
        self._server.settle([dataset.partition(".")[0]], "main", lambda _: None, lambda: False)
        return round(time.monotonic() - began, 3)


# --- words ------------------------------------------------------------------------------------------


def ratios(found: Json) -> dict[str, float]:
    """Of one round."""
    plain, ours = found["plain"], found["headgate"]
    cold = plain["session"] + sum(plain["tables"].values()) + sum(plain["first"].values())
    again = median(sum(one.values()) for one in plain["again"])
    return {
        "first": ours["first"] / cold,
        "hashing": plain["hashed"] / ours["first"],
        "all": median(ours["all"]) / again,
        **{
            name: took / median(one[name] for one in plain["again"])
            for name, took in ours["one"].items()
        },
    }


def _table(result: Json) -> Iterator[str]:
    """Markdown."""
    found = [ratios(one) for one in result["rounds"]]
    modes = result["rounds"][0]["headgate"]["modes"]
    yield "| what, as a share of what plain Spark takes | target | median (worst) |"
    yield "|---|---|---|"
    yield f"| first run, all / session, tables and answers | {TARGETS['first']} | {_told(found, 'first')} |"
    yield f"| hashing what was written, read again / our first run | {TARGETS['hashing']} | {_told(found, 'hashing')} |"
    yield f"| one corrected month of `lineitem`, all 22 / all 22 | {TARGETS['all']} | {_told(found, 'all')} |"
    for name, slot in modes.items():
        is_partial = slot["mode"] != "all" or "decomposable" in slot["reason"]
        kind = "decomposable" if is_partial and slot["mode"] == "all" else slot["mode"]
        yield f"| one corrected month, {name} alone ({kind}) | {TARGETS.get(name, '')} | {_told(found, name)} |"
    yield ""
    when, rounds = result["at"][:10], len(result["rounds"])
    yield f"Scale {result['scale']:g}, {when}, commit {result['commit']}, {rounds} rounds; {pages.where(result)}."


def _told(found: Sequence[dict[str, float]], name: str) -> str:
    values = [one[name] for one in found]
    return f"{median(values):.2f} ({max(values):.2f})"


if __name__ == "__main__":
    for name in [name for name in os.environ if name.startswith("HEADGATE_")]:
        del os.environ[name]
    main()
