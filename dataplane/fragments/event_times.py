"""Event times of a file with messages of a topic, by partition of the topic.

The watermark of a dataset is made of the newest ones (`controlplane.core.plan.event_watermarks`);
the others say whether a row may be late (`plan.transform.late_slices`). They are measured in files as
they were written, so a driver and a worker say the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from dataplane.contract.jobs import EventTimeRule
from dataplane.contract.results import FileEntry, MeasuredTimes
from dataplane.contract.schemas import EVENT_TIME_TYPES, Schema, field_types
from dataplane.storage.lake import Lake

PARTITION, OFFSET, APPENDED = "_partition", "_offset", "_timestamp"
EARLIEST_US = -(2**63)  # no row has an earlier time
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS = pa.timestamp("us", "UTC")


def event_times(
    lake: Lake, file: FileEntry, schema: Schema, rule: EventTimeRule, listed_ms: int
) -> MeasuredTimes | None:
    """`listed_ms`: when the messages were listed, in milliseconds since 1970; 0: not known. None
    where the column is no time."""
    if field_types(schema).get(rule["column"]) not in EVENT_TIME_TYPES:
        return None
    partitions: dict[int, _PartitionTimes] = defaultdict(_PartitionTimes)
    ahead = 0
    columns = list(dict.fromkeys((PARTITION, OFFSET, APPENDED, rule["column"])))
    source = lake.open(file["path"], file["size"])
    with pyarrow.parquet.ParquetFile(source) as parquet:
        for batch in parquet.iter_batches(columns=columns, use_threads=False):
            ahead += _add(partitions, batch, rule, listed_ms)
    named = {str(partition): times for partition, times in partitions.items()}
    measured: MeasuredTimes = {
        "column": rule["column"],
        "max_ahead_s": rule["max_ahead_s"],
        "listed_ms": listed_ms,
        "newest_us": {p: t.newest_us for p, t in named.items() if t.newest_us > EARLIEST_US},
        "least_us": {p: t.least_us for p, t in named.items()},
        "behind_us": {p: t.behind_us for p, t in named.items() if t.is_in_order},
        "ahead": ahead,
    }
    return measured


@dataclass(slots=True)
class _PartitionTimes:
    """The times of one partition of the topic, in the rows read so far."""

    newest_us: int = EARLIEST_US
    least_us: int = 2**63 - 1
    behind_us: int = 0
    last_offset: int = -1
    is_in_order: bool = True

    def add(self, rows: pa.Table) -> None:
        """Take in rows of this partition, all of which have a time."""
        offsets, times = rows["offset"].to_numpy(), rows["at"].to_numpy()
        counted = np.where(rows["is_ahead"].to_numpy(), EARLIEST_US, times)
        newest = np.maximum.accumulate(np.concatenate(([self.newest_us], counted)))
        steps = np.diff(offsets, prepend=self.last_offset)
        self.is_in_order = self.is_in_order and bool((steps > 0).all())
        is_behind = newest[:-1] > times
        # Two times may be further apart than 63 bits can say
        behind = (newest[:-1] - times)[is_behind].view(np.uint64)
        self.behind_us = max(self.behind_us, int(behind.max(initial=0)))
        self.least_us = min(self.least_us, int(times.min()))
        self.newest_us, self.last_offset = int(newest[-1]), int(offsets[-1])


def _add(
    partitions: Mapping[int, _PartitionTimes],
    batch: pa.RecordBatch,
    rule: EventTimeRule,
    listed_ms: int,
) -> int:
    """Take in the times of some rows. Gives the number of rows that are too far ahead."""
    times = batch.column(rule["column"]).cast(_MICROSECONDS)
    limit = _limit(batch, rule, listed_ms)
    is_ahead = pc.fill_null(pc.greater(times, limit), False)
    rows = pa.table(
        {
            "partition": batch.column(PARTITION),
            "offset": batch.column(OFFSET),
            "at": times.cast(pa.int64()),
            "is_ahead": is_ahead,
        }
    )
    for partition, own in _by_partition(rows.filter(pc.is_valid(rows["at"]))):
        partitions[partition].add(own)
    return int(pc.sum(is_ahead).as_py() or 0)


def _by_partition(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    for partition in pc.unique(rows["partition"]).to_pylist():
        yield partition, rows.filter(pc.equal(rows["partition"], partition))


def _limit(batch: pa.RecordBatch, rule: EventTimeRule, listed_ms: int) -> Any:
    """The latest time that counts: for all rows, where it is known when they were listed."""
    allowed = timedelta(seconds=rule["max_ahead_s"])
    if listed_ms:
        return pa.scalar(_EPOCH + timedelta(milliseconds=listed_ms) + allowed, _MICROSECONDS)
    return pc.add(batch.column(APPENDED).cast(_MICROSECONDS), pa.scalar(allowed, pa.duration("us")))
