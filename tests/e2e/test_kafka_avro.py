"""Values of a topic in Avro: columns of the types that a registry tells, schemas that grow, and
what is no value.

Each test has a topic and a dataflow of its own, in one service with one warm Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from controlplane.client import Headgate
from tests.e2e.conftest import closing
from tests.e2e.served import Served
from tests.e2e.workspace import Service, Workspace
from tests.servers.kafka import Kafka
from tests.servers.registry import PASSWORD, USER, SchemaRegistry
from tests.slices import in_turn
from tests.there import there

# Takes turns with values in JSON: one of both reads a topic by Spark at each commit. Listing,
# writing and values have suites of their own (tests/kafka, unit/kafka, spark/test_kafka_values).
pytestmark = in_turn(1, 2)

BLUEPRINT = """\
dataflow: <flow>
components:
  prices:
    read: {<source>}
  lenient:
    read: {<source>, on_bad_record: drop, schema_change: fail}
  dearest:
    transform: {sql: "SELECT id, max(price) AS price FROM prices GROUP BY id"}
"""
SOURCE = """\
connector: kafka, servers: "{servers}", topic: {flow}, format: avro, registry: "{registry}", refresh: manual,
      options: {{registry.username: {user}, registry.password: secret://registry/password}}"""
FIRST = [
    ("id", "int"),
    ("price", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}),
    ("at", {"type": "long", "logicalType": "timestamp-micros"}),
    ("day", {"type": "int", "logicalType": "date"}),
    (
        "of",
        ["null", {"type": "record", "name": "Of", "fields": [{"name": "shop", "type": "string"}]}],
    ),
]
SECOND = [*FIRST, ("currency", "string", "EUR")]
THIRD = [("id", "long"), *SECOND[1:]]
AT = datetime(2026, 3, 1, 12, 30, 0, 123456, UTC)
PRICE = {"price": Decimal("9.99"), "at": AT, "day": AT.date(), "of": {"shop": "north"}}
PRICE_READ = {
    "price": "9.99",
    "at": "2026-03-01T12:30:00.123456Z",
    "day": "2026-03-01",
    "of": {"shop": "north"},
}
NUMBERS = count()
READ_COMPONENTS_SHARE_A_LISTING = 1


class Prices(Served):
    """A topic, and a dataflow that reads it twice."""

    def __init__(
        self,
        workspace: Workspace,
        service: Service,
        api: Headgate,
        kafka: Kafka,
        registry: SchemaRegistry,
    ):
        flow = f"prices{next(NUMBERS)}"
        super().__init__(workspace, service, api, flow, READ_COMPONENTS_SHARE_A_LISTING)
        self.kafka, self.registry, self.file = kafka, registry, f"{flow}.yaml"
        # kept: one that is gone answers nothing
        admin = AdminClient({"bootstrap.servers": kafka.servers})
        (made,) = admin.create_topics([NewTopic(flow, 1)]).values()
        made.result()
        place = {"servers": kafka.servers, "registry": registry.url_with_login, "user": USER}
        text = BLUEPRINT.replace("<flow>", flow).replace(
            "<source>", SOURCE.format(flow=flow, **place)
        )
        workspace.write(self.file, text)

    def register(self, fields: Iterable[Any]) -> int:
        """The id of the newest schema of the topic."""
        return self.registry.register(f"{self.flow}-value", json.dumps(record(fields)))

    def send(self, schema: int, fields: Iterable[Any], row: Mapping[str, Any]) -> None:
        """A message written under a schema of the registry."""
        file = BytesIO()
        fastavro.schemaless_writer(file, fastavro.parse_schema(record(fields)), row)
        self.bare(b"\0" + schema.to_bytes(4, "big") + file.getvalue())

    def bare(self, value: bytes | None) -> None:
        producer = Producer({"bootstrap.servers": self.kafka.servers})
        producer.produce(self.flow, value, b"k")
        assert producer.flush() == 0

    def apply(self, code: int = 0) -> None:
        self.workspace.ask("apply", self.file, "--wait", code=code)
        self.work()

    def tried(self, code: int = 0) -> set[str | None]:
        """What is in the way of its connections."""
        found = self.workspace.ask("validate", self.file, "--connect", code=code)["connections"]
        return {one["error"] and one["error"]["condition"] for one in found}

    def told(self, name: str = "prices") -> list[dict[str, Any]]:
        """Rows in the order of their messages, without what is known of these."""
        found = sorted(self.rows(name), key=lambda row: row["_offset"])
        return [{k: v for k, v in row.items() if not k.startswith("_")} for row in found]

    def error(self, name: str = "prices") -> tuple[str | None, str]:
        """Condition and message."""
        found = there(self.api.why(f"{self.flow}.{name}")["error"])
        return found["condition"], found["message"]


def record(fields: Iterable[Any]) -> dict[str, Any]:
    """The schema of records with these fields: a name, a type, perhaps a default."""
    told = [
        {"name": f[0], "type": f[1], **({"default": f[2]} if len(f) > 2 else {})} for f in fields
    ]
    return {"type": "record", "name": "Price", "fields": told}


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    server = SchemaRegistry().start()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def service(module_folder: Path) -> Iterator[Service]:
    with (
        closing(Workspace(module_folder)) as workspace,
        workspace.serving(HEADGATE_SECRET_REGISTRY_PASSWORD=PASSWORD) as service,
    ):
        yield service


@pytest.fixture
def prices(service: Service, kafka: Kafka, registry: SchemaRegistry) -> Iterator[Prices]:
    with service.client() as api:
        yield Prices(service.workspace, service, api, kafka, registry)


def test_values_in_avro_have_the_types_of_their_schema(prices: Prices) -> None:
    first = prices.register(FIRST)
    prices.send(first, FIRST, {"id": 1, **PRICE})
    prices.send(first, FIRST, {"id": 2, **PRICE, "of": None})
    prices.apply()
    assert (
        prices.told()
        == prices.told("lenient")
        == [{"id": 1, **PRICE_READ}, {"id": 2, **PRICE_READ, "of": None}]
    )
    prices.bare(None)
    prices.refresh()
    assert prices.told()[2] == dict.fromkeys(["id", *PRICE]), "a message without a value"
    assert prices.work() == 3, "the slice for each of both, and what is downstream of one"
    prices.refresh()
    assert prices.work() == 0


def test_a_connection_is_tried_with_its_registry(prices: Prices) -> None:
    assert prices.tried(code=1) == {"schema-not-found"}
    prices.register(FIRST)
    assert prices.tried() == {None}
    text = (prices.workspace.folder / prices.file).read_text()
    prices.workspace.write(prices.file, text.replace(USER, "nobody"))
    assert prices.tried(code=1) == {"credentials-refused"}


def test_a_schema_may_grow(prices: Prices) -> None:
    """A field is one more column, which older messages of the same slice have by default; so may a
    type."""
    first = prices.register(FIRST)
    prices.send(first, FIRST, {"id": 1, **PRICE})
    prices.apply()
    second = prices.register(SECOND)
    prices.send(first, FIRST, {"id": 3, **PRICE})
    prices.send(second, SECOND, {"id": 4, **PRICE, "currency": "CHF"})
    prices.refresh(code=1)
    condition, message = prices.error("lenient")
    assert (condition, "new column(s) currency" in message) == ("schema-changed", True)
    assert [row["currency"] for row in prices.told()] == [None, "EUR", "CHF"]
    prices.work()
    third = prices.register(THIRD)
    prices.send(third, THIRD, {"id": 2**40, **PRICE, "currency": "CHF"})
    prices.refresh(code=1)
    assert prices.told()[-1] == {"id": 2**40, **PRICE_READ, "currency": "CHF"}
    assert [row["currency"] for row in prices.told()] == [None, "EUR", "CHF", "CHF"]
    assert len(prices.rows("lenient")) == 1, "what there was before the schema changed"


def test_a_registry_that_is_away_loses_nothing(prices: Prices) -> None:
    first = prices.register(FIRST)
    prices.send(first, FIRST, {"id": 1, **PRICE})
    prices.apply()
    prices.send(first, FIRST, {"id": 2, **PRICE})
    with prices.registry.away():
        prices.refresh(code=1)
    condition, message = prices.error()
    assert (condition, "schema registry" in message) == ("unreachable", True)
    assert prices.told() == [{"id": 1, **PRICE_READ}]
    prices.refresh()
    assert prices.told() == [{"id": 1, **PRICE_READ}, {"id": 2, **PRICE_READ}]


def test_bytes_that_are_no_value_fail_their_slice_or_are_dropped(prices: Prices) -> None:
    first = prices.register(FIRST)
    prices.send(first, FIRST, {"id": 1, **PRICE})
    prices.apply()
    prices.bare(b"{no Avro}")
    prices.send(first, FIRST, {"id": 2, **PRICE})
    prices.refresh(code=1)
    assert "partition 0, offset 1: it does not begin with a zero" in prices.error()[1]
    assert prices.told() == [{"id": 1, **PRICE_READ}]
    assert prices.told("lenient") == [{"id": 1, **PRICE_READ}, {"id": 2, **PRICE_READ}]
    assert prices.workspace.counted()["rows.dropped"] == 1


def test_a_schema_that_nobody_knows_drops_nothing(prices: Prices) -> None:
    first = prices.register(FIRST)
    prices.send(first, FIRST, {"id": 1, **PRICE})
    prices.apply()
    prices.send(999_999, FIRST, {"id": 2, **PRICE})
    prices.refresh(code=1)
    for name in ("prices", "lenient"):
        condition, message = prices.error(name)
        assert (condition, "has no schema 999999" in message) == ("schema-not-found", True)
        assert prices.told(name) == [{"id": 1, **PRICE_READ}]
