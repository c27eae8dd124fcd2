"""Rows with the ends of every type that a dataset has, NULL and NaN, as readers are to see them."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from dataplane.contract.schemas import array_of, field_of, map_of, struct_of
from tests.unit.lake.tables import struct

SCHEMA = struct(
    k="long",
    flag="boolean",
    tiny="byte",
    small="short",
    whole="integer",
    single="float",
    double="double",
    decimal="decimal(38,10)",
    price="decimal(12,2)",
    text="string",
    raw="binary",
    day="date",
    instant="timestamp",
    local="timestamp_ntz",
    nested=struct_of([field_of("x", "long"), field_of("y", struct_of([field_of("z", "string")]))]),
    lists=array_of(array_of("integer")),
    structs=array_of(struct_of([field_of("q", "decimal(5,1)")])),
    pairs=map_of("string", struct_of([field_of("v", "date")])),
)
ROWS: list[dict[str, Any]] = [
    {
        "k": 1,
        "flag": True,
        "tiny": -128,
        "small": -32768,
        "whole": 2**31 - 1,
        "single": 1.5,
        "double": math.nan,
        "decimal": Decimal("1234567890123456789012345678.0123456789"),
        "price": Decimal("-99.99"),
        "text": "ü漢😀'",
        "raw": b"\x00\xff",
        "day": date(1582, 10, 4),
        "instant": datetime(2025, 1, 1, 12, 0, 0, 123456, tzinfo=UTC),
        "local": datetime(1999, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001  # it has no zone
        "nested": {"x": 1, "y": {"z": "a"}},
        "lists": [[1, None], [], None],
        "structs": [{"q": Decimal("1.5")}, None],
        "pairs": [("a", {"v": date(2020, 2, 29)}), ("b", None)],
    },
    {
        "k": 3,
        "flag": False,
        "tiny": 0,
        "small": 1,
        "whole": -1,
        "single": math.inf,
        "double": -math.inf,
        "decimal": Decimal("0E-10"),
        "price": Decimal("0.00"),
        "text": "",
        "raw": b"",
        "day": date(9999, 12, 31),
        "instant": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        "local": datetime(1, 1, 1),  # noqa: DTZ001
        "nested": {"x": None, "y": None},
        "lists": [],
        "structs": [],
        "pairs": [],
    },
    {"k": 2},
]


def all_columns() -> list[dict[str, Any]]:
    """`ROWS` with None where a row has no such column."""
    columns = [field["name"] for field in SCHEMA["fields"]]
    return [{column: row.get(column) for column in columns} for row in ROWS]
