"""Schemas that grow: whether files of one type are read as another, and which nested fields a
schema lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from controlplane.core.schema.ddl_schemas import struct, types
from dataplane.contract.joins import INTEGERS, STRING, without_nothing
from dataplane.contract.schemas import Schema, Type
from dataplane.contract.source_objects import NESTED
from dataplane.contract.types import NOTHING


def is_read_as(old: Type, new: Type) -> bool:
    """Whether Parquet files written with the old type can stay under the new one, for Spark and for
    every reader of Delta tables that we know: wider integers, doubles of floats, structs with more
    fields."""
    if old == new:
        return True
    if isinstance(old, str) or isinstance(new, str):
        return _is_read_as_plain(old, new)
    if old["type"] != "struct" or new["type"] != "struct":
        return False
    fields = types(new)
    return all(
        name in fields and _is_within(kind, fields[name]) for name, kind in types(old).items()
    )


def _is_read_as_plain(old: Type, new: Type) -> bool:
    if isinstance(old, str) and isinstance(new, str) and old in INTEGERS and new in INTEGERS:
        return INTEGERS[old] <= INTEGERS[new]
    return (old, new) == ("float", "double")


def _is_within(old: Type, new: Type) -> bool:
    """Fields of structs do not widen; they may be structs with more fields."""
    return old == new or (not isinstance(old, str) and is_read_as(old, new))


def with_values(inferred: Schema, format: str) -> tuple[Schema, frozenset[str]]:
    """Without the columns that no file has a value of; such columns of CSV and
    sheets, which may be identified by their places, are STRING, and named."""
    kinds = {name: without_nothing(kind) for name, kind in types(inferred).items()}
    empty = frozenset(name for name, kind in kinds.items() if kind == NOTHING)
    if format not in ("csv", "xlsx"):
        return struct(
            (name, kind) for name, kind in kinds.items() if name not in empty
        ), frozenset()
    return struct((name, STRING if name in empty else kind) for name, kind in kinds.items()), empty


def can_stay(old: Schema, new: Schema) -> bool:
    """Whether fragments written under the old schema are rows of the new one."""
    after = types(new)
    return all(n not in after or is_read_as(t, after[n]) for n, t in types(old).items())


def own_paths(schema: Schema) -> list[str]:
    """Columns and fields in them, in the form of an object's listing."""
    return [path for name, kind in types(schema).items() for path in (name, *_paths(kind, name))]


def _paths(kind: Type, path: str) -> Iterator[str]:
    held = _in_lists(kind)
    if isinstance(held, str) or held["type"] != "struct":
        return
    for name, inner in types(held).items():
        own = f"{path}{NESTED}{name}"
        yield own
        yield from _paths(inner, own)


def _in_lists(kind: Type) -> Type:
    """Lists count as their elements."""
    while not isinstance(kind, str) and kind["type"] == "array":
        kind = kind["elementType"]
    return kind


def lacking_fields(schema: Schema, columns: Iterable[str]) -> tuple[str, ...]:
    """The nested fields among an object's own columns that the schema lacks. A column that is no
    struct in the schema takes any fields."""
    kinds = types(schema)
    return tuple(
        dict.fromkeys(c for c in columns if NESTED in c and _is_lacking(kinds, c.split(NESTED)))
    )


def _is_lacking(kinds: Mapping[str, Type], path: list[str]) -> bool:
    if path[0] not in kinds:
        return False
    kind = kinds[path[0]]
    for name in path[1:]:
        held = _in_lists(kind)
        if isinstance(held, str) or held["type"] != "struct":
            return False
        fields = types(held)
        if name not in fields:
            return True
        kind = fields[name]
    return False
