"""Rows of Spark as an Arrow stream, as fast as they are taken: few from its memory, many from files
of its own."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
from pyarrow.parquet import ParquetFile
from pyspark.errors import PySparkException
from pyspark.serializers import FramedSerializer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.classic.column import _to_java_column
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

from dataplane.contract.query_protocol import Ran
from dataplane.fragments.arrow import AS_STORED, bounded_batches
from dataplane.query.query_results import SQL_TYPE
from dataplane.spark.plan_trees import nodes_of
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

FEW_ROWS = 10_000
SORT = "org.apache.spark.sql.catalyst.plans.logical.Sort"
AS_TEXT = (NullType, CalendarIntervalType, DayTimeIntervalType, YearMonthIntervalType)


def write(
    frame: DataFrame, out: BinaryIO, limit: int | None, scratch: Path, check: Callable[[], None]
) -> Ran:
    """The rows of a query. No more than one beyond the limit are computed. `scratch`: a folder for
    many rows, which is not there yet. `check` raises where the query is to end. Raises TaskFailure
    for a column that has no form here."""
    plain = _plain(frame)
    schema = _schema(frame.schema, plain)
    rows = plain if limit is None else _first(plain, limit + 1)
    is_small = limit is not None and limit <= FEW_ROWS
    batches = _collected(rows, schema) if is_small else _spooled(rows, schema, scratch)
    written, has_more = 0, False
    with pa.ipc.new_stream(out, schema) as stream, closing(batches):
        for batch in batches:
            check()
            left = batch.num_rows if limit is None else min(batch.num_rows, limit - written)
            has_more = has_more or left < batch.num_rows
            if left:
                stream.write_batch(batch.slice(0, left))
            written += left
            if has_more:
                break
    return {"rows": written, "more": has_more}


def _first(rows: DataFrame, limit: int) -> DataFrame:
    """At least so many of the first rows. Without an order each partition gives its own: partitions
    run one after the other, and only those that are needed."""
    session = rows.sparkSession
    plan, jvm = rows._jdf.queryExecution().analyzed(), session._jvm
    assert jvm is not None
    if nodes_of(session, plan).of(SORT):
        return rows.limit(limit)
    number = session._jsparkSession.expression(_to_java_column(F.lit(limit)))
    limited = jvm.org.apache.spark.sql.catalyst.plans.logical.LocalLimit(number, plan)
    return DataFrame(
        jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, limited), session
    )


def _plain(frame: DataFrame) -> DataFrame:
    """Columns by their places, as two may have one name; values that Arrow has no type for as
    text."""
    placed = frame.toDF(*(f"c{at}" for at in range(len(frame.columns))))
    return placed.select(*(_value(placed, f.name, f.dataType).alias(f.name) for f in placed.schema))


def _value(rows: DataFrame, name: str, kind: DataType) -> Any:
    if isinstance(kind, VariantType):
        return F.to_json(rows[name])
    if isinstance(kind, AS_TEXT):
        return rows[name].cast("string")
    return rows[name]


def _schema(spark_schema: StructType, plain: DataFrame) -> pa.Schema:
    fields = []
    for field, shown in zip(spark_schema, plain.schema, strict=True):
        try:
            (arrow_field,) = to_arrow_schema(StructType([shown]), timezone="UTC")
        except PySparkException as e:
            message = (
                f"the column {field.name} is {field.dataType.simpleString()}, which cannot be shown: name "
                "its parts"
            )
            raise TaskFailure("UNSUPPORTED_DATATYPE", message) from e
        kind = {SQL_TYPE: field.dataType.simpleString().encode()}
        fields.append(pa.field(field.name, arrow_field.type, nullable=True, metadata=kind))
    return pa.schema(fields)


class _Bytes(FramedSerializer):
    """A serializer for values that are bytes already."""

    def dumps(self, obj: Any) -> bytes:
        return bytes(obj)

    def loads(self, obj: bytes) -> bytes:
        return obj


def _collected(rows: DataFrame, schema: pa.Schema) -> Generator[pa.RecordBatch, None, None]:
    """A partition after the other, each of which the JVM holds."""
    jvm = rows.sparkSession._jvm
    assert jvm is not None
    encoded: JavaObject = rows._jdf.toArrowBatchRdd()
    served = jvm.org.apache.spark.api.python.PythonRDD.toLocalIteratorAndServe(encoded, False)
    for piece in _local_iterator_from_socket(served, _Bytes()):
        yield pa.ipc.read_record_batch(pa.py_buffer(piece), schema)


def _spooled(
    rows: DataFrame, schema: pa.Schema, scratch: Path
) -> Generator[pa.RecordBatch, None, None]:
    """The rows by way of files, so that memory does not grow with the rows. Names of files are in
    the order of the rows."""
    rows.write.parquet(scratch.as_uri())
    try:
        for path in sorted(scratch.glob("part-*.parquet")):
            with ParquetFile(path, **AS_STORED) as file:
                for batch in bounded_batches(file, path, AS_STORED):
                    columns = [
                        column.cast(f.type) for column, f in zip(batch.columns, schema, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)
            path.unlink()
    finally:
        rmtree(scratch, ignore_errors=True)
