"""Kills while messages arrive: the service, its workers and its drivers end at random moments, and
each message is in each table and in the export once.

`test_kafka_lane` and `test_crashes` kill at named places. Here the moment is by chance.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.conftest import closing
from tests.e2e.served import Served
from tests.e2e.tables import by_deltalake
from tests.e2e.workspace import Service, Workspace, until
from tests.servers.kafka import Kafka
from tests.slices import in_turn

BLUEPRINT = """\
dataflow: shop
components:
  orders:
    read:
      connector: kafka
      servers: "{servers}"
      topic: {topic}
      schema: "id INT, at TIMESTAMP"
      refresh: continuous
  shards: {{transform: {{sql: "SELECT id % 4 AS shard, count(*) AS n, sum(id) AS total FROM orders GROUP BY id % 4"}}}}
  paid:
    transform:
      sql: SELECT id, at FROM orders WHERE id % 5 > 0
      inputs: {{orders: each}}
  per_minute:
    transform:
      sql: >-
        SELECT window(at, '1 minute').start AS minute, id % 4 AS shard,
        count(*) AS n, sum(id) AS total
        FROM paid GROUP BY window(at, '1 minute'), id % 4
      partition_by: [{{minute: minute}}]
  export: {{write: {{connector: delta, from: per_minute, path: export}}}}
