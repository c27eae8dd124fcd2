"""`sort_by`: the order of rows within fragments, by which readers skip files and parts of them.

It is layout, not logic: rows are the same in any order, and so are their fragment's id and all that is made of them.
Does not belong here: sorting (the data plane's).
"""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.core.blueprint import Component
from controlplane.core.partitioning import named
from dataplane.contract.schemas import Json, Schema

_UNORDERED = ("map", "variant")


def sort_fault(component: Component, schema: Schema, *, case_sensitive: bool) -> str | None:
    """Why rows with this schema cannot be sorted as asked; None if they can."""
    kinds = {f["name"]: f["type"] for f in schema["fields"]}
    for column in component.sort_by:
        name = named(schema, column, case_sensitive=case_sensitive)
        if name is None:
            return f"sort_by: there is no column {column}"
        if bad := _unordered(kinds[name]):
            return f"sort_by: {column} has the type {bad}, which has no order"
    return None


def _unordered(kind: Json) -> str | None:
    if not isinstance(kind, Mapping):
        return kind if kind in _UNORDERED else None
    if kind["type"] in _UNORDERED:
        return str(kind["type"])
    inner = [f["type"] for f in kind.get("fields", ())] + [kind[k] for k in ("elementType",) if k in kind]
    return next(filter(None, map(_unordered, inner)), None)


def sorting(component: Component, schema: Schema | None, *, case_sensitive: bool) -> dict[str, Json]:
    """What a job says of the order of rows, if anything: the columns as the schema spells them."""
    if not component.sort_by:
        return {}
    spelled = (named(schema, c, case_sensitive=case_sensitive) if schema else c for c in component.sort_by)
    return {"sort_by": [name for name in spelled if name]}
