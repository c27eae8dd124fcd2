"""Slices of a Kafka topic read by a worker: the fragment that a driver would write, with the same
content, or `Undecided`, and a driver reads the slice.

Messages of failed transactions are none. So a slice has been read once each partition's position is
at the slice's end, however many messages came.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from dataplane.connectors.kafka.kafka_client import consumer, in_words
from dataplane.connectors.kafka.kafka_server import OffsetBounds, Topic, check_held, look
from dataplane.connectors.kafka.slice_values import KafkaMessage, Undecided, batch_of
from dataplane.connectors.kafka.topic import QUEUED_KB
from dataplane.contract.claims import ParseClaim, ParseTask
from dataplane.contract.jobs import ConnectorSettings
from dataplane.contract.schemas import Json, Schema, canonical_schema
from dataplane.fragments.attempt import Attempt, task_label
from dataplane.fragments.measuring import MeasuredRows, measure, rows_in_memory
from dataplane.fragments.written import MeasuredFile, MeasuredFragment, Written
from dataplane.storage.job_folders import fragment_folder
from dataplane.storage.lake import Lake

if TYPE_CHECKING:
    from confluent_kafka import Message as ClientMessage

BATCH = 1_000  # messages that become columns at a time
MOST_BYTES = QUEUED_KB << 10  # of the keys and values of a slice
POLL_S = 0.1
READ_S = 20.0  # to read a slice, at most
HAS_TIME = (1, 2)  # a message's time is that of its making, or of its arrival
FILE_NAME = "part-00000.zstd.parquet"
SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
# What is behind the end of a slice is not kept
READING = {"queued.max.messages.kbytes": QUEUED_KB // 4, "fetch.queue.backoff.ms": 20}


def read_slice(claim: ParseClaim, task: ParseTask, lake: Lake) -> MeasuredFragment:
    """The fragment of a slice, written below the claim's prefix. Undecided; TaskFailure where the
    server does not answer, or the topic does not hold the slice any more."""
    settings, columns = claim["job"]["settings"], canonical_schema(task["columns"])
    table = table_of(settings, task, columns)
    with ThreadPoolExecutor(1, "slice") as threads:
        attempt = Attempt(claim, lake, Path(), threads, threading.Event())
        written = _written(attempt, task_label(task), columns, table)
        return measure(attempt, {task_label(task): written}, _RowsOf(attempt))[task_label(task)]


def table_of(settings: ConnectorSettings, task: ParseTask, columns: Schema) -> pa.Table:
    """The rows of a slice. The topic is looked at before and after: one that was made again has
    other messages at the same offsets."""
    details = [source["detail"] for source in task["objects"]]
    topic = look(settings, settings["topic"])
    check_held(topic, [detail for detail in details if detail["first"] < detail["end"]])
    schema_id = _schema_id(details)
    batches = [
        batch_of(messages, settings, schema_id, columns)
        for messages in _bounded(messages_of(settings, topic, _ranges(details)))
    ]
    if batches and look(settings, settings["topic"]).id != topic.id:
        raise Undecided("the topic was made again meanwhile")
    return pa.Table.from_batches(batches or [batch_of([], settings, schema_id, columns)])


def _schema_id(details: Sequence[Mapping[str, Json]]) -> int | None:
    ids = {detail.get("schema") for detail in details}
    if len(ids) > 1:
        raise Undecided("values that are read under several schemas")
    return next(iter(ids), None)


def _ranges(details: Sequence[Mapping[str, Json]]) -> list[OffsetBounds]:
    ranges = [OffsetBounds(d["partition"], d["first"], d["end"]) for d in details]
    if len({of.partition for of in ranges}) < len(ranges):
        raise Undecided("several ranges of one partition")
    return [of for of in ranges if of.first < of.end]


# --- messages -------------------------------------------------------------------------------------


def messages_of(
    settings: ConnectorSettings, topic: Topic, ranges: Sequence[OffsetBounds]
) -> Iterator[list[KafkaMessage]]:
    """The messages of these ranges, up to BATCH at a time. Undecided if they take longer than
    READ_S."""
    if not ranges:
        return
    from confluent_kafka import TopicPartition

    left = _Left({of.partition: of for of in ranges})
    until = time.monotonic() + READ_S
    with in_words(settings["servers"]), consumer(settings, topic.name, **READING) as reader:
        reader.assign([TopicPartition(topic.name, of.partition, of.first) for of in ranges])
        while left.ranges:
            if time.monotonic() > until:
                raise Undecided(f"the slice was not read within {READ_S:.0f} s")
            own = left.accept(reader.consume(min(BATCH, left.offsets), POLL_S))
            if own:
                yield own


@dataclass(slots=True)
class _Left:
    """The offsets that are still to be read, by partition."""

    ranges: dict[int, OffsetBounds]

    @property
    def offsets(self) -> int:
        return sum(of.end - of.first for of in self.ranges.values())

    def accept(self, arrived: Sequence[ClientMessage]) -> list[KafkaMessage]:
        """Those of the arrived messages that are in the ranges. A client reads on behind them."""
        from confluent_kafka import KafkaError, KafkaException

        own = []
        for message in arrived:
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            of = self.ranges.get(_number(message.partition()))
            if of is None:
                continue
            offset = _number(message.offset())
            if error is None and of.first <= offset < of.end:
                own.append(_plain(message))
            self._move(of, offset if error is not None else offset + 1)
        return own

    def _move(self, of: OffsetBounds, position: int) -> None:
        if position >= of.end:
            del self.ranges[of.partition]
        elif position > of.first:
            self.ranges[of.partition] = OffsetBounds(of.partition, position, of.end)


def _plain(message: ClientMessage) -> KafkaMessage:
    if _has_headers(message):
        raise Undecided("a message with headers")
    kind, millis = message.timestamp()
    return KafkaMessage(
        message.key(),
        message.value(),
        _number(message.partition()),
        _number(message.offset()),
        millis if kind in HAS_TIME else -1,
    )


def _has_headers(message: ClientMessage) -> bool:
    """The client cuts a header's name at a zero byte, and fails at one that is no UTF-8. So what
    it says of headers is no certain fact, but that there are any is."""
    try:
        return bool(message.headers())
    except (ValueError, SystemError):
        return True


def _number(number: int | None) -> int:
    assert number is not None, "messages that were read have a place"
    return number


def _bounded(batches: Iterator[list[KafkaMessage]]) -> Iterator[list[KafkaMessage]]:
    size = 0
    for messages in batches:
        size += sum(map(_size, messages))
        if size > MOST_BYTES:
            raise Undecided(f"a slice of more than {MOST_BYTES} bytes")
        yield messages


def _size(message: KafkaMessage) -> int:
    return len(message.key or b"") + len(message.payload or b"")


# --- files ----------------------------------------------------------------------------------------


def _written(attempt: Attempt[ParseClaim], label: str, columns: Schema, table: pa.Table) -> Written:
    """The file of a fragment, as Spark writes it."""
    if not table.num_rows:
        return Written(columns)
    path = f"{fragment_folder(attempt.prefix, label)}/{FILE_NAME}"
    with attempt.lake.new_file(path) as file:
        file.parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(
            table.replace_schema_metadata({SPARK_SCHEMA: json.dumps(columns)}),
            file,
            compression="zstd",
            store_schema=False,
            write_page_checksum=True,
        )
        size = file.stat().st_size
    return Written(columns, {path: size})


@dataclass(frozen=True, slots=True)
class _RowsOf:
    """Hashes the rows of files in memory."""

    attempt: Attempt[ParseClaim]

    def __call__(
        self, schema: Schema, files: Mapping[str, Sequence[MeasuredFile]], with_sample: bool
    ) -> dict[str, MeasuredRows]:
        rows = rows_in_memory(self.attempt, schema, files, with_sample=with_sample)
        if rows is None:
            raise Undecided("values that only Spark hashes")
        return rows
