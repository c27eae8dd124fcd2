"""How late a windowed table of a stream is: totals of each minute over 10,000 messages a second, and
one late row that corrects a minute of another day. Through Headgate, and by plain Structured
Streaming, one after the other on the same machine.

    python benchmarks/stream_windows.py [--seconds N] [--rate N] [--late N]

A message is in the table once the rows that are published count as many messages. Appends all
numbers to benchmarks/results/stream_windows.json. Does not belong here: the table of the messages.
"""

from __future__ import annotations

import argparse
import bisect
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeAlias

import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import pages
from benchmarks.processes import cpu_of, environment
from benchmarks.streams import WARM, create_topic, jars, produce, stream_workspace
from tests.e2e.workspace import until
from tests.servers.kafka import Kafka

Json: TypeAlias = Any
HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "stream_windows.json"
RATE = 10_000  # messages a second
DAY_S = 86_400
BLUEPRINT = """\
dataflow: stream
components:
  messages:
    read:
      connector: kafka
      servers: "{servers}"
      topic: messages
      schema: "n BIGINT, text STRING"
      refresh: continuous
      event_time: {{column: _timestamp, delay: 10s}}
  totals:
    transform:
      sql: |
        SELECT window(_timestamp, '1 minute').start AS minute, n % 10 AS kind, count(*) AS messages
        FROM messages GROUP BY window(_timestamp, '1 minute'), n % 10
      partition_by: [{{minute: minute}}]
"""


class Sent(NamedTuple):
    """How many messages were sent until a time, in seconds since 1970."""

    at: float
    messages: int


class Side(NamedTuple):
    """What is measured: a broker, the table of totals, and the process that keeps it."""

    kafka: Kafka
    table: Path
    pid: int


def main() -> None:
    parser = argparse.ArgumentParser(description="Windows of a stream, beside plain Spark's.")
    parser.add_argument("--seconds", type=float, default=60.0, help="of messages (60)")
    parser.add_argument("--rate", type=int, default=RATE, help="messages a second (10000)")
    parser.add_argument("--late", type=int, default=5, help="late rows, one after the other (5)")
    arguments = parser.parse_args()
    began = {"at": datetime.now(UTC).isoformat(timespec="seconds"), **pages.machine()}
    with TemporaryDirectory(prefix="headgate-bench-") as scratch:
        parts = {"headgate": through_headgate, "plain": by_plain_spark}
        measured = {name: part(Path(scratch) / name, arguments) for name, part in parts.items()}
    result = {**began, "seconds": arguments.seconds, "rate": arguments.rate, **measured}
    pages.store(RESULTS, [*pages.known_in(RESULTS), result])
    print("\n".join(table(result)))


def table(result: Json) -> list[str]:
    """Markdown."""
    shown = ("median_s", "p95_s", "worst_s", "late_row_s", "cpu_s", "commits")
    lines = ["| | " + " | ".join(shown) + " |", "|---" * (len(shown) + 1) + "|"]
    for name in ("headgate", "plain"):
        figures = " | ".join(str(result[name][key]) for key in shown)
        lines.append(f"| {name} | {figures} |")
    return lines


def through_headgate(folder: Path, arguments: argparse.Namespace) -> Json:
    folder.mkdir()
    kafka = Kafka().start()
    workspace = stream_workspace(folder)
    try:
        create_topic(kafka)
        workspace.write("stream.yaml", BLUEPRINT.format(servers=kafka.servers))
        with workspace.serving() as service:
            produce(kafka, 0, WARM, WARM)
            workspace.ask("apply", "stream.yaml", "--wait")
            totals = workspace.lake / "default" / "stream" / "totals"
            return _measured(Side(kafka, totals, service.process.pid), arguments)
    finally:
        workspace.end_all()
        kafka.remove()


def by_plain_spark(folder: Path, arguments: argparse.Namespace) -> Json:
    """One Structured Streaming query that writes all totals anew after each batch."""
    folder.mkdir()
    kafka = Kafka().start()
    totals = folder / "table"
    job = {"servers": kafka.servers, "out": str(totals), "jars": jars(), "windows": True}
    command = [sys.executable, str(HERE / "plain_stream.py"), json.dumps(job)]
    try:
        create_topic(kafka)
        produce(kafka, 0, WARM, WARM)
        with (
            (folder / "log").open("wb") as log,
            subprocess.Popen(command, env=environment(), stdout=log, stderr=log) as process,
        ):
            try:
                return _measured(Side(kafka, totals, process.pid), arguments)
            finally:
                process.terminate()
    finally:
        kafka.remove()


def _measured(side: Side, arguments: argparse.Namespace) -> Json:
    _await_messages(side.table, WARM)
    count = int(arguments.rate * arguments.seconds)
    sent: list[Sent] = []
    cpu_s = cpu_of(side.pid)
    produce(side.kafka, WARM, count, arguments.rate, lambda n: sent.append(Sent(time.time(), n)))
    _await_messages(side.table, WARM + count)
    cpu_s = cpu_of(side.pid) - cpu_s
    latencies = _latencies(sent, _published(side.table))
    late_rows = [_late_row_s(side, WARM + count + row) for row in range(arguments.late)]
    return {
        "median_s": _quantile(latencies, 0.5),
        "p95_s": _quantile(latencies, 0.95),
        "worst_s": _quantile(latencies, 1.0),
        "late_row_s": round(median(late_rows), 2) if late_rows else None,
        "cpu_s": round(cpu_s, 1),
        "commits": DeltaTable(side.table).version() + 1,
    }


def _late_row_s(side: Side, row: int) -> float:
    """Seconds until a message with a time of an earlier day is in the table. `row`: how many
    messages there are before it."""
    from confluent_kafka import Producer

    began = time.time()
    producer = Producer({"bootstrap.servers": side.kafka.servers})
    days = row % 300 + 1
    message = json.dumps({"n": row, "text": "late"}).encode()
    at_ms = int((began - days * DAY_S) * 1000)
    producer.produce("messages", message, partition=0, timestamp=at_ms)
    assert producer.flush() == 0
    _await_messages(side.table, row + 1)
    return time.time() - began


def _await_messages(table: Path, count: int) -> None:
    until(lambda: _count(table) >= count, lambda: f"{_count(table)} of {count} are published")


def _count(table: Path) -> int:
    """Messages in the newest rows; 0 without a table."""
    try:
        return _messages(DeltaTable(table))
    except TableNotFoundError:
        return 0


def _messages(table: DeltaTable) -> int:
    rows = table.to_pyarrow_table(columns=["messages"])
    return pc.sum(rows["messages"]).as_py() or 0


def _published(table: Path) -> list[Sent]:
    """Messages in the rows of each version, at the time of its commit."""
    versions: list[Sent] = []
    for log in sorted((table / "_delta_log").glob("*.json")):
        of_version = DeltaTable(table, version=int(log.stem))
        versions.append(Sent(log.stat().st_mtime, _messages(of_version)))
    return versions


def _latencies(sent: Sequence[Sent], published: Sequence[Sent]) -> list[float]:
    """Seconds from the last message of each tick to the first version that counts it, in order."""
    counts = [version.messages for version in published]
    latencies: list[float] = []
    for tick in sent:
        version = bisect.bisect_left(counts, WARM + tick.messages)
        latencies.append(published[version].at - tick.at)
    return sorted(latencies)


def _quantile(values: Sequence[float], share: float) -> float:
    return round(values[int(share * (len(values) - 1))], 2)


if __name__ == "__main__":
    main()
