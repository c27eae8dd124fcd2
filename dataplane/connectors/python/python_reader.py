"""Rows of objects that a user's own code reads: `read(context, object)`, called in Spark's Python
workers."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, DateType, FloatType, IntegralType, StringType, StructType

from dataplane.connectors.python.python_listing import Object, SourceContext, objects_of, user_code
from dataplane.contract.jobs import SourceJob
from dataplane.contract.results import LABEL, TaskError
from dataplane.contract.schemas import Schema
from dataplane.contract.source_objects import SourceObject
from dataplane.fragments.attempt import Failed
from dataplane.spark.spark_errors import ErrorSource, explain
from dataplane.spark.spark_schemas import schema_of
from dataplane.task_failures import TaskFailure
from dataplane.transform.bundle import Bundle

AT_A_TIME = 10_000  # rows that go to Spark together
LARGEST_FLOAT = 3.4028235677973366e38  # from here on a 32-bit one is infinite


@contextmanager
def reading(session: SparkSession, job: SourceJob) -> Iterator[PythonReading]:
    with user_code(job["settings"]) as (bundle, context):
        try:
            yield PythonReading(session, job, bundle, context)
        except (TaskFailure, Failed):
            raise
        except (Exception, SystemExit) as e:
            raise Failed(explain(e, ErrorSource(files=bundle.files, reads="sources"))) from e


@dataclass(frozen=True, slots=True)
class PythonReading:
    session: SparkSession
    job: SourceJob
    bundle: Bundle
    context: SourceContext
    _was_read: list[bool] = field(default_factory=list)

    @property
    def files(self) -> Mapping[str, str]:
        return self.bundle.files

    @property
    def _schema(self) -> StructType:
        schema = StructType.fromDDL(self.job["settings"]["schema"])
        assert isinstance(schema, StructType)
        return schema

    def schema(self, _: Sequence[SourceObject]) -> Schema:
        """The declared schema: rows of a program have no columns of their own."""
        return schema_of(self._schema)

    def changed(self, objects: Sequence[SourceObject]) -> frozenset[str]:
        """Those that the code lists otherwise by now. Empty before the first read: they were just
        listed."""
        if not self._was_read:
            return frozenset()
        now = {source["name"]: source["version"] for _, source in objects_of(self.job)}
        return frozenset(
            source["name"] for source in objects if now.get(source["name"]) != source["version"]
        )

    def may_pass(self, _: TaskError) -> bool:
        return False

    def rows(self, objects: Sequence[tuple[str, SourceObject]]) -> DataFrame:
        """The rows of all objects, which Spark's workers share."""
        self._was_read.append(True)
        sources = [
            (
                label,
                source["name"],
                source["version"].partition(":")[2],
                json.dumps(source["detail"]),
            )
            for label, source in objects
        ]
        objects_frame = self.session.createDataFrame(
            sources, f"{LABEL} STRING, name STRING, version STRING, detail STRING"
        )
        schema = self._schema.add(LABEL, StringType())
        read = _reader(self.bundle.load().read, self.context, schema)
        return objects_frame.repartition(min(len(sources), 200)).mapInArrow(read, schema)


def _reader(
    read: Callable[[SourceContext, Object], Iterable[Any]],
    context: SourceContext,
    schema: StructType,
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function that a Python worker calls. Rows are mappings, by the names of columns; another
    name is an error."""
    columns, arrow = frozenset(schema.names), to_arrow_schema(schema, timezone="UTC")
    lossy = [
        (c.name, c.dataType)
        for c in schema
        if isinstance(c.dataType, IntegralType | DateType | FloatType)
    ]

    def call(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        def of(label: str, listed: Object) -> Iterator[dict[str, Any]]:
            for row in read(context, listed):
                if not isinstance(row, Mapping):
                    raise TypeError(
                        f"read has to give rows as mappings, not {type(row).__name__}: {listed.name}"
                    )
                if strange := sorted(map(str, row.keys() - columns)):
                    raise ValueError(
                        f"{listed.name}: a row has {strange[0]!r}, which the schema has not"
                    )
                for name, kind in lossy:
                    if is_cut_off(row.get(name), kind):
                        place = f"{listed.name}: {row[name]!r} in column {name}"
                        raise ValueError(f"{place} does not fit its type {kind.simpleString()}")
                yield {**row, LABEL: label}

        for batch in batches:
            for row in batch.to_pylist():
                rows = of(
                    row[LABEL], Object(row["name"], row["version"], json.loads(row["detail"]))
                )
                while some := list(islice(rows, AT_A_TIME)):
                    yield pa.RecordBatch.from_pylist(some, schema=arrow)

    return call


def is_cut_off(value: object, kind: DataType) -> bool:
    """Whether Arrow makes another value of this one without a word."""
    match kind, value:
        case IntegralType(), float() | Decimal():
            return value % 1 != 0
        case DateType(), datetime.datetime():
            return value.time() != datetime.time.min
        case FloatType(), float():
            return math.isfinite(value) and abs(value) >= LARGEST_FLOAT
        case _:
            return False
