"""What the image of the data plane brings along: in pods that reach no registry, Spark reads Delta
tables, PostgreSQL and Kafka, and writes to PostgreSQL with a password from a mounted Secret.

Does not belong here: what these connectors do with changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import psycopg
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from controlplane.client import Headgate
from tests.pods import node
from tests.pods.cluster import CONTROL, DATA, Cluster, settled, tables
from tests.servers.kafka import Kafka

FLOW = """
dataflow: brought
components:
  delta:
    read: {{connector: delta, path: /data/delta, refresh: 1h}}
  table:
    read: {{connector: jdbc, url: "{shop}", options: {login}, table: airlines, refresh: 1h}}
  topic:
    read: {{connector: kafka, servers: "{servers}", topic: airlines, format: json, schema: "{columns}", refresh: 1h}}
  copy:
    write: {{connector: jdbc, from: delta, url: "{shop}", options: {login}, table: copied}}
"""
# In a cluster where network policies are enforced, nobody else reaches the database of the overlay
ADMITS = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "shop"},
    "spec": {
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "postgresql"}},
        "ingress": [
            {
                "from": [
                    {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": DATA}}}
                ]
            }
        ],
    },
}
COLUMNS = "carrier STRING, name STRING"
LOGIN = "{user: headgate, password: secret://shop/password}"

Rows = list[tuple[str, str]]


@pytest.fixture(scope="module")
def servers(airlines: pa.Table) -> Iterator[str]:
    kafka = Kafka(node.ADDRESS)
    try:
        kafka.start()
        # kept: one that is gone answers nothing
        admin = AdminClient({"bootstrap.servers": kafka.servers})
        admin.create_topics([NewTopic("airlines", 1)])["airlines"].result()
        producer = Producer({"bootstrap.servers": kafka.servers})
        for row in airlines.to_pylist():
            producer.produce("airlines", json.dumps(row))
        producer.flush()
        yield kafka.servers
    finally:
        kafka.remove()


@pytest.fixture(scope="module")
def shop(installed: Cluster, airlines: pa.Table) -> Iterator[psycopg.Connection]:
    """A database with the airlines."""
    installed.kubectl("create", "--namespace", CONTROL, "--filename=-", stdin=json.dumps(ADMITS))
    host, _, port = installed.address("postgresql").partition(":")
    password = installed.secret("headgate-database", "password")
    place = f"host={host} port={port} user=headgate password={password}"
    with psycopg.connect(f"{place} dbname=postgres", autocommit=True) as connection:
        connection.execute("CREATE DATABASE shop")
    with psycopg.connect(f"{place} dbname=shop", autocommit=True) as connection:
        connection.execute("CREATE TABLE airlines (carrier text, name text)")
        connection.cursor().executemany("INSERT INTO airlines VALUES (%s, %s)", rows(airlines))
        yield connection
    installed.kubectl("delete", "networkpolicy", "shop", "--namespace", CONTROL)


def test_spark_in_a_pod_reads_and_writes_what_connectors_are_for(
    installed: Cluster, client: Headgate, shop: psycopg.Connection, servers: str, airlines: pa.Table
) -> None:
    url = "jdbc:postgresql://postgresql.headgate.svc/shop"
    text = FLOW.format(shop=url, login=LOGIN, servers=servers, columns=COLUMNS)
    client.apply([{"name": "/brought.yaml", "text": text}])
    flow = settled(client, "brought")
    assert flow["state"] == "up_to_date", [client.why(d["name"])["error"] for d in flow["datasets"]]
    expected = rows(airlines)
    found = {name: rows(table) for name, table in tables(installed, flow)}
    assert found == dict.fromkeys(("delta", "table", "topic"), expected)
    assert sorted(shop.execute("SELECT carrier, name FROM copied").fetchall()) == expected


def rows(table: pa.Table) -> Rows:
    return sorted(zip(table["carrier"].to_pylist(), table["name"].to_pylist(), strict=True))
