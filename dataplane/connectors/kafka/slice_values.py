"""Columns of messages without Spark, or none at all.

`message_values` says in Spark what the columns of a message are. This says the same of the messages
for which it is certain: JSON objects with values of just the types of their columns, records of
Avro, and raw bytes. Anything else is `Undecided`: a driver reads it, or names its fault.

Example: for `schema: "id INT"` it takes `{"id": 1}`, and leaves `{"id": "1"}` and `{"id": 1} 2`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, DecimalException
from functools import partial
from math import isfinite
from typing import Any, NamedTuple, Never, TypeAlias

import pyarrow as pa

from dataplane.connectors.kafka.avro import HEAD, decoded, written
from dataplane.connectors.kafka.schema_registry import Registry
from dataplane.contract.jobs import ConnectorSettings
from dataplane.contract.schemas import HEADERS, Field, Json, Schema
from dataplane.contract.types import INTEGER_BITS, decimal_digits
from dataplane.fragments.arrow import arrow_schema, arrow_type

LONGEST = 50_000  # bytes of a JSON value: parsers have limits beyond, of names and of nesting
PLAIN = 300  # bytes of a JSON value that reaches no limit of a parser
DEEPEST = 300  # opening brackets in a longer one
LARGEST_EXPONENT = 400  # of a decimal: Spark's parser has limits beyond
_MINUS_ZERO = re.compile(rb"-0(?![\d.])")  # an integer has no sign of its zero
_LONG_NUMBER = re.compile(rb"\d{300}")
# Parts of a column that change its values, or that only Spark's parser knows
_MORE_THAN_TYPES = re.compile(r"\b(char|varchar|collate|not|generated|default)\b", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_LOCAL_TIME = re.compile(r"\d{4}-\d\d-\d\dT([01]\d|2[0-3]):\d\d:\d\d(\.\d{1,6})?", re.ASCII)
_EXACT = 1 << 53  # up to which a double holds every whole number
NOTHING = type(None)

Columns: TypeAlias = dict[str, pa.Array]
Convert: TypeAlias = Callable[[Any], Any]


class Undecided(Exception):
    """Only Spark can say what these messages are."""


class KafkaMessage(NamedTuple):
    """A message without headers. `timestamp` is in milliseconds since 1970."""

    key: bytes | None
    payload: bytes | None
    partition: int
    offset: int
    timestamp: int


def batch_of(
    messages: Sequence[KafkaMessage],
    settings: ConnectorSettings,
    schema_id: int | None,
    columns: Schema,
) -> pa.RecordBatch:
    """The columns of some messages; `schema_id`: of that under which values of Avro are read.
    Undecided where they are not certain, TaskFailure where a schema cannot be had."""
    try:
        by_name = _columns(messages, settings, schema_id, columns)
        schema = arrow_schema(columns)
    except (ValueError, ArithmeticError, RecursionError, pa.ArrowException) as e:
        raise Undecided(f"{type(e).__name__}: {e}"[:200]) from e
    arrays = [by_name.get(field.name) for field in schema]
    for field, array in zip(schema, arrays, strict=True):
        if array is None or array.type != field.type:
            raise Undecided(f"the column {field.name} has another type in messages")
    return pa.record_batch(arrays, schema=schema)


def _columns(
    messages: Sequence[KafkaMessage],
    settings: ConnectorSettings,
    schema_id: int | None,
    columns: Schema,
) -> Columns:
    if settings["format"] == "raw":
        return _raw(messages)
    values = [message.payload for message in messages]
    about = _about(messages)
    if schema_id is not None:
        return about | _avro(values, settings, schema_id)
    if _MORE_THAN_TYPES.search(settings["schema"]):
        raise Undecided("columns that are declared with more than names and types")
    own = [field for field in columns["fields"] if field["name"] not in about]
    return about | _json(values, own)


# --- messages -------------------------------------------------------------------------------------


def _raw(messages: Sequence[KafkaMessage]) -> Columns:
    return {
        "key": pa.array([message.key for message in messages], pa.binary()),
        "value": pa.array([message.payload for message in messages], pa.binary()),
        **_places(messages, ""),
    }


def _about(messages: Sequence[KafkaMessage]) -> Columns:
    keys = [None if message.key is None else message.key.decode() for message in messages]
    return {"_key": pa.array(keys, pa.string()), **_places(messages, "_")}


def _places(messages: Sequence[KafkaMessage], before: str) -> Columns:
    """The columns that all formats have, with names that begin with `before`."""
    millis = [message.timestamp for message in messages]
    if millis and min(millis) < 0:
        raise Undecided("a message without a time")
    return {
        f"{before}headers": pa.nulls(len(messages), arrow_type(HEADERS)),
        f"{before}partition": pa.array([message.partition for message in messages], pa.int32()),
        f"{before}offset": pa.array([message.offset for message in messages], pa.int64()),
        f"{before}timestamp": pa.array(millis, pa.timestamp("ms", "UTC")).cast(
            arrow_type("timestamp")
        ),
    }


# --- Avro -----------------------------------------------------------------------------------------


def _avro(values: Sequence[bytes | None], settings: ConnectorSettings, schema_id: int) -> Columns:
    registry = Registry.of(settings)
    records, errors = decoded(
        partial(written, registry), schema_id, pa.array(values, pa.binary())
    ).flatten()
    if errors.null_count < len(errors):
        raise Undecided("a value that is not of its schema")
    names = [field.name for field in records.type]
    return dict(zip(names, records.flatten(), strict=True))


# --- JSON -----------------------------------------------------------------------------------------


class _Fraction(str):
    """A number with a point or an exponent, as it is written."""

    __slots__ = ()


def _json(values: Iterable[bytes | None], columns: Sequence[Field]) -> Columns:
    rows = [_object_of(text) for text in values]
    return {
        field["name"]: _column([row.get(field["name"]) for row in rows], field["type"])
        for field in columns
    }


def _object_of(text: bytes | None) -> Mapping[str, Json]:
    """The object of a value; NULL has no columns."""
    if text is None:
        return {}
    body = text[HEAD:] if text.startswith(b"\0") else text
    if len(body) > PLAIN:
        _check_limits(body)
    if b"-0" in body and _MINUS_ZERO.search(body):
        raise Undecided("a whole number that is minus zero")
    row = _DECODER.decode(body.decode())
    if type(row) is not dict:
        raise Undecided("a value that is no object")
    return row


def _check_limits(body: bytes) -> None:
    if len(body) > LONGEST or body.count(b"[") + body.count(b"{") > DEEPEST:
        raise Undecided("a large value")
    if _LONG_NUMBER.search(body):
        raise Undecided("a long number")


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise Undecided("a key twice in an object")
    return row


def _refuse(text: str) -> Never:
    raise Undecided(f"{text} is no JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_Fraction, parse_constant=_refuse
)


def _column(values: list[Any], kind: Json) -> pa.Array:
    """Values of one column. Each has the type of JSON that the column's type has, and no other."""
    arrow = arrow_type(kind)
    types = set(map(type, values)) - {NOTHING}
    match kind:
        case "string":
            return _plain(values, types, {str}, arrow)
        case "boolean":
            return _plain(values, types, {bool}, arrow)
        case str() if kind in INTEGER_BITS:
            return _plain(values, types, {int}, arrow)
        case "double":
            return _converted(values, types, {int, _Fraction}, _double, arrow)
        case "date":
            return _converted(values, types, {str}, _date, arrow)
        case "timestamp":
            return _converted(values, types, {str}, _instant, arrow)
        case "timestamp_ntz":
            return _converted(values, types, {str}, _local_time, arrow)
        case str() if digits := decimal_digits(kind):
            convert = partial(_decimal, *digits)
            return _converted(values, types, {int, _Fraction}, convert, arrow)
        case _:
            raise Undecided(f"columns of type {kind}")


