"""The columns that two schemas have in common, so that rows of both can be compared; and what
differs otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from controlplane.core.schema.ddl_schemas import struct, types
from dataplane.contract.joins import grow
from dataplane.contract.schemas import Schema, Type
from dataplane.contract.types import in_words


@dataclass(frozen=True, slots=True)
class TypeDifference:
    """A column with another type on each side, as DDL. `held`: the type that holds both; None where
    there is none."""

    name: str
    before: str
    after: str
    held: str | None


@dataclass(frozen=True, slots=True)
class CommonColumns:
    """`schema` has the columns whose values can be compared."""

    schema: Schema
    added: tuple[str, ...]
    removed: tuple[str, ...]
    retyped: tuple[TypeDifference, ...]


def common_columns(before: Schema, after: Schema) -> CommonColumns:
    """In the order of `after`."""
    old, new = types(before), types(after)
    retyped = tuple(
        _retyped(name, old[name], new[name])
        for name in new
        if name in old and old[name] != new[name]
    )
    return CommonColumns(
        struct(_shared(old, new)),
        added=tuple(name for name in new if name not in old),
        removed=tuple(name for name in old if name not in new),
        retyped=retyped,
    )


def _shared(old: dict[str, Type], new: dict[str, Type]) -> Iterator[tuple[str, Type]]:
    for name, kind in new.items():
        if name in old and (held := _held(name, old[name], kind)) is not None:
            yield name, held


def _held(name: str, old: Type, new: Type) -> Type | None:
    """Nested types are compared where they are equal."""
    if old == new:
        return new
    if not isinstance(old, str) or not isinstance(new, str):
        return None
    held, conflicts = grow(name, old, new, is_text=False)
    return None if conflicts else held


def _retyped(name: str, old: Type, new: Type) -> TypeDifference:
    held = _held(name, old, new)
    return TypeDifference(
        name, in_words(old), in_words(new), None if held is None else in_words(held)
    )
