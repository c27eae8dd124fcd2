"""Events of Debezium in real topics, out of order and more than once: tables of them equal what a
database had, change by change.

PostgreSQL in JSON, MySQL in Avro. The events are as Debezium documents them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.conftest import closing
from tests.e2e.served import Served
from tests.e2e.workspace import Workspace
from tests.servers.kafka import Kafka
from tests.servers.registry import PASSWORD, USER, SchemaRegistry
from tests.slices import in_turn

# Takes turns: what events give is shown by spark/test_debezium_values and spark/test_cdc.
pytestmark = in_turn(0, 6)

BLUEPRINT = """\
dataflow: shop
components:
  customer_events:
    read:
      connector: kafka
      servers: "{servers}"
      topic: shop.customers
      format: debezium
      schema: "id BIGINT, name STRING, price DECIMAL(12,2)"
      refresh: manual
  customers:
    cdc:
      from: customer_events
      keys: [id]
      sequence_by: [_lsn]
      deletes: _op = 'd'
      truncates: _op = 't'
      columns: [name, price]
      buckets: 2
  versions:
    cdc:
      from: customer_events
      keys: [id]
      sequence_by: [_lsn]
      deletes: _op = 'd'
      truncates: _op = 't'
      columns: [name, price]
      history: versions
      buckets: 2
  order_events:
    read:
      connector: kafka
      servers: "{servers}"
      topic: shop.orders
      format: debezium
      registry: "{registry}"
      options: {{registry.username: {user}, registry.password: secret://registry/password}}
      refresh: manual
  orders:
    cdc:
      from: order_events
      keys: [id]
      sequence_by: [_source_file, _source_pos, _source_row]
      deletes: _op = 'd'
      truncates: _op = 't'
      columns: [name, price]
      buckets: 2
"""
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
ROW = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "price", "type": ["null", DECIMAL], "default": None},
    ],
}
SOURCE = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.mysql",
    "fields": [
        {"name": "version", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {"name": "file", "type": "string"},
        {"name": "pos", "type": "long"},
        {"name": "row", "type": "int"},
    ],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.shop.orders",
    "fields": [
        {"name": "before", "type": ["null", ROW], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": SOURCE},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
}
MOST_CHANGES = 200
TABLE_KEYS = 8


class Change(NamedTuple):
    op: str
    place: int
    before: dict[str, Any] | None
    after: dict[str, Any] | None


class Database:
    """A table, its changes in order, and the versions of its rows."""

    def __init__(self, random: random.Random) -> None:
        self.random = random
        self.rows: dict[int, dict[str, Any]] = {}
        self.changes: list[Change] = []
        self.since: dict[int, int] = {}
        self.ended: list[tuple[Any, ...]] = []
        for _ in range(MOST_CHANGES):
            self._step()

    def _step(self) -> None:
        choice, id = self.random.random(), self.random.randrange(TABLE_KEYS)
        if choice < 0.02:
            self._truncate()
        elif id not in self.rows:
            self._upsert(id, None)
        elif choice < 0.2:
            self._delete(id)
        elif choice < 0.3:  # another key: a delete and a create
            row = self._delete(id)
            self._upsert(id + TABLE_KEYS, row)
        else:
            self._upsert(id, None)

    def _upsert(self, id: int, row: dict[str, Any] | None) -> None:
        before = self.rows.get(id)
        name = self.random.choice(["Ann", "Bob", None])
        after = {"name": name, "price": f"{self.random.randrange(3)}.50", **(row or {}), "id": id}
        place = self._note("u" if before else self.random.choice("cr"), before, after)
        if after != before:
            self._end(id, place)
            self.rows[id], self.since[id] = after, place

    def _delete(self, id: int) -> dict[str, Any]:
        row = self.rows[id]
        self._end(id, self._note("d", row, None))
        return row

    def _truncate(self) -> None:
        place = self._note("t", None, None)
        for id in list(self.rows):
            self._end(id, place)

    def _end(self, id: int, place: int) -> None:
        if id in self.rows:
            row = self.rows.pop(id)
            self.ended.append((id, row["name"], row["price"], self.since[id], place))

    def _note(self, op: str, before: Any, after: Any) -> int:
        place = 1000 + 8 * len(self.changes)
        self.changes.append(Change(op, place, before, after))
        return place

    def delivered(self) -> list[Change]:
        """Out of order, and some twice."""
        changes = [*self.changes, *self.random.sample(self.changes, MOST_CHANGES // 4)]
        self.random.shuffle(changes)
        return changes

    def versions(self) -> list[tuple[Any, ...]]:
        now = [
            (id, row["name"], row["price"], self.since[id], None) for id, row in self.rows.items()
        ]
        return sorted([*self.ended, *now], key=lambda version: (version[0], version[3]))


def json_messages(change: Change, chance: random.Random) -> Iterator[bytes | None]:
    """An event, perhaps with its schema, and the tombstone behind a delete."""
    source = {"connector": "postgresql", "ts_ms": 1772368200000, "lsn": change.place, "txId": 5}
    event = {**change._asdict(), "source": source, "ts_ms": 1772368200999}
    del event["place"]
    has_schema = chance.random() < 0.5
    yield json.dumps(
        {"schema": {"type": "struct"}, "payload": event} if has_schema else event
    ).encode()
    if change.op == "d":
        yield None


def avro_message(schema: int, change: Change) -> bytes:
    file, at = f"mysql-bin.{change.place // 500:06}", change.place % 500
    source = {"version": "2.7", "ts_ms": 1, "file": file, "pos": at // 16, "row": at % 16}
    event = {**change._asdict(), "source": source, "ts_ms": 2}
    written = BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(ENVELOPE), _with_decimals(event))
    return b"\0" + schema.to_bytes(4, "big") + written.getvalue()


def _with_decimals(event: dict[str, Any]) -> dict[str, Any]:
    from decimal import Decimal

    sides = {
        side: event[side] and {**event[side], "price": Decimal(event[side]["price"])}
        for side in ("before", "after")
    }
    return {**event, **sides}


class Story(Served):
    def send(self, servers: str, topic: str, values: list[bytes | None]) -> None:
        producer = Producer({"bootstrap.servers": servers})
        for number, value in enumerate(values):
            producer.produce(topic, value, b"k", partition=number % 2)
        assert producer.flush() == 0

    def table(self, name: str) -> list[tuple[Any, ...]]:
        rows = ((row["id"], row["name"], row["price"]) for row in self.rows(name))
        return sorted(rows, key=lambda row: row[0])


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    server = SchemaRegistry().start()
    yield server
    server.remove()


def test_tables_equal_those_of_the_databases(
    module_folder: Path, kafka: Kafka, registry: SchemaRegistry
) -> None:
    chance = random.Random(37)
    customers, orders = Database(chance), Database(chance)
    admin = AdminClient({"bootstrap.servers": kafka.servers})
    for made in admin.create_topics(
        [NewTopic(t, 2) for t in ("shop.customers", "shop.orders")]
    ).values():
        made.result()
    schema = registry.register("shop.orders-value", json.dumps(ENVELOPE))
    in_json = [m for c in customers.delivered() for m in json_messages(c, chance)]
    in_avro = [avro_message(schema, change) for change in orders.delivered()]
    text = BLUEPRINT.format(servers=kafka.servers, registry=registry.url_with_login, user=USER)
    with closing(Workspace(module_folder)) as workspace:
        workspace.write("shop.yaml", text)
        with (
            workspace.serving(HEADGATE_SECRET_REGISTRY_PASSWORD=PASSWORD) as service,
            service.client() as api,
        ):
            story = Story(workspace, service, api, "shop", reads=2)
            half = len(in_json) // 2
            story.send(kafka.servers, "shop.customers", in_json[:half])
            story.send(kafka.servers, "shop.orders", [*in_avro[:half]])
            workspace.ask("apply", "shop.yaml", "--wait")
            story.send(kafka.servers, "shop.customers", in_json[half:])
            story.send(kafka.servers, "shop.orders", [*in_avro[half:]])
            story.refresh()
            versions = [
                (row["id"], row["name"], row["price"], row["_valid_from"], row["_valid_to"])
                for row in story.rows("versions")
            ]
            assert sorted(versions, key=lambda v: (v[0], v[3])) == customers.versions()
            for name, database in (("customers", customers), ("orders", orders)):
                rows = [(r["id"], r["name"], r["price"]) for r in database.rows.values()]
                assert story.table(name) == sorted(rows, key=lambda row: row[0])
