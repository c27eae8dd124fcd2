"""Rows of Iceberg tables by Spark: those that pyiceberg itself reads, for all types of version
2."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import types as iceberg
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField

from dataplane.connectors.iceberg.table_types import with_texts
from tests.iceberg_tables import NAME, IcebergTables, data_paths, delete_rows
from tests.spark.conftest import Lake, read, told_schema

NESTED = iceberg.StructType(
    NestedField(21, "x", iceberg.LongType()), NestedField(22, "id", iceberg.UUIDType())
)
TYPES: dict[str, iceberg.IcebergType] = {
    "flag": iceberg.BooleanType(),
    "small": iceberg.IntegerType(),
    "large": iceberg.LongType(),
    "single": iceberg.FloatType(),
    "double": iceberg.DoubleType(),
    "amount": iceberg.DecimalType(38, 10),
    "day": iceberg.DateType(),
    "clock": iceberg.TimeType(),
    "local": iceberg.TimestampType(),
    "instant": iceberg.TimestamptzType(),
    "text": iceberg.StringType(),
    "id": iceberg.UUIDType(),
    "code": iceberg.FixedType(3),
    "raw": iceberg.BinaryType(),
    "nested": NESTED,
    "list": iceberg.ListType(23, NESTED, element_required=False),
    "map": iceberg.MapType(26, iceberg.StringType(), 27, NESTED, value_required=False),
}
UUID = uuid.UUID("12345678-1234-5678-1234-567812345678")
INNER = {"x": 2**62, "id": UUID.bytes}
FULL: dict[str, Any] = {
    "flag": True,
    "small": -(2**31),
    "large": 2**63 - 1,
    "single": 1.5,
    "double": float("inf"),
    "amount": Decimal("9999999999999999999999999999.9999999999"),
    "day": date(2026, 1, 31),
    "clock": time(23, 59, 59, 999999),
    "local": datetime.fromisoformat("1900-01-01T00:00:00.000001"),
    "instant": datetime(2026, 6, 1, 12, 0, 0, 999999, UTC),
    "text": "ä\u2028",
    "id": UUID.bytes,
    "code": b"\x00\x01\xff",
    "raw": b"",
    "nested": INNER,
    "list": [INNER, None],
    "map": [("k", INNER), ("none", None)],
}


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[IcebergTables]:
    opened = IcebergTables(tmp_path)
    yield opened
    opened.close()


def schema_of_types() -> Schema:
    """List and map have structs of their own ids, which pyiceberg assigns anew."""
    return Schema(*(NestedField(i, n, t) for i, (n, t) in enumerate(TYPES.items(), 1)))


def without_uuids(kind: pa.DataType) -> pa.DataType:
    """Arrow makes no UUIDs of bytes: pyiceberg does, where it writes."""
    if isinstance(kind, pa.UuidType):
        return pa.binary(16)
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(without_uuids(f.type)) for f in kind])
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(without_uuids(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, without_uuids(kind.item_type))
    return kind


def append(table: Table, *rows: dict[str, Any]) -> None:
    fields = [f.with_type(without_uuids(f.type)) for f in table.schema().as_arrow()]
    table.append(pa.Table.from_pylist(list(rows), pa.schema(fields)))


def read_by_pyiceberg(table: Table) -> list[dict[str, Any]]:
    rows = table.refresh().scan().to_arrow().to_pylist()
    return sorted(({name: plain(v) for name, v in row.items()} for row in rows), key=repr)


def plain(value: Any) -> Any:
    """As Spark gives it: without a zone, and maps by key."""
    value = with_texts(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return dict(value)
    return value


def job_of(tables: IcebergTables) -> dict[str, Any]:
    return {**read("iceberg"), **tables.job()}


def tasks_of(lake: Lake, tables: IcebergTables) -> list[dict[str, Any]]:
    objects = [p["objects"] for p in tables.listed().values()]
    everything = [source for own in objects for source in own]
    (answer,) = lake.run("infer", job_of(tables), [{"objects": everything}])
    return [{"columns": told_schema(answer), "objects": own} for own in objects]


def read_by_spark(lake: Lake, tables: IcebergTables) -> list[dict[str, Any]]:
    results = lake.run("parse", job_of(tables), tasks_of(lake, tables))
    rows = [row for result in results for row in lake.rows(result)]
    cleaned = ({n: bytes(v) if isinstance(v, bytearray) else v for n, v in r.items()} for r in rows)
    return sorted(cleaned, key=repr)


def test_rows_are_those_of_pyiceberg(lake: Lake, tables: IcebergTables) -> None:
    keys = (
        PartitionField(7, 1000, IdentityTransform(), "by_day"),
        PartitionField(11, 1001, IdentityTransform(), "by_text"),
    )
    table = tables.catalog.create_table(
        NAME, schema_of_types(), partition_spec=PartitionSpec(*keys)
    )
    append(table, FULL, {"text": "empty"}, {**FULL, "large": 1}, {"day": date(2026, 2, 1)})
    first = read_by_spark(lake, tables)
    assert first == read_by_pyiceberg(table)
    assert {"list": None, "map": None}.items() <= first[0].items()
    assert {r["id"] for r in first} == {str(UUID), None}
    assert {r["clock"] for r in first} == {"23:59:59.999999", None}
    with table.update_schema() as update:
        update.rename_column("nested.x", "y")
        update.rename_column("text", "words")
        update.delete_column("raw")
        update.add_column("more", iceberg.StringType())
        update.update_column("small", iceberg.LongType())
        update.update_column("single", iceberg.DoubleType())
        update.move_first("map")
    append(table, {"more": "new", "small": 2**40})
    delete_rows(table, {data_paths(table.refresh())[0]: [0]})
    assert read_by_spark(lake, tables) == read_by_pyiceberg(table)


def test_files_that_changed_after_their_listing_give_no_rows(
    lake: Lake, tables: IcebergTables
) -> None:
    table = tables.create(pa.table({"id": [1]}))
    table.append(pa.table({"id": [2]}))
    tasks = tasks_of(lake, tables)
    gone = tasks[0]["objects"][0]["detail"]["path"]
    Path(gone.removeprefix("file://")).unlink()
    first, second = lake.run("parse", job_of(tables), tasks)
    assert first["state"] == "void"
    assert len(lake.rows(second)) == 1
    with table.update_schema() as update:
        update.rename_column("id", "key")
    (third,) = lake.run("parse", job_of(tables), tasks[1:])
    assert third["state"] == "void"
