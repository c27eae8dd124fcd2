"""Rows of queries are those of records: every type, columns that files lack, types that became
wider."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dataplane.contract.schemas import Json, Schema, field_of, struct_of
from dataplane.fragments import file_records
from dataplane.query.database import database_of
from dataplane.storage.lake import open_lake
from tests.unit.diffs.world import rows
from tests.unit.queries.world import World, table, world_in

MAP: Json = {
    "type": "map",
    "keyType": "string",
    "valueType": "decimal(10,2)",
    "valueContainsNull": True,
}
INNER: Json = {"type": "struct", "fields": [field_of("t", "timestamp"), field_of("m", MAP)]}
LIST: Json = {"type": "array", "elementType": INNER, "containsNull": True}
AT = datetime(2026, 11, 24, 7, 0, 0, 123456, UTC)
COLUMNS: dict[str, tuple[Json, list[Any]]] = {
    "text": ("string", ["ü", None]),
    "flag": ("boolean", [True, None]),
    "small": ("byte", [-1, None]),
    "short": ("short", [300, None]),
    "whole": ("integer", [7, None]),
    "long": ("long", [2**60, None]),
    "single": ("float", [0.5, None]),
    "real": ("double", [float("nan"), float("-inf")]),
    "money": ("decimal(22,2)", [Decimal("12345678901234567890.12"), None]),
    "tiny": ("decimal(38,18)", [Decimal("0.000000000000000001"), None]),
    "day": ("date", [date(1600, 2, 29), None]),
    "at": ("timestamp", [AT, None]),
    "local": ("timestamp_ntz", [AT.replace(tzinfo=None), None]),
    "raw": ("binary", [b"\x00\xff", None]),
    "nested": (LIST, [[{"t": AT, "m": [("a", Decimal("1.50"))]}, None], []]),
}
SCHEMA: Schema = struct_of([field_of(name, kind) for name, (kind, _) in COLUMNS.items()])
SIMPLE = struct_of([field_of("k", "long"), field_of("v", "string")])
TYPED = [{name: values[i] for name, (_, values) in COLUMNS.items()} for i in range(2)]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world_in(tmp_path_factory.mktemp("values")) as world:
        yield world


def recorded(world: World, schema: Schema, format: str) -> bytes:
    paths = [file["path"] for file in world.fragment(tuple(TYPED), schema, writes=False).files]
    request: file_records.FileRecordsRequest = {
        "paths": paths,
        "schema": schema,
        "columns": [field["name"] for field in schema["fields"]],
        "where": None,
        "offset": 0,
        "limit": None,
        "cell_bytes": None,
        "format": format,
        "compression": None,
    }
    out = io.BytesIO()
    file_records.write(open_lake(str(world.folder)), request, out)
    return out.getvalue()


def test_all_types_are_as_in_records(world: World) -> None:
    world.commit({"": tuple(TYPED)}, SCHEMA)
    found = world.ask("SELECT * FROM shop.totals")
    names = [column["name"] for column in found["columns"]]
    assert [dict(zip(names, row, strict=True)) for row in found["rows"]] == json.loads(
        recorded(world, SCHEMA, "json")
    )
    types = {column["name"]: column["type"] for column in found["columns"]}
    assert types["money"] == "DECIMAL(22,2)"
    assert types["at"] == "TIMESTAMP WITH TIME ZONE"


def test_arrow_has_the_same_values(world: World) -> None:
    world.commit({"": tuple(TYPED)}, SCHEMA)
    found = world.arrow("SELECT * FROM shop.totals")
    expected = pa.ipc.open_stream(recorded(world, SCHEMA, "arrow")).read_all()
    assert found.schema.names == expected.schema.names
    assert repr(found.to_pylist()) == repr(expected.to_pylist())


def test_files_of_an_older_schema(world: World) -> None:
    old = struct_of([field_of("k", "integer")])
    new = SIMPLE
    fragments = [
        world.fragment(({"k": 1},), old, writes=True),
        world.fragment(rows((2, "b")), new, writes=True),
    ]
    paths = [f.files[0]["path"] for f in fragments]
    bounds: Any = {
        "lake": "",
        "scratch": str(world.folder / "scratch"),
        "memory_bytes": 1 << 28,
        "disk_bytes": 1 << 20,
    }
    given = {**table("", new), "files": paths}
    with database_of(open_lake(str(world.folder)), [given], bounds) as database:  # type: ignore[list-item]
        assert sorted(database.execute("SELECT k, v FROM shop.totals").fetchall()) == [
            (1, None),
            (2, "b"),
        ]
        assert database.execute("SELECT v FROM shop.totals WHERE k = 2").fetchall() == [("b",)]


class Elsewhere:
    """A lake that is not in a folder, as far as it is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, path: str, size: int | None = None) -> Any:
        return io.BytesIO((self.folder / path).read_bytes())


def test_files_that_are_not_in_a_folder(world: World) -> None:
    fragment = world.fragment(rows((1, "a"), (2, "b")), SIMPLE, writes=True)
    bounds: Any = {
        "lake": "",
        "scratch": str(world.folder / "scratch"),
        "memory_bytes": 1 << 28,
        "disk_bytes": 1 << 20,
    }
    given = table(fragment.files[0]["path"], SIMPLE)
    with database_of(Elsewhere(world.folder), [given], bounds) as database:  # type: ignore[arg-type]
        assert database.execute("SELECT v FROM shop.totals WHERE k > 1").fetchall() == [("b",)]
        assert database.execute("SELECT count(*) FROM shop.totals, shop.totals t").fetchall() == [
            (4,)
        ]


def test_types_that_only_queries_have(world: World) -> None:
    found = world.ask(
        "SELECT sum(x), max(TIME '10:00'), max('2026-01-01'::TIMESTAMP_NS) FROM (VALUES (1), (2)) t(x)"
    )
    assert found["rows"] == [[3, "10:00:00", "2026-01-01T00:00:00.000000"]]
    assert found["columns"][0]["type"] == "HUGEINT"


def test_two_columns_of_one_name(world: World) -> None:
    assert world.rows("SELECT 1 AS a, 2 AS a") == [[1, 2]]


@pytest.mark.parametrize("value", [1, 1.5, "x", True, None, [1, 2]])
def test_parameters_are_bound(world: World, value: Any) -> None:
    assert world.rows("SELECT $p", {"p": value}) == [[value]]
    assert world.rows("SELECT ?", [value]) == [[value]]


def test_a_parameter_is_no_text_of_the_query(world: World) -> None:
    world.commit({"": rows((1, "x' OR 'a' = 'a"))})
    assert world.rows("SELECT k FROM shop.totals WHERE v = $v", {"v": "x' OR 'a' = 'a"}) == [[1]]
    assert world.rows("SELECT k FROM shop.totals WHERE v = $v", {"v": "y' OR 'a' = 'a"}) == []
