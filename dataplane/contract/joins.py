"""The join of types: the least type that holds the values of two.

Inferred schemas are folds of it over the files that were seen, so it is associative, commutative
and idempotent: the order of files does not count, and neither does how they were split into
listings. NOTHING (no value) is its least type.

Formats with types of their own are joined exactly: INT and BIGINT are BIGINT, BIGINT and DOUBLE are
a CONFLICT. In formats of text (CSV, JSON) values are read again under the joined type; where no
other type holds them, it is STRING.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dataplane.contract.schemas import (
    MapType,
    StructType,
    Type,
    column_names,
    field_of,
    field_types,
    struct_of,
)
from dataplane.contract.types import NOTHING, decimal_digits

STRING: Final = "string"
CONFLICT: Final = "conflict"  # in place of a type; the greatest one
TEXTS: Final = ("csv", "json", "xlsx", "fixed", "xml")  # formats in which values stand as text
# With the digits that a decimal has for them
INTEGERS: Final = {"byte": 3, "short": 5, "integer": 10, "long": 20}
FLOATS: Final = ("float", "double")
DIGITS: Final = 38  # of a decimal, at most
TIMES: Final = ("date", "timestamp_ntz", "timestamp")  # in text each holds the ones before it


@dataclass(frozen=True, slots=True)
class TypeConflict:
    """A column, or a field in it, whose two types no type safely holds."""

    name: str
    have: Type
    other: Type


def join(left: Type, right: Type, *, is_text: bool) -> Type:
    """The least type that holds the values of both; CONFLICT in each place where there is none."""
    if left == right or right == NOTHING:
        return left
    if left == NOTHING:
        return right
    if isinstance(left, str) and isinstance(right, str):
        return _join_plain(left, right, is_text=is_text) or _top(is_text)
    if isinstance(left, str) or isinstance(right, str) or left["type"] != right["type"]:
        return _top(is_text)
    if left["type"] == "struct" and right["type"] == "struct":
        return _join_structs(left, right, is_text=is_text)
    if left["type"] == "array" and right["type"] == "array":
        return {
            **left,
            "elementType": join(left["elementType"], right["elementType"], is_text=is_text),
        }
    if left["type"] == "map" and right["type"] == "map":
        return _join_maps(left, right, is_text=is_text)
    return _top(is_text)


def grow(
    name: str, have: Type, other: Type, *, is_text: bool
) -> tuple[Type, tuple[TypeConflict, ...]]:
    """The join of a column's type with another one. A part that conflicts stays as it was, and is
    named."""
    joined = join(have, other, is_text=is_text)
    conflicts = tuple(_conflicts(name, have, other, joined))
    return (_without_conflicts(have, joined) if conflicts else joined), conflicts


def is_held(kind: Type, wide: Type, *, is_text: bool) -> bool:
    """Whether the second type holds all values of the first one, with fields in any order."""
    return _in_name_order(join(wide, kind, is_text=is_text)) == _in_name_order(wide)


def _in_name_order(kind: Type) -> Type:
    """The type with the fields of structs in the order of their names."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        fields = sorted(field_types(kind).items())
        return struct_of(field_of(name, _in_name_order(inner)) for name, inner in fields)
    if kind["type"] == "array":
        return {**kind, "elementType": _in_name_order(kind["elementType"])}
    return (
        {**kind, "valueType": _in_name_order(kind["valueType"])} if kind["type"] == "map" else kind
    )


def has_numbers(kind: Type) -> bool:
    """Whether some value within a type is a number."""
    if isinstance(kind, str):
        return kind in INTEGERS or kind in FLOATS or kind.startswith("decimal(")
    return any(map(has_numbers, _parts(kind).values()))


