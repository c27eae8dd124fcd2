"""A Kafka topic as a source: every message once, in slices that never change, whatever happens to the server. And as a
copy, in which the last message of each key is a row.

Steps of one story, told to one service.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from controlplane.client import Headgate
from dataplane.failure import TaskFailure
from dataplane.jars import fetched
from dataplane.kafka.client import messages
from dataplane.kafka.registry import Registry
from dataplane.kafka.server import look
from tests.e2e.conftest import closing
from tests.e2e.served import Served
from tests.e2e.workspace import Service, Workspace
from tests.servers import registry as schemas
from tests.servers.kafka import PASSWORD, Kafka
from tests.servers.registry import SchemaRegistry

JARS = Path(__file__).parents[1] / "spark-kafka.xml"
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
PRICES = """\
dataflow: prices
components:
  prices:
    read: {<source>}
  lenient:
    read: {<source>, on_bad_record: drop, schema_change: fail}
  dearest:
    transform: {sql: "SELECT id, max(price) AS price FROM prices GROUP BY id"}
"""
SOURCE = """\
connector: kafka, servers: "{servers}", topic: prices, format: avro, registry: "{registry}", refresh: manual,
      options: {{registry.username: {user}, registry.password: secret://registry/password}}"""
PARTITIONS = 2
FIRST = [
    ("id", "int"),
    ("price", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}),
    ("at", {"type": "long", "logicalType": "timestamp-micros"}),
    ("day", {"type": "int", "logicalType": "date"}),
    ("of", ["null", {"type": "record", "name": "Of", "fields": [{"name": "shop", "type": "string"}]}]),
]
SECOND = [*FIRST, ("currency", "string", "EUR")]
THIRD = [("id", "long"), *SECOND[1:]]
AT = datetime(2026, 3, 1, 12, 30, 0, 123456, UTC)
PRICE = {"price": Decimal("9.99"), "at": AT, "day": AT.date(), "of": {"shop": "north"}}
PRICE_READ = {"price": "9.99", "at": "2026-03-01T12:30:00.123456Z", "day": "2026-03-01", "of": {"shop": "north"}}


class Story(Served):
    """The server, a topic on it, a service that reads it, and the work done so far."""

    def __init__(self, kafka: Kafka, workspace: Workspace, service: Service, api: Headgate) -> None:
        super().__init__(workspace, service, api, "shop", 2)
        self.kafka, self.admin = kafka, AdminClient({"bootstrap.servers": kafka.servers})

    def send(self, ids: Iterable[int], value: str | None = None, *, commit: bool | None = None) -> None:
        """Messages to both partitions in turn; in a transaction that ends well or not, if told."""
        more = {} if commit is None else {"transactional.id": "test"}
        producer = Producer({"bootstrap.servers": self.kafka.servers, **more})
        if commit is not None:
            producer.init_transactions()
            producer.begin_transaction()
        for id in ids:
            text = json.dumps({"id": id, "item": f"item {id}"}) if value is None else value
            headers = [("source", b"test")]
            producer.produce("orders", text.encode(), str(id).encode(), partition=id % PARTITIONS, headers=headers)
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


class Prices(Served):
    """A topic with values in Avro, on the same server."""

    def __init__(self, story: Story) -> None:
        super().__init__(story.workspace, story.service, story.api, "prices", 2)
        self.kafka = story.kafka

    def send(self, schema: int, fields: Iterable[Any], row: Mapping[str, Any]) -> None:
        """A message written under a schema of the registry."""
        file = BytesIO()
        fastavro.schemaless_writer(file, fastavro.parse_schema(record(fields)), row)
        self.bare(b"\0" + schema.to_bytes(4, "big") + file.getvalue())

    def bare(self, value: bytes | None) -> None:
        producer = Producer({"bootstrap.servers": self.kafka.servers})
        producer.produce("prices", value, b"k")
        assert producer.flush() == 0

    def told(self, name: str = "prices") -> list[dict[str, Any]]:
        """Rows in the order of their messages, without what is known of these."""
        found = sorted(self.rows(name), key=lambda row: row["_offset"])
        return [{k: v for k, v in row.items() if not k.startswith("_")} for row in found]

    def error(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.why(f"prices.{name}")["error"]
        return found


def record(fields: Iterable[Any]) -> dict[str, Any]:
    """The schema of records with these fields: a name, a type, perhaps a default."""
    told = [{"name": f[0], "type": f[1], **({"default": f[2]} if len(f) > 2 else {})} for f in fields]
    return {"type": "record", "name": "Price", "fields": told}


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    """While it starts, so does what else there is."""
    server = SchemaRegistry()
    with ThreadPoolExecutor() as threads:
        server.started = threads.submit(server.start)
        yield server
    server.remove()


@pytest.fixture(scope="module")
def kafka(registry: SchemaRegistry) -> Iterator[Kafka]:
    server = Kafka().start()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def story(module_folder: Path, kafka: Kafka, registry: SchemaRegistry) -> Iterator[Story]:
    admin = AdminClient({"bootstrap.servers": kafka.servers})  # kept: one that is gone answers nothing
    copy = NewTopic("items", PARTITIONS, config={"cleanup.policy": "compact"})
    for made in admin.create_topics([NewTopic("orders", PARTITIONS), NewTopic("prices", 1), copy]).values():
        made.result()
    jars = os.pathsep.join(sorted(map(str, fetched(JARS).glob("*.jar"))))
    password = {"sasl.password": "secret://kafka/password"}
    plain, scram = (json.dumps(kafka.login(how) | password) for how in ("PLAIN", "SCRAM-SHA-512"))
    text = BLUEPRINT.format(servers=kafka.servers, login=kafka.servers_with_login, plain=plain, scram=scram)
    with closing(Workspace(module_folder)) as workspace:
        workspace.write("shop.yaml", text)
        source = SOURCE.format(servers=kafka.servers, registry=registry.url_with_login, user=schemas.USER)
        workspace.write("prices.yaml", PRICES.replace("<source>", source))
        conf = json.dumps({"spark.driver.extraClassPath": jars})
        workspace.environment |= {
            "HEADGATE_SECRET_KAFKA_PASSWORD": PASSWORD,
            "HEADGATE_SECRET_REGISTRY_PASSWORD": schemas.PASSWORD,
        }
        with workspace.serving(HEADGATE_SPARK_CONF=conf) as service:
            workspace.ask("apply", "shop.yaml", "--wait")
            with service.client() as api:
                yield Story(kafka, workspace, service, api)


@pytest.fixture(scope="module")
def prices(story: Story, registry: SchemaRegistry) -> Prices:
    registry.started.result()
    return Prices(story)


def test_an_empty_topic_is_an_empty_dataset(story: Story) -> None:
    story.assert_equals([])
    story.work()


def test_messages_come_once(story: Story) -> None:
    story.send(range(10))
    assert story.refreshed() == "up_to_date"
    story.assert_equals(range(10))
    assert story.work() == 2 + 1 + 1, "a slice of each read component, and what is downstream of one"
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
    assert "does not answer" in story.api.why("shop.orders")["error"]["message"]
    story.kafka.start()
    story.send(range(34, 36))
    assert story.refreshed() == "up_to_date"
    story.assert_equals(range(36))


def test_messages_that_nobody_read_in_time(story: Story) -> None:
    end = story.end()
    story.send(range(36, 40))
    story.forget(end + 1)
    assert story.refreshed(code=1) == "failed"
    assert story.api.why("shop.orders")["error"]["condition"] == "offsets-expired"
    story.assert_equals(range(36))
    story.refreshed(accept_deletes=True)
    story.assert_equals(set(range(40)) - {36})


def test_a_message_that_is_none_fails_its_slice(story: Story) -> None:
    before = story.rows("orders")
    story.send([1], value="{no JSON")
    assert story.refreshed(code=1) == "failed"
    assert story.rows("orders") == before


# --- values in Avro -------------------------------------------------------------------------------


def test_values_in_avro_have_the_types_of_their_schema(prices: Prices, registry: SchemaRegistry) -> None:
    first = registry.register("prices-value", json.dumps(record(FIRST)))
    prices.send(first, FIRST, {"id": 1, **PRICE})
    prices.send(first, FIRST, {"id": 2, **PRICE, "of": None})
    prices.workspace.ask("apply", "prices.yaml", "--wait")
    assert prices.told() == prices.told("lenient") == [{"id": 1, **PRICE_READ}, {"id": 2, **PRICE_READ, "of": None}]
    tried = prices.workspace.ask("validate", "prices.yaml", "--connect")
    assert [c["error"] for c in tried["connections"]] == [None, None]
    prices.bare(None)
    prices.refresh()
    assert prices.told()[2] == dict.fromkeys(["id", *PRICE])
    prices.work()


def test_a_schema_may_grow(prices: Prices, registry: SchemaRegistry) -> None:
    """A field is one more column, which older messages of the same slice have by default; so may a type."""
    second = registry.register("prices-value", json.dumps(record(SECOND)))
    prices.send(second - 1, FIRST, {"id": 3, **PRICE})
    prices.send(second, SECOND, {"id": 4, **PRICE, "currency": "CHF"})
    prices.refresh(code=1)
    assert "schema_change is fail" in prices.error("lenient")["message"]
    assert [row["currency"] for row in prices.told()] == [None, None, None, "EUR", "CHF"]
    assert prices.work() == 2, "the new slice, and what is downstream"
    third = registry.register("prices-value", json.dumps(record(THIRD)))
    prices.send(third, THIRD, {"id": 2**40, **PRICE, "currency": "CHF"})
    prices.refresh(code=1)
    assert prices.told()[-1] == {"id": 2**40, **PRICE_READ, "currency": "CHF"}


def test_a_registry_that_is_away_loses_nothing(prices: Prices, registry: SchemaRegistry) -> None:
    before = prices.told()
    registry.shut()
    prices.send(3, THIRD, {"id": 5, **PRICE, "currency": "EUR"})
    prices.refresh(code=1)
    told = prices.error("prices")
    assert (told["condition"], "schema registry" in told["message"]) == ("unreachable", True)
    assert prices.told() == before
    registry.open()
    prices.refresh(code=1)
    assert prices.told() == [*before, {"id": 5, **PRICE_READ, "currency": "EUR"}]


def test_bytes_that_are_no_value_fail_their_slice_or_are_dropped(prices: Prices) -> None:
    prices.workspace.edit("prices.yaml", (", schema_change: fail", ""))
    prices.workspace.ask("apply", "prices.yaml", "--wait")
    before = prices.told()
    assert prices.told("lenient") == before
    prices.bare(b"{no Avro}")
    prices.send(3, THIRD, {"id": 6, **PRICE, "currency": "EUR"})
    prices.refresh(code=1)
    assert "offset 7: it does not begin with a zero" in prices.error("prices")["message"]
    assert prices.told() == before
    assert prices.told("lenient") == [*before, {"id": 6, **PRICE_READ, "currency": "EUR"}]
    assert prices.workspace.counted()["rows.dropped"] == 1


def test_a_schema_that_nobody_knows_drops_nothing(prices: Prices) -> None:
    before = prices.told("lenient")
    prices.send(999, THIRD, {"id": 7, **PRICE, "currency": "EUR"})
    prices.refresh(code=1)
    assert "has no schema 999" in prices.error("lenient")["message"]
    assert prices.told("lenient") == before


def test_what_a_registry_answers(registry: SchemaRegistry) -> None:
    registry.started.result()
    inner = registry.register("inner", json.dumps({**record([("x", "int")]), "name": "Inner"}))
    told = [{"name": "Inner", "subject": "inner", "version": 1}]
    outer = registry.register("a/outer", json.dumps(record([("one", "Inner")])), references=told)
    open_to_all = Registry(registry.url)
    assert (open_to_all.newest("inner"), open_to_all.newest("a/outer")) == (inner, outer)
    assert [json.loads(text)["name"] for text in open_to_all.texts(outer)] == ["Inner", "Price"]
    login = Registry(registry.url_with_login, schemas.USER, schemas.PASSWORD)
    assert login.newest("inner") == inner
    refused = {
        "schema-not-found": lambda: open_to_all.newest("nothing"),
        "credentials-refused": lambda: Registry(registry.url_with_login, schemas.USER, "wrong").newest("inner"),
        "tls-failed": lambda: Registry(registry.url.replace("http:", "https:")).newest("inner"),
        "unreachable": lambda: Registry("http://nobody.invalid").newest("inner"),
    }
    for condition, ask in refused.items():
        with pytest.raises(TaskFailure) as caught:
            ask()
        assert caught.value.condition == condition
