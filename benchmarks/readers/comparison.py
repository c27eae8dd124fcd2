"""What differs between the rows that were put in and those that an engine read, by column.

Values are compared exactly, in the order of `k`, and types as Arrow has them. Does not belong here:
which differences are expected.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

KEY = "k"
WHOLE = "*"  # in place of a column
Differences: TypeAlias = Mapping[str, Sequence[str]]
UTC_NAMES = ("UTC", "Etc/UTC", "+00:00")


def differences(expected: pa.Table, read: pa.Table) -> Differences:
    """By column, in words; empty if all is equal."""
    if expected.column_names != read.column_names:
        return {WHOLE: [f"columns {', '.join(read.column_names)}"]}
    wanted, seen = _sorted(expected), _sorted(read)
    if wanted[KEY] != seen[KEY]:
        return {WHOLE: [f"rows {seen[KEY]}"]}
    changed = {}
    for field in expected.schema:
        parts = [
            *_type_difference(field.type, read.schema.field(field.name).type),
            *_value_differences(wanted[field.name], seen[field.name]),
        ]
        if parts:
            changed[field.name] = parts
    return changed


def plain_type(kind: pa.DataType) -> str:
    """The type's name, however Arrow lays it out in memory and names its parts."""
    if pa.types.is_map(kind):
        return f"map<{plain_type(kind.key_type)}, {plain_type(kind.item_type)}>"
    if pa.types.is_struct(kind):
        fields = [f"{field.name}: {plain_type(field.type)}" for field in kind]
        return f"struct<{', '.join(fields)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{plain_type(kind.value_type)}>"
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        zone = "UTC" if kind.tz in UTC_NAMES else kind.tz
        return f"timestamp[{kind.unit}, {zone}]"
    return str(kind).removeprefix("large_").removesuffix("_view")


def _sorted(table: pa.Table) -> dict[str, list[Any]]:
    """Values of columns in the order of the key."""
    keys = table.column(KEY).to_pylist()
    order = sorted(range(len(keys)), key=keys.__getitem__)
    columns = {name: _values(table.column(name)) for name in table.column_names}
    return {name: [values[place] for place in order] for name, values in columns.items()}


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):  # of nanoseconds Python has no value
        column = column.cast(pa.timestamp("us"))  # the zone is the type's
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())  # a text need not be one in UTF-8
    return [_plain(value) for value in column.to_pylist()]


def _plain(value: Any) -> Any:
    """Maps as lists of pairs, also where they are lists of structs, and NaN as a text, since it is
    equal to nothing."""
    if isinstance(value, dict):
        if value.keys() == {"key", "value"}:
            return (value["key"], _plain(value["value"]))
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_plain(inner) for inner in value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value


def _type_difference(wanted: pa.DataType, seen: pa.DataType) -> list[str]:
    if plain_type(wanted) == plain_type(seen):
        return []
    return [f"type {plain_type(seen)}"]


def _value_differences(wanted: list[Any], seen: list[Any]) -> list[str]:
    pairs = zip(wanted, seen, strict=True)
    return [f"{new!r} for {old!r}" for old, new in pairs if new != old]
