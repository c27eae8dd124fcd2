"""A stream for an hour: what grows while messages come at a steady rate.

    python benchmarks/stream_soak.py [--minutes N] [--rate N] [--every N]

Kafka, `headgate serve`, its worker and its driver run on this machine. A dataset has the messages,
another one has a window for each minute, and an export follows the windows. Each half minute is one
sample. The table of samples is benchmarks/results/soak-streams.md. The exit code is 1 if the memory
of a process, the lag, or the size of the Delta log for each commit grows by more than `BOUNDS` over
the second half. The log has a file for each commit, so its length alone says how often was
committed. Does not belong here: latency (`streams.py`).
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import pages
from benchmarks.processes import NAMES, family, memory_by_name
from benchmarks.streams import BLUEPRINT, RATE, create_topic, produce, stream_workspace
from controlplane.client import Headgate
from tests.e2e.workspace import Workspace
from tests.servers.kafka import Kafka

PAGE = Path(__file__).resolve().parent / "results" / "soak-streams.md"
MB = 1_000_000
WINDOWS = """\
  per_minute:
    transform:
      sql: >-
        SELECT window(_timestamp, '1 minute').start AS minute, count(*) AS n, sum(n) AS total
        FROM messages GROUP BY window(_timestamp, '1 minute')
      partition_by: [{minute: minute}]
  export: {write: {connector: delta, from: per_minute, path: export}}
"""
ROWS_OF, SHOWN_ROWS = "rows of ", 50
DATASETS = ("messages", "per_minute")
# At 10,000 messages a second, from nine minutes at 2,000: the topic 2, the table with its packs 0.6,
# the database 0.5 and the Delta log 0.4 (both at four commits a second). With a reserve.
DISK_GB_AN_HOUR = 4.0


@dataclass(frozen=True, slots=True)
class Bound:
    """How much the median of the last quarter may be above that of the quarter before it: by a
    share, and by an amount that is always allowed."""

    share: float
    amount: float

    def allows(self, before: float, after: float) -> bool:
        return after <= before + max(self.share * before, self.amount)


MEMORY_BOUND = Bound(0.1, 32.0)  # MB
BOUNDS: Mapping[str, Bound] = {
    **{f"{process} MB": MEMORY_BOUND for process in NAMES.values()},
    "lag s": Bound(0.5, 2.0),
    "log KB a commit": Bound(0.2, 5.0),
}


@dataclass(slots=True)
class Samples:
    """One row of figures for each half minute, under the same names."""

    rows: list[dict[str, float]] = field(default_factory=list)

    def table(self) -> Iterator[str]:
        """Markdown. Of the tables of the database, those with some rows."""
        last = self.rows[-1]
        names = [name for name in last if ROWS_OF not in name or last[name] >= SHOWN_ROWS]
        yield "| " + " | ".join(names) + " |"
        yield "|---" * len(names) + "|"
        for row in self.rows:
            cells = (f"{row.get(name, 0.0):,.10g}" for name in names)
            yield "| " + " | ".join(cells) + " |"

    def growths(self) -> Iterator[str]:
        """A sentence for each figure that grows by more than its bound over the second half."""
        for name, bound in BOUNDS.items():
            before, after = self._quarter(name, 2), self._quarter(name, 3)
            if not bound.allows(before, after):
                yield (
                    f"{name} grows from {before:,.10g} to {after:,.10g} over the second half: more "
                    f"than {bound.share:.0%} and more than {bound.amount:g}"
                )

    def _quarter(self, name: str, number: int) -> float:
        count = len(self.rows)
        part = self.rows[number * count // 4 : (number + 1) * count // 4]
        return median(row.get(name, 0.0) for row in part)


@dataclass(slots=True)
class Sampler:
    """Looks at the processes, the service, the lake and the database."""

    place: Workspace
    api: Headgate
    pid: int
    production: Production
    began_s: float = field(default_factory=time.monotonic)

    def sample(self) -> dict[str, float]:
        minute = (time.monotonic() - self.began_s) / 60
        processes = family(self.pid)
        return {
            "minute": round(minute, 1),
            **{f"{name} MB": mb for name, mb in memory_by_name(processes).items()},
            "CPU s": round(sum(process.cpu_s for process in processes)),
            **self._service_figures(),
            **self._lake_figures(),
            **self._database_figures(),
            "lines of serve.log": self._log_lines(),
        }

    def _service_figures(self) -> dict[str, float]:
        sent = self.production.sent
        figures = {"sent": float(sent)}
        for name in DATASETS:
            dataset = self.api.dataset(f"stream.{name}")
            figures[f"{name} partitions"] = dataset["partitions"]
            figures[f"{name} generations behind"] = (
                dataset["generation"] - dataset["published_generation"]
            )
            if name == "messages":
                figures["lag s"] = round(max(0, sent - dataset["rows"]) / self.production.rate, 1)
        return figures

    def _lake_figures(self) -> dict[str, float]:
        table = self.place.lake / "default" / "stream" / "messages"
        log = list((table / "_delta_log").glob("*"))
        commits = sum(path.suffix == ".json" for path in log)
        log_mb = _megabytes(log)
        return {
            "log files": len(log),
            "log MB": log_mb,
            "log KB a commit": round(1_000 * log_mb / max(1, commits), 1),
            "table files": sum(1 for _ in (table / "_frags").rglob("*.parquet")),
            "table MB": _megabytes((table / "_frags").rglob("*.parquet")),
        }

    def _database_figures(self) -> dict[str, float]:
        home = self.place.home
        figures = {"database MB": _megabytes(home.glob("metadata.db*"))}
        with closing(sqlite3.connect(f"file:{home / 'metadata.db'}?mode=ro", uri=True)) as database:
            names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for (name,) in sorted(names):
                ((count,),) = database.execute(f'SELECT count(*) FROM "{name}"')
                if count:
                    figures[ROWS_OF + name] = count
        return figures

    def _log_lines(self) -> int:
        with (self.place.folder / "serve.log").open("rb") as lines:
            return sum(1 for _ in lines)


def _megabytes(paths: Iterable[Path]) -> float:
    total = 0
    for path in paths:
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # a collection or a renaming deletes files meanwhile
            continue
    return round(total / MB, 1)


class Production:
    """Messages at a steady rate, in a thread."""

    def __init__(self, kafka: Kafka, rate: int, count: int) -> None:
        self.kafka, self.rate, self.count = kafka, rate, count
        self.sent = 0
        self._thread = threading.Thread(target=self._produce, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Whether messages still come after so many seconds."""
        self._thread.join(seconds)
        return self._thread.is_alive()

    def _produce(self) -> None:
        produce(self.kafka, 0, self.count, self.rate, self._note)

    def _note(self, sent: int) -> None:
        self.sent = sent


