"""Events of Debezium as rows: the row after a change, or before a delete, with columns of the event.

The JSON or Avro of a message is parsed as any other. Then the envelope is taken apart:
`{before, after, source, op}`, in JSON perhaps within `{schema, payload}`.
https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-events
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from datetime import date
from hashlib import md5
from uuid import UUID

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from dataplane.connectors.kafka.event_columns import EVENT, OF_SOURCE

OPS = ("c", "r", "u", "d", "t")
PRECISE = "org.apache.kafka.connect.data.Decimal"  # a schema's name for decimals in base64
_TIMES = (DateType, TimestampType, TimestampNTZType)
_DAY = r"[+-]?\d{4,}-\d\d-\d\d"
# Texts of times in ISO 8601: Spark's casts accept others, and guess or forget a part of them
_TEXT_OF: Mapping[type[DataType], str] = {
    DateType: rf"\A{_DAY}\z",
    TimestampType: rf"\A{_DAY}[T ]\d\d:.*\z",
    TimestampNTZType: rf"\A{_DAY}[T ]\d\d:[\d:.]+Z?\z",
}
# What PostgreSQL's connector writes for a large value (TOAST) that an update did not change
UNAVAILABLE = b"__debezium_unavailable_value"
_UNAVAILABLE_TEXTS = (
    UNAVAILABLE.decode(),
    b64encode(UNAVAILABLE).decode(),
    UNAVAILABLE.hex(),
    json.dumps({UNAVAILABLE.decode(): UNAVAILABLE.decode()}, separators=(",", ":")),  # hstore
    str(UUID(bytes=md5(UNAVAILABLE, usedforsecurity=False).digest(), version=3)),
)


def envelope(rows: StructType) -> StructType:
    """The type of a message in JSON whose rows have these columns. Times are read as texts, since
    Spark would take a number for seconds."""
    row = StructType([StructField(f.name, _type_in_json(f.dataType)) for f in rows])
    source = StructType()
    for field, kind in OF_SOURCE.values():
        source = source.add(field, kind)
    event = StructType().add("before", row).add("after", row).add("source", source)
    event = event.add("op", "string")
    message = StructType([*event.fields, StructField("payload", event)])
    return message.add("schema", "string") if _decimals(rows) else message


def opened(answer: Column, message: StructType, rows: StructType) -> tuple[StructType, Column]:
    """The columns of rows with those of their events, and `{value, error}` of these columns.
    `answer`: `{value, error}` of a message of this type."""
    event = _event(answer["value"], message)
    row = F.when(event["op"] == "d", event["before"]).otherwise(event["after"])
    columns = {f.name: _column(row, f, message) for f in rows}
    fields = [column.alias(name) for name, column in columns.items()]
    fields += [event["op"].alias(EVENT[0]), *_of_source(event["source"], message)]
    error = F.coalesce(
        answer["error"],
        _fault(event, row),
        _refused_decimals(answer["value"], message, rows),
        *(_refused_placeholder(row[f.name], f) for f in rows if _may_be_large(f.dataType)),
        *(_refused_time(row[f.name], columns[f.name], f) for f in rows if _is_text(f, message)),
    )
    kind = StructType([*rows.fields, *_event_type().fields])
    columns_of_row = F.struct(*fields).cast(kind)
    return kind, F.struct(columns_of_row.alias("value"), error.alias("error"))


def _event(parsed: Column, message: StructType) -> Column:
    parts = [parsed[name].alias(name) for name in ("before", "after", "source", "op")]
    event = F.struct(*parts)
    return F.coalesce(parsed["payload"], event) if "payload" in message.names else event


def _fault(event: Column, row: Column) -> Column:
    op = event["op"]
    side = F.when(op == "d", F.lit("before")).otherwise(F.lit("after"))
    unknown = F.concat(
        F.lit("it is no event of Debezium: its op is "), F.coalesce(op, F.lit("missing"))
    )
    rowless = F.concat(F.lit("an event with op "), op, F.lit(" has no row in "), side)
    return F.when(~F.coalesce(op.isin(*OPS), F.lit(False)), unknown).when(
        (op != "t") & row.isNull(), rowless
    )


def _of_source(source: Column, message: StructType) -> list[Column]:
    """A field that the database lacks is NULL."""
    kind = message["source"].dataType if "source" in message.names else None
    names = kind.names if isinstance(kind, StructType) else []
    columns = []
    for column, (field, type_name) in OF_SOURCE.items():
        part = source[field] if field in names else F.lit(None)
        typed = part.cast(type_name)
        columns.append((F.timestamp_millis(typed) if field == "ts_ms" else typed).alias(column))
    return columns


def _event_type() -> StructType:
    kind = StructType().add(EVENT[0], "string")
    for column, (field, type_name) in OF_SOURCE.items():
        kind = kind.add(column, "timestamp" if field == "ts_ms" else type_name)
    return kind


# --- types in JSON --------------------------------------------------------------------------------


def _type_in_json(kind: DataType) -> DataType:
    return StringType() if isinstance(kind, _TIMES) else kind


def _is_text(field: StructField, message: StructType) -> bool:
    """Whether a column of times is read as text."""
    return "payload" in message.names and isinstance(field.dataType, _TIMES)


def _column(row: Column, field: StructField, message: StructType) -> Column:
    text = row[field.name]
    if not _is_text(field, message):
        return text
    if isinstance(field.dataType, DateType):
        days = F.date_add(F.lit(date(1970, 1, 1)), text.try_cast("int"))
        return F.when(_is_number(text), days).otherwise(_time(text, field.dataType))
    return _time(text, field.dataType)


def _time(text: Column, kind: DataType) -> Column:
    return F.when(text.rlike(_TEXT_OF[type(kind)]), text.try_cast(kind))


def _is_number(text: Column) -> Column:
    return text.rlike(r"\A-?\d+\z")


def _refused_time(text: Column, time: Column, field: StructField) -> Column:
    """An error for a text that is no value of its column."""
    kind = field.dataType.simpleString().upper()
    words = f"column {field.name} is {kind}, and its value is "
    hint = F.when(
        _is_number(text), "; declare BIGINT: the connector says whether it counts ms, us or ns"
    ).otherwise("")
    message = F.concat(F.lit(words), F.left(text, F.lit(40)), hint)
    return F.when(text.isNotNull() & time.isNull(), message)


def _may_be_large(kind: DataType) -> bool:
    return isinstance(kind, StringType | BinaryType | ArrayType | MapType)


def _refused_placeholder(column: Column, field: StructField) -> Column:
    """An error for a large value that the event lacks."""
    words = (
        f"column {field.name} is a large value that the event lacks, as it did not change: "
        "ALTER TABLE ... REPLICA IDENTITY FULL in PostgreSQL"
    )
    return F.when(_is_placeholder(column, field.dataType), words)


def _is_placeholder(column: Column, kind: DataType) -> Column:
    match kind:
        case StringType():
            return column.isin(*_UNAVAILABLE_TEXTS)
        case BinaryType():
            return column == F.lit(UNAVAILABLE)
        case MapType(keyType=StringType()):
            return F.map_contains_key(column, F.lit(UNAVAILABLE.decode()))
        case ArrayType(elementType=IntegralType()):
            return column == F.lit([*UNAVAILABLE]).cast(kind)
        case ArrayType(elementType=element) if _may_be_large(element):
            return F.exists(column, lambda part: _is_placeholder(part, element))
    return F.lit(False)


def _decimals(rows: StructType) -> list[str]:
    """Columns with decimals, also within arrays and structs."""
    return [field.name for field in rows if "decimal(" in field.dataType.simpleString()]


def _refused_decimals(parsed: Column, message: StructType, rows: StructType) -> Column:
    """An error where the schema beside the event says that decimals are in base64. Such a text may
    look like a number."""
    if "schema" not in message.names:
        return F.lit(None).cast("string")
    words = (
        f"decimals in base64 for {', '.join(_decimals(rows))}: set decimal.handling.mode=string "
        "in the connector of Debezium"
    )
    return F.when(F.contains(parsed["schema"], F.lit(PRECISE)), words)
