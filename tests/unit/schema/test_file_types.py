"""The table of types, without files: what types become together holds both of them, and refusals
name the place."""

from __future__ import annotations

from itertools import product

import pytest

from controlplane.core.schema.ddl_schemas import parse_ddl, types
from dataplane.contract.joins import grow
from dataplane.contract.schemas import Type
from dataplane.contract.types import FILE_ONLY, fit, held, in_words, refusal, was_read_exactly

PLAIN = (
    "boolean",
    "byte",
    "short",
    "integer",
    "long",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
)
KINDS = (
    *PLAIN,
    "timestamp_ntz",
    "decimal(5,0)",
    "decimal(9,2)",
    "decimal(20,0)",
    "decimal(38,10)",
    *FILE_ONLY,
)


def column(ddl: str) -> Type:
    return types(parse_ddl(f"c {ddl}"))["c"]


@pytest.mark.parametrize(("left", "right"), list(product(KINDS, KINDS)))
def test_the_type_for_two_holds_both(left: str, right: str) -> None:
    kinds = held(left), held(right)
    if None in kinds or "void" in kinds:
        return
    wide, conflicts = grow("c", kinds[0] or "", kinds[1] or "", is_text=False)
    assert conflicts or (fit(left, wide) != "refused" and fit(right, wide) != "refused")


@pytest.mark.parametrize("kind", KINDS)
def test_a_type_that_is_held_is_the_same_or_widened_exactly(kind: str) -> None:
    wide = held(kind)
    assert wide is None or fit(kind, wide) != "refused"
    assert wide is not None or all(fit(kind, other) == "refused" for other in KINDS)


NESTED = [
    ("STRUCT<a: INT, b: STRING>", "STRUCT<a: BIGINT, z: DATE>", ""),
    ("STRUCT<a: STRUCT<b: DATE>>", "STRUCT<a: STRUCT<b: INT>>", "c.a.b"),
    ("ARRAY<DECIMAL(9,2)>", "ARRAY<INT>", "c.element"),
    ("MAP<STRING, INT>", "MAP<STRING, BIGINT>", ""),
    ("MAP<STRING, INT>", "MAP<STRING, SMALLINT>", "c.value"),
    ("MAP<INT, STRING>", "MAP<BIGINT, STRING>", "c"),
    ("ARRAY<INT>", "INT", "c"),
    ("STRUCT<a: INT>", "STRING", "c"),
]


@pytest.mark.parametrize(("file", "dataset", "place"), NESTED)
def test_a_refusal_names_the_innermost_place(file: str, dataset: str, place: str) -> None:
    found = refusal("c", column(file), column(dataset))
    assert (found.name if found else "") == place


READ_BEFORE = [
    ("integer", "integer", True),
    ("integer", "long", True),
    ("uint32", "long", True),
    ("void", "string", True),
    ("decimal(9,2)", "integer", False),  # 1.25 was 125
    ("integer", "byte", False),  # 300 was 44
    ("date", "integer", False),
    ("binary", "string", False),
    ("timestamp", "timestamp_ntz", False),
    ("integer", "decimal(12,2)", False),  # right by one of Spark's readers
    ("timestamp_ntz(9)", "timestamp_ntz", False),
]


@pytest.mark.parametrize(("file", "dataset", "is_right"), READ_BEFORE)
def test_what_spark_reads_by_itself(file: str, dataset: str, is_right: bool) -> None:
    assert was_read_exactly(file, dataset) == is_right
    nested = (
        {"type": "array", "elementType": kind, "containsNull": True} for kind in (file, dataset)
    )
    one, other = nested
    assert was_read_exactly(one, other) == is_right  # type: ignore[arg-type]


def test_types_are_told_as_ddl() -> None:
    assert in_words(column("STRUCT<a: ARRAY<INT>, m: MAP<STRING, TINYINT>>")) == (
        "STRUCT<a: ARRAY<INT>, m: MAP<STRING, TINYINT>>"
    )
    assert [in_words(kind) for kind in ("uint64", "void", "timestamp(9)")] == [
        "UINT64",
        "NULL",
        "TIMESTAMP of nanoseconds",
    ]
