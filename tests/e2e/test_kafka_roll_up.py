"""Slices of a busy topic are rolled up: each message is in its dataset once, is read once, and no
reader of the table sees a row deleted. Spark reads the spans."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

from controlplane.core import tree
from controlplane.core.model.roll_ups import is_span
from controlplane.operations.upkeep.roll_up import roll_up
from controlplane.ports.store import Store
from controlplane.store import open_store
from tests.e2e.conftest import closing
from tests.e2e.served import Served
from tests.e2e.workspace import Workspace, until
from tests.servers.kafka import Kafka

ORDERS = (
    'dataflow: shop\ncomponents:\n  orders: {{read: {{connector: kafka, servers: "{servers}", '
    'topic: rolled, schema: "id INT, at TIMESTAMP", event_time: {{column: at, delay: 1m}}, '
    "refresh: continuous}}}}\n"
)
TOTAL = '  total: {transform: {sql: "SELECT count(*) AS n, sum(id) AS ids FROM orders"}}\n'
SLICES = 6  # before the roll-up
START = datetime(2026, 1, 1, tzinfo=UTC)  # of event times, a second for each message


class Messages(threading.Thread):
    """Sends one message after the other, until it is told to end."""

    def __init__(self, kafka: Kafka) -> None:
        super().__init__()
        self.sent = 0
        self.is_over = threading.Event()
        self._producer = Producer({"bootstrap.servers": kafka.servers})

    def run(self) -> None:
        for id in count():
            at = START + timedelta(seconds=id)
            message = json.dumps({"id": id, "at": at.isoformat()})
            self._producer.produce("rolled", message, partition=id % 2)
            assert self._producer.flush() == 0
            self.sent = id + 1
            if self.is_over.wait(0.05):
                return


@contextmanager
def sending(kafka: Kafka) -> Iterator[Messages]:
    messages = Messages(kafka)
    messages.start()
    try:
        yield messages
    finally:
        messages.is_over.set()
        messages.join()


@contextmanager
def two_hours_later(workspace: Workspace) -> Iterator[Store]:
    """Another process that rolls up, with a clock that is ahead."""
    url = f"sqlite:///{workspace.home}/metadata.db"
    store = open_store(url, lambda: time.time() + 7200)
    yield store
    store.close()


def keys(store: Store) -> list[str]:
    with store.read() as tx:
        state = tx.states.newest("main")["shop.orders"]
        return [entry.key for entry in tree.scan(tx.nodes, state.root)]


def newest_ids(store: Store) -> list[int]:
    """By the event times that the dataset has, for each partition of the topic."""
    with store.read() as tx:
        times = tx.states.newest("main")["shop.orders"].inputs["objects"].times
    assert times is not None
    return sorted(time.newest_us // 1_000_000 - int(START.timestamp()) for time in times.newest)


def removed_rows(table: str) -> list[str]:
    """Files that commits removed, and that readers of changes see."""
    commits = sorted(Path(table, "_delta_log").glob("*.json"))
    entries = [json.loads(line) for path in commits for line in path.read_text().splitlines()]
    removed = [entry["remove"] for entry in entries if "remove" in entry]
    return [action["path"] for action in removed if action["dataChange"]]


def test_slices_of_a_busy_topic_are_rolled_up(tmp_path: Path, kafka: Kafka) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.servers})
    (made,) = admin.create_topics([NewTopic("rolled", 2)]).values()
    made.result()
    with closing(Workspace(tmp_path)) as workspace:
        workspace.write("shop.yaml", ORDERS.format(servers=kafka.servers))
        with (
            workspace.serving() as service,
            service.client() as api,
            two_hours_later(workspace) as later,
        ):
            with sending(kafka) as messages:
                workspace.ask("apply", "shop.yaml")
                served = Served(workspace, service, api, "shop", reads=1)
                until(
                    lambda: (api.dataset("shop.orders")["partitions"] or 0) >= SLICES,
                    lambda: "there are no slices",
                )
                before = messages.sent
                assert roll_up(later, "default", fewest=2) >= SLICES // 2
                until(lambda: any(map(is_span, keys(later))), lambda: "it was not rolled up")
                until(lambda: messages.sent > before + 20, lambda: "no messages come")
            ids = [*range(messages.sent)]
            until(
                lambda: api.dataset("shop.orders")["rows"] == len(ids),
                lambda: "messages are missing",
            )
            assert sorted(row["id"] for row in served.rows("orders")) == ids
            assert newest_ids(later) == ids[-2:]
            assert served.work() == int(keys(later)[-1]), "each slice is one task, a span is none"
            workspace.write("shop.yaml", ORDERS.format(servers=kafka.servers) + TOTAL)
            workspace.ask("apply", "shop.yaml")
            workspace.call("wait", "shop", "--home", workspace.home)
            assert served.rows("total") == [{"n": len(ids), "ids": sum(ids)}]
            table = str(workspace.lake / "default/shop/orders")
            until(
                lambda: sorted(DeltaTable(table).to_pyarrow_table()["id"].to_pylist()) == ids,
                lambda: "the table is behind",
            )
            assert removed_rows(table) == []
            assert workspace.ask("fsck", "--files")["findings"] == []