"""
START = datetime(2026, 3, 1, 10, tzinfo=UTC)
RATE = 50  # messages for a second of event time
# Each 70th message is five minutes late, so windows that are written change again
LATE, LATE_S = 70, 300
WINDOWS = """\
SELECT time_bucket(INTERVAL 1 minute, "at") AS minute, id % 4 AS shard,
count(*) AS n, sum(id) AS total
FROM messages WHERE id % 5 > 0 GROUP BY ALL ORDER BY ALL
"""
COLUMNS = ("minute", "shard", "n", "total")
PARTITIONS = 2
SHARDS = 4
BURST = 50  # messages
PAUSE_S = 0.1  # between two bursts
COMMITS = (
    "SELECT count(*) FROM events WHERE kind = 'dataset.committed' AND dataset = 'shop.per_minute'"
)
EVENTS = "SELECT coalesce(max(id), 0) FROM events"
MOST_COMMITS, MOST_EVENTS = 2, 20  # between two kills
CHILDREN = ("dataplane worker", "dataplane driver")
SERVICE = "serve"


def order_time(id: int) -> datetime:
    late_s = LATE_S if id % LATE == 0 else 0
    return START + timedelta(seconds=id // RATE - late_s)


def order_text(id: int) -> bytes:
    return f'{{"id": {id}, "at": "{order_time(id):%Y-%m-%dT%H:%M:%SZ}"}}'.encode()


class Arrivals:
    """Numbered messages that arrive in bursts until `stop`."""

    def __init__(self, servers: str, topic: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self._admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result()
        settings = {"bootstrap.servers": servers, "log_level": 0, "enable.idempotence": True}
        self._producer = Producer(settings)
        self._topic, self._stopped = topic, threading.Event()
        self._thread = threading.Thread(target=self._produce)
        self.count = 0

    @contextmanager
    def arriving(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            self._thread.join()

    def _produce(self) -> None:
        while not self._stopped.wait(PAUSE_S):
            for id in range(self.count, self.count + BURST):
                self._producer.produce(self._topic, order_text(id), partition=id % PARTITIONS)
            self.count += BURST
            self._producer.flush()


class Killing:
    """One kill after the other: half of them after more commits of windows, the others after a few
    events of any kind, also while processes start and recover."""

    def __init__(self, workspace: Workspace, seed: int, kills: int) -> None:
        self.workspace, self.chance, self.left = workspace, random.Random(seed), kills
        self.victims: Counter[str] = Counter()

    def until_the_service_dies(self, service: Service) -> None:
        """Kill processes of this service; the last one is the service, or `left` is 0."""
        victim = ""
        with service.client() as api:
            while self.left and victim != SERVICE:
                api.retry("shop")  # a task that several drivers died with waits for this
                self._await_moment()
                victim = self._kill(service)

    def _await_moment(self) -> None:
        if self.chance.random() < 0.5:
            self._await_more(COMMITS, self.chance.randint(1, MOST_COMMITS))
        else:
            self._await_more(EVENTS, self.chance.randint(1, MOST_EVENTS))

    def _await_more(self, count_query: str, count: int) -> None:
        wanted = self._count(count_query) + count
        until(
            lambda: self._count(count_query) >= wanted,
            lambda: f"{self._count(count_query)} of {wanted}: {count_query}",
        )

    def _count(self, count_query: str) -> int:
        return int(self.workspace.query(count_query)[0][0])

    def _kill(self, service: Service) -> str:
        processes = self.workspace.processes()
        children = {
            pid: kind
            for pid, line in processes.items()
            for kind in CHILDREN
            if line.rstrip().endswith(kind)
        }
        candidates = {service.process.pid: SERVICE, **children}
        pid = self.chance.choice(sorted(candidates))
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(pid, signal.SIGKILL)
        self.left -= 1
        self.victims[candidates[pid]] += 1
        return candidates[pid]


# By seed, kills: a few at every fourth commit, a hundred by `make soak`
ROUNDS = [
    pytest.param(0, 3, marks=in_turn(3, 4)),
    *(pytest.param(seed, 10, marks=pytest.mark.soak) for seed in range(1, 11)),
]


@pytest.mark.parametrize(("seed", "kills"), ROUNDS)
def test_each_message_counts_once(tmp_path: Path, kafka: Kafka, seed: int, kills: int) -> None:
    arrivals = Arrivals(kafka.servers, topic := f"kills-{seed}")
    with closing(Workspace(tmp_path)) as workspace:
        workspace.write("shop.yaml", BLUEPRINT.format(servers=kafka.servers, topic=topic))
        killing = Killing(workspace, seed, kills)
        with workspace.serving() as service:
            workspace.ask("apply", "shop.yaml")
            service.stop(signal.SIGTERM)
        with arrivals.arriving():
            while killing.left:
                with workspace.serving() as service:
                    killing.until_the_service_dies(service)
        with workspace.serving() as service, service.client() as api:
            api.retry("shop")
            assert_complete(Served(workspace, service, api, "shop", reads=1), arrivals.count)
            api.pause("shop")  # a listing that was requested before may still begin
            until(lambda: not workspace.untidy(), lambda: str(workspace.untidy()))
            assert service.stop(signal.SIGTERM) == 0
        workspace.assert_alone()


def assert_complete(served: Served, count: int) -> None:
    """All is at rest, and each table is that of a computation from scratch over all messages."""
    until(lambda: messages(served) >= count, lambda: f"{messages(served)} of {count} messages")
    workspace = served.workspace
    workspace.call("wait", served.flow, "--home", workspace.home)
    assert Counter(row["id"] for row in served.rows("orders")) == Counter(range(count))
    shards = [range(shard, count, SHARDS) for shard in range(SHARDS)]
    expected = [(shard, len(ids), sum(ids)) for shard, ids in enumerate(shards)]
    rows = served.rows("shards")
    assert sorted((row["shard"], row["n"], row["total"]) for row in rows) == expected
    published = workspace.lake / "default" / served.flow / "per_minute"
    windows = windows_from_scratch(count)
    assert rows_of_table(published) == windows
    assert rows_of_table(workspace.folder / "export") == windows


def windows_from_scratch(count: int) -> list[tuple[Any, ...]]:
    ids = range(count)
    messages = pa.table({"id": ids, "at": [order_time(id) for id in ids]})
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("messages", messages)
        return connection.execute(WINDOWS).fetchall()


def rows_of_table(location: Path) -> list[tuple[Any, ...]]:
    rows = by_deltalake(location).select(COLUMNS).to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def messages(served: Served) -> int:
    return sum(row["n"] for row in served.rows("shards"))
