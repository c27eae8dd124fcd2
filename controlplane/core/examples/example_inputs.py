"""The inputs of a transform as a test names them, and the types of the rows that it gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from controlplane.core.blueprint.example_model import ExampleRow, Given, Plain
from controlplane.core.compile.nodes import Node, Transform
from dataplane.contract.schemas import Schema, Type, field_of, struct_of

PREVIOUS: Final = "previous"  # the partition before, under any name in the code


def input_names(node: Transform) -> tuple[str, ...]:
    """As the code has them."""
    own = (node.fold.name,) if node.fold else ()
    return (*(slot.name for slot in node.slots), *own)


def input_named(node: Transform, name: str) -> str | None:
    """The code's name of an input that a test names; None where there is none."""
    names = input_names(node)
    if name in names:
        return name
    return node.fold.name if name == PREVIOUS and node.fold else None


def given_by_input(node: Transform, inputs: Iterable[Given]) -> dict[str, Given]:
    """By the code's names; unknown names are left out."""
    named = ((input_named(node, input_rows.name), input_rows) for input_rows in inputs)
    return {name: input_rows for name, input_rows in named if name is not None}


def declared(node: Node) -> Schema | None:
    """The columns of a dataset as its blueprint says them; None where they are found out only by
    running something."""
    if node.declared is not None:
        return node.with_metadata(node.declared)
    if node.fold is not None:
        return node.with_reason(node.fold.schema)
    return None


# --- types from values ----------------------------------------------------------------------------


class MixedTypes(ValueError):
    """Values of one column that no type holds together."""


@dataclass(frozen=True, slots=True)
class Inferred:
    """Columns in order of appearance. `untyped` are NULL in all rows, and taken for texts."""

    schema: Schema
    untyped: tuple[str, ...]


def inferred(rows: Sequence[ExampleRow]) -> Inferred:
    """Raises MixedTypes, with the column."""
    columns: dict[str, list[Plain]] = {}
    for row in rows:
        for cell in row.cells:
            columns.setdefault(cell.column, []).append(cell.value)
    types = {name: _type_of(values, name) for name, values in columns.items()}
    schema = struct_of(field_of(name, kind or "string") for name, kind in types.items())
    return Inferred(schema, tuple(name for name, kind in types.items() if kind is None))


def _type_of(values: Sequence[Plain], place: str) -> Type | None:
    """The type that holds all values; None if all are NULL."""
    present = [value for value in values if value is not None]
    kinds = {_kind_of(value) for value in present}
    if not kinds:
        return None
    if kinds == {"long", "double"}:
        return "double"
    if len(kinds) > 1:
        raise MixedTypes(
            f"{place} has values of several kinds ({', '.join(sorted(kinds))}): give the input a `schema`"
        )
    (kind,) = kinds
    if kind == "list":
        items = [item for value in present if isinstance(value, list) for item in value]
        return {
            "type": "array",
            "elementType": _type_of(items, place) or "string",
            "containsNull": True,
        }
    return _struct_of(present, place) if kind == "mapping" else kind


def _kind_of(value: Plain) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "long"
        case float():
            return "double"
        case str():
            return "string"
        case list():
            return "list"
        case _:
            return "mapping"


def _struct_of(values: Sequence[Plain], place: str) -> Type:
    fields: dict[str, list[Plain]] = {}
    for value in values:
        for name, inner in value.items() if isinstance(value, dict) else ():
            fields.setdefault(name, []).append(inner)
    return struct_of(
        field_of(n, _type_of(inner, f"{place}.{n}") or "string") for n, inner in fields.items()
    )
