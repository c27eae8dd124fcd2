"""Slices of a Kafka topic as source objects: listed without a JVM, each a range of offsets that
never changes.

Each listing adds the messages since the one before it. A slice names a range for every partition of
the topic, so that the last slice says where the next one begins. Messages of open or failed
transactions are not part of a slice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil

from dataplane.connectors.kafka.avro import WrittenUnder, own_columns, written
from dataplane.connectors.kafka.event_columns import EVENT, row_schema
from dataplane.connectors.kafka.kafka_client import consumer, in_words
from dataplane.connectors.kafka.kafka_server import OffsetBounds, Topic, look
from dataplane.connectors.kafka.schema_registry import Registry
from dataplane.contract.jobs import ConnectorSettings, ListJob
from dataplane.contract.offset_ranges import offset_range
from dataplane.contract.source_objects import ListedPartition, SourceObject
from dataplane.listing.listed_partitions import listed
from dataplane.listing.source_watch import pause
from dataplane.task_failures import TaskFailure

# Columns of a message, beside its value's
ABOUT = ("_key", "_headers", "_partition", "_offset", "_timestamp")
DIGITS = 12  # of a slice's number, so that keys come in its order
FIRST_SLICE = 10_000  # offsets of the topic in the first slice of a stream that is behind
MOST_POLLS = 64  # consumers that wait for messages at a time
CHECK_S = 0.25
PAUSE_S = 2.0  # after an error of a consumer, which may be a moment's
# One batch is enough to know. With a message in its queue a consumer does not fetch for a second,
# by default: the next wait for this topic would be so late.
WAITING = {
    "fetch.queue.backoff.ms": 20,
    "fetch.message.max.bytes": 1024,
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 1024,
}

IsOver = Callable[[], bool]
Ends = Mapping[int, int]  # offset behind the last one that is known, by partition


_polls = threading.BoundedSemaphore(MOST_POLLS)


def partitions(job: ListJob) -> Iterator[ListedPartition]:
    """New slices of the topic. TaskFailure where no server answers, or messages expired before they
    were listed."""
    settings, before = job["settings"], job["known"]
    listed_ms = int(time.time() * 1000)
    topic = look(settings, settings["topic"])
    assert before is not None, "a claim says what is known"
    ends = ends_of(before["objects"], topic, accept=bool(job.get("accept_deletes")))
    number = int(before["key"]) + 1 if before["key"] else 1
    of_events = settings["format"] == "debezium"
    schema: WrittenUnder | None = None
    for ranges in slices(topic, ends, settings["slice"], first_size(job, before["objects"])):
        schema = schema or newest(settings)
        objects = [
            listed_at(listed_ms, under(schema, object_of(topic, bounds), of_events=of_events))
            for bounds in ranges
        ]
        yield listed(f"{number:0{DIGITS}}", objects, ())
        number += 1


def first_size(job: Mapping[str, object], last: Sequence[SourceObject]) -> int | None:
    """Twice the size of the last slice, in offsets of all partitions, for a continuous source. So a
    stream that is a little behind has small slices, which are soon read, and a backlog has few
    large ones."""
    if "within_s" not in job:
        return None
    return max(FIRST_SLICE, 2 * sum(source["size"] for source in last))


def slices(
    topic: Topic, ends: Ends, most: int, first: int | None = None
) -> Iterator[list[OffsetBounds]]:
    """The messages behind `ends`, in ranges of at most `most` offsets of each partition. `first`:
    the size of the first slice, in offsets of all partitions; each further one may be twice as
    large as the one before it."""
    total = most * len(topic.bounds) if first is None else first
    at = {b.partition: ends.get(b.partition, b.first) for b in topic.bounds}
    while any(at[b.partition] < b.end for b in topic.bounds):
        behind = {b.partition: b.end - at[b.partition] for b in topic.bounds}
        sizes = shares(behind, most, total)
        bounds = [OffsetBounds(p, begin, begin + sizes[p]) for p, begin in at.items()]
        yield bounds
        at = {b.partition: b.end for b in bounds}
        total *= 2


def shares(behind: Mapping[int, int], most: int, total: int) -> dict[int, int]:
    """How many of the offsets that each partition is behind are in one slice: `most` of each, and
    `total` together. What a partition does not need is there for the others."""
    sizes: dict[int, int] = {}
    smallest_first = sorted(behind, key=behind.__getitem__)
    for left, partition in zip(range(len(behind), 0, -1), smallest_first, strict=True):
        share = ceil((total - sum(sizes.values())) / left)
        sizes[partition] = min(behind[partition], most, share)
    return sizes


def ends_of(objects: Sequence[SourceObject], topic: Topic, *, accept: bool) -> Ends:
    """Where the last slice ended. `accept`: skip lost messages and continue with the rest."""
    details = [o["detail"] for o in objects]
    ends = {int(d["partition"]): int(d["end"]) for d in details}
    if details and details[0]["topic"] != topic.id:
        if not accept:
            raise _lost("topic-recreated", topic, "was deleted and made again")
        return {}
    lost = [
        b for b in topic.bounds if b.partition in ends and not b.first <= ends[b.partition] <= b.end
    ]
    if lost and not accept:
        places = ", ".join(
            f"{b.partition} (listed up to {ends[b.partition]}, holds {b.first} to {b.end})"
            for b in lost
        )
        raise _lost(
            "offsets-expired", topic, f"no longer holds what comes next of partition {places}"
        )
    return {p: end for p, end in ends.items() if p not in {b.partition for b in lost}}


def _lost(condition: str, topic: Topic, what: str) -> TaskFailure:
    hint = "`headgate refresh --accept-deletes` goes on with what there is"
    return TaskFailure(condition, f"the topic {topic.name} {what}; {hint}")


def object_of(topic: Topic, of: OffsetBounds) -> SourceObject:
    """A range as an object; its size is the number of offsets in it."""
    return offset_range(topic.name, topic.id, of.partition, of.first, of.end)


def listed_at(listed_ms: int, source: SourceObject) -> SourceObject:
    """A range that a listing found at this time. It identifies nothing."""
    return {**source, "detail": {**source["detail"], "listed_ms": listed_ms}}


# --- waiting --------------------------------------------------------------------------------------


def await_news(job: ListJob, is_over: IsOver) -> None:
    """Wait until the topic has messages behind the known ones, for `wait_s` at most, or until
    `is_over`. TaskFailure where a listing fails as well."""
    settings, before, until = job["settings"], job["known"], time.monotonic() + job["wait_s"]
    assert before is not None, "a claim says what is known"
    topic = look(settings, settings["topic"])
    ends = ends_of(before["objects"], topic, accept=False)
    if any(ends.get(b.partition, b.first) < b.end for b in topic.bounds):
        return
    if not _polls.acquire(blocking=False):
        pause(min(until, time.monotonic() + job["within_s"]), is_over)
        return
    try:
        _await_message(settings, topic, until, is_over)
    except TaskFailure:  # the listing says whether it lasts
        pause(min(until, time.monotonic() + PAUSE_S), is_over)
    finally:
        _polls.release()


def _await_message(
    settings: ConnectorSettings, topic: Topic, until: float, is_over: IsOver
) -> None:
    """Until a message comes behind the present end of a partition. TaskFailure for an error of the
    consumer, which is closed then."""
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    places = [TopicPartition(topic.name, b.partition, b.end) for b in topic.bounds]
    with in_words(settings["servers"]), consumer(settings, topic.name, **WAITING) as waiting:
        waiting.assign(places)
        while not is_over() and (left_s := until - time.monotonic()) > 0:
            message = waiting.poll(min(left_s, CHECK_S))
            error = None if message is None else message.error()
            if message is not None and error is None:
                return
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)


# --- values of Avro -------------------------------------------------------------------------------


def newest(settings: ConnectorSettings) -> WrittenUnder | None:
    """The schema under which the present values are read: the newest, as it was requested after
    their offsets. None where the format has none."""
    if "registry" not in settings:
        return None
    registry = Registry.of(settings)
    return written(registry, registry.newest(settings["subject"]))


def under(
    schema: WrittenUnder | None, source: SourceObject, *, of_events: bool = False
) -> SourceObject:
    """A range whose values are read under a schema, for ever."""
    if schema is None:
        return source
    others = (*EVENT, *ABOUT) if of_events else ABOUT
    columns = own_columns(row_schema(schema.columns) if of_events else schema.columns)
    if reserved := [name for name in columns if name in others]:
        raise TaskFailure(
            "reserved-column",
            f"schema {schema.id} has a field {reserved[0]}, a name for what messages are",
        )
    detail = {**source["detail"], "schema": schema.id}
    version = f"{source['version']};schema:{schema.id}"
    return {**source, "version": version, "columns": [*columns, *others], "detail": detail}
