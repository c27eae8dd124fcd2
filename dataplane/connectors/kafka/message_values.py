"""The values of messages: columns of JSON or Avro, perhaps within events of Debezium, and why a
value has none."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import cast

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import StructType

from dataplane.connectors.files.json_texts import goes_on, loses
from dataplane.connectors.files.reader_options import CORRUPT, RECORD_TEXT
from dataplane.connectors.kafka import debezium
from dataplane.connectors.kafka.avro import HEAD, decoded, written
from dataplane.connectors.kafka.event_columns import row_schema
from dataplane.connectors.kafka.schema_registry import Registry
from dataplane.contract.jobs import ConnectorSettings
from dataplane.fragments.content import quoted
from dataplane.fragments.spark.row_conditions import RECORD_CHARACTERS
from dataplane.spark.spark_schemas import spark_type
from dataplane.task_failures import TaskFailure, to_driver

VALUE = "__headgate_value"
MOST_BYTES = 2**31 - 1


def shaped(
    messages: DataFrame, settings: ConnectorSettings, schema: int | None, *others: str, drops: bool
) -> DataFrame:
    """The columns of messages, and `others`. `schema`: the id of that under which values of Avro
    are read. With `drops` a value that is none has a reason in the column `CORRUPT`, and its text
    in `RECORD_TEXT`; its own columns are NULL. Else it is an error."""
    if settings["format"] == "raw":
        raw = ("key", "value", "headers", "partition", "offset", "timestamp")
        return messages.select(*map(F.col, raw), *others)
    kind, parsed = _parsed(messages, settings, schema, drops=drops)
    only = _required(kind)
    if drops:
        error = F.col(f"{VALUE}.error")
        own_bytes = _unframed(F.col("value")) if schema is None else F.col("value")
        parsed = parsed.withColumns({CORRUPT: error, RECORD_TEXT: _text(own_bytes)})
        others = (*others, CORRUPT, RECORD_TEXT)
        only = F.when(error.isNull(), F.col(f"{VALUE}.value"))
    own = [F.col(f"{VALUE}.{quoted(f.name)}") for f in kind]
    return parsed.withColumn(VALUE, only).select(*own, *_about(), *others)


def _parsed(
    messages: DataFrame, settings: ConnectorSettings, schema: int | None, *, drops: bool
) -> tuple[StructType, DataFrame]:
    """The columns of values, and messages with `{value, error}`. Events give the columns of rows;
    the messages without a value that follow deletes are left out."""
    jvm = messages.sparkSession.sparkContext
    of_events = settings["format"] == "debezium"
    if schema is None:
        rows, kind, parsed = _json(jvm, settings["schema"], drops=drops, of_events=of_events)
    else:
        rows, kind, parsed = _avro(settings, schema, of_events=of_events)
    if not of_events:
        return kind, messages.withColumn(VALUE, parsed)
    events = messages.where(F.col("value").isNotNull()).withColumn(VALUE, parsed)
    columns, row = debezium.opened(F.col(VALUE), kind, rows)
    return columns, events.withColumn(VALUE, row)


def _required(kind: StructType) -> Column:
    """The value, or an error that names its message."""
    where = F.concat(
        F.lit("partition "), F.col("partition"), F.lit(", offset "), F.col("offset"), F.lit(": ")
    )
    refused = F.raise_error(F.concat(where, F.col(f"{VALUE}.error"))).cast(kind)
    return F.when(F.col(f"{VALUE}.error").isNotNull(), refused).otherwise(F.col(f"{VALUE}.value"))


def _avro(
    settings: ConnectorSettings, schema: int, *, of_events: bool
) -> tuple[StructType, StructType, Column]:
    """As `_json`."""
    registry = Registry.of(settings)
    columns = written(registry, schema).columns
    kind = spark_type(columns)
    rows = spark_type(row_schema(columns)) if of_events else kind

    def decode(values):  # type: ignore[no-untyped-def]  # Spark would read its hints
        try:
            return decoded(partial(written, registry), schema, values)
        except TaskFailure as e:
            raise to_driver(e) from e

    # Not deterministic for Spark's optimizer, so that nothing is decoded twice.
    answer_type = StructType().add("value", kind).add("error", "string")
    column = arrow_udf(decode, answer_type)  # type: ignore[call-overload]  # its hints forget structs
    return rows, kind, column.asNondeterministic()(F.col("value"))


@lru_cache(maxsize=64)
def _json(
    jvm: SparkContext,  # noqa: ARG001  # in which the column is
    columns: str,
    *,
    drops: bool,
    of_events: bool,
) -> tuple[StructType, StructType, Column]:
    """The types of these columns and of values, and a column of values that `shaped` takes apart.
    It is built once: each of its expressions is some calls of the JVM."""
    rows = cast("StructType", StructType.fromDDL(columns))
    kind = debezium.envelope(rows) if of_events else rows
    text = _unframed(F.col("value")).cast("string")
    mode = (
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        if drops
        else {"mode": "FAILFAST"}
    )
    value = F.from_json(
        text, StructType([*kind.fields]).add(CORRUPT, "string") if drops else kind, mode
    )
    wrong = (  # of which Spark says nothing
        F.when(text.rlike(r"\A\s*\z"), "it is empty")
        .when(~F.is_valid_utf8(text), "it is no UTF-8")
        .when(goes_on(text), "something stands behind its first value")
        .when(
            loses(text, value, kind),
            "a number has more digits than its column, or is too large for it",
        )
    )
    error = F.coalesce(value[CORRUPT], wrong) if drops else wrong
    return rows, kind, F.struct(value.alias("value"), error.alias("error"))


def _unframed(value: Column) -> Column:
    """Without the zero and the id of a schema that serializers with a registry put in front: no
    JSON begins so."""
    is_framed = F.substring(value, 1, 1) == F.lit(b"\0")
    return F.when(is_framed, F.substring(value, HEAD + 1, MOST_BYTES)).otherwise(value)


def _text(own_bytes: Column) -> Column:
    """The bytes of a value as text. If they are no UTF-8, or have a zero as those of Avro, they are
    hexadecimal digits: 0x00FF."""
    text = own_bytes.cast("string")
    digits = F.hex(F.substring(own_bytes, 1, RECORD_CHARACTERS // 2))
    is_text = F.is_valid_utf8(text) & ~text.contains("\0")
    return F.when(is_text, text).otherwise(F.concat(F.lit("0x"), digits))


def _about() -> list[Column]:
    """The metadata of a message: key, headers, partition, offset, timestamp."""
    return [
        F.col("key").cast("string").alias("_key"),
        F.col("headers").alias("_headers"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("timestamp").alias("_timestamp"),
    ]
