"""A listing that is held until the topic has something new."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from dataplane.connectors.kafka.kafka_listing import await_news, partitions
from dataplane.contract.jobs import ListJob
from dataplane.contract.source_objects import ListedPartition
from dataplane.listing.version_cache import Versions
from dataplane.runtime.worker import WorkerState
from dataplane.runtime.worker_slots import Slots
from tests.servers.kafka import Kafka
from tests.unit.listing.location import list_job
from tests.unit.listing.test_worker import Reports, claim, listing_job, listing_of

HANGS_S = 60.0
HELD_S = 3600.0
PARTITIONS = 2


@dataclass
class Topic:
    servers: str
    name: str
    known: Sequence[ListedPartition] = ()

    def job(self) -> ListJob:
        settings = {
            "servers": self.servers,
            "topic": self.name,
            "format": "raw",
            "slice": 500_000,
        }
        last = self.known[-1] if self.known else None
        known = {"key": last["key"] if last else None, "objects": last["objects"] if last else []}
        held = {"known": known, "within_s": 1.0, "wait_s": HELD_S}
        return list_job("kafka", connector="kafka", settings=settings, **held)

    def listed(self) -> Topic:
        return replace(self, known=[*partitions(self.job())])

    def producer(self, **options: str) -> Producer:
        return Producer({"bootstrap.servers": self.servers, **options})

    def send(self, partition: int = 0) -> None:
        producer = self.producer()
        producer.produce(self.name, b"text", partition=partition)
        assert producer.flush(HANGS_S) == 0


@pytest.fixture
def topic(kafka: Kafka, name: str) -> Topic:
    admin = AdminClient({"bootstrap.servers": kafka.servers})
    admin.create_topics([NewTopic(name, PARTITIONS)])[name].result()
    topic = Topic(kafka.servers, name)
    for partition in range(PARTITIONS):  # it has a leader by now
        topic.send(partition)
    return topic


@dataclass
class Wait:
    """A wait in a thread of its own. `checks` counts how often it has asked whether it is over."""

    topic: Topic
    is_over: bool = False
    checks: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=await_news, args=(self.topic.job(), self.check))
        self.thread.start()

    def check(self) -> bool:
        with self.changed:
            self.checks += 1
            self.changed.notify_all()
            return self.is_over

    def go_on(self, checks: int = 1) -> None:
        """Until it has waited some more."""
        with self.changed:
            until = self.checks + checks
            assert self.changed.wait_for(lambda: self.checks >= until, HANGS_S)

    def is_ended(self) -> bool:
        self.thread.join(HANGS_S)
        return not self.thread.is_alive()


@pytest.mark.parametrize("partition", range(PARTITIONS))
def test_a_message_ends_the_wait(topic: Topic, partition: int) -> None:
    for _ in range(2):  # the second one with the consumer of the first one
        topic = topic.listed()
        wait = Wait(topic)
        wait.go_on()
        topic.send(partition)
        assert wait.is_ended()
        [slice] = topic.listed().known
        assert [source["size"] for source in slice["objects"]] == [
            int(p == partition) for p in range(PARTITIONS)
        ]


def test_what_is_there_already_is_not_waited_for(topic: Topic) -> None:
    for known in (topic, topic.listed()):
        topic.send()
        wait = Wait(known)
        assert wait.is_ended()
        assert wait.checks == 0


def test_an_open_transaction_is_no_news_and_its_end_is(topic: Topic) -> None:
    wait = Wait(topic.listed())
    producer = topic.producer(**{"transactional.id": topic.name})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic.name, b"text", partition=0)
    assert producer.flush(HANGS_S) == 0
    wait.go_on(3)
    assert wait.thread.is_alive()
    producer.commit_transaction()
    assert wait.is_ended()


def test_an_order_ends_the_wait(topic: Topic) -> None:
    wait = Wait(topic.listed())
    wait.go_on()
    wait.is_over = True
    assert wait.is_ended()


def test_held_listings_leave_the_slots_to_others(topic: Topic, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n")
    held = claim("list", topic.listed().job(), attempt="held")
    script = Reports(held, claim("list", listing_job(tmp_path)), after="1", then=topic.send)
    work = WorkerState(script, Versions(), Slots(1))
    work.look()
    work.beats.close()
    assert [attempt for attempt, _ in script.reported] == ["1", "held"]
    [done] = script.reported[1][1]
    assert listing_of(done)["objects"] == PARTITIONS
