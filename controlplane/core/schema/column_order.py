"""The order of columns: by the first file, in the order of names, that has a column, and its place
in that file.

So it does not count when a file came. A file that was replaced can give two columns one place: they
go by name. Places of fields in structs go by NESTED paths, as in listings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from controlplane.core.schema.ddl_schemas import struct, types
from dataplane.contract.schemas import Schema, Type
from dataplane.contract.source_objects import NESTED, SourceObject

Place: TypeAlias = tuple[str, int]  # the name of a file, and the place of the column in it
Places: TypeAlias = Mapping[str, Place]
_LAST: Final = "\U0010ffff"  # after all names: for columns in no listing


def first_places(objects: Iterable[SourceObject]) -> dict[str, Place]:
    """The least place of each column, and of each field in it, that a listing has."""
    names: dict[tuple[str, ...], str] = {}
    for source_object in objects:
        columns = tuple(source_object["columns"] or ())
        names[columns] = min(names.get(columns, _LAST), source_object["name"])
    return merged_places(
        {path: (name, at) for at, path in enumerate(kind)} for kind, name in names.items()
    )


def merged_places(several: Iterable[Places]) -> dict[str, Place]:
    merged: dict[str, Place] = {}
    for places in several:
        for path, place in places.items():
            merged[path] = min(merged.get(path, place), place)
    return merged


def in_order_of(schema: Schema, places: Places, fixed: Iterable[str] = ()) -> Schema:
    """The schema with its columns in the order of their places; `fixed` ones stay before all
    others, as they are. Columns without a place come last, as they are."""
    return _in_order(schema, places, "", tuple(fixed))


def _in_order(schema: Schema, places: Places, above: str, fixed: tuple[str, ...] = ()) -> Schema:
    kinds = types(schema)
    order = {name: at for at, name in enumerate(kinds)}

    def rank(name: str) -> tuple[bool, str, int, str]:
        first, at = places.get(above + name, (_LAST, order[name]))
        return (False, "", order[name], "") if name in fixed else (True, first, at, name)

    inner = {
        n: t if n in fixed else _nested(t, places, above + n + NESTED) for n, t in kinds.items()
    }
    return struct((name, inner[name]) for name in sorted(kinds, key=rank))


def _nested(kind: Type, places: Places, above: str) -> Type:
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return _in_order(kind, places, above)
    if kind["type"] == "array":  # lists count as what they hold
        return {**kind, "elementType": _nested(kind["elementType"], places, above)}
    return kind
