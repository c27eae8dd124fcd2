"""Slices of a Kafka topic as source objects: listed without a JVM, each a range of offsets that
never changes.

Each listing adds the messages since the one before it. A slice names a range for every partition of
the topic, so that the last slice says where the next one begins. Messages of open or failed
transactions are not part of a slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dataplane.connectors.kafka.avro import WrittenUnder, own_columns, written
from dataplane.connectors.kafka.kafka_server import OffsetBounds, Topic, look
from dataplane.connectors.kafka.schema_registry import Registry
from dataplane.contract.jobs import ConnectorSettings, ListJob
from dataplane.contract.source_objects import ListedPartition, SourceObject
from dataplane.listing.listed_partitions import listed
from dataplane.task_failures import TaskFailure

KIND = "offsets:"
# Columns of a message, beside its value's
ABOUT = ("_key", "_headers", "_partition", "_offset", "_timestamp")
DIGITS = 12  # of a slice's number, so that keys come in its order


Ends = Mapping[int, int]  # offset behind the last one that is known, by partition


def partitions(job: ListJob) -> Iterator[ListedPartition]:
    """New slices of the topic. TaskFailure where no server answers, or messages expired before they
    were listed."""
    settings, before = job["settings"], job["known"]
    topic = look(settings, settings["topic"])
    assert before is not None, "a claim says what is known"
    ends = ends_of(before["objects"], topic, accept=bool(job.get("accept_deletes")))
    number = int(before["key"]) + 1 if before["key"] else 1
    schema: WrittenUnder | None = None
    for ranges in slices(topic, ends, settings["slice"]):
        schema = schema or newest(settings)
        objects = [under(schema, object_of(topic, bounds)) for bounds in ranges]
        yield listed(f"{number:0{DIGITS}}", objects, ())
        number += 1


def slices(topic: Topic, ends: Ends, most: int) -> Iterator[list[OffsetBounds]]:
    """The messages behind `ends`, in ranges of at most `most` offsets of each partition."""
    at = {b.partition: ends.get(b.partition, b.first) for b in topic.bounds}
    while any(at[b.partition] < b.end for b in topic.bounds):
        bounds = [
            OffsetBounds(b.partition, at[b.partition], min(b.end, at[b.partition] + most))
            for b in topic.bounds
        ]
        yield bounds
        at = {b.partition: b.end for b in bounds}


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
    name = f"{topic.name}/{of.partition}/{of.first}-{of.end}"
    return {
        "name": name,
        "uri": f"kafka:{topic.id}/{of.partition}/{of.first}-{of.end}",
        "size": of.end - of.first,
        "modified_ms": 0,
        "version": f"{KIND}{of.first}-{of.end}",
        "columns": None,
        "detail": {"topic": topic.id, "partition": of.partition, "first": of.first, "end": of.end},
    }


# --- values of Avro -------------------------------------------------------------------------------


def newest(settings: ConnectorSettings) -> WrittenUnder | None:
    """The schema under which the present values are read: the newest, as it was requested after
    their offsets. None where the format has none."""
    if settings["format"] != "avro":
        return None
    registry = Registry.of(settings)
    return written(registry, registry.newest(settings["subject"]))


def under(schema: WrittenUnder | None, source: SourceObject) -> SourceObject:
    """A range whose values are read under a schema, for ever."""
    if schema is None:
        return source
    columns = own_columns(schema.columns)
    if reserved := [name for name in columns if name in ABOUT]:
        raise TaskFailure(
            "reserved-column",
            f"schema {schema.id} has a field {reserved[0]}, a name for what messages are",
        )
    detail = {**source["detail"], "schema": schema.id}
    version = f"{source['version']};schema:{schema.id}"
    return {**source, "version": version, "columns": [*columns, *ABOUT], "detail": detail}
