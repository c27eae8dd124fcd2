"""Values of messages as columns, and what becomes of those that are none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from dataplane.connectors.files.reader_options import CORRUPT
from dataplane.connectors.kafka.message_values import shaped
from dataplane.contract.results import TaskError
from dataplane.contract.schemas import Json
from dataplane.spark.spark_errors import ErrorSource, explain
from tests.servers.registry import PASSWORD, USER, SchemaRegistry

SETTINGS = {"format": "json", "schema": "id INT, item STRING"}
FINE, TEXT, BROKEN, NONE = b'{"id": 1, "item": "a"}', b'{"id": "one"}', b"{no JSON", None
LATIN = b'{"item": "\xe9"}'
FRAMED = b"\0\0\0\0\7" + FINE


def messages(spark: SparkSession, *values: bytes | None) -> DataFrame:
    rows = [(b"k", value, None, 0, offset, None) for offset, value in enumerate(values)]
    kinds = (
        "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, partition "
        "INT, offset BIGINT, "
    )
    return spark.createDataFrame(rows, kinds + "timestamp TIMESTAMP")


def test_what_is_no_json_is_marked_where_it_is_dropped(spark: SparkSession) -> None:
    found = shaped(messages(spark, FINE, TEXT, BROKEN, NONE, LATIN), SETTINGS, None, drops=True)
    rows = sorted(found.collect(), key=lambda row: row["_offset"])
    assert [row[CORRUPT] is None for row in rows] == [True, False, False, True, False]
    assert [(row["id"], row["item"], row["_key"]) for row in rows if row[CORRUPT] is None] == [
        (1, "a", "k"),
        (None, None, "k"),
    ]


def test_json_may_stand_behind_the_id_of_a_schema(spark: SparkSession) -> None:
    found = (
        shaped(messages(spark, FRAMED, b"\0\0\0\0\7", FINE), SETTINGS, None, drops=True)
        .sort("_offset")
        .collect()
    )
    assert [(row["id"], row["item"]) for row in (found[0], found[2])] == [(1, "a")] * 2
    assert found[1][CORRUPT] is not None


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (TEXT, "VALUE_STRING"),
        (BROKEN, "double-quote"),
        (b" \n", "offset 0: it is empty"),
        (LATIN, "it is no UTF-8"),
    ],
)
def test_what_is_no_json_is_an_error_else(spark: SparkSession, value: bytes, told: str) -> None:
    assert (
        shaped(messages(spark, FINE, NONE), SETTINGS, None, drops=False)
        .select("id", "item")
        .collect()[0][0]
        == 1
    )
    error = refused(shaped(messages(spark, value), SETTINGS, None, drops=False))
    assert (error["kind"], told in error["message"]) == ("user", True), error["message"]


NUMBERS = {
    "format": "json",
    "schema": "d DECIMAL(4,2), w DECIMAL(38,18), f FLOAT, g DOUBLE, s STRUCT<`d.d`: DECIMAL(10,2)>, "
    "m MAP<STRING, DECIMAL(10,2)>, l ARRAY<STRUCT<g: DOUBLE>>",
}
MORE = [
    b'{"id": 1} {"id": 2}',
    b'{"id": 1}\n{"id": 2}\n',
    b'{"id": 1} garbage',
    b'{"id": 1}}',
    b'{"id": 1}} garbage',
    b'{"id": 1},',
    b'{"id": 1}, {"id": 2}',
    b'{"id": 1}, "more": {"id": 2}',
    b'{"id": 1}]',
    b'{"id": 1}] garbage',
    b'{"id": 1}]} garbage',
    b'{"id": 1}], "more": [{"id": 2}',
    b'{"id": 1}"',
    b'{"id": 1}\0',
    b'{"item": "}"} {"id": 2}',
    b'{"more": NaN} {"id": 2}',
    FRAMED + b" garbage}",
]
OTHERS = [b'[{"id": 1}]', b"[]", b"null", b"1", b'"text"', b"true", b'\xef\xbb\xbf{"id": 1}']
LOST = [
    b'{"d": 1.239}',
    b'{"d": "1.239"}',
    b'{"d": "1.2,39"}',
    b'{"d": "1\\u002e239"}',
    b'{"d": 99.989}',
    b'{"d": 1e-3}',
    b'{"d": 1.23E-1}',
    b'{"d": 1.23%s1}' % (b"0" * 40),
    b'{"at": "08:00:06.123", "d":12.345}',
    b'{"w": 12345678901234567890.1234567890123456789}',
    b'{"s": {"d.d": 1.239}}',
    b'{"m": {"a": 1, "b": 1.239}}',
    b'{"f": 1e39}',
    b'{"g": 1e400}',
    b'{"g": -1%s}' % (b"0" * 400),
    b'{"x": "\\"Infinity: ", "l": [{"g": 1}, {"g": -1E+400}]}',
]


@pytest.mark.parametrize(
    ("settings", "values", "told"),
    [
        (SETTINGS, MORE, "something stands behind its first value"),
        (NUMBERS, LOST, "a number has more digits than its column, or is too large for it"),
        (SETTINGS, OTHERS, None),
    ],
)
def test_nothing_of_a_value_is_passed_over(
    spark: SparkSession, settings: Json, values: list[bytes], told: str | None
) -> None:
    found = (
        shaped(messages(spark, None, *values), settings, None, drops=True).sort("_offset").collect()
    )
    reasons = [row[CORRUPT] for row in found]
    assert reasons == [None, *(told or value.decode() for value in values)]


@pytest.mark.parametrize(
    ("settings", "value", "told"),
    [
        (SETTINGS, MORE[0], "partition 0, offset 1: something stands behind its first value"),
        (NUMBERS, LOST[0], "partition 0, offset 1: a number has more digits than its column"),
        (NUMBERS, LOST[-1], "partition 0, offset 1: a number has more digits than its column"),
        (SETTINGS, OTHERS[0], "malformed record"),
    ],
)
def test_what_is_passed_over_is_an_error_else(
    spark: SparkSession, settings: Json, value: bytes, told: str
) -> None:
    error = refused(shaped(messages(spark, None, value), settings, None, drops=False))
    assert (error["kind"], told in error["message"]) == ("user", True), error["message"]


@pytest.mark.parametrize("drops", [True, False])
def test_one_value_is_one(spark: SparkSession, drops: bool) -> None:
    expected: list[tuple[bytes, int | None, str | None]] = [
        (b' \r\n\t{"id": 1} \r\n', 1, None),
        (b'{"id": 1, "item": "} {"}', 1, "} {"),
        (b'{"id": 1, "item": "a\\"} {\\\\"}', 1, 'a"} {\\'),
        (b'{"id": 1, "more": {"a": [{"b": {}}, [], {"c": "]}"}]}}', 1, None),
        (b'{"id": 1, "more": [{}]}\n', 1, None),
        (b'{"id": 1, "more": [NaN, -Infinity, {}]}', 1, None),
        (b"{'id': 1, 'more': {'a': '}'}}", 1, None),
        (b'{"id": 1, "id": 2}', 2, None),
        (b"{}", None, None),
        (b'\0\0\0\0\7{"id": 1, "more": {}}', 1, None),
        (b'{"id": 1, "more": [%s1]}' % (b'{"a": "\\n"},' * 50_000), 1, None),
    ]
    found = shaped(
        messages(spark, *(value for value, *_ in expected)), SETTINGS, None, drops=drops
    ).sort("_offset")
    rows = found.collect()
    assert [(row["id"], row["item"]) for row in rows] == [(id, item) for _, id, item in expected]
    assert not drops or [row[CORRUPT] for row in rows] == [None] * len(expected)


@pytest.mark.parametrize("drops", [True, False])
def test_numbers_come_as_they_are(spark: SparkSession, drops: bool) -> None:
    value = b"""{"d": 99.990, "w": 12345678901234567890.123456789012345678, "f": 0.1234567890123, "g": 1e-400,
        "s": {"d.d": "-0.01"}, "m": {"a": 12345678.9, "b": null, "c": 100e-2, "d": "1,234.5"},
        "at": "2026-11-23T08:00:06.123456Z", "x": [1.2345, -1e-7, "a\\"1e-9\\\\", 'b"1.2345'],
        "l": [{"g": Infinity}, {"g": -INF}, {"g": "Infinity"}, null, {"g": NaN}]}\r\n"""
    long = b'{"d": 1.5, "x": "%s", "y": [%s 1.2345]}' % (b"\\n" * 50_000, b'"a", true, ' * 50_000)
    row, other = (
        shaped(messages(spark, value, long), NUMBERS, None, drops=drops).sort("_offset").collect()
    )
    assert (row["d"], row["s"]["d.d"], row["g"]) == (Decimal("99.99"), Decimal("-0.01"), 0.0)
    assert row["w"] == Decimal("12345678901234567890.123456789012345678")
    assert row["f"] == pytest.approx(0.1234567890123)
    decimals = {
        "a": Decimal("12345678.90"),
        "b": None,
        "c": Decimal("1.00"),
        "d": Decimal("1234.50"),
    }
    assert row["m"] == decimals
    assert [str(one and one["g"]) for one in row["l"]] == ["inf", "-inf", "inf", "None", "nan"]
    assert other["d"] == Decimal("1.50")
    assert not drops or (row[CORRUPT], other[CORRUPT]) == (None, None)


def refused(rows: DataFrame) -> TaskError:
    """Why they cannot be read."""
    with pytest.raises((PySparkException, Py4JJavaError)) as caught:
        rows.collect()
    return explain(caught.value, ErrorSource(reads="sources"))


# --- Avro -----------------------------------------------------------------------------------------


FIELDS: list[Json] = [
    {"name": "id", "type": "int"},
    {"name": "at", "type": ["null", {"type": "int", "logicalType": "date"}]},
]
OLD: Json = {"type": "record", "name": "R", "fields": FIELDS}
NEW: Json = {**OLD, "fields": [*FIELDS, {"name": "more", "type": "string", "default": "none"}]}


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    server = SchemaRegistry().start()
    yield server
    server.remove()


@pytest.fixture
def settings(registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> Json:
    monkeypatch.setenv("HEADGATE_SECRET_REGISTRY_PASSWORD", PASSWORD)
    login = {
        "client.registry.username": USER,
        "client.registry.password": "secret://registry/password",
    }
    return {"format": "avro", "registry": registry.url_with_login, **login}


def written(id: int, schema: Json, /, **row: Any) -> bytes:
    file = BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), row)
    return b"\0" + id.to_bytes(4, "big") + file.getvalue()


def test_values_are_read_under_the_schema_of_their_slice(
    spark: SparkSession, registry: SchemaRegistry, settings: Json
) -> None:
    old, new = (registry.register("t-value", json.dumps(schema)) for schema in (OLD, NEW))
    given = messages(
        spark, written(old, OLD, id=1, at=None), written(new, NEW, id=2, at=None, more="x"), None
    )
    for schema, expected in (
        (old, [(1,), (2,), (None,)]),
        (new, [(1, "none"), (2, "x"), (None, None)]),
    ):
        found = shaped(given, settings, schema, drops=False).sort("_offset")
        assert [(f.name, f.dataType.simpleString()) for f in found.schema][:2] == [
            ("id", "int"),
            ("at", "date"),
        ]
        assert [tuple(row) for row in found.drop("at", *found.columns[-5:]).collect()] == expected


def test_what_is_no_avro(spark: SparkSession, registry: SchemaRegistry, settings: Json) -> None:
    old = registry.register("t-value", json.dumps(OLD))
    given = messages(spark, written(old, OLD, id=1, at=None), b"{no Avro}")
    _, bad = shaped(given, settings, old, drops=True).sort("_offset").select(CORRUPT).collect()
    assert bad[0] == "it does not begin with a zero and the id of a schema"
    error = refused(shaped(given, settings, old, drops=False))
    assert (error["kind"], error["message"]) == (
        "user",
        "partition 0, offset 1: it does not begin with a zero and the id of a schema",
    )


@pytest.mark.parametrize("drops", [True, False])
def test_a_schema_that_cannot_be_had_is_never_a_bad_record(
    spark: SparkSession, registry: SchemaRegistry, settings: Json, drops: bool
) -> None:
    old = registry.register("t-value", json.dumps(OLD))
    unknown = shaped(
        messages(spark, written(999_999, OLD, id=1, at=None)), settings, old, drops=drops
    )
    error = refused(unknown)
    assert (error["kind"], error["condition"]) == ("user", "schema-not-found")
    assert (
        error["message"] == f"the schema registry at {registry.url_with_login} has no schema 999999"
    )
    with registry.away():
        error = refused(unknown.select("id"))
    assert (error["kind"], error["condition"]) == ("infrastructure", "unreachable")
