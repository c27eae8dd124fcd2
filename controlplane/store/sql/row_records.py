"""Rows as values of core: columns are the fields of a dataclass, lists and mappings are JSON.

    _SHARES = Record(db.shares, Share)
    _SHARES.to_row(share)  # {"name": ..., "id": ..., "actor": ..., "at": ...}
    _SHARES.from_row(row)  # the share again

Does not belong here: fields that several tables share, or that a column packs. They are mapped
beside their statements.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from operator import attrgetter, itemgetter
from types import NoneType, UnionType
from typing import (
    Any,
    Generic,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from sqlalchemy import Column, Row, Table, Text

T = TypeVar("T")
Decoder: TypeAlias = Callable[[Any], Any]
Picker: TypeAlias = Callable[[Row[Any]], tuple[Any, ...]]


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
        self._is_by_place = len(stored) == len(hints) and not any(
            field.kw_only for field in fields(cast("Any", kind))
        )
        # By the names of a row's columns: places cost a fifth of what names cost
        self._pickers: dict[tuple[str, ...], Picker] = {}
        packed = [field for field, column in stored.items() if _is_json(column, hints[field])]
        self._encoders = [(stored[field].name, _encoder(stored[field])) for field in packed]
        self._decoders = [(self._fields.index(field), _decoder(hints[field])) for field in packed]

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
        return self._from_picked(self._picker(row._fields)(row), others)

    def from_rows(self, rows: Iterable[Row[Any]]) -> Iterator[T]:
        """The values of rows of one statement, whose columns are looked up once: a row's `_fields`
        cost more than the rest of a small value."""
        pick: Picker | None = None
        for row in rows:
            pick = pick or self._picker(row._fields)
            yield self._from_picked(pick(row), {})

    def _from_picked(self, picked: tuple[Any, ...], others: dict[str, Any]) -> T:
        values = list(picked)
        for place, decode in self._decoders:
            if values[place] is not None and self._fields[place] not in others:
                values[place] = decode(json.loads(values[place]))
        if self._is_by_place and not others:
            return self._kind(*values)
        return self._kind(**dict(zip(self._fields, values, strict=True)) | others)

    def _picker(self, names: tuple[str, ...]) -> Picker:
        """Takes the columns of the fields out of a row with columns of these names."""
        picker = self._pickers.get(names)
        if picker is None:
            picker = self._pickers[names] = itemgetter(*map(names.index, self._names))
        return picker


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
