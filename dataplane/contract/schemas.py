"""Schemas as Spark writes them in JSON, in canonical form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from dataplane.contract.encoding import Encoded, canonical

Json: TypeAlias = Any  # a value that json.loads can return
Schema: TypeAlias = dict[str, Json]  # Spark's JSON of a struct type, in canonical form


def canonical_schema(schema: Mapping[str, Json]) -> Schema:
    """Spark's JSON of a struct type with all fields nullable and no metadata, nested types too."""
    return {"type": "struct", "fields": [_field(f) for f in schema["fields"]]}


def _field(field: Mapping[str, Json]) -> Json:
    return {"name": field["name"], "type": _type(field["type"]), "nullable": True, "metadata": {}}


def _type(kind: Json) -> Json:
    if not isinstance(kind, Mapping):
        return kind
    match kind["type"]:
        case "struct":
            return canonical_schema(kind)
        case "array":
            return {"type": "array", "elementType": _type(kind["elementType"]), "containsNull": True}
        case "map":
            key, value = _type(kind["keyType"]), _type(kind["valueType"])
            return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
        case _:
            return dict(kind)


def column_names(schema: Schema) -> tuple[str, ...]:
    return tuple(f["name"] for f in schema["fields"])


def select_columns(schema: Schema, names: Iterable[str]) -> Schema:
    """The fields of `schema` whose name is in `names`, in the schema's own order."""
    wanted = set(names)
    return {"type": "struct", "fields": [f for f in schema["fields"] if f["name"] in wanted]}


def encoded(schema: Schema | Encoded) -> Encoded:
    """What many ids of one schema begin from; what was encoded before comes back as it is."""
    if isinstance(schema, Encoded):
        return schema
    return _encoded(json.dumps(schema))


@lru_cache(maxsize=1_000)  # schemas are of few kinds, and asked for once for each partition
def _encoded(text: str) -> Encoded:
    return Encoded(canonical(json.loads(text)))
