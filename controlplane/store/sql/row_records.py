"""Rows as values of core: columns are the fields of a dataclass, lists and mappings are JSON.

    _SHARES = Record(db.shares, Share)
    _SHARES.to_row(share)  # {"name": ..., "id": ..., "actor": ..., "at": ...}
    _SHARES.from_row(row)  # the share again

Does not belong here: fields that several tables share, or that a column packs. They are mapped
beside their statements.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from operator import attrgetter
from types import NoneType, UnionType
from typing import (
    Any,
    Generic,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from sqlalchemy import Column, Row, Table, Text

T = TypeVar("T")
Decoder: TypeAlias = Callable[[Any], Any]


def _parts(packed: Any) -> Any:
    """A mapping, set or dataclass in the parts that JSON has."""
    match packed:
        case Mapping():
            return dict(packed)
        case frozenset():
            return sorted(packed)
    return asdict(packed)


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_parts).encode


def dump(value: object) -> str:
    """JSON as it is stored: ASCII (PostgreSQL's text cannot hold NUL), keys sorted."""
    return _encode(value)


def dump_optional(value: object) -> str | None:
    return None if value is None else dump(value)


class Record(Generic[T]):
    """A table whose rows hold values of one dataclass; derived once, when a module is imported.

    Each field stands in the column of its name, or in the one that `columns` names. None: the field
    has no column; the caller gives it to `from_row`, or its default holds. A column without a field
    is left to the caller as well. KeyError: a field has no column, and is not named.
    """

    def __init__(self, table: Table, kind: type[T], **columns: str | None) -> None:
        self.table = table
        self._kind = kind
        hints = get_type_hints(kind)
        names = {field: columns.get(field, field) for field in hints}
        stored = {field: table.c[name] for field, name in names.items() if name is not None}
        self._fields = tuple(stored)
        self._names = tuple(column.name for column in stored.values())
        self._values_of = attrgetter(*self._fields)
        self._columns_of = attrgetter(*self._names)
        packed = [field for field, column in stored.items() if _is_json(column, hints[field])]
        self._encoders = [(stored[field].name, _encoder(stored[field])) for field in packed]
        self._decoders = [(field, _decoder(hints[field])) for field in packed]

    def to_row(self, stored: T) -> dict[str, Any]:
        """The columns of the value's fields."""
        row = dict(zip(self._names, self._values_of(stored), strict=True))
        for name, encode in self._encoders:
            row[name] = encode(row[name])
        return row

    def numbered(self, values: Sequence[T], last: int) -> list[dict[str, Any]]:
        """Rows that a number in the column `id` identifies. `last`: that of the last one."""
        first = last - len(values) + 1
        return [{**self.to_row(stored), "id": id} for id, stored in enumerate(values, first)]

    def from_row(self, row: Row[Any], **others: Any) -> T:
        """The value of a row. `others`: fields to use in place of their columns."""
        values = dict(zip(self._fields, self._columns_of(row), strict=True)) | others
        for field, decode in self._decoders:
            if field not in others and values[field] is not None:
                values[field] = decode(json.loads(values[field]))
        return self._kind(**values)


def _is_json(column: Column[Any], hint: Any) -> bool:
    """Whether a column of texts holds other values than texts."""
    bare = _without_none(hint)
    is_text = bare is str or get_origin(bare) is Literal
    return isinstance(column.type, Text) and not is_text


def _encoder(column: Column[Any]) -> Callable[[object], str | None]:
    return dump_optional if column.nullable else dump


def _without_none(hint: Any) -> Any:
    """`X` of `X | None`, else the type itself."""
    parts = [part for part in get_args(hint) if part is not NoneType]
    is_optional = get_origin(hint) in (Union, UnionType) and len(parts) == 1
    return parts[0] if is_optional else hint


def _decoder(hint: Any) -> Decoder:
    """Makes a value of this type of its JSON: JSON has neither tuples, sets nor dataclasses."""
    bare = _without_none(hint)
    if bare is not hint:
        decode_bare = _decoder(bare)
        return lambda part: None if part is None else decode_bare(part)
    kind: Any = get_origin(hint) or hint
    if is_dataclass(hint):
        decoders = {name: _decoder(part) for name, part in get_type_hints(hint).items()}
        return lambda part: kind(**{name: decoders[name](inner) for name, inner in part.items()})
    if kind in (tuple, frozenset):
        decode_item = _decoder(get_args(hint)[0])
        return lambda part: kind(map(decode_item, part))
    if kind is Mapping:
        decode_value = _decoder(get_args(hint)[1])
        return lambda part: {key: decode_value(inner) for key, inner in part.items()}
    return lambda part: part
