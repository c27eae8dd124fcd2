"""Rows of data files: pyiceberg reads them in Spark's Python workers, by field id, and applies the
deletes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyiceberg.conversions import from_json
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType

from dataplane.connectors.iceberg.deleted_positions import deleted_positions
from dataplane.connectors.iceberg.iceberg_listing import version_of
from dataplane.connectors.iceberg.null_projection import keep_nulls
from dataplane.connectors.iceberg.open_table import IcebergTable, open_table
from dataplane.connectors.iceberg.stored_files import StoreFiles
from dataplane.connectors.iceberg.table_types import has_texts, unheld, with_texts
from dataplane.contract.jobs import SourceJob
from dataplane.contract.results import LABEL, TaskError
from dataplane.contract.schemas import Json, Schema, canonical_schema, struct_of
from dataplane.contract.source_objects import NESTED, SourceObject
from dataplane.listing.local_files import THREADS
from dataplane.spark.spark_schemas import spark_type
from dataplane.task_failures import TaskFailure

MOST_PARTS = 200  # of a Spark job


@contextmanager
def reading(session: SparkSession, job: SourceJob) -> Iterator[IcebergReading]:
    """TaskFailure where the table is not there."""
    yield IcebergReading(session, open_table(job, job["location"]))


@dataclass(frozen=True, slots=True)
class IcebergReading:
    """One table, as it was when reading began."""

    session: SparkSession
    table: IcebergTable

    def schema(self, objects: Sequence[SourceObject]) -> Schema:
        """The table's columns, as far as one of these has them; of no file at all, all of them.
        TaskFailure for a column that no type of Spark holds."""
        for field in self.table.schema.fields:
            if words := unheld(field.field_type):
                message = f"the column {field.name} has the type {words}, which Spark cannot hold"
                raise TaskFailure("not-supported", f"{message}: declare `schema:` without it")
        have = {name for source in objects for name in source["columns"] or ()}
        fields = [f for f in self.table.fields if not objects or f["name"] in have]
        return canonical_schema(struct_of(fields))

    def changed(self, objects: Sequence[SourceObject]) -> frozenset[str]:
        """Files that are gone, and those whose columns have other names by now."""
        with ThreadPoolExecutor(THREADS) as threads:
            checks = zip(objects, threads.map(self._is_as_listed, objects), strict=True)
            return frozenset(source["name"] for source, is_same in checks if not is_same)

    def _is_as_listed(self, source: SourceObject) -> bool:
        names = {f["name"] for f in self.table.fields}
        if any(name not in names for name in source["columns"] or () if NESTED not in name):
            return False
        if version_of(self.table.fields, source) != source["version"]:
            return False
        detail = source["detail"]
        paths = [detail["path"], *(path for path, _ in detail["deletes"])]
        return all(self.table.files.new_input(path).exists() for path in paths)

    def may_pass(self, _: TaskError) -> bool:
        return False

    def rows(self, objects: Sequence[tuple[str, SourceObject]]) -> DataFrame:
        """Rows with all the table's columns that Spark can hold, and the label."""
        for _, source in objects:
            for path in (source["detail"]["path"], *(p for p, _ in source["detail"]["deletes"])):
                self.table.files.check_place(path)
        work = [(label, json.dumps(_facts(source))) for label, source in objects]
        files = self.session.createDataFrame(work, f"{LABEL} STRING, file STRING")
        schema = spark_type(canonical_schema(struct_of(self.table.fields)))
        schema = schema.add(LABEL, StringType())
        read = _file_reader(self.table, to_arrow_schema(schema, timezone="UTC"))
        return files.repartition(min(len(work), MOST_PARTS)).mapInArrow(read, schema)


def _facts(source: SourceObject) -> Json:
    return {**source["detail"], "size": source["size"]}


def _file_reader(table: IcebergTable, arrow: Any) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function that a Python worker calls. Only texts are sent to it."""
    metadata, columns = _without_history(table.metadata), _held_columns(table.schema)
    properties = dict(table.files.properties)

    def call(batches: Iterator[Any]) -> Iterator[Any]:
        keep_nulls()
        scan = _scan(metadata, properties, columns)
        for batch in batches:
            for row in batch.to_pylist():
                facts = json.loads(row["file"])
                task, path = _task(scan._table_metadata, facts), facts["path"]
                deletes = {path: deleted_positions(scan._io, path, facts["deletes"])}
                # `to_record_batches` would hold all rows of the file at once
                for read in scan._record_batches_from_scan_tasks_and_deletes([task], deletes):
                    yield _as_spark(read, row[LABEL], scan._projected_schema, arrow)

    return call


def _without_history(metadata: TableMetadata) -> str:
    """The metadata as JSON, without what may be long and reads no file."""
    own = metadata.model_dump(mode="json", by_alias=True, exclude_none=True)
    history = ("snapshots", "refs", "snapshot-log", "metadata-log", "current-snapshot-id")
    return json.dumps({name: part for name, part in own.items() if name not in history})


def _held_columns(schema: IcebergSchema) -> str:
    held = [field for field in schema.fields if not unheld(field.field_type)]
    return IcebergSchema(*held, schema_id=schema.schema_id).model_dump_json()


def _scan(metadata: str, properties: Mapping[str, str], columns: str) -> ArrowScan:
    return ArrowScan(
        TableMetadataUtil.parse_raw(metadata),
        StoreFiles(dict(properties)),
        IcebergSchema.model_validate_json(columns),
        AlwaysTrue(),
    )


def _task(metadata: TableMetadata, facts: Json) -> FileScanTask:
    """What a manifest says of a data file, as far as it takes to read the rows."""
    values = list[Json]()
    for field, part in zip(metadata.specs()[facts["spec"]].fields, facts["partition"], strict=True):
        kind = None if part is None else metadata.schema().find_type(field.source_id)
        values.append(from_json(kind, part) if isinstance(kind, PrimitiveType) else None)
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=facts["path"],
        file_format=FileFormat.PARQUET,
        partition=Record(*values),
        record_count=facts["rows"],
        file_size_in_bytes=facts["size"],
    )
    file.spec_id = facts["spec"]
    return FileScanTask(file)


def _as_spark(batch: Any, label: str, columns: IcebergSchema, arrow: Any) -> Any:
    import pyarrow as pa

    arrays = []
    for array, kind, field in zip(batch.columns, arrow.types, columns.fields, strict=False):
        if has_texts(field.field_type):
            arrays.append(pa.array([with_texts(v) for v in array.to_pylist()], kind))
        else:
            arrays.append(array.cast(kind))
    arrays.append(pa.repeat(pa.scalar(label, arrow.field(LABEL).type), len(batch)))
    return pa.RecordBatch.from_arrays(arrays, schema=arrow)
