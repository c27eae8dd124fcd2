"""The Kafka of the example `blueprints/clicks`, filled with clicks, orders and changes of
customers, and what a batch computation over all of it gives.

Does not belong here: what Headgate makes of it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from dataplane.connectors.kafka.kafka_client import messages
from dataplane.connectors.kafka.kafka_server import look
from tests.servers.kafka import Kafka

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "blueprints" / "clicks" / "clicks.yaml"
TOPICS = ("clicks", "orders", "customers")
TOPIC_PARTITIONS = 2
CUSTOMERS = 50
CAMPAIGNS = ("bridge", "harbour", "tower")
CITIES = ("Bern", "Ghent", "Porto")
SEED = 7
Row: TypeAlias = dict[str, Any]

COLUMNS = {
    "sales": ("id", "customer", "amount", "ts"),
    "per_minute": ("minute", "orders", "amount"),
    "attributed": ("id", "ts", "amount", "campaign"),
    "customers": ("id", "name", "city", "_valid_from", "_valid_to"),
}
# What each table holds, in DuckDB's SQL over all messages: no slices, no keys, no merges.
BATCH = {
    "sales": """
        SELECT o.id, o.customer, coalesce(c.amount, o.amount) AS amount, o.ts
        FROM orders o LEFT JOIN corrections c ON c.id = o.id AND c.ts = o.ts""",
    "per_minute": """
        SELECT time_bucket(INTERVAL 1 MINUTE, ts) AS minute, count(*) AS orders,
               sum(amount) AS amount
        FROM sales GROUP BY 1""",
    "attributed": """
        SELECT s.id, s.ts, s.amount, max_by(c.campaign, (c.ts, c.id)) AS campaign
        FROM sales s LEFT JOIN clicks c
          ON c.customer = s.customer AND c.ts BETWEEN s.ts - INTERVAL 1 HOUR AND s.ts
        GROUP BY s.id, s.ts, s.amount""",
    "customers": """
        SELECT id, name, city, lsn AS _valid_from,
               lead(lsn) OVER (PARTITION BY id ORDER BY lsn) AS _valid_to
        FROM changes WHERE true QUALIFY op <> 'd'""",
}


class Clicks:
    """The server, and a folder with the blueprint and the corrections."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kafka = Kafka()
        self.random = random.Random(SEED)
        self.next_id = 0
        self.lsn = 0

    def __enter__(self) -> Clicks:
        self.kafka.start()
        admin = AdminClient({"bootstrap.servers": self.kafka.servers})
        topics = [NewTopic(name, TOPIC_PARTITIONS) for name in TOPICS]
        for created in admin.create_topics(topics).values():
            created.result()
        self.producer = Producer({"bootstrap.servers": self.kafka.servers, "log_level": 0})
        (self.folder / "data" / "corrections").mkdir(parents=True)
        self.blueprint = self.folder / "clicks.yaml"
        text = EXAMPLE.read_text().replace("localhost:9092", self.kafka.servers)
        self.blueprint.write_text(text)
        return self

    def __exit__(self, *_: object) -> None:
        self.kafka.remove()

    # what happens

    def sell(self, times: Iterable[datetime]) -> list[int]:
        """A click some minutes before each of these times, and an order at it. The orders' ids."""
        ids = []
        for at in times:
            id, customer = self.next_id, self.random.randrange(CUSTOMERS)
            clicked = at - timedelta(seconds=self.random.randrange(2, 5_400))
            campaign = self.random.choice(CAMPAIGNS)
            amount = Decimal(self.random.randrange(100, 20_000)) / 100
            self._send("clicks", customer, id=id, campaign=campaign, ts=clicked)
            self._send("orders", customer, id=id, amount=str(amount), ts=at)
            self.next_id += 1
            ids.append(id)
        assert self.producer.flush() == 0
        return ids

    def _send(self, topic: str, customer: int, **fields: object) -> None:
        value = {**fields, "customer": customer, "ts": f"{fields['ts']:%FT%T.%fZ}"}
        self.producer.produce(topic, json.dumps(value).encode(), str(customer).encode())
        self.producer.poll(0)

    def change_customers(self, count: int) -> None:
        """Inserts, updates and deletes as Debezium tells them, out of order and some twice."""
        events = [self._change() for _ in range(count)]
        events += self.random.sample(events, count // 10)
        self.random.shuffle(events)
        for event in events:
            self.producer.produce("customers", json.dumps(event).encode())
        assert self.producer.flush() == 0

    def _change(self) -> dict[str, Any]:
        id = self.random.randrange(CUSTOMERS)
        self.lsn += 1
        row = {"id": id, "name": f"customer {id}.{self.lsn}", "city": self.random.choice(CITIES)}
        is_delete = self.random.random() < 0.1
        before, after = (row, None) if is_delete else (None, row)
        op = "d" if is_delete else "u"
        source = {"lsn": self.lsn, "ts_ms": 1_767_225_600_000 + self.lsn}
        return {"op": op, "source": source, "before": before, "after": after}

    def correct(self, hour: datetime) -> int:
        """A file says that all orders of an hour cost a cent. How many there are."""
        orders = self._values("orders")
        begin, end = f"{hour:%FT%T}", f"{hour + timedelta(hours=1):%FT%T}"
        wrong = [order for order in orders if begin <= order["ts"] < end]
        lines = ["id,amount,ts", *(f"{order['id']},0.01,{order['ts']}" for order in wrong)]
        name = f"{hour:%Y-%m-%dT%H}.csv"
        (self.folder / "data" / "corrections" / name).write_text("\n".join([*lines, ""]))
        return len(wrong)

    # what a batch computation gives

    def batch(self) -> dict[str, list[Row]]:
        """The rows of each table, in order, over the whole topics."""
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            self._load(connection)
            tables = {}
            for name, sql in BATCH.items():
                connection.execute(f"CREATE TABLE {name} AS {sql}")
                tables[name] = in_order(connection.table(name).to_arrow_table())
            return tables

    def _load(self, connection: duckdb.DuckDBPyConnection) -> None:
        """The messages and the corrections as tables."""
        fields = {
            "clicks": "id BIGINT, customer BIGINT, campaign VARCHAR, ts TIMESTAMPTZ",
            "orders": "id BIGINT, customer BIGINT, amount DECIMAL(12,2), ts TIMESTAMPTZ",
            "changes": "id BIGINT, op VARCHAR, lsn BIGINT, name VARCHAR, city VARCHAR",
            "corrections": "id BIGINT, amount DECIMAL(12,2), ts TIMESTAMPTZ",
        }
        values = {
            "clicks": self._values("clicks"),
            "orders": self._values("orders"),
            "changes": self._changes(),
            "corrections": [],
        }
        for name, columns in fields.items():
            connection.execute(f"CREATE TABLE {name} ({columns})")
            if values[name]:
                file = self.folder / f"{name}.json"
                file.write_text(json.dumps(values[name]))
                connection.execute(f"INSERT INTO {name} BY NAME SELECT * FROM '{file}'")
        if any((self.folder / "data" / "corrections").iterdir()):
            files = self.folder / "data" / "corrections" / "*.csv"
            connection.execute(f"INSERT INTO corrections SELECT * FROM '{files}'")

    def _values(self, topic: str) -> list[dict[str, Any]]:
        settings = {"servers": self.kafka.servers}
        starts = {bound.partition: bound.first for bound in look(settings, topic).bounds}
        return [json.loads(m.value() or b"") for m in messages(settings, topic, starts)]

    def _changes(self) -> list[dict[str, Any]]:
        """Each change once."""
        changes = {}
        for event in self._values("customers"):
            row = event["after"] or event["before"]
            lsn = event["source"]["lsn"]
            changes[lsn] = {**row, "op": event["op"], "lsn": lsn}
        return list(changes.values())


def in_order(rows: pa.Table) -> list[Row]:
    """The rows, sorted by all columns."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        ordered = connection.execute("SELECT * FROM rows ORDER BY ALL").to_arrow_table()
    return ordered.to_pylist()