def without_nothing(kind: Type) -> Type:
    """The type without the fields that have no value; NOTHING if nothing is left."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        fields = {name: without_nothing(inner) for name, inner in field_types(kind).items()}
        left = struct_of(
            field_of(name, inner) for name, inner in fields.items() if inner != NOTHING
        )
        return left if left["fields"] or not fields else NOTHING
    if kind["type"] == "array":
        inner = without_nothing(kind["elementType"])
        return NOTHING if inner == NOTHING else {**kind, "elementType": inner}
    if kind["type"] == "map":
        inner = without_nothing(kind["valueType"])
        return NOTHING if NOTHING in (inner, kind["keyType"]) else {**kind, "valueType": inner}
    return kind


# --- structs and maps -----------------------------------------------------------------------------


def _top(is_text: bool) -> str:
    return STRING if is_text else CONFLICT


def _join_structs(left: StructType, right: StructType, *, is_text: bool) -> Type:
    """The fields of both. Where the fields are not the same in the same order, they are in the
    order of their names: no other order is the same for every order of joins."""
    fields = _joined_fields(field_types(left), field_types(right), is_text=is_text)
    is_same = column_names(left) == column_names(right)
    names = fields if is_same else sorted(fields)
    return struct_of(field_of(name, fields[name]) for name in names)


def _joined_fields(
    left: Mapping[str, Type], right: Mapping[str, Type], *, is_text: bool
) -> dict[str, Type]:
    both = {n: join(left[n], right[n], is_text=is_text) for n in left if n in right}
    return {**left, **right, **both}


def _join_maps(left: MapType, right: MapType, *, is_text: bool) -> Type:
    """Values are joined, keys are not: equal keys could become different ones."""
    if left["keyType"] != right["keyType"]:
        return _top(is_text)
    return {**left, "valueType": join(left["valueType"], right["valueType"], is_text=is_text)}


# --- plain types ----------------------------------------------------------------------------------


def _join_plain(left: str, right: str, *, is_text: bool) -> str | None:
    """The join of two different types; None: no other type than text holds both."""
    both = {left, right}
    if CONFLICT in both:
        return None
    if both <= INTEGERS.keys():
        return max(left, right, key=lambda t: INTEGERS[t])
    if both <= {*INTEGERS, *FLOATS}:
        return "double" if is_text or "long" not in both else None
    if both <= set(TIMES):
        return _join_times(left, right, is_text=is_text)
    return _join_decimals(_digits(left), _digits(right))


def _join_times(left: str, right: str, *, is_text: bool) -> str | None:
    if is_text or "timestamp" not in (left, right):
        return max(left, right, key=TIMES.index)
    return None  # an instant, and a time without a zone


def _digits(kind: str) -> tuple[int, int] | None:
    """Before and after the point."""
    if kind in INTEGERS:
        return INTEGERS[kind], 0
    digits = decimal_digits(kind)
    return (digits[0] - digits[1], digits[1]) if digits else None


def _join_decimals(left: tuple[int, int] | None, right: tuple[int, int] | None) -> str | None:
    if left is None or right is None:
        return None
    before, after = max(left[0], right[0]), max(left[1], right[1])
    return f"decimal({before + after},{after})" if before + after <= DIGITS else None


# --- conflicts ------------------------------------------------------------------------------------


def _conflicts(name: str, have: Type, other: Type, joined: Type) -> Iterator[TypeConflict]:
    if joined == CONFLICT:
        yield TypeConflict(name, have, other)
    if isinstance(joined, str) or isinstance(have, str) or isinstance(other, str):
        return
    for inner, kind in _parts(joined).items():
        old, new = _parts(have).get(inner), _parts(other).get(inner)
        if old is not None and new is not None:
            yield from _conflicts(f"{name}.{inner}" if inner else name, old, new, kind)


def _without_conflicts(have: Type, joined: Type) -> Type:
    """With what there was in place of each conflict."""
    if joined == CONFLICT:
        return have
    if isinstance(joined, str) or isinstance(have, str) or joined["type"] != have["type"]:
        return joined
    old = _parts(have)
    parts = {
        n: _without_conflicts(old[n], kind) if n in old else kind
        for n, kind in _parts(joined).items()
    }
    if joined["type"] == "struct":
        return struct_of(field_of(name, kind) for name, kind in parts.items())
    if joined["type"] == "array":
        return {**joined, "elementType": parts[""]}
    return {**joined, "valueType": parts[""]} if joined["type"] == "map" else joined


def _parts(kind: Type) -> dict[str, Type]:
    """The types within a type by the name of their field; without a name within lists and maps."""
    if isinstance(kind, str):
        return {}
    if kind["type"] == "struct":
        return field_types(kind)
    if kind["type"] == "array":
        return {"": kind["elementType"]}
    return {"": kind["valueType"]} if kind["type"] == "map" else {}
