"""Types that grow: the least one that holds the values of two, and whether files of the one are read as the other.

Does not belong here: what a read component makes of it (plan.source.schema), inference (the data plane's).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from controlplane.core.schema.schemas import struct, types
from dataplane.contract.listings import NESTED
from dataplane.contract.schemas import Json, Schema

INTEGERS = {"byte": 3, "short": 5, "integer": 10, "long": 20}  # with the digits that a decimal needs to hold them
FLOATS = ("float", "double")
DIGITS = 38  # of a decimal, at most
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


@dataclass(frozen=True, slots=True)
class Conflict:
    """A column, or a field in it, whose two types no type safely holds."""

    name: str
    have: Json
    found: Json


def grow(name: str, have: Json, found: Json, *, is_text: bool) -> tuple[Json, tuple[Conflict, ...]]:
    """The least type that holds values of both; where a part has none, it stays as it was, and is a conflict.

    `is_text`: values stand as text in the sources and are read anew under the type, so that what counts is what
    reading all of them for the first time would give: whole numbers may become doubles, dates become timestamps.
    """
    if isinstance(have, Mapping) and isinstance(found, Mapping) and have["type"] == found["type"]:
        return _grow_nested(name, have, found, is_text=is_text)
    if is_text and have == "string":
        return have, ()
    held = _holding(have, found, is_text=is_text)
    return (have, (Conflict(name, have, found),)) if held is None else (held, ())


def _grow_nested(
    name: str, have: Mapping[str, Json], found: Mapping[str, Json], *, is_text: bool
) -> tuple[Json, tuple[Conflict, ...]]:
    if have["type"] == "struct":
        before, new = types(dict(have)), types(dict(found))
        parts = {n: grow(f"{name}.{n}", t, new[n], is_text=is_text) for n, t in before.items() if n in new}
        fields = before | {n: t for n, (t, _) in parts.items()} | {n: t for n, t in new.items() if n not in before}
        return struct(fields.items()), tuple(c for _, conflicts in parts.values() for c in conflicts)
    inner = "elementType" if have["type"] == "array" else "valueType"
    kind, conflicts = grow(name, have[inner], found[inner], is_text=is_text)
    if have.get("keyType") != found.get("keyType"):
        conflicts = (*conflicts, Conflict(name, have["keyType"], found["keyType"]))
    return {**have, inner: kind}, conflicts


def _holding(one: Json, other: Json, *, is_text: bool) -> Json | None:
    """The least simple type for the values of both."""
    if one == other:
        return one
    if isinstance(one, Mapping) or isinstance(other, Mapping):
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


def is_read_as(old: Json, new: Json) -> bool:
    """Whether Parquet files written with the old type can stay under the new one, for Spark and for every reader of
    Delta tables that we know: wider integers, doubles of floats, structs with more fields."""
    if old == new:
        return True
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        if old["type"] != "struct" or new["type"] != "struct":
            return False
        fields = types(dict(new))
        return all(n in fields and _is_within(t, fields[n]) for n, t in types(dict(old)).items())
    if old in INTEGERS and new in INTEGERS:
        return INTEGERS[old] <= INTEGERS[new]
    return (old, new) == ("float", "double")


def _is_within(old: Json, new: Json) -> bool:
    return bool(old == new or (isinstance(old, Mapping) and is_read_as(old, new)))


def is_grown(have: Json, wide: Json) -> bool:
    """Whether a type holds all that another one does."""
    return grow("", have, wide, is_text=True) == (wide, ())


def can_stay(old: Schema, new: Schema) -> bool:
    """Whether fragments written under the old schema are rows of the new one."""
    after = types(new)
    return all(n not in after or is_read_as(t, after[n]) for n, t in types(old).items())


def own_paths(schema: Schema) -> list[str]:
    """Columns and fields in them, as a listing tells those of an object."""
    return [path for name, kind in types(schema).items() for path in (name, *_paths(kind, name))]


def _paths(kind: Json, path: str) -> Iterator[str]:
    while isinstance(kind, Mapping) and kind["type"] == "array":
        kind = kind["elementType"]
    for name, inner in types(dict(kind)).items() if isinstance(kind, Mapping) and kind["type"] == "struct" else ():
        yield (own := f"{path}{NESTED}{name}")
        yield from _paths(inner, own)


def lacking_fields(schema: Schema, columns: Iterable[str]) -> tuple[str, ...]:
    """Of the nested fields among an object's own columns those that the schema lacks. What is no struct in the schema
    takes whatever is in it."""
    kinds = types(schema)
    return tuple(dict.fromkeys(c for c in columns if NESTED in c and _is_lacking(kinds, c.split(NESTED))))


def _is_lacking(kinds: Mapping[str, Json], path: list[str]) -> bool:
    if path[0] not in kinds:
        return False
    kind = kinds[path[0]]
    for name in path[1:]:
        while isinstance(kind, Mapping) and kind["type"] == "array":
            kind = kind["elementType"]
        if not isinstance(kind, Mapping) or kind["type"] != "struct":
            return False
        fields = types(dict(kind))
        if name not in fields:
            return True
        kind = fields[name]
    return False


def in_words(kind: Json) -> str:
    """A type as DDL."""
    if not isinstance(kind, Mapping):
        return {"integer": "INT", "long": "BIGINT"}.get(kind, str(kind).upper())
    match kind["type"]:
        case "array":
            return f"ARRAY<{in_words(kind['elementType'])}>"
        case "map":
            return f"MAP<{in_words(kind['keyType'])}, {in_words(kind['valueType'])}>"
        case _:
            return f"STRUCT<{', '.join(_field_in_words(kind))}>"


def _field_in_words(kind: Mapping[str, Json]) -> Iterator[str]:
    return (f"{f['name']}: {in_words(f['type'])}" for f in kind["fields"])
