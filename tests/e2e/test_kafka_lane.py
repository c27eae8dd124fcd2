"""Slices that workers read: no JVM starts for them, and a worker that dies loses and doubles
nothing. What it did not finish is a driver's."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.conftest import closing
from tests.e2e.served import Served
from tests.e2e.workspace import Workspace, until
from tests.servers.kafka import Kafka

BLUEPRINT = """\
dataflow: shop
components:
  orders: {{read: {{connector: kafka, servers: "{servers}", topic: {topic}, schema: "id INT", refresh: manual}}}}
"""
MESSAGES = 2_500
ATTEMPTS = "SELECT kind, outcome FROM past_attempts WHERE kind IN ('slice', 'parse')"


@pytest.mark.parametrize(
    ("failpoint", "kinds"),
    [
        ("worker-before-report-slice", {"slice", "parse"}),
        ("worker-after-manifest-slice", {"slice"}),
    ],
)
def test_a_worker_dies_with_a_slice(
    tmp_path: Path, kafka: Kafka, failpoint: str, kinds: set[str]
) -> None:
    topic = f"lane-{failpoint}"
    # kept: one that is gone answers nothing
    admin = AdminClient({"bootstrap.servers": kafka.servers})
    (made,) = admin.create_topics([NewTopic(topic, 2)]).values()
    made.result()
    producer = Producer({"bootstrap.servers": kafka.servers})
    for id in range(MESSAGES):
        producer.produce(topic, b'{"id": %d}' % id, partition=id % 2)
    assert producer.flush() == 0
    with closing(Workspace(tmp_path)) as workspace:
        workspace.write("shop.yaml", BLUEPRINT.format(servers=kafka.servers, topic=topic))
        with workspace.serving(HEADGATE_FAILPOINTS=failpoint):
            workspace.ask("apply", "shop.yaml")
            until(lambda: workspace.query(ATTEMPTS), lambda: "no worker died with a slice")
        with workspace.serving() as service, service.client() as api:
            workspace.call("wait", "shop", "--home", workspace.home)
            served = Served(workspace, service, api, "shop", reads=1)
            assert sorted(row["id"] for row in served.rows("orders")) == [*range(MESSAGES)]
            assert api.dataset("shop.orders")["partitions"] == 1
        assert {kind for kind, _ in workspace.query(ATTEMPTS)} == kinds
        workspace.assert_tidy()
