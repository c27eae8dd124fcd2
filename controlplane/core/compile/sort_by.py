"""`sort_by`: the order of rows within fragments, by which readers skip files and parts of them.

It is layout, not logic: rows are the same in any order, and so are their fragment's id and all that
is made of them.
"""

from __future__ import annotations

from controlplane.core.blueprint import Component
from controlplane.core.partitioning import named
from dataplane.contract.schemas import Schema, Type

_UNORDERED = ("map", "variant")


def sort_fault(component: Component, schema: Schema, *, case_sensitive: bool) -> str | None:
    """Why rows with this schema cannot be sorted by `sort_by`; None if they can."""
    kinds = {f["name"]: f["type"] for f in schema["fields"]}
    for column in component.sort_by:
        name = named(schema, column, case_sensitive=case_sensitive)
        if name is None:
            return f"sort_by: there is no column {column}"
        if bad := _unordered(kinds[name]):
            return f"sort_by: {column} has the type {bad}, which has no order"
    return None


def _unordered(kind: Type) -> str | None:
    if isinstance(kind, str):
        return kind if kind in _UNORDERED else None
    if kind["type"] == "struct":
        return next(filter(None, (_unordered(f["type"]) for f in kind["fields"])), None)
    if kind["type"] == "array":
        return _unordered(kind["elementType"])
    return kind["type"] if kind["type"] in _UNORDERED else None


def sorting(
    component: Component, schema: Schema | None, *, case_sensitive: bool
) -> list[str] | None:
    """The columns that rows are sorted by, as the schema spells them; None without `sort_by`."""
    if not component.sort_by:
        return None
    spelled = (
        named(schema, c, case_sensitive=case_sensitive) if schema else c for c in component.sort_by
    )
    return [name for name in spelled if name]
