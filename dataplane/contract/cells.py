"""Values of rows between what YAML and JSON can say and what Spark takes, by type.

Both planes use it: one checks values before anything runs, the other makes rows of the values, and
renders rows.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal, InvalidOperation

from dataplane.contract.schemas import Json, Schema, Type, column_names
from dataplane.contract.types import INTEGER_BITS, is_in_range

_FLOATS = ("float", "double")
_SPECIAL = ("NaN", "Infinity", "-Infinity")


class BadCell(ValueError):
    """A value that is none of its type, in words."""


def type_name(kind: Type) -> str:
    """As SQL writes it."""
    names = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}
    if isinstance(kind, str):
        return names.get(kind, kind.upper())
    match kind["type"]:
        case "array":
            return f"ARRAY<{type_name(kind['elementType'])}>"
        case "map":
            return f"MAP<{type_name(kind['keyType'])}, {type_name(kind['valueType'])}>"
        case "struct":
            fields = (f"{quoted(f['name'])}: {type_name(f['type'])}" for f in kind["fields"])
            return f"STRUCT<{', '.join(fields)}>"
        case other:
            return other.upper()


def quoted(name: str) -> str:
    """A column's name as DDL has it."""
    if name.isidentifier() and name.isascii():
        return name
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def ddl(schema: Schema) -> str:
    """The columns as DDL."""
    return ", ".join(f"{quoted(f['name'])} {type_name(f['type'])}" for f in schema["fields"])


# --- to Spark -------------------------------------------------------------------------------------


def typed(kind: Type, value: Json, zone: tzinfo) -> Json:
    """A value as Spark's rows have it; times without an offset are in `zone`. Raises BadCell."""
    if value is None:
        return None
    if not isinstance(kind, str):
        return _nested(kind, value, zone)
    if kind in INTEGER_BITS:
        return _integer(kind, value)
    if kind in _FLOATS:
        return _float(kind, value)
    if kind.startswith("decimal"):
        return _decimal(kind, value)
    match kind:
        case "boolean" if isinstance(value, bool):
            return value
        case "string" if isinstance(value, str):
            return value
        case "date" | "timestamp" | "timestamp_ntz" | "binary" if isinstance(value, str):
            return _from_text(kind, value, zone)
        case "string" | "boolean" | "date" | "timestamp" | "timestamp_ntz" | "binary":
            raise _wrong(kind, value)
    raise BadCell(f"values of the type {type_name(kind)} cannot be written here")


def _wrong(kind: Type, value: Json) -> BadCell:
    hint = "; put it in quotes" if kind == "string" and isinstance(value, int | float) else ""
    return BadCell(f"{_shown(value)} is no {type_name(kind)}{hint}")


def _shown(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _integer(kind: str, value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(kind, value)
    if not is_in_range(value, kind):
        raise BadCell(f"{value} does not fit into {type_name(kind)}")
    return value


def _float(kind: str, value: Json) -> float:
    if value in _SPECIAL:
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(kind, value)
    return float(value)


def _decimal(kind: str, value: Json) -> Decimal:
    precision, scale = _digits(kind)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _wrong(kind, value)
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise _wrong(kind, value) from None
    if (
        not number.is_finite()
        or number != round(number, scale)
        or abs(number) >= Decimal(10) ** (precision - scale)
    ):
        raise BadCell(f"{_shown(value)} does not fit into {type_name(kind)}")
    return round(number, scale)


def _digits(kind: str) -> tuple[int, int]:
    inner = kind.partition("(")[2].rstrip(")") or "10,0"
    precision, _, scale = inner.partition(",")
    return int(precision), int(scale or 0)


def _from_text(kind: str, value: str, zone: tzinfo) -> date | datetime | bytes:
    try:
        if kind == "date":
            return date.fromisoformat(value)
        if kind == "binary":
            return base64.b64decode(value, validate=True)
        time = datetime.fromisoformat(value)
    except (ValueError, binascii.Error):
        form = {"date": "2013-07-04", "binary": "base64"}.get(kind, "2013-07-04 12:00:00")
        raise BadCell(f"{_shown(value)} is no {type_name(kind)}: write it as {form}") from None
    if kind == "timestamp":
        return time if time.tzinfo else time.replace(tzinfo=zone)
    if time.tzinfo:
        raise BadCell(f"{_shown(value)} has an offset, and {type_name(kind)} has none")
    return time


def _nested(kind: Type, value: Json, zone: tzinfo) -> Json:
    assert not isinstance(kind, str)
    if kind["type"] == "array" and isinstance(value, list):
        return [typed(kind["elementType"], item, zone) for item in value]
    if kind["type"] == "map" and isinstance(value, dict):
        keys = [typed(kind["keyType"], _key(kind["keyType"], key), zone) for key in value]
        values = [typed(kind["valueType"], item, zone) for item in value.values()]
        return dict(zip(keys, values, strict=True))
    if kind["type"] == "struct" and isinstance(value, dict):
        return typed_row(kind, value, zone)
    raise _wrong(kind, value)


def _key(kind: Type, text: str) -> Json:
    """Keys of mappings are texts."""
    is_number = isinstance(kind, str) and (kind in INTEGER_BITS or kind in _FLOATS)
    try:
        return (int(text) if kind in INTEGER_BITS else float(text)) if is_number else text
    except ValueError:
        raise _wrong(kind, text) from None


def typed_row(schema: Schema, values: Mapping[str, Json], zone: tzinfo) -> tuple[Json, ...]:
    """A row in the order of the schema; a field without a value is NULL. Raises BadCell, with the
    column."""
    names = column_names(schema)
    for name in values:
        if name not in names:
            raise BadCell(f"there is no field {name!r}: known are {', '.join(names)}")
    cells = []
    for field in schema["fields"]:
        try:
            cells.append(typed(field["type"], values.get(field["name"]), zone))
        except BadCell as e:
            raise BadCell(f"{field['name']}: {e}") from None
    return tuple(cells)


# --- from Spark -----------------------------------------------------------------------------------


def plain(kind: Type, value: Json, zone: tzinfo) -> Json:
    """A value of Spark's rows as JSON and YAML say it: times as texts in `zone`, decimals as
    texts."""
    if value is None:
        return None
    if not isinstance(kind, str):
        return _plain_nested(kind, value, zone)
    if kind == "timestamp":
        return _time(value.astimezone(zone).replace(tzinfo=None))
    if kind == "timestamp_ntz":
        return _time(value)
    if kind == "date":
        return value.isoformat()
    if kind == "binary":
        return base64.b64encode(bytes(value)).decode()
    if kind in _FLOATS:
        return value if math.isfinite(value) else _special(value)
    if kind in INTEGER_BITS or kind in ("boolean", "string"):
        return value
    return str(value)


def _time(value: datetime) -> str:
    return value.isoformat(sep=" ")


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _plain_nested(kind: Type, value: Json, zone: tzinfo) -> Json:
    assert not isinstance(kind, str)
    match kind["type"]:
        case "array":
            return [plain(kind["elementType"], item, zone) for item in value]
        case "map":
            pairs = (
                (plain(kind["keyType"], k, zone), plain(kind["valueType"], v, zone))
                for k, v in value.items()
            )
            return {str(key): item for key, item in pairs}
        case "struct":
            return {
                f["name"]: plain(f["type"], v, zone)
                for f, v in zip(kind["fields"], value, strict=True)
            }
        case _:
            return str(value)


def same(kind: Type, value: Json, zone: tzinfo = UTC) -> Json:
    """An expected value in the form of results. Raises BadCell."""
    return plain(kind, typed(kind, value, zone), zone)
