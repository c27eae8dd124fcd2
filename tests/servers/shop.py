"""The servers of the example `blueprints/orders`, filled with what a shop sells: a Kafka, a
PostgreSQL, an S3.

Does not belong here: what is made of it.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import obstore
import psycopg
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

from dataplane.connectors.kafka.kafka_client import messages
from dataplane.connectors.kafka.kafka_server import look
from tests.servers.kafka import Kafka
from tests.servers.postgres import Postgres
from tests.servers.s3 import CREDENTIALS, S3

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "blueprints" / "orders"
REGIONS = ("north", "south", "west")
CUSTOMERS = 300
PRODUCTS = ("anvil", "bellows", "chisel", "drill", "emery")
BEGIN = datetime(2024, 1, 1, 8, tzinfo=UTC)
MONTHS = ("2024-01", "2024-02", "2024-03")
DATABASE = "shop"
Row: TypeAlias = tuple[Any, ...]


class Shop:
    """All servers of the example, and a folder with its blueprint and its Delta table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kafka, self.database, self.files = Kafka(), Postgres(), S3()
        self.sold: list[dict[str, Any]] = []

    def __enter__(self) -> Shop:
        self.kafka.start()
        self.database.start().create(DATABASE)
        self.bucket = self.files.start().bucket("shop")
        self.admin = AdminClient({"bootstrap.servers": self.kafka.servers})
        self.admin.create_topics([NewTopic("orders", 2)])["orders"].result()
        self.do("CREATE TABLE customers (id int PRIMARY KEY, name text, region text)")
        self.do(
            "INSERT INTO customers SELECT n, 'customer ' || n, (%s::text[])[1 + n %% 3] FROM generate_series(0, %s) n",
            list(REGIONS),
            CUSTOMERS - 1,
        )
        for number, month in enumerate(MONTHS):
            self.put_prices(month, number)
        self.blueprint = self.folder / "orders.yaml"
        text = (EXAMPLE / "orders.yaml").read_text().replace("localhost:9092", self.kafka.servers)
        self.blueprint.write_text(text.replace("http://localhost:9000", self.files.url))
        return self

    def __exit__(self, *_: object) -> None:
        self.kafka.remove()
        self.database.remove()
        self.files.remove()

    @property
    def environment(self) -> dict[str, str]:
        """What Headgate is told besides the blueprint."""
        return {
            "HEADGATE_SECRET_SHOP_URL": f"jdbc:postgresql://127.0.0.1:{self.database.port}/{DATABASE}?user=test",
            "HEADGATE_SECRET_BUCKET_ID": CREDENTIALS["AWS_ACCESS_KEY_ID"],
            "HEADGATE_SECRET_BUCKET_KEY": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        }

    # what happens

    def sell(self, ids: Iterable[int], region: str | None = None) -> None:
        """Orders of these numbers, some minutes apart; of customers of one region, if told."""
        producer = Producer({"bootstrap.servers": self.kafka.servers})
        new = [order(id, region) for id in ids]
        for one in new:
            producer.produce("orders", json.dumps(one).encode(), str(one["id"]).encode())
            producer.poll(0)
        assert producer.flush() == 0
        self.sold += new

    def put_prices(self, month: str, level: int) -> None:
        lines = [f"{name},{month},{10 * (n + 1) + level}.50" for n, name in enumerate(PRODUCTS)]
        obstore.put(
            self.bucket,
            f"prices/{month}.csv",
            "\n".join(["product,month,price", *lines, ""]).encode(),
        )

    def do(self, statement: str, *values: object) -> list[Row]:
        where = f"host=127.0.0.1 port={self.database.port} user=test dbname={DATABASE}"
        with psycopg.connect(where, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    # what is to come of it, and what came of it

    def revenue(self) -> list[Row]:
        """By region and day, from what the three sources hold now."""
        region: dict[int, str] = dict(self.do("SELECT id, region FROM customers"))
        price = {(name, month): Decimal(text) for name, month, text in self._prices()}
        orders: dict[tuple[str, str], list[Decimal]] = defaultdict(list)
        for one in self.sold:
            day = one["sold_at"][:10]
            amount = one["quantity"] * price[one["product"], day[:7]]
            orders[region[one["customer"]], day].append(amount)
        return sorted((*key, len(amounts), str(sum(amounts))) for key, amounts in orders.items())

    def _prices(self) -> Iterator[list[str]]:
        for file in [file for page in obstore.list(self.bucket, "prices") for file in page]:
            text = bytes(obstore.get(self.bucket, file["path"]).bytes()).decode()
            yield from list(csv.reader(text.splitlines()))[1:]

    def table(self) -> list[Row]:
        """The copy in PostgreSQL."""
        return self.do("SELECT region, day::text, orders, amount::text FROM revenue ORDER BY 1, 2")

    def topic(self) -> list[Row]:
        """The copy in Kafka, as somebody has it who keeps the last message of each key."""
        settings = {"servers": self.kafka.servers}
        starts = {b.partition: b.first for b in look(settings, "revenue").bounds}
        found = messages(settings, "revenue", starts)
        last = {m.key(): m.value() for m in found}
        return sorted(
            tuple(json.loads(value).values()) for value in last.values() if value is not None
        )

    def lake(self) -> list[int]:
        """Numbers of the orders in the Delta table."""
        return sorted(
            DeltaTable(str(self.folder / "out" / "lines"))
            .to_pyarrow_table(columns=["id"])["id"]
            .to_pylist()
        )

    def is_in_sync(self) -> bool:
        """Whether all three copies are what the sources say."""
        ids = sorted(one["id"] for one in self.sold)
        return self.lake() == ids and self.table() == self.topic() == self.revenue()


def order(id: int, region: str | None) -> dict[str, Any]:
    customer = (id * 7919) % CUSTOMERS
    if region is not None:
        customer += REGIONS.index(region) - customer % len(REGIONS)
    at = BEGIN + timedelta(minutes=30 * id)
    product = PRODUCTS[id % len(PRODUCTS)]
    return {
        "id": id,
        "customer": customer,
        "product": product,
        "quantity": 1 + id % 4,
        "sold_at": f"{at:%FT%TZ}",
    }
