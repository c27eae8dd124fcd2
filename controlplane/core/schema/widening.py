"""Types that grow: the least one that holds the values of two, and whether files of the one are read as the other.

Does not belong here: what a read component makes of it (plan.source.schema), inference (the data plane's).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from controlplane.core.schema.schemas import struct, types
from dataplane.contract.listings import NESTED
from dataplane.contract.schemas import MapType, Schema, StructType, Type

INTEGERS = {"byte": 3, "short": 5, "integer": 10, "long": 20}  # with the digits that a decimal needs to hold them
FLOATS = ("float", "double")
DIGITS = 38  # of a decimal, at most
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


@dataclass(frozen=True, slots=True)
class Conflict:
    """A column, or a field in it, whose two types no type safely holds."""

    name: str
    have: Type
    found: Type


def grow(name: str, have: Type, found: Type, *, is_text: bool) -> tuple[Type, tuple[Conflict, ...]]:
    """The least type that holds values of both; where a part has none, it stays as it was, and is a conflict.

    `is_text`: values stand as text in the sources and are read anew under the type, so that what counts is what
    reading all of them for the first time would give: whole numbers may become doubles, dates become timestamps.
    """
    if isinstance(have, str) or isinstance(found, str):
        return _grow_plain(name, have, found, is_text=is_text)
    if have["type"] == "struct" and found["type"] == "struct":
        return _grow_struct(name, have, found, is_text=is_text)
    if have["type"] == "array" and found["type"] == "array":
        inner, conflicts = grow(name, have["elementType"], found["elementType"], is_text=is_text)
        return {**have, "elementType": inner}, conflicts
    if have["type"] == "map" and found["type"] == "map":
        return _grow_map(name, have, found, is_text=is_text)
    return (have, ()) if have == found else (have, (Conflict(name, have, found),))


def _grow_plain(name: str, have: Type, found: Type, *, is_text: bool) -> tuple[Type, tuple[Conflict, ...]]:
    if is_text and have == "string":
        return have, ()
    held = _holding(have, found, is_text=is_text)
    return (have, (Conflict(name, have, found),)) if held is None else (held, ())


def _grow_struct(name: str, have: StructType, found: StructType, *, is_text: bool) -> tuple[Type, tuple[Conflict, ...]]:
    """Fields of both grow; fields of one alone are kept."""
    fields, new = types(have), types(found)
    conflicts: list[Conflict] = []
    for field, kind in new.items():
        if field not in fields:
            fields[field] = kind
            continue
        fields[field], more = grow(f"{name}.{field}", fields[field], kind, is_text=is_text)
        conflicts += more
    return struct(fields.items()), tuple(conflicts)


def _grow_map(name: str, have: MapType, found: MapType, *, is_text: bool) -> tuple[Type, tuple[Conflict, ...]]:
    """Values grow, keys do not: equal keys could become different ones."""
    inner, conflicts = grow(name, have["valueType"], found["valueType"], is_text=is_text)
    if have["keyType"] != found["keyType"]:
        conflicts = (*conflicts, Conflict(name, have["keyType"], found["keyType"]))
    return {**have, "valueType": inner}, conflicts


def _holding(one: Type, other: Type, *, is_text: bool) -> Type | None:
    """The least simple type for the values of both."""
    if one == other:
        return one
    if not isinstance(one, str) or not isinstance(other, str):
        return None
    both = {one, other}
    if both <= INTEGERS.keys():
        return max(one, other, key=lambda t: INTEGERS[t])
    if both & set(FLOATS) and both <= {*FLOATS, *INTEGERS, *filter(_DECIMAL.fullmatch, both)}:
        exact = {*FLOATS, "byte", "short", "integer"}
        return "double" if is_text or both <= exact else None
    if both == {"date", "timestamp_ntz"}:
        return "timestamp_ntz"
    if both == {"date", "timestamp"}:
        return "timestamp" if is_text else None
    return _decimal(_digits(one), _digits(other))


def _digits(kind: str) -> tuple[int, int] | None:
    """Before and after the point."""
    if kind in INTEGERS:
        return INTEGERS[kind], 0
    found = _DECIMAL.fullmatch(kind)
    return (int(found[1]) - int(found[2]), int(found[2])) if found else None


def _decimal(one: tuple[int, int] | None, other: tuple[int, int] | None) -> str | None:
    if one is None or other is None:
        return None
    before, after = max(one[0], other[0]), max(one[1], other[1])
    return f"decimal({before + after},{after})" if before + after <= DIGITS else None


def is_read_as(old: Type, new: Type) -> bool:
    """Whether Parquet files written with the old type can stay under the new one, for Spark and for every reader of
    Delta tables that we know: wider integers, doubles of floats, structs with more fields."""
    if old == new:
        return True
    if isinstance(old, str) or isinstance(new, str):
        return _is_read_as_plain(old, new)
    if old["type"] != "struct" or new["type"] != "struct":
        return False
    fields = types(new)
    return all(name in fields and _is_within(kind, fields[name]) for name, kind in types(old).items())


def _is_read_as_plain(old: Type, new: Type) -> bool:
    if isinstance(old, str) and isinstance(new, str) and old in INTEGERS and new in INTEGERS:
        return INTEGERS[old] <= INTEGERS[new]
    return (old, new) == ("float", "double")


def _is_within(old: Type, new: Type) -> bool:
    """Fields of structs do not widen; they may be structs with more fields."""
    return old == new or (not isinstance(old, str) and is_read_as(old, new))


def is_grown(have: Type, wide: Type) -> bool:
    """Whether a type holds all that another one does."""
    return grow("", have, wide, is_text=True) == (wide, ())


def can_stay(old: Schema, new: Schema) -> bool:
    """Whether fragments written under the old schema are rows of the new one."""
    after = types(new)
    return all(n not in after or is_read_as(t, after[n]) for n, t in types(old).items())


def own_paths(schema: Schema) -> list[str]:
    """Columns and fields in them, as a listing tells those of an object."""
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
    """Lists count as what they hold."""
    while not isinstance(kind, str) and kind["type"] == "array":
        kind = kind["elementType"]
    return kind


def lacking_fields(schema: Schema, columns: Iterable[str]) -> tuple[str, ...]:
    """Of the nested fields among an object's own columns those that the schema lacks. What is no struct in the schema
    takes whatever is in it."""
    kinds = types(schema)
    return tuple(dict.fromkeys(c for c in columns if NESTED in c and _is_lacking(kinds, c.split(NESTED))))


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


def in_words(kind: Type) -> str:
    """A type as DDL."""
    if isinstance(kind, str):
        return {"integer": "INT", "long": "BIGINT"}.get(kind, kind.upper())
    if kind["type"] == "array":
        return f"ARRAY<{in_words(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"MAP<{in_words(kind['keyType'])}, {in_words(kind['valueType'])}>"
    if kind["type"] == "struct":
        return f"STRUCT<{', '.join(_field_in_words(kind))}>"
    return kind["type"].upper()


def _field_in_words(kind: StructType) -> Iterator[str]:
    return (f"{f['name']}: {in_words(f['type'])}" for f in kind["fields"])
