"""The language of `partition_by`: columns, granules of time, hash buckets."""

from __future__ import annotations

import re
from dataclasses import dataclass

from controlplane.core.blueprint.model import KeyColumn
from controlplane.core.blueprint.problems import shown
from controlplane.core.blueprint.value_kinds import (
    JsonSchema,
    ListOf,
    Reading,
    Text,
    as_text,
    text_of,
)
from controlplane.core.blueprint.yaml_nodes import Entries, Items, Node

GRANULES = ("minute", "15 minutes", "hour", "day", "week", "month", "quarter", "year")
MOST_BUCKETS = 100_000
NO_KEY: tuple[KeyColumn, ...] = ()
_UNIT = f"({'|'.join(GRANULES)}|bucket [1-9][0-9]{{0,5}})"
_COLUMN = Text((), "", "the name of a column, or {column: granule}")


@dataclass(frozen=True, slots=True)
class _Part:
    """`column`, `{column: day}` or `{column: bucket 64}`."""

    def read(self, node: Node, reading: Reading) -> KeyColumn:
        if not isinstance(node, Entries):
            return KeyColumn(_COLUMN.read(node, reading), place=node.place)
        if len(node.entries) != 1:
            raise reading.refuse(
                node, "invalid-value", "expected one column with its granule", "{date: day}"
            )
        (key, value), *_ = node.entries
        unit = text_of(value, reading, "a granule or a number of buckets")
        column = _COLUMN.read(as_text(key), reading)
        if unit in GRANULES:
            return KeyColumn(column, granule=unit, place=key.place)
        if (
            re.fullmatch(_UNIT, unit)
            and (count := int(unit.removeprefix("bucket "))) <= MOST_BUCKETS
        ):
            return KeyColumn(column, buckets=count, place=key.place)
        hint = f"{', '.join(GRANULES)}, or bucket N with N up to {MOST_BUCKETS}"
        raise reading.refuse(value, "invalid-value", f"there is no granule {shown(unit)}", hint)

    def schema(self) -> JsonSchema:
        unit = {"type": "string", "pattern": f"^{_UNIT}$"}
        derived = {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": unit,
        }
        return {"anyOf": [_COLUMN.schema(), derived]}


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The parts of a key, in order; no column twice."""

    parts = ListOf(_Part())

    def read(self, node: Node, reading: Reading) -> tuple[KeyColumn, ...]:
        parts = self.parts.read(node, reading)
        if isinstance(node, Items) and not node.items:
            raise reading.refuse(
                node, "invalid-value", "no column is named", "name one, or remove the key"
            )
        names = [part.column.lower() for part in parts]
        if twice := next((n for n in names if names.count(n) > 1), None):
            raise reading.refuse(
                node, "invalid-value", f"{shown(twice)} is named twice", "one part for each column"
            )
        return parts

    def schema(self) -> JsonSchema:
        return {**self.parts.schema(), "minItems": 1}
