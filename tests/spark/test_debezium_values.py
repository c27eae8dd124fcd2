"""Events of Debezium in JSON as rows, and which of them are refused.

The events are as Debezium's documentation shows those of its connectors for PostgreSQL and MySQL.
"""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from controlplane.core.blueprint.kafka import ABOUT, EVENT
from dataplane.connectors.files.reader_options import CORRUPT
from dataplane.connectors.kafka.message_values import shaped
from tests.spark.test_kafka_values import messages, refused

SCHEMA = (
    "id BIGINT, name STRING, price DECIMAL(12,2), born DATE, at TIMESTAMP, micros BIGINT, "
    "wall TIMESTAMP_NTZ, photo BINARY, tags ARRAY<STRING>, sizes ARRAY<INT>, "
    "notes MAP<STRING,STRING>, prices ARRAY<STRUCT<price: DECIMAL(12,2)>>"
)
SETTINGS = {"format": "debezium", "schema": SCHEMA}
ANN = {
    "id": 1,
    "name": "Ann",
    "price": "12.50",  # decimal.handling.mode=string
    "born": 7305,  # io.debezium.time.Date
    "at": "2026-03-01T12:30:00.123456Z",  # io.debezium.time.ZonedTimestamp
    "micros": 1772368200123456,  # io.debezium.time.MicroTimestamp
    "wall": "2026-03-01T12:30:00.5Z",  # io.debezium.time.IsoTimestamp
    "photo": "AfQ=",
    "tags": ["a", "of __debezium_unavailable_value"],
    "sizes": [1, 95],
    "notes": {"a": "b"},
}
UNAVAILABLE = "__debezium_unavailable_value"
POSTGRESQL = {
    "version": "2.7.3.Final",
    "connector": "postgresql",
    "name": "shop",
    "ts_ms": 1772368200123,
    "snapshot": "false",
    "db": "shop",
    "sequence": '["24023119","24023128"]',
    "schema": "public",
    "table": "customers",
    "txId": 555,
    "lsn": 24023128,
    "xmin": None,
}
MYSQL = {
    "version": "2.7.3.Final",
    "connector": "mysql",
    "name": "shop",
    "ts_ms": 1772368200000,
    "snapshot": "false",
    "db": "shop",
    "table": "customers",
    "server_id": 223344,
    "gtid": None,
    "file": "mysql-bin.000003",
    "pos": 484,
    "row": 2,
    "thread": 7,
    "query": None,
}
PRECISE = {
    "type": "bytes",
    "optional": False,
    "name": "org.apache.kafka.connect.data.Decimal",
    "version": 1,
    "parameters": {"scale": "2", "connect.decimal.precision": "12"},
    "field": "price",
}


def event(op: str, before: Any, after: Any, source: Any = POSTGRESQL) -> dict[str, Any]:
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1772368200999}


def wrapped(payload: Any, *fields: Any) -> dict[str, Any]:
    """As JsonConverter writes it with schemas.enable=true."""
    row = {"type": "struct", "fields": [*fields], "optional": True, "field": "after"}
    schema = {"type": "struct", "fields": [row], "optional": False, "name": "shop.public.Envelope"}
    return {"schema": schema, "payload": payload}


