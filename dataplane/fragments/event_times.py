"""The newest event times of a file with messages of a topic, by partition of the topic.

The watermark of a dataset is made of them (`controlplane.core.plan.event_watermarks`). They are measured
in files as they were written, so a driver and a worker say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from dataplane.contract.jobs import EventTimeRule
from dataplane.contract.results import FileEntry, MeasuredTimes
from dataplane.contract.schemas import Schema, field_types
from dataplane.storage.lake import Lake

PARTITION, APPENDED = "_partition", "_timestamp"
TYPES = ("timestamp", "timestamp_ntz")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS = pa.timestamp("us", "UTC")


def event_times(
    lake: Lake, file: FileEntry, schema: Schema, rule: EventTimeRule, listed_ms: int
) -> MeasuredTimes | None:
    """`listed_ms`: when the messages were listed, in milliseconds since 1970; 0: not known. None
    where the column is no time."""
    if field_types(schema).get(rule["column"]) not in TYPES:
        return None
    newest: dict[str, int] = {}
    ahead = 0
    columns = list(dict.fromkeys((PARTITION, APPENDED, rule["column"])))
    source = lake.open(file["path"], file["size"])
    with pyarrow.parquet.ParquetFile(source) as parquet:
        for batch in parquet.iter_batches(columns=columns, use_threads=False):
            ahead += _add(newest, batch, rule, listed_ms)
    times: MeasuredTimes = {
        "column": rule["column"],
        "listed_ms": listed_ms,
        "newest_us": newest,
        "ahead": ahead,
    }
    return times


def _add(newest: dict[str, int], batch: pa.RecordBatch, rule: EventTimeRule, listed_ms: int) -> int:
    """Take in the times of some rows. Gives the number of rows that are too far ahead."""
    times = batch.column(rule["column"]).cast(_MICROSECONDS)
    limit = _limit(batch, rule, listed_ms)
    is_ahead = pc.fill_null(pc.greater(times, limit), False)
    rows = pa.table({"partition": batch.column(PARTITION), "at": times.cast(pa.int64())})
    counted = rows.filter(pc.invert(is_ahead))
    for row in counted.group_by("partition").aggregate([("at", "max")]).to_pylist():
        _raise(newest, row)
    return int(pc.sum(is_ahead).as_py() or 0)


def _limit(batch: pa.RecordBatch, rule: EventTimeRule, listed_ms: int) -> Any:
    """The latest time that counts: for all rows, where it is known when they were listed."""
    allowed = timedelta(seconds=rule["max_ahead_s"])
    if listed_ms:
        return pa.scalar(_EPOCH + timedelta(milliseconds=listed_ms) + allowed, _MICROSECONDS)
    return pc.add(batch.column(APPENDED).cast(_MICROSECONDS), pa.scalar(allowed, pa.duration("us")))


def _raise(newest: dict[str, int], row: Mapping[str, int | None]) -> None:
    partition, at_us = str(row["partition"]), row["at_max"]
    if at_us is not None:
        newest[partition] = max(newest.get(partition, at_us), at_us)
