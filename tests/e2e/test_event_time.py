"""Event time on a real topic: windows that the watermark has closed equal those that DuckDB makes of
all messages, whichever of worker and driver reads a slice."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from controlplane.client.connection import ApiError
from tests.e2e.conftest import closing
from tests.e2e.served import Served
from tests.e2e.workspace import Workspace
from tests.servers.kafka import Kafka
from tests.slices import in_turn

# Takes turns with late messages: closed windows are asked of property/test_event_time and
# unit/kafka/test_event_times.
pytestmark = in_turn(0, 2)

BLUEPRINT = """\
dataflow: shop
components:
  orders:
    read:
      connector: kafka
      servers: "{servers}"
      topic: closing
      schema: "shop STRING, amount DECIMAL(8,2), at TIMESTAMP"
      refresh: manual
      event_time: {{column: at, delay: 2m, max_ahead: 1h}}
  per_minute:
    transform:
      sql: >-
        SELECT window(at, '1 minute').start AS minute, shop, count(*) AS n, sum(amount) AS total
        FROM orders GROUP BY window(at, '1 minute'), shop
      partition_by: [{{minute: minute}}]
      emit: final
"""
START = datetime(2026, 3, 1, 10, tzinfo=UTC)
DELAY = timedelta(minutes=2)
EXPECTED = """\
SELECT time_bucket(INTERVAL 1 minute, "at") AS minute, shop, count(*) AS n, sum(amount) AS total
FROM messages WHERE time_bucket(INTERVAL 1 minute, "at") + INTERVAL 1 minute <= ? GROUP BY ALL ORDER BY ALL
"""
KINDS = "SELECT kind FROM past_attempts WHERE kind IN ('slice', 'parse') AND outcome = 'done'"
Message = tuple[int, str, float, datetime]  # with its partition


def seconds(*offsets: int, partition: int) -> list[Message]:
    return [
        (partition, f"shop {at % 3}", at % 7 + 0.25, START + timedelta(seconds=at))
        for at in offsets
    ]


def send(kafka: Kafka, messages: Iterable[Message], *, for_drivers: bool) -> None:
    """Workers leave messages with headers to drivers."""
    headers = [("of", b"tests")] if for_drivers else None
    producer = Producer({"bootstrap.servers": kafka.servers})
    for partition, shop, amount, at in messages:
        value = {"shop": shop, "amount": amount, "at": at.strftime("%Y-%m-%dT%H:%M:%SZ")}
        producer.produce(
            "closing", json.dumps(value).encode(), partition=partition, headers=headers
        )
    assert producer.flush() == 0


def windows(messages: list[Message], watermark: datetime) -> list[tuple[object, ...]]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(
            'CREATE TABLE messages (shop TEXT, amount DECIMAL(8,2), "at" TIMESTAMPTZ)'
        )
        rows = [row[1:] for row in messages]
        connection.executemany("INSERT INTO messages VALUES (?, ?, ?)", rows)
        found = connection.execute(EXPECTED, [watermark]).fetchall()
    return [(minute.isoformat(), shop, n, float(total)) for minute, shop, n, total in found]


def test_closed_windows_of_a_topic(tmp_path: Path, kafka: Kafka) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.servers})
    (made,) = admin.create_topics([NewTopic("closing", 2)]).values()
    made.result()
    sent: list[Message] = []
    with closing(Workspace(tmp_path)) as workspace:
        workspace.write("shop.yaml", BLUEPRINT.format(servers=kafka.servers))
        with workspace.serving() as service, service.client() as api:
            served = Served(workspace, service, api, "shop", reads=1)
            workspace.ask("apply", "shop.yaml")

            def check(
                messages: list[Message], watermark: datetime, *, for_drivers: bool = False
            ) -> None:
                sent.extend(messages)
                send(kafka, messages, for_drivers=for_drivers)
                served.refresh()
                at = api.dataset("shop.orders")["watermark"]["at"]
                assert at is not None
                assert datetime.fromisoformat(at) == watermark
                closed = sorted(
                    (
                        datetime.fromisoformat(row["minute"]).replace(tzinfo=UTC).isoformat(),
                        row["shop"],
                        row["n"],
                        float(row["total"]),
                    )
                    for row in served.rows("per_minute")
                )
                assert closed == windows(sent, watermark)

            # Out of order; the second partition holds the watermark back.
            first = seconds(*range(0, 600, 7), 3, 1, partition=0)
            second = seconds(*range(290, 0, -11), partition=1)
            check([*first, *second], START + timedelta(seconds=290) - DELAY)
            # Rows of next year count nothing.
            ahead = datetime.now(UTC) + timedelta(days=365)
            check(
                [*seconds(530, partition=1), (1, "shop 0", 1.0, ahead)],
                START + timedelta(seconds=530) - DELAY,
                for_drivers=True,
            )
            assert api.dataset("shop.orders")["watermark"]["ahead"] == 1
            # A late row corrects a closed window.
            check(seconds(61, partition=0), START + timedelta(seconds=530) - DELAY)
            reason = api.why("shop.per_minute")["reason"]
            assert reason.endswith("closed by the watermark of 2026-03-01 10:06:50 UTC")
            with pytest.raises(ApiError, match="closed by the watermark of 2026-03-01 10:06:50"):
                api.why("shop.per_minute", "minute=2026-03-01T10%3A07")
            assert {kind for (kind,) in workspace.query(KINDS)} == {"slice", "parse"}
            words = workspace.call("status", "--home", workspace.home)
            assert "closed by the watermark of 2026-03-01 10:06:50 UTC" in words
            assert "the watermark is 2026-03-01 10:06:50 UTC, by partition 1; 1 row is" in words
