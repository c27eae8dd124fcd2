"""Whether a row belongs to a partition's key: the rule of `dataplane.fragments.key_columns`, over values of JSON.

Does not belong here: which rows are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, tzinfo
from decimal import Decimal
from typing import Final

from dataplane.contract.cells import typed
from dataplane.contract.keys import KeyPart, column_texts
from dataplane.contract.schemas import Json, Schema

_SEED: Final = 42  # of Spark's `xxhash64`
_MASK: Final = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def has_key(row: Mapping[str, Json], schema: Schema, parts: Sequence[KeyPart], key: str, zone: tzinfo) -> bool:
    """Raises BadCell for a value that is none of its type."""
    types = {field["name"]: field["type"] for field in schema["fields"]}
    for part, text in zip(parts, column_texts(key), strict=True):
        value = typed(types[part["column"]], row.get(part["column"]), zone)
        if key_text(value, part, zone) != text:
            return False
    return True


def key_text(value: Json, part: KeyPart, zone: tzinfo) -> str | None:
    """The text of a typed value in a key. NULL stays None."""
    if value is None:
        return None
    text = _granule(value, part["granule"], zone) if part["granule"] else _text(value)
    return str(_signed(xxhash64(text.encode())) % part["buckets"]) if part["buckets"] else text


def _text(value: Json) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return str(value)


def _granule(value: date, granule: str, zone: tzinfo) -> str:
    local = value.astimezone(zone) if isinstance(value, datetime) and value.tzinfo else value
    day = local.isoformat()[:10]
    match granule:
        case "hour":
            assert isinstance(local, datetime)
            return f"{day}T{local.hour:02}"
        case "week":
            year, week, _ = local.isocalendar()
            return f"{year:04}-W{week:02}"
        case "quarter":
            return f"{day[:4]}-Q{(local.month + 2) // 3}"
    return day[: {"day": 10, "month": 7, "year": 4}[granule]]


# --- the hash of buckets --------------------------------------------------------------------------


def xxhash64(data: bytes) -> int:
    """XXH64 with Spark's seed, as an unsigned number."""
    end = len(data) - len(data) % 32
    found = _stripes(data[:end]) if end else _SEED + _P5
    found = (found + len(data)) & _MASK
    while len(data) - end >= 8:
        found ^= _round(0, int.from_bytes(data[end : end + 8], "little"))
        found = (_rotated(found, 27) * _P1 + _P4) & _MASK
        end += 8
    if len(data) - end >= 4:
        found ^= int.from_bytes(data[end : end + 4], "little") * _P1 & _MASK
        found = (_rotated(found, 23) * _P2 + _P3) & _MASK
        end += 4
    for byte in data[end:]:
        found = _rotated(found ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    found = (found ^ found >> 33) * _P2 & _MASK
    found = (found ^ found >> 29) * _P3 & _MASK
    return found ^ found >> 32


def _stripes(data: bytes) -> int:
    lanes = [(_SEED + start) & _MASK for start in (_P1 + _P2, _P2, 0, -_P1)]
    for at in range(0, len(data), 8):
        lane = at // 8 % 4
        lanes[lane] = _round(lanes[lane], int.from_bytes(data[at : at + 8], "little"))
    found = sum(map(_rotated, lanes, (1, 7, 12, 18))) & _MASK
    for value in lanes:
        found = ((found ^ _round(0, value)) * _P1 + _P4) & _MASK
    return found


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 64 - by) & _MASK


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