def _plain(values: list[Any], types: set[type], of: set[type], arrow: pa.DataType) -> pa.Array:
    if not types <= of:
        raise Undecided("a value of another type than its column")
    return pa.array(values, arrow)


def _converted(
    values: list[Any], types: set[type], of: set[type], convert: Convert, arrow: pa.DataType
) -> pa.Array:
    if not types <= of:
        raise Undecided("a value of another type than its column")
    return pa.array([None if cell is None else convert(cell) for cell in values], arrow)


def _double(number: int | str) -> float:
    double = float(number)
    if not isfinite(double) or (type(number) is int and abs(number) > _EXACT):
        raise Undecided("a number that no double holds")
    return double


def _decimal(precision: int, scale: int, number: int | str) -> Decimal:
    decimal = Decimal(number)
    if abs(decimal.adjusted()) > LARGEST_EXPONENT:  # also of a zero
        raise Undecided("a number with a large exponent")
    try:
        exact = decimal.quantize(Decimal(1).scaleb(-scale))
    except DecimalException as e:
        raise Undecided("a number that its column does not hold") from e
    if exact != decimal or len(exact.as_tuple().digits) > precision:
        raise Undecided("a number that its column does not hold")
    return exact


def _date(text: str) -> date:
    if not _DATE.fullmatch(text):
        raise Undecided("a date in another form")
    return date.fromisoformat(text)


def _instant(text: str) -> datetime:
    if not text.endswith("Z"):
        raise Undecided("a time without Z")
    _local_time(text[:-1])
    return datetime.fromisoformat(text)


def _local_time(text: str) -> datetime:
    if not _LOCAL_TIME.fullmatch(text):
        raise Undecided("a time in another form")
    return datetime.fromisoformat(text)
