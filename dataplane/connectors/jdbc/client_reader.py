"""Slices of a table or query as rows in Spark, read by a client of Python in Spark's workers.

Each slice is one query, whose rows come with the hashes of which versions are made. So rows and
version are of the same state, also without snapshots of the database: a slice that differs from
its listing is found by the rows themselves. All slices that are kept are those of the listing,
which is one query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType

from dataplane.connectors.jdbc.column_values import arrow_column
from dataplane.connectors.jdbc.dialect import DatabaseAddress, TableColumn
from dataplane.connectors.jdbc.jdbc_connection import connected
from dataplane.connectors.jdbc.jdbc_listing import Slice, Table, version_of
from dataplane.contract.jobs import SourceJob
from dataplane.contract.results import LABEL, TaskError
from dataplane.contract.schemas import Schema, field_of, struct_of
from dataplane.contract.source_objects import SourceObject
from dataplane.spark.spark_schemas import spark_type
from dataplane.task_failures import TaskFailure, to_driver

if TYPE_CHECKING:
    import pyarrow as pa

CONNECTIONS = 4  # at a time, where there are as many slices
BATCH_ROWS, BATCH_BYTES = 10_000, 16 << 20  # that go to Spark together


class VersionsRead(AccumulatorParam[dict[str, frozenset[str]]]):
    """The versions of the rows that were read, by the name of their slice."""

    def zero(self, _: dict[str, frozenset[str]]) -> dict[str, frozenset[str]]:
        return {}

    def addInPlace(  # noqa: N802
        self, value1: dict[str, frozenset[str]], value2: dict[str, frozenset[str]]
    ) -> dict[str, frozenset[str]]:
        for name, versions in value2.items():
            value1[name] = value1.get(name, frozenset()) | versions
        return value1


class SliceQuery(NamedTuple):
    label: str
    name: str
    query: str


@contextmanager
def reading(
    session: SparkSession, job: SourceJob, place: DatabaseAddress
) -> Iterator[ClientReader]:
    """Open for as long as rows are read."""
    with connected(place) as connection:
        table = Table.of(connection, place.dialect, job["settings"])
        versions = session.sparkContext.accumulator({}, VersionsRead())
        snapshot = place.dialect.snapshot(connection)
        yield ClientReader(session, place, table, snapshot, versions)


@dataclass(frozen=True, slots=True)
class ClientReader:
    """`dataplane.connectors.source_reader.SourceReader` for one attempt."""

    session: SparkSession
    place: DatabaseAddress
    table: Table
    snapshot: str
    versions: Accumulator[dict[str, frozenset[str]]]
    _was_read: list[bool] = field(default_factory=list)

    def schema(self, _: Sequence[SourceObject]) -> Schema:
        for column in self.table.columns:
            self.table.dialect.text("", column)  # TaskFailure for a type that is not read
        return struct_of(field_of(c.name, c.spark) for c in self.table.columns)

    def rows(self, objects: Sequence[tuple[str, SourceObject]]) -> DataFrame:
        self._was_read.append(True)
        largest_first = sorted(objects, key=lambda o: -o[1]["size"])
        queries = [
            SliceQuery(
                label, source["name"], self.table.select(Slice.of(source["uri"]), self.snapshot)
            )
            for label, source in largest_first
        ]
        frame = self.session.createDataFrame(queries, "label STRING, name STRING, query STRING")
        schema = spark_type(self.schema(())).add(LABEL, StringType())
        read = _reader(self.place, self.table.columns, self.versions)
        return frame.repartition(min(len(queries), CONNECTIONS)).mapInArrow(read, schema)

    def changed(self, objects: Sequence[SourceObject]) -> frozenset[str]:
        """Those whose rows have another version. In a growing listing nothing is compared: the rows
        of a slice are those that lie in it now."""
        if self.table.settings["by"] == "incremental" or not self._was_read:
            return frozenset()
        read: Mapping[str, frozenset[str]] = self.versions.value
        return frozenset(
            source["name"]
            for source in objects
            if read.get(source["name"], frozenset()) - {source["version"]}
        )

    def may_pass(self, _: TaskError) -> bool:
        return False  # the failure itself says so


def _reader(
    place: DatabaseAddress,
    columns: Sequence[TableColumn],
    versions: Accumulator[dict[str, frozenset[str]]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that a Python worker of Spark calls."""

    def call(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            with connected(place) as connection:
                for batch in batches:
                    for row in batch.to_pylist():
                        query = SliceQuery(row["label"], row["name"], row["query"])
                        rows = RowReader(columns, query.label)
                        yield from rows.batches(connection.stream(query.query))
                        versions.add({query.name: frozenset([rows.version])})
        except TaskFailure as failure:
            raise to_driver(failure) from failure

    return call


class RowReader:
    """Rows of one slice as Arrow batches, and their version. Behind its values a row has its
    bytes and hashes."""

    def __init__(self, columns: Sequence[TableColumn], label: str) -> None:
        self.columns, self.label = columns, label
        self.count, self.size, self.sums = 0, 0, [0, 0]

    @property
    def version(self) -> str:
        described = [(c.name, c.kind) for c in self.columns]
        return version_of((described, self.count, self.size, self.sums))

    def batches(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[pa.RecordBatch]:
        buffered: list[tuple[Any, ...]] = []
        limit = self.size + BATCH_BYTES
        for row in rows:
            self._add(row)
            buffered.append(row)
            if len(buffered) >= BATCH_ROWS or self.size >= limit:
                yield self._batch(buffered)
                buffered, limit = [], self.size + BATCH_BYTES
        if buffered:
            yield self._batch(buffered)

    def _add(self, row: tuple[Any, ...]) -> None:
        *_, size, first, second = row
        if first is None:
            message = "a row is too large for the server to hash: read less in a `query`"
            raise TaskFailure("row-too-large", message)
        self.count += 1
        self.size += int(size)
        self.sums[0] += int(first)
        self.sums[1] += int(second)

    def _batch(self, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        import pyarrow as pa

        values = list(zip(*rows, strict=True))
        arrays = [arrow_column(c, values[at]) for at, c in enumerate(self.columns)]
        arrays.append(pa.array([self.label] * len(rows), pa.string()))
        return pa.record_batch(arrays, names=[*(c.name for c in self.columns), LABEL])
