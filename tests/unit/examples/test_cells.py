"""Values of rows between YAML and Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from controlplane.core.schema.ddl_schemas import parse_ddl
from dataplane.contract.cells import BadCell, ddl, same, typed
from dataplane.contract.schemas import Json
from dataplane.contract.zones import zone

pytestmark = pytest.mark.unit

BERLIN = zone("Europe/Berlin")


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("INT", 7, 7),
        ("DOUBLE", 7, 7.0),
        ("DOUBLE", "Infinity", float("inf")),
        ("DECIMAL(5,2)", 1.5, Decimal("1.50")),
        ("DECIMAL(5,2)", "1.25", Decimal("1.25")),
        ("DECIMAL(3,1)", "-99.9", Decimal("-99.9")),
        ("STRING", "x", "x"),
        ("DATE", "2013-07-04", date(2013, 7, 4)),
        ("TIMESTAMP", "2013-07-04 12:00:00", datetime(2013, 7, 4, 10, tzinfo=UTC)),
        ("TIMESTAMP", "2013-07-04T12:00:00Z", datetime(2013, 7, 4, 12, tzinfo=UTC)),
        ("BINARY", "aGk=", b"hi"),
        ("ARRAY<INT>", [1, None], [1, None]),
        ("MAP<INT, STRING>", {"1": "a"}, {1: "a"}),
        ("STRUCT<a: INT, b: STRING>", {"b": "x"}, (None, "x")),
        ("BOOLEAN", None, None),
    ],
)
def test_typed(kind: str, value: Json, expected: Json) -> None:
    field = parse_ddl(f"c {kind}")["fields"][0]
    assert typed(field["type"], value, BERLIN) == expected


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("INT", "7", "'7' is no INT"),
        ("INT", True, "True is no INT"),
        ("TINYINT", 128, "128 does not fit into TINYINT"),
        ("STRING", 7, "7 is no STRING; put it in quotes"),
        ("DATE", "July", "'July' is no DATE: write it as 2013-07-04"),
        ("TIMESTAMP_NTZ", "2013-07-04T12:00:00Z", "has an offset"),
        ("DECIMAL(3,2)", 1.255, "1.255 does not fit into DECIMAL(3,2)"),
        ("DECIMAL(3,1)", 100, "100 does not fit into DECIMAL(3,1)"),
        ("DECIMAL(3,1)", -100, "-100 does not fit into DECIMAL(3,1)"),
        ("ARRAY<INT>", 1, "1 is no ARRAY<INT>"),
        ("STRUCT<a: INT>", {"b": 1}, "no field 'b': known are a"),
        ("STRUCT<a: INT>", {"a": "x"}, "a: 'x' is no INT"),
    ],
)
def test_what_is_none_of_its_type(kind: str, value: Json, words: str) -> None:
    field = parse_ddl(f"c {kind}")["fields"][0]
    with pytest.raises(BadCell, match=r".*") as caught:
        typed(field["type"], value, BERLIN)
    assert words in str(caught.value)


def test_they_come_back_as_they_are_written() -> None:
    assert same("timestamp", "2013-07-04T12:00:00+02:00", BERLIN) == "2013-07-04 12:00:00"
    assert same("decimal(5,2)", 1.5, BERLIN) == "1.50"
    assert same("date", "2013-07-04", BERLIN) == "2013-07-04"


def test_ddl() -> None:
    text = "id INT, `a b` ARRAY<STRUCT<x: DOUBLE>>, m MAP<STRING, DECIMAL(5,2)>"
    assert parse_ddl(ddl(parse_ddl(text))) == parse_ddl(text)
