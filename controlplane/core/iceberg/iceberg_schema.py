"""A dataset's schema in Iceberg: types, ids of fields, and the mapping of names.

https://iceberg.apache.org/spec/#schemas-and-data-types

Our files carry no ids: a reader finds a column in a file by its name. So the id of a field is made
of its path and of the family of its type, and of nothing else. It is the same in every generation
and every branch, also if other columns change. A column that comes back is the same one, as in our
own reads; one of the same name whose type is of another family is another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Final, TypeAlias

from dataplane.contract.schemas import Field, Json, Schema, Type

_GREATEST_ID: Final = 2**31 - 1_000  # those above are reserved
_SIMPLE: Final[Mapping[str, tuple[str, str]]] = {
    "boolean": ("boolean", "boolean"),
    "byte": ("int", "whole"),
    "short": ("int", "whole"),
    "integer": ("int", "whole"),
    "long": ("long", "whole"),
    "float": ("float", "binary-fraction"),
    "double": ("double", "binary-fraction"),
    "string": ("string", "string"),
    "binary": ("binary", "binary"),
    "date": ("date", "date"),
    "timestamp": ("timestamptz", "timestamptz"),
    "timestamp_ntz": ("timestamp", "timestamp"),
}
"""Our type -> that of Iceberg, and its family: readers promote types within it."""
_DECIMAL: Final = re.compile(r"decimal\((\d+), ?(\d+)\)", re.ASCII)
_TEXT: Final = re.compile(r"(?:char|varchar)\(\d+\)", re.ASCII)
Path: TypeAlias = tuple[str, ...]


class NotInIceberg(ValueError):
    """Iceberg (version 2) has no such type. The text is the type."""


@dataclass(frozen=True, slots=True)
class IcebergSchema:
    """`fields`: as in table metadata. `ids`: of all fields, by path; elements of lists are
    `element`, those of maps `key` and `value`. `left_out`: columns that Iceberg cannot hold, with
    their types."""

    fields: tuple[Json, ...]
    ids: Mapping[Path, int]
    left_out: Mapping[str, str]

    @property
    def last_id(self) -> int:
        return max(self.ids.values(), default=0)

    def as_json(self, schema_id: int) -> Json:
        return {"type": "struct", "schema-id": schema_id, "fields": list(self.fields)}


def iceberg_schema(schema: Schema) -> IcebergSchema:
    """Columns that Iceberg cannot hold are left out, and named."""
    families: dict[Path, str] = {}
    columns, left_out = [], {}
    for field in schema["fields"]:
        try:
            families.update(_families(field["type"], (field["name"],)))
        except NotInIceberg as e:
            left_out[field["name"]] = str(e)
            continue
        columns.append(field)
    ids = _ids(families)
    return IcebergSchema(tuple(_field(field, (), ids) for field in columns), ids, left_out)


def name_mapping(schemas: Iterable[IcebergSchema]) -> Json:
    """The value of `schema.name-mapping.default` for all of these schemas, which give no path two
    ids."""
    merged: dict[Path, int] = {}
    for schema in schemas:
        merged.update(schema.ids)
    return _mapped(merged, ())


def agree(schema: IcebergSchema, ids: Mapping[Path, int]) -> bool:
    """Whether no path has two ids, and no id two paths. A mapping of names cannot hold them."""
    paths = {id: path for path, id in ids.items()}
    return all(
        ids.get(path, id) == id and paths.get(id, path) == path for path, id in schema.ids.items()
    )


def _mapped(ids: Mapping[Path, int], above: Path) -> list[Json]:
    below: dict[Path, list[Path]] = {}
    for path in ids:
        below.setdefault(path[:-1], []).append(path)

    def fields(parent: Path) -> list[Json]:
        return [field(path) for path in below.get(parent, ())]

    def field(path: Path) -> Json:
        mapped: Json = {"field-id": ids[path], "names": [path[-1]]}
        inner = fields(path)
        return {**mapped, "fields": inner} if inner else mapped

    return fields(above)


def _families(kind: Type, path: Path) -> dict[Path, str]:
    """The family of a type, and those of the types inside it, by path. Raises NotInIceberg."""
    if isinstance(kind, str):
        return {path: _primitive(kind)[1]}
    if kind["type"] == "struct":
        inner = [(field["name"], field["type"]) for field in kind["fields"]]
    elif kind["type"] == "array":
        inner = [("element", kind["elementType"])]
    elif kind["type"] == "map":
        inner = [("key", kind["keyType"]), ("value", kind["valueType"])]
    else:
        raise NotInIceberg(kind["type"])
    families = {path: str(kind["type"])}
    for name, inner_kind in inner:
        families.update(_families(inner_kind, (*path, name)))
    return families


def _ids(families: Mapping[Path, str]) -> dict[Path, int]:
    """By path. Two paths with one hash are rare: the later one in the order of paths takes the next
    free id."""
    ids: dict[Path, int] = {}
    used: set[int] = set()
    for path in sorted(families):
        number = _hashed(path, families[path])
        while number in used:
            number = number % _GREATEST_ID + 1
        used.add(number)
        ids[path] = number
    return ids


def _primitive(kind: str) -> tuple[str, str]:
    """The type and its family."""
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if match := _DECIMAL.fullmatch(kind):
        return f"decimal({match[1]}, {match[2]})", f"decimal/{match[2]}"
    if _TEXT.fullmatch(kind):
        return _SIMPLE["string"]
    raise NotInIceberg(kind)


def _field(field: Field, above: Path, ids: Mapping[Path, int]) -> Json:
    path = (*above, field["name"])
    kind = _type(field["type"], path, ids)
    return {"id": ids[path], "name": field["name"], "required": False, "type": kind}


def _type(kind: Type, path: Path, ids: Mapping[Path, int]) -> Json:
    if isinstance(kind, str):
        return _primitive(kind)[0]
    if kind["type"] == "struct":
        return {"type": "struct", "fields": [_field(f, path, ids) for f in kind["fields"]]}
    if kind["type"] == "array":
        element = kind["elementType"]
        inner = (*path, "element")
        return {
            "type": "list",
            "element-id": ids[inner],
            "element-required": False,
            "element": _type(element, inner, ids),
        }
    if kind["type"] == "map":
        key_path, value_path = (*path, "key"), (*path, "value")
        return {
            "type": "map",
            "key-id": ids[key_path],
            "key": _type(kind["keyType"], key_path, ids),
            "value-id": ids[value_path],
            "value-required": False,
            "value": _type(kind["valueType"], value_path, ids),
        }
    raise NotInIceberg(kind["type"])


@lru_cache(maxsize=10_000)
def _hashed(path: Path, family: str) -> int:
    text = "\0".join(("headgate/iceberg-field/1", family, *path))
    digest = sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") % _GREATEST_ID + 1
