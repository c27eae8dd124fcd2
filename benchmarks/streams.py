"""How late a stream is: messages come at a steady rate, and each is in the Delta table some seconds
later.

When a message was made is what Kafka says of it; when it was published is when the commit came that
added its file. Does not belong here: anything without a stream.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dataplane.spark.jars import fetched
from tests.e2e.workspace import Workspace, until
from tests.servers.kafka import Kafka

Json: TypeAlias = Any
JARS = Path(__file__).resolve().parents[1] / "tests" / "spark-kafka.xml"
RATE = 10_000  # messages a second
TICK_S = 0.02
WARM = 2_000  # messages before it begins, so that Spark is there
BLUEPRINT = """\
dataflow: stream
components:
  messages:
    read:
      {{connector: kafka, servers: "{servers}", topic: messages, schema: "n BIGINT, text STRING", refresh: continuous}}
"""


def stream(folder: Path, seconds: float) -> Json:
    """Latencies of all messages but the first ones, in seconds."""
    kafka = Kafka().start()
    jars = os.pathsep.join(sorted(map(str, fetched(JARS).glob("*.jar"))))
    place = Workspace(
        folder,
        environment={"HEADGATE_SPARK_CONF": json.dumps({"spark.driver.extraClassPath": jars})},
    )
    try:
        _create(kafka)
        place.write("stream.yaml", BLUEPRINT.format(servers=kafka.servers))
        with place.serving():
            _produce(kafka, 0, WARM, WARM)
            place.ask("apply", "stream.yaml", "--wait")
            took = _produce(kafka, WARM, int(RATE * seconds), RATE)
            table = place.lake / "default" / "stream" / "messages"
            wanted = WARM + int(RATE * seconds)
            until(
                lambda: _published(table) >= wanted,
                lambda: f"{_published(table)} of {wanted} are published",
            )
            return {"messages": wanted, "produced_s": took, **_latencies(table)}
    finally:
        place.end_all()
        kafka.remove()


def _create(kafka: Kafka) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": kafka.servers})
    admin.create_topics([NewTopic("messages", 2)])["messages"].result()


def _produce(kafka: Kafka, first: int, count: int, rate: int) -> float:
    """Evenly over time; the seconds that it took."""
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
