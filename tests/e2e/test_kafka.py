"""A Kafka topic as a source: every message once, in slices that never change, whatever happens to
the server. And as a copy, in which the last message of each key is a row.

Steps of one story, told to one service.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from controlplane.client import Headgate
from dataplane.connectors.kafka.kafka_client import messages
from dataplane.connectors.kafka.kafka_server import look
from tests.e2e.conftest import closing
from tests.e2e.served import Served
from tests.e2e.workspace import Service, Workspace
from tests.servers.kafka import PASSWORD, Kafka
from tests.slices import in_turn
from tests.there import there

# Takes turns with values in Avro: one of both reads a topic by Spark at each commit. Listing,
# writing and values have suites of their own (tests/kafka, unit/kafka, spark/test_kafka_values).
pytestmark = in_turn(0, 2)

BLUEPRINT = """\
dataflow: shop
components:
  orders:
    read: {{connector: kafka, servers: "{servers}", topic: orders, schema: "id INT, item STRING", refresh: manual}}
  bytes:
    read:
      connector: kafka
      servers: "{login}"
      topic: orders
      format: raw
      refresh: manual
      slice: 5
      options: {scram}
  items:
    transform: {{sql: "SELECT item, id FROM orders"}}
  total:
    transform: {{sql: "SELECT count(*) AS n, sum(id) AS ids FROM orders"}}
  copy:
    write: {{connector: kafka, from: items, servers: "{login}", topic: items, key: [id], options: {plain}}}
"""
PARTITIONS = 2


class Story(Served):
    """The server, a topic on it, a service that reads it, and the work done so far."""

    def __init__(self, kafka: Kafka, workspace: Workspace, service: Service, api: Headgate) -> None:
        super().__init__(workspace, service, api, "shop", reads=2)
        self.kafka = kafka
        self.admin = AdminClient({"bootstrap.servers": kafka.servers})

    def send(
        self, ids: Iterable[int], value: str | None = None, *, commit: bool | None = None
    ) -> None:
        """Messages to both partitions in turn; in a transaction that ends well or not, if told."""
        more = {} if commit is None else {"transactional.id": "test"}
        producer = Producer({"bootstrap.servers": self.kafka.servers, **more})
        if commit is not None:
            producer.init_transactions()
            producer.begin_transaction()
        for id in ids:
            text = json.dumps({"id": id, "item": f"item {id}"}) if value is None else value
            headers = [("source", b"test")]
            producer.produce(
                "orders",
                text.encode(),
                str(id).encode(),
                partition=id % PARTITIONS,
                headers=headers,
            )
        assert producer.flush() == 0
        if commit is not None:
            (producer.commit_transaction if commit else producer.abort_transaction)()

    def refreshed(self, *, code: int = 0, accept_deletes: bool = False) -> str:
        self.refresh(code=code, accept_deletes=accept_deletes)
        return self.state("orders")

    def assert_equals(self, ids: Iterable[int]) -> None:
        wanted = sorted(ids)
        assert sorted(row["id"] for row in self.rows("orders")) == wanted
        assert sorted(row["id"] for row in self.rows("items")) == wanted
        assert len(self.rows("bytes")) == len(wanted)
        assert sorted(self.copied()) == wanted
        assert self.rows("total") == [{"n": len(wanted), "ids": sum(wanted) if wanted else None}]

    def copied(self) -> list[int]:
        """The rows that somebody has who keeps the last message of each key."""
        settings = {"servers": self.kafka.servers}
        starts = {b.partition: b.first for b in look(settings, "items").bounds}
        last = {m.key(): m.value() for m in messages(settings, "items", starts)}
        return [json.loads(value)["id"] for value in last.values() if value is not None]

    def end(self) -> int:
        """The offset behind the last message of the first partition."""
        place = TopicPartition("orders", 0)
        return int(self.admin.list_offsets({place: OffsetSpec.latest()})[place].result().offset)

    def forget(self, offset: int) -> None:
        """Let the first partition hold nothing before an offset, as if its time were over."""
        (done,) = self.admin.delete_records([TopicPartition("orders", 0, offset)]).values()
        done.result()


@pytest.fixture(scope="module")
def story(module_folder: Path, kafka: Kafka) -> Iterator[Story]:
    # kept: one that is gone answers nothing
    admin = AdminClient({"bootstrap.servers": kafka.servers})
    copy = NewTopic("items", PARTITIONS, config={"cleanup.policy": "compact"})
    for made in admin.create_topics([NewTopic("orders", PARTITIONS), copy]).values():
        made.result()
    password = {"sasl.password": "secret://kafka/password"}
    plain, scram = (json.dumps(kafka.login(how) | password) for how in ("PLAIN", "SCRAM-SHA-512"))
    text = BLUEPRINT.format(
        servers=kafka.servers, login=kafka.servers_with_login, plain=plain, scram=scram
    )
    with closing(Workspace(module_folder)) as workspace:
        workspace.write("shop.yaml", text)
        with workspace.serving(HEADGATE_SECRET_KAFKA_PASSWORD=PASSWORD) as service:
            workspace.ask("apply", "shop.yaml", "--wait")
            with service.client() as api:
                yield Story(kafka, workspace, service, api)


def test_an_empty_topic_is_an_empty_dataset(story: Story) -> None:
    story.assert_equals([])
    story.work()


def test_messages_come_once(story: Story) -> None:
    story.send(range(10))
    assert story.refreshed() == "up_to_date"
    story.assert_equals(range(10))
    assert story.work() == 2 + 1 + 1, (
        "a slice of each read component, and what is downstream of one"
    )
    (first, *_) = sorted(story.rows("orders"), key=lambda row: row["id"])
    assert (first["_key"], first["_partition"], first["_offset"]) == ("0", 0, 0)
    assert first["_headers"] == [{"key": "source", "value": "dGVzdA=="}]
    story.refreshed()
    assert story.work() == 0


def test_later_messages_are_further_slices(story: Story) -> None:
    story.send(range(10, 30))
    story.refreshed()
    story.assert_equals(range(30))
    assert story.work() == 1 + 2 + 1 + 1, "of five offsets of each partition, the second one"
    assert story.api.dataset("shop.orders")["partitions"] == 2
    assert story.api.dataset("shop.bytes")["partitions"] == 3


def test_only_transactions_that_ended_well_count(story: Story) -> None:
    story.send(range(100, 104), commit=False)
    story.send(range(30, 34), commit=True)
    story.refreshed()
    story.assert_equals(range(34))


def test_a_server_that_is_away_loses_nothing(story: Story) -> None:
    story.kafka.stop()
    assert story.refreshed(code=1) == "failed"
    assert sorted(row["id"] for row in story.rows("orders")) == list(range(34))
    assert "does not answer" in there(story.api.why("shop.orders")["error"])["message"]
    story.kafka.start()
    story.send(range(34, 36))
    assert story.refreshed() == "up_to_date"
    story.assert_equals(range(36))


def test_messages_that_nobody_read_in_time(story: Story) -> None:
    end = story.end()
    story.send(range(36, 40))
    story.forget(end + 1)
    assert story.refreshed(code=1) == "failed"
    assert there(story.api.why("shop.orders")["error"])["condition"] == "offsets-expired"
    story.assert_equals(range(36))
    story.refreshed(accept_deletes=True)
    story.assert_equals(set(range(40)) - {36})


def test_a_message_that_is_none_fails_its_slice(story: Story) -> None:
    before = story.rows("orders")
    story.send([1], value="{no JSON")
    assert story.refreshed(code=1) == "failed"
    assert story.rows("orders") == before
