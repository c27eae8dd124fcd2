"""Late messages of a real topic, dropped and quarantined by Spark: those that one pass over the log
finds, whichever of worker and driver read a slice."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.conftest import closing
from tests.e2e.served import Served
from tests.e2e.workspace import Workspace
from tests.property.late_model import sorted_out
from tests.servers.kafka import Kafka
from tests.slices import in_turn

# Takes turns with event time: which rows are late is asked of property/test_late.
pytestmark = in_turn(1, 2)

READ = """\
      connector: kafka
      servers: "{servers}"
      topic: late
      schema: "id INT, at TIMESTAMP_NTZ, seen TIMESTAMP"
      refresh: manual
      event_time: {{column: at, delay: 2m}}
"""
BLUEPRINT = f"""\
dataflow: shop
timezone: America/New_York
components:
  orders:
    read:
{READ}      late: quarantine
    expect:
      - {{{{check: id < 9000, on_fail: drop, name: known}}}}
  cut:
    read:
{READ}      late: drop
"""
START = datetime(2026, 3, 8, 6, 50, tzinfo=UTC)  # New York loses an hour within
DELAY_S = 120
DROPPED = "5 of 15 rows are late, and dropped"
FAILURE = (
    "the message of partition 0 at offset 5 is late: its time 2026-03-08 06:57:59 is before the limit"
    " of 2026-03-08 06:58:00, in UTC"
)
Message = tuple[int, int]  # partition and seconds since the start
KINDS = "SELECT kind FROM past_attempts WHERE kind IN ('slice', 'parse') AND outcome = 'done'"


def send(kafka: Kafka, messages: list[Message], *, for_drivers: bool = False) -> None:
    """Workers leave messages with headers to drivers."""
    headers = [("of", b"tests")] if for_drivers else None
    producer = Producer({"bootstrap.servers": kafka.servers})
    for number, (partition, seconds) in enumerate(messages):
        at = (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
        value = {"id": number, "at": at, "seen": f"{at}Z"}
        producer.produce("late", json.dumps(value).encode(), partition=partition, headers=headers)
    assert producer.flush() == 0


def test_late_messages(tmp_path: Path, kafka: Kafka) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.servers})
    (made,) = admin.create_topics([NewTopic("late", 2)]).values()
    made.result()
    log: dict[int, list[tuple[int | None, int]]] = {0: [], 1: []}
    with closing(Workspace(tmp_path)) as workspace:
        workspace.write("shop.yaml", BLUEPRINT.format(servers=kafka.servers))
        with workspace.serving() as service, service.client() as api:
            served = Served(workspace, service, api, "shop", reads=1)
            workspace.ask("apply", "shop.yaml")

            def places(name: str) -> list[tuple[int, int]]:
                return sorted((row["_partition"], row["_offset"]) for row in served.rows(name))

            def check(messages: list[Message], *, for_drivers: bool = False) -> None:
                for partition, seconds in messages:
                    log[partition].append((seconds, 10**9))
                send(kafka, messages, for_drivers=for_drivers)
                served.refresh()
                on_time, late = sorted_out(log, DELAY_S, 0)
                expected = sorted(tuple(row[1:]) for row in on_time)
                assert places("cut") == expected
                assert places("orders") == expected
                assert places("orders__quarantine") == sorted(tuple(row[1:]) for row in late)
                reasons = {row["_reason"] for row in served.rows("orders__quarantine")}
                assert reasons <= {"late"}

            # Behind by the delay at most
            check([(0, at) for at in (0, 500, 380, 600)] + [(1, at) for at in (3_000, 2_900)])
            assert api.dataset("shop.cut")["root"] == api.dataset("shop.cut_messages")["root"]
            # Late within their slice, and late by those before it
            check([(0, at) for at in (481, 479, 4_000, 3_879)] + [(1, at) for at in (2_879, 2_880)])
            check([(0, at) for at in (3_880, 1, 3_879)], for_drivers=True)
            kinds = [kind for (kind,) in workspace.query(KINDS)]
            assert {*kinds} == {"slice", "parse"}
            for name, words in (("cut", DROPPED), ("orders", "5 of 15 rows are left out")):
                assert api.dataset(f"shop.{name}")["watermark"]["sentence"].startswith(words)
            assert api.why("shop.cut")["reason"].endswith(DROPPED)
            shown = workspace.call("status", "--home", workspace.home)
            assert f"shop.cut: {DROPPED}" in shown
            # The same messages under another policy: none is read again
            text = BLUEPRINT.replace("late: drop", "late: fail").format(servers=kafka.servers)
            workspace.write("shop.yaml", text)
            workspace.ask("apply", "shop.yaml")
            workspace.call("wait", "shop", "--home", workspace.home, code=1)
            error = api.dataset("shop.cut")["error"]
            assert error is not None
            assert error["condition"] == "late-row"
            assert error["message"].startswith(FAILURE)
            assert served.state("orders") == "up_to_date"
            assert [kind for (kind,) in workspace.query(KINDS)] == kinds
