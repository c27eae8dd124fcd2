"""How late a stream is: messages come at a steady rate, and each is in the Delta table some time
later. Through Headgate, and by plain Structured Streaming, one after the other on the same machine.

    python benchmarks/streams.py [--seconds N] [--rate N] [--rest N] [--refresh TEXT]

When a message was made is what Kafka says of it; when it was published is when the commit came that
added its file. Appends all numbers to benchmarks/results/streams.json. Does not belong here:
anything without a stream.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import pages
from benchmarks.processes import at_rest, environment, family
from dataplane.spark.jars import fetched
from tests.e2e.workspace import Workspace, until
from tests.servers.kafka import Kafka

Json: TypeAlias = Any
HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "streams.json"
JARS = HERE.parent / "tests" / "spark-kafka.xml"
RATE = 10_000  # messages a second
SETTLE_S = 30.0  # before the time at rest: drivers that were started meanwhile go on as they are
TICK_S = 0.02
WARM = 2_000  # messages before it begins, so that Spark is there
BLUEPRINT = """\
dataflow: stream
components:
  messages:
    read:
      {{connector: kafka, servers: "{servers}", topic: messages, schema: "n BIGINT, text STRING", refresh: {refresh}}}
"""


@dataclass(frozen=True, slots=True)
class Load:
    """What comes, for how long, and how it is to be followed. `rest_s`: the time at rest after it
    that is measured."""

    seconds: float
    rate: int = RATE
    rest_s: float = 0.0
    refresh: str = "continuous"

    @property
    def count(self) -> int:
        return int(self.rate * self.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description="Latency of a stream, beside plain Spark's.")
    parser.add_argument("--seconds", type=float, default=60.0, help="of messages (60)")
    parser.add_argument("--rate", type=int, default=RATE, help="messages a second (10000)")
    parser.add_argument("--rest", type=float, default=60.0, help="seconds at rest (60)")
    parser.add_argument("--refresh", default="continuous", help="of the blueprint (continuous)")
    arguments = parser.parse_args()
    load = Load(arguments.seconds, arguments.rate, arguments.rest, arguments.refresh)
    began = {"at": datetime.now(UTC).isoformat(timespec="seconds"), **pages.machine()}
    with TemporaryDirectory(prefix="headgate-bench-") as folder:
        parts = {"headgate": through_headgate, "plain": by_plain_spark}
        measured = {name: part(Path(folder) / name, load) for name, part in parts.items()}
    asked = {"seconds": load.seconds, "rate": load.rate, "refresh": load.refresh}
    result = {**began, **asked, **measured}
    pages.store(RESULTS, [*pages.known_in(RESULTS), result])
    print("\n".join(table(result)))


def table(result: Json) -> Iterator[str]:
    """Markdown."""
    shown = ("median_s", "p95_s", "worst_s", "cpu_s", "generations", "rest_cpu")
    yield "| | " + " | ".join(shown) + " |"
    yield "|---" * (len(shown) + 1) + "|"
    for name in ("headgate", "plain"):
        yield f"| {name} | " + " | ".join(str(result[name].get(key, "")) for key in shown) + " |"


def stream(folder: Path, seconds: float) -> Json:
    """Latencies of all messages but the first ones, in seconds."""
    return through_headgate(folder, Load(seconds))


def through_headgate(folder: Path, load: Load) -> Json:
    """Latencies and CPU of `headgate serve`, with all its processes."""
    folder.mkdir(exist_ok=True)
    kafka = Kafka().start()
    place = stream_workspace(folder)
    try:
        create_topic(kafka)
        text = BLUEPRINT.format(servers=kafka.servers, refresh=load.refresh)
        place.write("stream.yaml", text)
        with place.serving() as service:
            produce(kafka, 0, WARM, WARM)
            place.ask("apply", "stream.yaml", "--wait")
            messages = place.lake / "default" / "stream" / "messages"
            return _measured(kafka, messages, service.process.pid, load)
    finally:
        place.end_all()
        kafka.remove()


def stream_workspace(folder: Path) -> Workspace:
    """A workspace whose drivers have the jars of Kafka."""
    conf = json.dumps({"spark.driver.extraClassPath": jars()})
    return Workspace(folder, environment={"HEADGATE_SPARK_CONF": conf})


def by_plain_spark(folder: Path, load: Load) -> Json:
    """The same of one Structured Streaming query that appends to a Delta table."""
    folder.mkdir(exist_ok=True)
    kafka = Kafka().start()
    job = {"servers": kafka.servers, "out": str(folder / "table"), "jars": jars(), "windows": False}
    command = [sys.executable, str(HERE / "plain_stream.py"), json.dumps(job)]
    try:
        create_topic(kafka)
        produce(kafka, 0, WARM, WARM)
        with (
            (folder / "log").open("wb") as log,
            subprocess.Popen(command, env=environment(), stdout=log, stderr=log) as process,
        ):
            try:
                messages = folder / "table"
                _await(lambda: _published(messages), WARM)
                return _measured(kafka, messages, process.pid, load)
            finally:
                process.terminate()
    finally:
        kafka.remove()


def _measured(kafka: Kafka, messages: Path, pid: int, load: Load) -> Json:
    before = _cpu_s(pid)
    took_s = produce(kafka, WARM, load.count, load.rate)
    _await(lambda: _published(messages), WARM + load.count)
    result = {
        "messages": WARM + load.count,
        "produced_s": took_s,
        "cpu_s": round(_cpu_s(pid) - before, 1),
        **_latencies(messages),
    }
    if load.rest_s:
        time.sleep(SETTLE_S)
        rest = at_rest(pid, load.rest_s)
        result["rest_cpu"] = round(sum(process.cpu_share for process in rest), 4)
    return result


def _await(count: Callable[[], int], wanted: int) -> None:
    until(lambda: count() >= wanted, lambda: f"{count()} of {wanted} are published")


def _cpu_s(pid: int) -> float:
    return sum(process.cpu_s for process in family(pid))


def jars() -> str:
    return os.pathsep.join(sorted(map(str, fetched(JARS).glob("*.jar"))))


def create_topic(kafka: Kafka) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": kafka.servers})
    admin.create_topics([NewTopic("messages", 2)])["messages"].result()


def produce(
    kafka: Kafka, first: int, count: int, rate: int, note: Callable[[int], None] | None = None
) -> float:
    """Evenly over time; the seconds that it took. `note` is called with the count that was sent so
    far."""
    from confluent_kafka import Producer

    producer, began = (
        Producer({"bootstrap.servers": kafka.servers, "linger.ms": 5}),
        time.monotonic(),
    )
    sent = 0
    while sent < count:
        due = min(count, int((time.monotonic() - began) * rate) + 1)
        for n in range(first + sent, first + due):
            producer.produce(
                "messages", f'{{"n": {n}, "text": "message number {n}"}}'.encode(), partition=n % 2
            )
        sent = due
        producer.poll(0)
        if note is not None:
            note(sent)
        time.sleep(TICK_S)
    assert producer.flush() == 0
    return round(time.monotonic() - began, 1)


# --- the table --------------------------------------------------------------------------------------


def _added(table: Path) -> Iterator[tuple[float, Json]]:
    """When each file was published, and what the log says of it. Packs hold what was published
    before."""
    for log in sorted((table / "_delta_log").glob("*.json")):
        at = log.stat().st_mtime
        for line in log.read_text().splitlines():
            add = json.loads(line).get("add")
            if add and add["dataChange"]:
                yield at, add


def _published(table: Path) -> int:
    return sum(json.loads(add["stats"])["numRecords"] for _, add in _added(table))


def _latencies(table: Path) -> Json:
    late = []
    for at, add in _added(table):
        rows = pq.read_table(table / add["path"], columns=["n", "_timestamp"], partitioning=None)
        rows = rows.filter(pc.greater_equal(rows["n"], WARM))
        made = rows["_timestamp"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        late += [at - us / 1_000_000 for us in made.to_pylist()]
    late.sort()
    told = {"median_s": 0.5, "p95_s": 0.95, "worst_s": 1.0}
    return {name: round(late[int(share * (len(late) - 1))], 2) for name, share in told.items()} | {
        "generations": len(list((table / "_delta_log").glob("*.json")))
    }


if __name__ == "__main__":
    main()
