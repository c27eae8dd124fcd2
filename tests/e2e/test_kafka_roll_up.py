"""Slices of a real topic that are rolled up: the table gets no commit, and Spark reads the span."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from deltalake import DeltaTable

from controlplane.operations.upkeep.roll_up import roll_up
from controlplane.store import open_store
from tests.e2e.conftest import closing
from tests.e2e.served import Served
from tests.e2e.workspace import Workspace, until
from tests.servers.kafka import Kafka

ORDERS = (
    'dataflow: shop\ncomponents:\n  orders: {{read: {{connector: kafka, servers: "{servers}", '
    'topic: rolled, schema: "id INT", refresh: manual}}}}\n'
)
TOTAL = '  total: {transform: {sql: "SELECT count(*) AS n, sum(id) AS ids FROM orders"}}\n'
SLICES, MESSAGES = 4, 3


def test_slices_that_are_rolled_up(tmp_path: Path, kafka: Kafka) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.servers})
    (made,) = admin.create_topics([NewTopic("rolled", 2)]).values()
    made.result()
    producer = Producer({"bootstrap.servers": kafka.servers})
    with closing(Workspace(tmp_path)) as workspace:
        workspace.write("shop.yaml", ORDERS.format(servers=kafka.servers))
        with workspace.serving() as service, service.client() as api:
            for number in range(SLICES):
                for id in range(number * MESSAGES, (number + 1) * MESSAGES):
                    producer.produce("rolled", b'{"id": %d}' % id, partition=id % 2)
                assert producer.flush() == 0
                if number == 0:
                    workspace.ask("apply", "shop.yaml")
                    workspace.call("wait", "shop", "--home", workspace.home)
                    served = Served(workspace, service, api, "shop", reads=1)
                else:
                    served.refresh()
            assert api.dataset("shop.orders")["partitions"] == SLICES
            table = str(workspace.lake / "default/shop/orders")
            version, done = DeltaTable(table).version(), served.work()
            later = open_store(
                f"sqlite:///{workspace.home}/metadata.db", lambda: time.time() + 7200
            )
            assert roll_up(later, "default", fewest=2) == SLICES - 1
            later.close()
            until(
                lambda: api.dataset("shop.orders")["partitions"] == 2,
                lambda: "it was not rolled up",
            )
            ids = [*range(SLICES * MESSAGES)]
            assert sorted(row["id"] for row in served.rows("orders")) == ids
            assert (done, served.work()) == (SLICES, 0)
            workspace.write("shop.yaml", ORDERS.format(servers=kafka.servers) + TOTAL)
            workspace.ask("apply", "shop.yaml")
            workspace.call("wait", "shop", "--home", workspace.home)
            assert served.rows("total") == [{"n": len(ids), "ids": sum(ids)}]
            assert DeltaTable(table).version() == version
            assert sorted(DeltaTable(table).to_pyarrow_table()["id"].to_pylist()) == ids
        workspace.assert_tidy()