def read(spark: SparkSession, *events: Any, drops: bool = False) -> list[Row]:
    values = [None if value is None else json.dumps(value).encode() for value in events]
    return shaped(messages(spark, *values), SETTINGS, None, drops=drops).sort("_offset").collect()


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_row_is_that_after_a_change_or_before_a_delete(
    spark: SparkSession, is_wrapped: bool
) -> None:
    bob = {**ANN, "name": "Bob", "price": 0.5, "at": None}  # decimal.handling.mode=double
    truncate = {"source": POSTGRESQL, "op": "t", "ts_ms": 1}
    events = [
        event("r", None, ANN),
        event("u", ANN, bob),
        event("d", bob, None),
        None,
        truncate,
        event("c", None, ANN, MYSQL),
    ]
    rows = read(spark, *(wrapped(e) if is_wrapped and e else e for e in events))
    assert [(row._op, row.id, row.name, row._offset) for row in rows] == [
        ("r", 1, "Ann", 0),
        ("u", 1, "Bob", 1),
        ("d", 1, "Bob", 2),
        ("t", None, None, 4),  # 3 is the tombstone behind the delete
        ("c", 1, "Ann", 5),
    ]
    assert [row.price for row in rows[:2]] == [Decimal("12.50"), Decimal("0.50")]
    first, last = rows[0], rows[-1]
    assert (first.born, first.micros) == (date(1990, 1, 1), 1772368200123456)
    assert (first.wall.isoformat(), first.photo) == ("2026-03-01T12:30:00.500000", b"\x01\xf4")
    assert first.at.astimezone(UTC) == datetime(2026, 3, 1, 12, 30, 0, 123456, UTC)
    assert first._source_time.astimezone(UTC).timestamp() == 1772368200.123
    assert (first._lsn, first._source_file) == (24023128, None)
    assert (last._lsn, last._source_file, last._source_pos, last._source_row) == (
        None,
        "mysql-bin.000003",
        484,
        2,
    )


def test_columns_are_those_that_the_blueprint_says(spark: SparkSession) -> None:
    columns = shaped(messages(spark), SETTINGS, None, drops=False).schema
    declared = spark.createDataFrame([], f"{SCHEMA}, {EVENT}, {ABOUT}").schema
    assert columns.simpleString() == declared.simpleString()


REFUSED = [
    ({"id": 1, "name": "Ann"}, "it is no event of Debezium: its op is missing"),
    (event("m", None, None), "its op is m"),
    (event("d", None, None), "an event with op d has no row in before"),
    (event("u", ANN, None), "an event with op u has no row in after"),
    (
        event("c", None, {**ANN, "at": 1772368200123}),
        "column at is TIMESTAMP, and its value is 177",
    ),
    (event("c", None, {**ANN, "born": "soon"}), "column born is DATE, and its value is soon"),
    (event("c", None, {**ANN, "price": "1.239"}), "more digits than its column"),
    (event("c", None, {**ANN, "price": "AfQ="}), "AfQ="),  # what Spark refuses is shown
    (wrapped(event("c", None, {**ANN, "price": "1234"}), PRECISE), "decimal.handling.mode=string"),
    (wrapped(event("c", None, {**ANN, "prices": [{"price": "12"}]}), PRECISE), "for price, prices"),
    (wrapped(None), "its op is missing"),
    *(
        (
            event("c", None, {**ANN, column: text}),
            f"column {column} is {kind}, and its value is {text}",
        )
        for column, kind, text in (
            ("at", "TIMESTAMP", "12:00:00Z"),
            ("wall", "TIMESTAMP_NTZ", "T12:00:00"),
            ("wall", "TIMESTAMP_NTZ", "2026-03-01T12:30:00+02:00"),
            ("born", "DATE", "2024-01-01T23:30:00-05:00"),
            ("born", "DATE", "2024-1-1"),
        )
    ),
    *(
        (
            event("u", ANN, {**ANN, column: value}),
            f"column {column} is a large value that the event",
        )
        for column, value in (
            ("name", UNAVAILABLE),
            ("name", b64encode(UNAVAILABLE.encode()).decode()),
            ("name", UNAVAILABLE.encode().hex()),
            ("name", f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}'),
            ("photo", b64encode(UNAVAILABLE.encode()).decode()),
            ("tags", [UNAVAILABLE]),
            ("sizes", [*UNAVAILABLE.encode()]),
            ("notes", {UNAVAILABLE: UNAVAILABLE}),
        )
    ),
]


def test_what_is_no_event_is_refused(spark: SparkSession) -> None:
    rows = read(spark, *(value for value, _ in REFUSED), drops=True)
    for (_, words), row in zip(REFUSED, rows, strict=True):
        assert words in row[CORRUPT], row
    encoded = json.dumps(REFUSED[0][0]).encode()
    error = refused(shaped(messages(spark, encoded), SETTINGS, None, drops=False))
    assert error["message"].endswith(f"partition 0, offset 0: {REFUSED[0][1]}"), error
