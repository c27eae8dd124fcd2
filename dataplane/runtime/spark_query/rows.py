"""Rows of Spark as an Arrow stream, a partition after the other, as fast as they are taken.

Does not belong here: pages of a stream that is stored (`query.results`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.serializers import FramedSerializer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    CalendarIntervalType,
    DataType,
    DayTimeIntervalType,
    NullType,
    StructType,
    VariantType,
    YearMonthIntervalType,
)
from pyspark.util import _local_iterator_from_socket

from dataplane.contract.queries import Ran
from dataplane.errors import TaskFailure
from dataplane.query.results import SQL_TYPE

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

AS_TEXT = (NullType, CalendarIntervalType, DayTimeIntervalType, YearMonthIntervalType)


def write(found: DataFrame, out: BinaryIO, limit: int | None) -> Ran:
    """The rows of a query. No more than one beyond the limit are computed. Raises TaskFailure for a column that has no
    form here."""
    plain = _plain(found)
    schema = _schema(found.schema, plain)
    rows = plain if limit is None else plain.limit(limit + 1)
    written, more = 0, False
    with pa.ipc.new_stream(out, schema) as stream:
        for batch in _batches(rows, schema):
            left = batch.num_rows if limit is None else min(batch.num_rows, limit - written)
            more = more or left < batch.num_rows
            if left:
                stream.write_batch(batch.slice(0, left))
            written += left
    return {"rows": written, "more": more}


def _plain(found: DataFrame) -> DataFrame:
    """Columns by their places, as two may have one name; values that Arrow has no type for as text."""
    placed = found.toDF(*(f"c{at}" for at in range(len(found.columns))))
    return placed.select(*(_value(placed, f.name, f.dataType).alias(f.name) for f in placed.schema))


def _value(rows: DataFrame, name: str, kind: DataType) -> Any:
    if isinstance(kind, VariantType):
        return F.to_json(rows[name])
    if isinstance(kind, AS_TEXT):
        return rows[name].cast("string")
    return rows[name]


def _schema(told: StructType, plain: DataFrame) -> pa.Schema:
    fields = []
    for field, shown in zip(told, plain.schema, strict=True):
        try:
            (found,) = to_arrow_schema(StructType([shown]), timezone="UTC")
        except PySparkException as e:
            message = (
                f"the column {field.name} is {field.dataType.simpleString()}, which cannot be shown: name its parts"
            )
            raise TaskFailure("UNSUPPORTED_DATATYPE", message) from e
        kind = {SQL_TYPE: field.dataType.simpleString().encode()}
        fields.append(pa.field(field.name, found.type, nullable=True, metadata=kind))
    return pa.schema(fields)


class _Bytes(FramedSerializer):
    """What was serialized already."""

    def dumps(self, obj: Any) -> bytes:
        return bytes(obj)

    def loads(self, obj: bytes) -> bytes:
        return obj


def _batches(rows: DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """A partition is computed when the one before it was taken, so what is held does not grow with the rows."""
    jvm = rows.sparkSession._jvm
    assert jvm is not None
    encoded: JavaObject = rows._jdf.toArrowBatchRdd()
    served = jvm.org.apache.spark.api.python.PythonRDD.toLocalIteratorAndServe(encoded, False)
    for piece in _local_iterator_from_socket(served, _Bytes()):
        yield pa.ipc.read_record_batch(pa.py_buffer(piece), schema)
