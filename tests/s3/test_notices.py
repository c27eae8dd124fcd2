"""Listings of a bucket that are held until its store sends an event to Kafka."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import obstore
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from dataplane.connectors.kafka.object_notices import (
    NoticeWatches,
    await_notice,
    notice_watches,
    place_of,
)
from dataplane.contract.jobs import ListJob
from dataplane.task_failures import TaskFailure
from tests.servers.kafka import Kafka
from tests.servers.s3 import S3
from tests.unit.listing.location import list_job

HANGS_S = 60.0
HELD_S = 3600.0
TOPIC = "events"
# To versitygw an object's name is what its path says
NAMES = ("orders/1.csv", "orders/a b.csv", "orders/1+1.csv", "orders/50%25.csv")


@dataclass
class Notified:
    """A bucket whose store sends events, and a wait for them. `checks` counts how often the wait
    has asked whether it is over."""

    kafka: Kafka
    store: S3
    watches: NoticeWatches
    checks: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def job(self, path: str = "orders/*.csv") -> ListJob:
        settings = {"notices.servers": self.kafka.servers, "notices.topic": TOPIC}
        return list_job(f"s3://shop/{path}", settings=settings, wait_s=HELD_S)

    def put(self, name: str) -> None:
        obstore.put(self.store.bucket("shop"), name, b"id\n1\n", use_multipart=False)

    def wait(self) -> threading.Thread:
        thread = threading.Thread(target=await_notice, args=(self.job(), self.check, self.watches))
        thread.start()
        return thread

    def check(self) -> bool:
        with self.changed:
            self.checks += 1
            self.changed.notify_all()
        return False

    def go_on(self) -> None:
        """Until a wait has asked again."""
        with self.changed:
            until = self.checks + 2
            assert self.changed.wait_for(lambda: self.checks >= until, HANGS_S)


@pytest.fixture(scope="module")
def servers(kafka: Kafka) -> Iterator[tuple[Kafka, S3]]:
    admin = AdminClient({"bootstrap.servers": kafka.servers})
    admin.create_topics([NewTopic(TOPIC, 2)])[TOPIC].result()
    store = S3(events=(kafka.servers, TOPIC)).start()
    try:
        yield kafka, store
    finally:
        store.remove()


@pytest.fixture
def notified(servers: tuple[Kafka, S3]) -> Iterator[Notified]:
    watches = notice_watches()
    notified = Notified(*servers, watches)
    await_notice(notified.job(), notified.check, watches)  # nothing is known before: it ends
    yield notified
    watches.close()


@pytest.mark.parametrize("name", NAMES)
def test_an_object_ends_the_wait(notified: Notified, name: str) -> None:
    wait = notified.wait()
    notified.go_on()
    notified.put(name)
    wait.join(HANGS_S)
    assert not wait.is_alive()


def test_an_object_between_two_waits_ends_the_second(notified: Notified) -> None:
    watch, _ = notified.watches.of(place_of(notified.job()))
    notified.put("orders/2.csv")
    assert watch.has_changed(0, HANGS_S)
    await_notice(notified.job(), notified.check, notified.watches)


def test_other_objects_and_messages_end_no_wait(notified: Notified) -> None:
    watch, _ = notified.watches.of(place_of(notified.job()))
    producer = Producer({"bootstrap.servers": notified.kafka.servers})
    for text in (b"no JSON", b"[]", b'{"Records": [{"s3": 1}]}', b""):
        producer.produce(TOPIC, text)
    assert producer.flush(HANGS_S) == 0
    notified.put("orders/deeper/3.csv")
    notified.put("others/3.csv")
    wait = notified.wait()
    notified.go_on()
    assert watch.changes == 0
    notified.put("orders/3.csv")
    wait.join(HANGS_S)
    assert watch.changes >= 1


def test_a_topic_that_is_not_there_is_an_error_of_the_listing(notified: Notified) -> None:
    settings = {"notices.servers": notified.kafka.servers, "notices.topic": "nowhere"}
    job = list_job("s3://shop/orders/*.csv", settings=settings, wait_s=HELD_S)
    with pytest.raises(TaskFailure, match="nowhere"):
        await_notice(job, notified.check, notified.watches)
