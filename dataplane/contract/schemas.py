"""Schemas as Spark writes them in JSON, in canonical form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, TypedDict, cast

from dataplane.contract.encoding import Encoded, canonical

Json: TypeAlias = Any  # a value that json.loads can return


class StructType(TypedDict):
    type: Literal["struct"]
    fields: list[Field]


class ArrayType(TypedDict):
    type: Literal["array"]
    elementType: Type
    containsNull: bool


class MapType(TypedDict):
    type: Literal["map"]
    keyType: Type
    valueType: Type
    valueContainsNull: bool


class UserType(TypedDict):
    """A type of a user's own (`udt`); canonical as it is."""

    type: Literal["udt"]


Type: TypeAlias = str | StructType | ArrayType | MapType | UserType


class Field(TypedDict):
    name: str
    type: Type
    nullable: bool
    metadata: Mapping[str, object]


Schema: TypeAlias = StructType
EVENT_TIME_TYPES = ("timestamp", "timestamp_ntz")


def field_of(name: str, kind: Type) -> Field:
    """A column in canonical form: nullable, without metadata."""
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def struct_of(fields: Iterable[Field]) -> Schema:
    return {"type": "struct", "fields": list(fields)}


def array_of(element: Type) -> ArrayType:
    return {"type": "array", "elementType": element, "containsNull": True}


def map_of(key: Type, value: Type) -> MapType:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


NO_COLUMNS: Final = struct_of(())
# The headers of a message
HEADERS: Final = array_of(struct_of([field_of("key", "string"), field_of("value", "binary")]))


def canonical_schema(schema: Schema) -> Schema:
    """Spark's JSON of a struct type with all fields nullable and no metadata, nested types too."""
    return struct_of(field_of(f["name"], _type(f["type"])) for f in schema["fields"])


def _type(kind: Type) -> Type:
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return canonical_schema(kind)
    if kind["type"] == "array":
        return array_of(_type(kind["elementType"]))
    if kind["type"] == "map":
        return map_of(_type(kind["keyType"]), _type(kind["valueType"]))
    return cast("UserType", dict(kind))


def field_types(schema: Schema) -> dict[str, Type]:
    """Column name -> type, in order."""
    return {f["name"]: f["type"] for f in schema["fields"]}


def column_names(schema: Schema) -> tuple[str, ...]:
    return tuple(f["name"] for f in schema["fields"])


def fields_within(kind: Json) -> Sequence[Json]:
    """The fields of structs in a type; values of a map have no path of their own."""
    while isinstance(kind, Mapping) and kind["type"] == "array":
        kind = kind["elementType"]
    fields: Sequence[Json] = (
        kind["fields"] if isinstance(kind, Mapping) and kind["type"] == "struct" else ()
    )
    return fields


def select_columns(schema: Schema, names: Iterable[str]) -> Schema:
    """The fields of `schema` whose name is in `names`, in the schema's own order."""
    selected = set(names)
    return struct_of(f for f in schema["fields"] if f["name"] in selected)


def in_order(schema: Schema, names: Iterable[str]) -> Schema:
    """The columns with these names, in the order of the names. KeyError for one that is not
    there."""
    types = field_types(schema)
    return struct_of(field_of(name, types[name]) for name in names)


def encoded(schema: Schema | Encoded) -> Encoded:
    """The common prefix of many ids of one schema; a schema that was encoded before comes back as
    it is."""
    if isinstance(schema, Encoded):
        return schema
    return _encoded(json.dumps(schema))


@lru_cache(maxsize=1_000)  # schemas are of few kinds, and asked for once for each partition
def _encoded(text: str) -> Encoded:
    return Encoded(canonical(json.loads(text)))
