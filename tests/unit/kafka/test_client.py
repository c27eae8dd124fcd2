"""How clients log in: the same options for Python's client and for Java's, which Spark has."""

from __future__ import annotations

import pytest

from dataplane.connectors.kafka.kafka_client import client, spark_options
from dataplane.secrets import hidden

SETTINGS = {
    "servers": "a:1",
    "client.security.protocol": "SASL_SSL",
    "client.sasl.mechanism": "SCRAM-SHA-512",
    "client.sasl.username": "app",
    "client.sasl.password": "secret://kafka/password",
    "client.ssl.ca.location": "/ca.pem",
}
PASSWORD = 'quoted "and" \\ more'


def test_both_clients_are_told_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_SECRET_KAFKA_PASSWORD", PASSWORD)
    told = client(SETTINGS)
    assert (told["bootstrap.servers"], told["sasl.password"], told["ssl.ca.location"]) == (
        "a:1",
        PASSWORD,
        "/ca.pem",
    )
    spark = spark_options(SETTINGS)
    login = spark.pop("kafka.sasl.jaas.config")
    assert login.startswith(
        "org.apache.kafka.common.security.scram.ScramLoginModule required username="
    )
    assert 'password="quoted \\"and\\" \\\\ more";' in login
    assert "quoted" not in hidden(login), "in no spelling"
    assert spark == {
        "kafka.bootstrap.servers": "a:1",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": "/ca.pem",
    }


def test_nobody_has_to_log_in() -> None:
    assert spark_options({"servers": "a:1", "topic": "t"}) == {"kafka.bootstrap.servers": "a:1"}
