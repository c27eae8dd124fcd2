"""Types of the values that folders `key=value` give, as texts: which type a column gets, which
values a type has.

A text with a zero before another digit is no number.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Final

from dataplane.contract.joins import STRING, join
from dataplane.contract.schemas import (
    NO_COLUMNS,
    Schema,
    Type,
    canonical_schema,
    field_of,
    field_types,
    struct_of,
)
from dataplane.contract.source_objects import SourceObject, is_folder_column
from dataplane.contract.types import INTEGER_BITS, NOTHING, decimal_digits, is_in_range
from dataplane.task_failures import TaskFailure

_WHOLE = re.compile(r"[+-]?\d{1,40}", re.ASCII)
_NUMBER = re.compile(r"[+-]?\d{1,40}(\.\d{1,40})?([eE][+-]?\d{1,3})?", re.ASCII)
_PADDED = re.compile(r"[+-]?0\d", re.ASCII)  # 007: a code
_LARGEST_FLOAT = 3.4028234e38
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?", re.ASCII)
_ZONE = re.compile(r"(Z|[+-](0\d|1[0-7]):[0-5]\d|[+-]18:00)$", re.ASCII)
INFERRED: Final = ("integer", "long", "double", "date", "timestamp")  # in this order, else string


def with_folders(
    own: Schema, objects: Iterable[SourceObject], previous: Schema = NO_COLUMNS
) -> Schema:
    """The files' own columns, then those that their folders give, in the order of the path. A type
    that a column has in other files, or an inferred one in `known`, stays where all values fit it;
    a column without any value is void."""
    types = {
        f["name"]: f["type"]
        for schema in (previous, own)
        for f in schema["fields"]
        if f["type"] != NOTHING
    }
    folders = {key: _type_of(texts, types.get(key)) for key, texts in _texts(objects).items()}
    columns = field_types(own) | folders
    return canonical_schema(struct_of(field_of(name, kind) for name, kind in columns.items()))


def _texts(objects: Iterable[SourceObject]) -> dict[str, set[str]]:
    """The values of each column that folders give beyond the files' own."""
    texts: dict[str, set[str]] = {}
    for source in objects:
        for key, text in source.get("folders", ()):
            if is_folder_column(source, key):
                texts.setdefault(key, set()).update(() if text is None else (text,))
    return texts


def _type_of(texts: set[str], previous: Type | None) -> Type:
    """The first type that all values fit; text where they do not fit the known type though it holds
    that one."""
    if not texts:
        return previous or NOTHING
    if previous is not None and all(_is_inferred_as(text, previous) for text in texts):
        return previous
    kind = next(
        (kind for kind in INFERRED if all(_is_inferred_as(text, kind) for text in texts)), STRING
    )
    return (
        STRING if previous is not None and join(previous, kind, is_text=True) == previous else kind
    )


def _is_inferred_as(text: str, kind: Type) -> bool:
    """Whether a text is a value of an inferred type. Zeros before another digit say something that
    no number does."""
    return fits(text, kind) and (kind == STRING or _PADDED.match(text) is None)


def fits(text: str, kind: Type) -> bool:
    """Whether a text is a value of a type, exactly. No nested type and no BINARY has values in
    folders."""
    if kind == STRING:
        return True
    if not isinstance(kind, str):
        return False
    if kind in INTEGER_BITS:
        return _WHOLE.fullmatch(text) is not None and is_in_range(int(text), kind)
    if digits := decimal_digits(kind):
        return _NUMBER.fullmatch(text) is not None and _fits_decimal(text, *digits)
    return kind in _FITS and _FITS[kind](text)


def _fits_decimal(text: str, precision: int, scale: int) -> bool:
    _, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    significant = "".join(map(str, digits)).rstrip("0")
    exponent += len(digits) - len(significant)
    before = len(significant.lstrip("0")) + exponent
    return not significant or (-exponent <= scale and before <= precision - scale)


def _fits_float(text: str) -> bool:
    """As of a double."""
    if not _fits_double(text) or abs(float(text)) > _LARGEST_FLOAT:
        return False
    (nearest,) = struct.unpack("f", struct.pack("f", float(text)))
    return any(Decimal(f"{nearest:.{digits}g}") == Decimal(text) for digits in range(1, 10))


def _fits_double(text: str) -> bool:
    """The nearest double is written with the same digits."""
    if _NUMBER.fullmatch(text) is None or not math.isfinite(number := float(text)):
        return False
    return Decimal(repr(number)) == Decimal(text)


def _fits_boolean(text: str) -> bool:
    return text.lower() in ("true", "false")


def _fits_date(text: str) -> bool:
    return _DATE.fullmatch(text) is not None and _is_valid(text)


def _fits_local_time(text: str) -> bool:
    return _TIME.fullmatch(text) is not None and _is_valid(text)


def _is_valid(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _fits_instant(text: str) -> bool:
    """Without a zone it is in the dataflow's."""
    return _fits_date(text) or _fits_local_time(_ZONE.sub("", text))


_FITS: Mapping[str, Callable[[str], bool]] = {
    "float": _fits_float,
    "double": _fits_double,
    "boolean": _fits_boolean,
    "date": _fits_date,
    "timestamp": _fits_instant,
    "timestamp_ntz": lambda text: _fits_date(text) or _fits_local_time(text),
}


def unfit(
    source: SourceObject, path: str, kinds: Mapping[str, Type], inferred: Collection[str]
) -> TaskFailure | None:
    """The first value of a file's folders that is none of its column's type, which is declared or
    `inferred`."""
    for key, text in source.get("folders", ()):
        if text is None or key not in kinds or not is_folder_column(source, key):
            continue
        if (_is_inferred_as if key in inferred else fits)(text, kinds[key]):
            continue
        message = f"{path}: the folder of column {key} is {text!r}, and the column is {kinds[key]}"
        hint = f"rename the folder, or give the column a type in `schema:`, such as {key} STRING"
        return TaskFailure("folder-value-unfit", f"{message}: {hint}", file=path)
    return None
