"""Values in Avro: each type as it was written, under schemas that are not the writer's own, and
bytes that are none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from io import BytesIO
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer

from dataplane.connectors.kafka.avro import WrittenUnder, decoded, own_columns, parsed
from dataplane.contract.schemas import Json
from dataplane.contract.source_objects import NESTED
from dataplane.task_failures import TaskFailure

AT = datetime(2026, 3, 1, 12, 30, 0, 123456, UTC)
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    """Of `(name, type)`, or `(name, type, default)`."""
    told = [
        {"name": f[0], "type": f[1], **({"default": f[2]} if len(f) > 2 else {})} for f in fields
    ]
    return {"type": "record", "name": name, "fields": told}


def schema(id: int, *fields: Any) -> WrittenUnder:
    return parsed(id, [json.dumps(record(*fields))])


def message(id: int, fields: Any, row: dict[str, Any]) -> bytes:
    file = BytesIO()
    schemaless_writer(file, parse_schema(record(*fields)), row)
    return b"\0" + id.to_bytes(4, "big") + file.getvalue()


def values(
    reader: WrittenUnder, *others: WrittenUnder, given: Sequence[bytes | None]
) -> list[tuple[Any, str | None]]:
    known = {one.id: one for one in (reader, *others)}
    found = decoded(known.__getitem__, reader.id, pa.array(given, pa.binary()))
    return [(one["value"], one["error"]) for one in found.to_pylist()]


def read(fields: Any, row: dict[str, Any]) -> dict[str, Any]:
    ((found, error),) = values(schema(1, *fields), given=[message(1, fields, row)])
    assert error is None
    return dict(found)


INNER = record(
    ("at", {"type": "long", "logicalType": "timestamp-millis"}),
    ("n", ["null", "int"]),
    name="Inner",
)
# name, type, type of the column, what is written, what is read
TYPES: list[tuple[str, Any, Any, Any, Any]] = [
    ("boolean", "boolean", "boolean", True, True),
    ("int", "int", "integer", -(2**31), -(2**31)),
    ("long", "long", "long", 2**63 - 1, 2**63 - 1),
    ("float", "float", "float", 0.5, 0.5),
    ("double", "double", "double", 0.1, 0.1),
    ("string", "string", "string", "é💡", "é💡"),
    ("bytes", "bytes", "binary", b"\0\xff", b"\0\xff"),
    ("fixed", {"type": "fixed", "name": "F", "size": 2}, "binary", b"\1\2", b"\1\2"),
    ("enum", {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "string", "B", "B"),
    ("decimal", MONEY, "decimal(10,2)", Decimal("-12345678.90"), Decimal("-12345678.90")),
    (
        "decimal fixed",
        {
            "type": "fixed",
            "name": "D",
            "size": 16,
            "logicalType": "decimal",
            "precision": 38,
            "scale": 18,
        },
        "decimal(38,18)",
        Decimal("12345678901234567890.123456789012345678"),
        Decimal("12345678901234567890.123456789012345678"),
    ),
    ("date", {"type": "int", "logicalType": "date"}, "date", date(1, 1, 1), date(1, 1, 1)),
    ("micros", {"type": "long", "logicalType": "timestamp-micros"}, "timestamp", AT, AT),
    (
        "millis",
        {"type": "long", "logicalType": "timestamp-millis"},
        "timestamp",
        AT.replace(microsecond=123000),
        AT.replace(microsecond=123000),
    ),
    (
        "local",
        {"type": "long", "logicalType": "local-timestamp-micros"},
        "timestamp_ntz",
        AT.replace(tzinfo=None),
        AT.replace(tzinfo=None),
    ),
    ("time", {"type": "int", "logicalType": "time-millis"}, "integer", 3_600_000, 3_600_000),
    (
        "uuid",
        {"type": "string", "logicalType": "uuid"},
        "string",
        str(UUID(int=7)),
        str(UUID(int=7)),
    ),
    ("null or int", ["null", "int"], "integer", None, None),
    ("int or null", [{"type": "int"}, "null"], "integer", 3, 3),
    ("null or decimal", ["null", MONEY], "decimal(10,2)", None, None),
    (
        "map",
        {"type": "map", "values": MONEY},
        None,
        {"a": Decimal("1.00")},
        [("a", Decimal("1.00"))],
    ),
    (
        "array",
        {"type": "array", "items": ["null", MONEY]},
        None,
        [None, Decimal("2.50")],
        [None, Decimal("2.50")],
    ),
    (
        "nested",
        ["null", INNER],
        None,
        {"at": AT, "n": None},
        {"at": AT.replace(microsecond=123000), "n": None},
    ),
]


@pytest.mark.parametrize(
    ("kind", "column", "given", "expected"), [t[1:] for t in TYPES], ids=[t[0] for t in TYPES]
)
def test_each_type_comes_as_it_was_written(
    kind: Any, column: Any, given: Any, expected: Any
) -> None:
    own = schema(1, ("c", kind)).columns["fields"][0]
    assert column in (None, own["type"])
    assert read([("c", kind)], {"c": given}) == {"c": expected}


def test_nested_types_are_columns_of_structs() -> None:
    columns = schema(
        1,
        ("a", ["null", {"type": "array", "items": INNER}]),
        ("m", {"type": "map", "values": "Inner"}),
    )
    kinds: list[Json] = [f["type"] for f in columns.columns["fields"]]
    assert [kind["type"] for kind in kinds] == ["array", "map"]
    assert own_columns(columns.columns) == ["a", f"a{NESTED}at", f"a{NESTED}n", "m"]


OLD: Any = [("id", "int"), ("was", "string")]
NEW: Any = [
    ("id", "long"),
    ("price", MONEY, "\u0001\u00ff"),
    ("raw", "bytes", "\u00ff"),
    ("at", {"type": "long", "logicalType": "timestamp-millis"}, 5),
    ("on", {"type": "int", "logicalType": "date"}, 1),
    ("note", ["null", "string"], None),
]


def test_older_messages_are_read_under_the_newer_schema() -> None:
    """Fields that they lack have the defaults, those that the newer schema lacks are gone, types
    grow."""
    given = [message(1, OLD, {"id": 7, "was": "x"}), message(2, NEW, {"id": 2**40, **ROW}), None]
    older, newer, none = values(schema(2, *NEW), schema(1, *OLD), given=given)
    defaults = {"price": Decimal("5.11"), "raw": b"\xff", "on": date(1970, 1, 2), "note": None}
    assert older == ({"id": 7, **defaults, "at": datetime(1970, 1, 1, 0, 0, 0, 5000, UTC)}, None)
    assert newer == ({"id": 2**40, **ROW}, None)
    assert none == (None, None), "a message without a value"


def test_a_default_has_all_of_its_digits() -> None:
    most = Decimal("-123456789012345678901234567890123456.78")
    text = int(most.scaleb(2, Context(prec=38))).to_bytes(16, "big", signed=True).decode("latin-1")
    new = schema(2, *OLD, ("most", {**MONEY, "precision": 38}, text))
    ((found, _),) = values(new, schema(1, *OLD), given=[message(1, OLD, {"id": 7, "was": "x"})])
    assert found["most"] == most


def test_newer_messages_are_read_under_the_schema_of_their_slice() -> None:
    later: Any = [*OLD, ("more", "string")]
    given = [message(3, later, {"id": 1, "was": "x", "more": "y"})]
    assert values(schema(1, *OLD), schema(3, *later), given=given) == [
        ({"id": 1, "was": "x"}, None)
    ]


ROW = {
    "price": Decimal("1.00"),
    "raw": b"r",
    "at": AT.replace(microsecond=0),
    "on": date(2026, 1, 1),
    "note": "n",
}


def test_what_is_no_value_is_told_and_the_others_are_read() -> None:
    fine, later = message(1, OLD, {"id": 1, "was": "y"}), [("id", "string"), ("was", "string")]
    given = [
        fine,
        b'{"id": 1}',
        b"\0\0",
        fine[:-1],
        fine + b"!",
        fine[:6] + b"\2\xff",
        message(3, later, {**WORDS}),
    ]
    found = values(schema(1, *OLD), schema(3, *later), given=given)
    assert [value is not None for value, _ in found] == [True, *[False] * 6]
    told = [str(error) for _, error in found]
    assert told[1] == told[2] == "it does not begin with a zero and the id of a schema"
    assert "it is no value of schema 1" in told[3]
    assert "1 bytes are left over" in told[4]
    assert "UnicodeDecodeError" in told[5]
    assert "schema 3 that schema 1 can read" in told[6]


WORDS = {"id": "seven", "was": "z"}


def test_a_value_that_its_type_does_not_hold_is_none() -> None:
    wide: Any = [("c", {**MONEY, "precision": 20})]
    given = [
        message(2, wide, {"c": Decimal("1.00")}),
        message(2, wide, {"c": Decimal("123456789012.00")}),
    ]
    (fits, _), (too_wide, error) = values(schema(1, ("c", MONEY)), schema(2, *wide), given=given)
    assert fits == {"c": Decimal("1.00")}
    assert (too_wide is None, "schema 2" in str(error) or "type" in str(error)) == (True, True)


def test_schemas_may_name_others() -> None:
    inner = {**record(("x", "int")), "name": "other.Inner"}
    whole = parsed(
        1,
        [
            json.dumps(inner),
            json.dumps(record(("one", "other.Inner"), ("two", ["null", "other.Inner"]))),
        ],
    )
    assert own_columns(whole.columns) == ["one", f"one{NESTED}x", "two", f"two{NESTED}x"]


REFUSED = [
    ("union", ["int", "string"]),
    ("itself", ["null", "R"]),
    ("decimal", {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}),
]


@pytest.mark.parametrize("kind", [kind for _, kind in REFUSED], ids=[name for name, _ in REFUSED])
def test_what_no_column_holds_is_refused(kind: Any) -> None:
    with pytest.raises(TaskFailure) as caught:
        _ = schema(1, ("c", kind)).columns
    assert caught.value.condition == "not-supported"


def test_what_is_no_record_has_no_columns() -> None:
    for text in ('"string"', '{"type": "array", "items": "int"}', '{"type": "what"}', "{"):
        with pytest.raises(TaskFailure) as caught:
            _ = parsed(1, [text]).columns
        assert caught.value.condition == "not-supported"
