"""Two schemas compared: columns that come, go, or have another type."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.core.review.review_values import ColumnChanges, Impact, KnownSchema, Retyped
from controlplane.core.schema.ddl_schemas import InvalidSchema, parse_ddl, struct, types
from controlplane.core.sql import UNKNOWN
from dataplane.contract.joins import is_held
from dataplane.contract.schemas import Schema, Type
from dataplane.contract.types import in_words

NOT_REPORTED: Type = UNKNOWN.lower()  # the type of a column of which only the name is known
NO_CHANGES = ColumnChanges()


def compare(before: Schema, after: Schema, *, case_sensitive: bool = False) -> ColumnChanges:
    """Columns are the same by name. An unknown type equals every type."""
    had, has = _folded(before, case_sensitive), _folded(after, case_sensitive)
    added = tuple(name for key, (name, _) in has.items() if key not in had)
    removed = tuple(name for key, (name, _) in had.items() if key not in has)
    retyped: list[Retyped] = []
    for key, (name, old) in had.items():
        if key not in has:
            continue
        new = has[key][1]
        if _differ(old, new):
            retyped.append(
                Retyped(name, in_words(old), in_words(new), is_held(old, new, is_text=False))
            )
    return ColumnChanges(added, removed, tuple(retyped))


def _folded(schema: Schema, case_sensitive: bool) -> dict[str, tuple[str, Type]]:
    return {
        fold(name, case_sensitive=case_sensitive): (name, kind)
        for name, kind in types(schema).items()
    }


def fold(name: str, *, case_sensitive: bool) -> str:
    return name if case_sensitive else name.casefold()


def _differ(old: Type, new: Type) -> bool:
    if NOT_REPORTED in (old, new):
        return False
    return in_words(old) != in_words(new)


def impact_of(changes: ColumnChanges, before: KnownSchema, after: KnownSchema) -> Impact:
    """Breaking, widening or neutral for readers."""
    if before.schema is None or after.schema is None:
        return "unknown"
    if changes.removed or changes.narrowed:
        return "breaking"
    if changes.added or changes.retyped:
        return "widening"
    return "neutral"


# --- types as DDL, which sqlglot reads and writes --------------------------------------------------


def as_ddl(schema: Schema) -> dict[str, str]:
    return {name: in_words(kind) for name, kind in types(schema).items()}


def from_ddl(columns: Mapping[str, str]) -> Schema:
    """A type that our schemas do not have is unknown."""
    return struct((name, _type(kind)) for name, kind in columns.items())


def _type(ddl: str) -> Type:
    if UNKNOWN in ddl.upper():
        return NOT_REPORTED
    try:
        return types(parse_ddl(f"c {ddl}"))["c"]
    except InvalidSchema:
        return NOT_REPORTED
