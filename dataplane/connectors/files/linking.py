"""Parquet files that become files of a fragment as they are: linked, or copied by their store.

    day=1.parquet, as the writer of fragments would write it   ->  a file of the lake, unread
    day=2.parquet, a column is INT where the dataset has BIGINT ->  read and written by Spark

A file is taken only if all that read the lake read it as Spark does: columns, types, their form in
Parquet. Any other file is read and written. The contents of fragments are measured in both
cases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from dataplane.connectors.files.source_bytes import open_source
from dataplane.contract.claims import ParseClaim, ParseTask
from dataplane.contract.jobs import LINK, ParseJob
from dataplane.contract.schemas import Schema
from dataplane.contract.source_objects import SourceObject
from dataplane.fragments.arrow import arrow_schema
from dataplane.fragments.attempt import task_label
from dataplane.fragments.content_local import is_simple
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.fragments.task_results import delete_written
from dataplane.fragments.written import Written
from dataplane.storage.job_folders import PARQUET, fragment_folder
from dataplane.storage.lake import Lake
from dataplane.storage.source_stores import BUFFER_BYTES, StoreAccess, is_remote
from dataplane.storage.store_addresses import access_of
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    from pyarrow.parquet import ColumnChunkMetaData, FileMetaData, ParquetFile

# Writers whose statistics and types are as the format says
_WRITERS: Final = re.compile(
    r"(parquet-mr version 1\.1\d|parquet-(cpp-arrow|rs) version \d\d|delta-rs version)\b"
)
_FIELD_ID: Final = b"PARQUET:field_id"  # Arrow's name of it
_SPARK: Final = b"org.apache.spark."
# What Spark reads. Arrow also reads BROTLI and BYTE_STREAM_SPLIT
_CODECS: Final = frozenset(("UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"))
_ENCODINGS: Final = frozenset(
    (
        "PLAIN",
        "PLAIN_DICTIONARY",
        "RLE_DICTIONARY",
        "RLE",
        "BIT_PACKED",
        "DELTA_BINARY_PACKED",
        "DELTA_LENGTH_BYTE_ARRAY",
        "DELTA_BYTE_ARRAY",
    )
)
# Spark's marks of times that only Spark reads right
_LEGACY: Final = frozenset((_SPARK + b"legacyDateTime", _SPARK + b"legacyINT96"))


def link_files(attempt: SparkAttempt[ParseClaim], tasks: Sequence[ParseTask]) -> dict[str, Written]:
    """The fragments of those tasks all of whose files can be taken as they are, by label."""
    job = attempt.claim["job"]
    if not _may_link(job):
        return {}
    fragments = attempt.threads.map(lambda task: _linked(attempt, task), tasks)
    return {
        task_label(task): fragment
        for task, fragment in zip(tasks, fragments, strict=True)
        if fragment is not None
    }


def _may_link(job: ParseJob) -> bool:
    """Whether the rows of files are those of fragments: none is dropped, sorted or added to."""
    if not job.get("settings", {}).get(LINK) or job["format"] not in ("parquet", "delta"):
        return False
    is_changed = job["options"] or job["metadata"] or "expect" in job or "sort_by" in job
    return not is_changed


def _linked(attempt: SparkAttempt[ParseClaim], task: ParseTask) -> Written | None:
    job, schema = attempt.claim["job"], task["columns"]
    if not is_simple(schema) or not all(_is_alike(job, o, schema) for o in task["objects"]):
        return None
    folder = fragment_folder(attempt.prefix, task_label(task))
    files = {
        f"{folder}/source-{number:05}{PARQUET}": source["size"]
        for number, source in enumerate(task["objects"])
    }
    written = Written(schema, files)
    if not _are_taken(attempt.lake, task["objects"], files):
        delete_written(attempt.lake, [written])
        return None
    return written


def _are_taken(lake: Lake, objects: Sequence[SourceObject], paths: Iterable[str]) -> bool:
    """Whether the lake has all of these files now. A fault is that of the reader to report."""
    try:
        return all(
            lake.take_source(source["uri"], source["size"], path)
            for source, path in zip(objects, paths, strict=True)
        )
    except (OSError, TaskFailure):
        return False


def _is_alike(job: ParseJob, source: SourceObject, schema: Schema) -> bool:
    """Whether a file is as the writer of fragments would write its rows. A file that cannot be read
    is none: the reader reports it."""
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    # The lake's own credentials copy objects: the source must be read by the same ones
    if is_remote(source["uri"]) and access_of(job) != StoreAccess():
        return False
    try:
        with open_source(job, source, BUFFER_BYTES) as file, ParquetFile(file) as opened:
            return _is_as_written(opened, schema)
    except (OSError, ArrowException, TaskFailure):
        return False


def _is_as_written(file: ParquetFile, schema: Schema) -> bool:
    marks = file.metadata.metadata or {}
    if not _WRITERS.match(file.metadata.created_by or "") or _LEGACY & marks.keys():
        return False
    if marks.get(_SPARK + b"version", b"4").startswith(b"2."):
        return False
    if not all(map(_is_read_by_spark, _column_chunks(file.metadata))):
        return False
    # Readers would find columns by ids, and the table's columns have others
    columns = file.schema_arrow
    if any(_FIELD_ID in (column.metadata or {}) for column in columns):
        return False
    return bool(columns.remove_metadata().equals(arrow_schema(schema)))


def _column_chunks(metadata: FileMetaData) -> Iterator[ColumnChunkMetaData]:
    for number in range(metadata.num_row_groups):
        row_group = metadata.row_group(number)
        yield from map(row_group.column, range(row_group.num_columns))


def _is_read_by_spark(chunk: ColumnChunkMetaData) -> bool:
    return chunk.compression in _CODECS and _ENCODINGS.issuperset(chunk.encodings)