def soak(folder: Path, minutes: float, rate: int, every_s: float) -> Samples:
    """Messages for so many minutes, and a sample each `every_s` seconds."""
    kafka, samples = Kafka().start(), Samples()
    place = stream_workspace(folder)
    try:
        create_topic(kafka)
        text = BLUEPRINT.format(servers=kafka.servers, refresh="continuous") + WINDOWS
        place.write("stream.yaml", text)
        with place.serving() as service, service.client() as api:
            place.ask("apply", "stream.yaml")
            production = Production(kafka, rate, int(60 * minutes * rate))
            sampler = Sampler(place, api, service.process.pid, production)
            production.start()
            while production.wait(every_s):
                samples.rows.append(sampler.sample())
                print(json.dumps(samples.rows[-1]), flush=True)
    finally:
        place.end_all()
        kafka.remove()
    return samples


def page(samples: Samples, minutes: float, rate: int, growths: list[str]) -> Iterator[str]:
    """Markdown."""
    machine = pages.machine()
    yield "# A stream under load"
    yield ""
    yield (
        f"{datetime.now(UTC):%Y-%m-%d}, commit {machine['commit']}: {rate:,} messages a second for "
        f"{minutes:g} minutes; {pages.where(machine)}."
    )
    yield ""
    yield from samples.table()
    yield ""
    yield from growths or ["Nothing grows by more than its bound over the second half."]


def main() -> None:
    parser = argparse.ArgumentParser(description="What grows while messages come.")
    parser.add_argument("--minutes", type=float, default=60.0, help="of messages (60)")
    parser.add_argument("--rate", type=int, default=RATE, help="messages a second (10000)")
    parser.add_argument("--every", type=float, default=30.0, help="seconds between samples (30)")
    arguments = parser.parse_args()
    hours = arguments.minutes / 60 * arguments.rate / RATE
    print(f"This takes about {DISK_GB_AN_HOUR * hours:.1f} GB of disk.", flush=True)
    with TemporaryDirectory(prefix="headgate-soak-") as folder:
        samples = soak(Path(folder), arguments.minutes, arguments.rate, arguments.every)
    growths = list(samples.growths())
    PAGE.write_text("\n".join(page(samples, arguments.minutes, arguments.rate, growths)) + "\n")
    print("\n".join(growths))
    sys.exit(1 if growths else 0)


if __name__ == "__main__":
    main()
