"""Kills while messages arrive: the service, its workers and its drivers end at random moments, and
each message is in each table once.

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
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.conftest import closing
from tests.e2e.served import Served
from tests.e2e.workspace import Service, Workspace, until
from tests.servers.kafka import Kafka
from tests.slices import in_turn

BLUEPRINT = """\
dataflow: shop
components:
  orders: {{read: {{connector: kafka, servers: "{servers}", topic: {topic}, schema: "id INT", refresh: continuous}}}}
  shards: {{transform: {{sql: "SELECT id % 4 AS shard, count(*) AS n, sum(id) AS total FROM orders GROUP BY id % 4"}}}}
"""
PARTITIONS = 2
SHARDS = 4
BURST = 50  # messages
PAUSE_S = 0.1  # between two bursts
COMMITS = "SELECT count(*) FROM events WHERE kind = 'dataset.committed' AND dataset = 'shop.shards'"
MOST_COMMITS = 2  # between two kills
CHILDREN = ("dataplane worker", "dataplane driver")
SERVICE = "serve"


class Arrivals:
    """Numbered messages that arrive in bursts until `stop`."""

    def __init__(self, servers: str, topic: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self._admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result()
        self._producer = Producer({"bootstrap.servers": servers, "log_level": 0})
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
                self._producer.produce(self._topic, b'{"id": %d}' % id, partition=id % PARTITIONS)
            self.count += BURST
            self._producer.flush()


class Killing:
    """One kill after the other, each after some more commits."""

    def __init__(self, workspace: Workspace, seed: int, kills: int) -> None:
        self.workspace, self.chance, self.left = workspace, random.Random(seed), kills
        self.victims: Counter[str] = Counter()

    def until_the_service_dies(self, service: Service) -> None:
        """Kill processes of this service; the last one is the service, or `left` is 0."""
        victim = ""
        while self.left and victim != SERVICE:
            self._await_commits(self.chance.randint(1, MOST_COMMITS))
            victim = self._kill(service)

    def _await_commits(self, count: int) -> None:
        wanted = self._commits() + count
        until(lambda: self._commits() >= wanted, lambda: f"no {wanted} commits")

    def _commits(self) -> int:
        return int(self.workspace.query(COMMITS)[0][0])

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
            api.retry("shop")  # a task that several drivers died with waits for this
            assert_complete(Served(workspace, service, api, "shop", reads=1), arrivals.count)


def assert_complete(served: Served, count: int) -> None:
    """Both tables are those of a computation from scratch over all messages."""
    until(lambda: messages(served) >= count, lambda: f"{messages(served)} of {count} messages")
    assert Counter(row["id"] for row in served.rows("orders")) == Counter(range(count))
    shards = [range(shard, count, SHARDS) for shard in range(SHARDS)]
    expected = [(shard, len(ids), sum(ids)) for shard, ids in enumerate(shards)]
    rows = served.rows("shards")
    assert sorted((row["shard"], row["n"], row["total"]) for row in rows) == expected
    assert served.state("shards") == "up_to_date"


def messages(served: Served) -> int:
    return sum(row["n"] for row in served.rows("shards"))
