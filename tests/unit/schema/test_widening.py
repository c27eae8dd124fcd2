"""Which types grow into which, and whose files can stay."""

from __future__ import annotations

import pytest

from controlplane.core.schema.ddl_schemas import parse_ddl, types
from controlplane.core.schema.widening import can_stay, lacking_fields, own_paths
from dataplane.contract.joins import grow
from dataplane.contract.schemas import Json
from dataplane.contract.source_objects import NESTED
from dataplane.contract.types import in_words

# have, found, the least type that holds both where files have types of their own, and where values
# stand as text
GROWTH = [
    ("INT", "INT", "INT", "INT"),
    ("TINYINT", "INT", "INT", "INT"),
    ("INT", "BIGINT", "BIGINT", "BIGINT"),
    ("BIGINT", "INT", "BIGINT", "BIGINT"),
    ("FLOAT", "DOUBLE", "DOUBLE", "DOUBLE"),
    ("INT", "DOUBLE", "DOUBLE", "DOUBLE"),
    ("INT", "FLOAT", "DOUBLE", "DOUBLE"),
    ("BIGINT", "DOUBLE", None, "DOUBLE"),
    ("DOUBLE", "BIGINT", None, "DOUBLE"),
    ("DECIMAL(10,2)", "DECIMAL(12,2)", "DECIMAL(12,2)", "DECIMAL(12,2)"),
    ("DECIMAL(10,2)", "DECIMAL(10,4)", "DECIMAL(12,4)", "DECIMAL(12,4)"),
    ("DECIMAL(38,2)", "DECIMAL(38,4)", None, "STRING"),
    ("INT", "DECIMAL(5,2)", "DECIMAL(12,2)", "DECIMAL(12,2)"),
    ("BIGINT", "DECIMAL(20,0)", "DECIMAL(20,0)", "DECIMAL(20,0)"),
    ("DECIMAL(20,0)", "DOUBLE", None, "STRING"),
    ("DATE", "TIMESTAMP_NTZ", "TIMESTAMP_NTZ", "TIMESTAMP_NTZ"),
    ("DATE", "TIMESTAMP", None, "TIMESTAMP"),
    ("TIMESTAMP", "TIMESTAMP_NTZ", None, "TIMESTAMP"),
    ("INT", "STRING", None, "STRING"),
    ("STRING", "INT", None, "STRING"),
    ("BOOLEAN", "INT", None, "STRING"),
    ("INT", "STRUCT<a: INT>", None, "STRING"),
    ("STRUCT<a: INT>", "STRUCT<b: INT, a: INT>", "STRUCT<a: INT, b: INT>", "STRUCT<a: INT, b: INT>"),
    ("STRUCT<a: INT, b: INT>", "STRUCT<a: BIGINT>", "STRUCT<a: BIGINT, b: INT>", "STRUCT<a: BIGINT, b: INT>"),
    ("ARRAY<STRUCT<a: INT>>", "ARRAY<STRUCT<b: INT>>", *["ARRAY<STRUCT<a: INT, b: INT>>"] * 2),
    ("ARRAY<INT>", "ARRAY<BIGINT>", "ARRAY<BIGINT>", "ARRAY<BIGINT>"),
    ("MAP<STRING, INT>", "MAP<STRING, BIGINT>", "MAP<STRING, BIGINT>", "MAP<STRING, BIGINT>"),
    ("MAP<INT, INT>", "MAP<STRING, INT>", None, "STRING"),
]  # fmt: skip
STAYS = [
    ("INT", "BIGINT", True),
    ("TINYINT", "SMALLINT", True),
    ("FLOAT", "DOUBLE", True),
    ("STRUCT<a: INT>", "STRUCT<a: INT, b: STRUCT<c: INT>>", True),
    ("BIGINT", "INT", False),
    ("INT", "DOUBLE", False),
    ("DECIMAL(10,2)", "DECIMAL(12,2)", False),
    ("DATE", "TIMESTAMP_NTZ", False),
    ("STRUCT<a: INT>", "STRUCT<a: BIGINT>", False),
    ("STRUCT<a: INT, b: INT>", "STRUCT<a: INT>", False),
    ("ARRAY<INT>", "ARRAY<BIGINT>", False),
]


def kind(ddl: str) -> Json:
    return types(parse_ddl(f"c {ddl}"))["c"]


@pytest.mark.parametrize(("have", "found", "columnar", "text"), GROWTH)
def test_the_least_type_that_holds_both(
    have: str, found: str, columnar: str | None, text: str | None
) -> None:
    for is_text, wanted in ((False, columnar), (True, text)):
        grown, conflicts = grow("c", kind(have), kind(found), is_text=is_text)
        assert (in_words(grown), bool(conflicts)) == (
            in_words(kind(wanted or have)),
            wanted is None,
        )
        assert not wanted or grow("c", grown, kind(found), is_text=is_text) == (grown, ())


def test_a_conflict_names_its_place_and_leaves_the_rest_to_grow() -> None:
    grown, [conflict] = grow(
        "c", kind("STRUCT<a: INT, b: INT>"), kind("STRUCT<a: STRING, b: BIGINT>"), is_text=False
    )
    assert in_words(grown) == "STRUCT<a: INT, b: BIGINT>"
    assert (conflict.name, conflict.have, conflict.other) == ("c.a", "integer", "string")


@pytest.mark.parametrize(("old", "new", "stays"), STAYS)
def test_fragments_stay_only_where_every_reader_reads_them(old: str, new: str, stays: bool) -> None:
    assert can_stay(parse_ddl(f"c {old}, gone INT"), parse_ddl(f"c {new}, more INT")) == stays


def test_nested_fields_that_a_schema_lacks() -> None:
    schema = parse_ddl("s STRUCT<a: INT, l: ARRAY<STRUCT<x: INT>>>, m MAP<STRING, INT>, t STRING")
    paths = ["s", "s.a", "s.b", "s.l", "s.l.x", "s.l.y", "m", "m.k", "t", "t.x", "new.x"]
    columns = [path.replace(".", NESTED) for path in paths]
    assert [path.replace(NESTED, ".") for path in lacking_fields(schema, columns)] == [
        "s.b",
        "s.l.y",
    ]
    assert [path.replace(NESTED, ".") for path in own_paths(schema)] == [
        "s",
        "s.a",
        "s.l",
        "s.l.x",
        "m",
        "t",
    ]
