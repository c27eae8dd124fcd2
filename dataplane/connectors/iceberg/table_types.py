"""The columns of an Iceberg schema as Spark has them, each with its field id.

A time of day becomes a text such as 12:30:00.000000, a UUID its usual text, `fixed` BINARY.
Nanoseconds and types of version 3 have no type that holds their values.
"""

from __future__ import annotations

import datetime
import uuid

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from dataplane.contract.schemas import Field, Json, Type, array_of, field_of, map_of, struct_of

ID = "iceberg.id"
_TYPES: dict[type[IcebergType], str] = {
    BooleanType: "boolean",
    IntegerType: "integer",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    DateType: "date",
    TimeType: "string",
    TimestampType: "timestamp_ntz",
    TimestamptzType: "timestamp",
    StringType: "string",
    UUIDType: "string",
    FixedType: "binary",
    BinaryType: "binary",
}


def spark_fields(schema: Schema) -> list[Field]:
    """The columns that Spark can hold, with their ids as metadata."""
    return [_field(f) for f in schema.fields if not unheld(f.field_type)]


def field_id(field: Json) -> str:
    return str(field["metadata"][ID])


def unheld(kind: IcebergType) -> str:
    """The first type in this one that no type of Spark holds, in words; empty where there is
    none."""
    if isinstance(kind, DecimalType | StructType | ListType | MapType) or type(kind) in _TYPES:
        return next(filter(None, map(unheld, _types_within(kind))), "")
    return str(kind)


def has_texts(kind: IcebergType) -> bool:
    """Whether values of a type are, or have in them, values that become texts."""
    return isinstance(kind, TimeType | UUIDType) or any(map(has_texts, _types_within(kind)))


def _types_within(kind: IcebergType) -> list[IcebergType]:
    match kind:
        case StructType():
            return [field.field_type for field in kind.fields]
        case ListType():
            return [kind.element_type]
        case MapType():
            return [kind.key_type, kind.value_type]
        case _:
            return []


def with_texts(cell: object) -> object:
    """A value of Python with times of day and UUIDs as texts."""
    match cell:
        case uuid.UUID():
            return str(cell)
        case datetime.time():
            return cell.isoformat(timespec="microseconds")
        case dict():
            return {name: with_texts(inner) for name, inner in cell.items()}
        case list() | tuple():
            return type(cell)(with_texts(inner) for inner in cell)
        case _:
            return cell


def _field(field: NestedField) -> Field:
    return {**field_of(field.name, _spark(field.field_type)), "metadata": {ID: field.field_id}}


def _spark(kind: IcebergType) -> Type:
    match kind:
        case StructType():
            return struct_of(_field(f) for f in kind.fields)
        case ListType():
            return array_of(_spark(kind.element_type))
        case MapType():
            return map_of(_spark(kind.key_type), _spark(kind.value_type))
        case DecimalType():
            return f"decimal({kind.precision},{kind.scale})"
        case _:
            return _TYPES[type(kind)]
