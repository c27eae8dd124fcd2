"""Slices of a Kafka topic as source objects: listed without a JVM, each a range of offsets that never changes.

Each listing adds what came since the one before it. A slice names a range for every partition of the topic, so that the
last slice says where the next one begins. What only transactions wrote that are not over yet, or not at all, is none of
it. Does not belong here: reading messages (kafka).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dataplane.contract import Json, ListedPartition, SourceObject
from dataplane.failure import TaskFailure
from dataplane.kafka.client import ANSWER_S, client, in_words
from dataplane.listing import listed

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

KIND = "offsets:"
LOOK_AGAIN_S = 0.02
DIGITS = 12  # of a slice's number, so that keys come in its order


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets that one partition of a topic holds: from `first` up to `end`, which is not among them."""

    partition: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now. `id` tells it from one of the same name that was deleted."""

    name: str
    id: str
    bounds: tuple[Bounds, ...]


Ends = Mapping[int, int]  # offset behind the last one that is known, by partition


def partitions(job: Mapping[str, Json]) -> Iterator[ListedPartition]:
    """New slices of the topic. TaskFailure where nobody answers, or messages are gone that nobody listed."""
    settings, known = job["settings"], job["known"]
    topic = look(settings, settings["topic"])
    ends = ends_of(known["objects"], topic, accept=bool(job.get("accept_deletes")))
    number = int(known["key"]) + 1 if known["key"] else 1
    for ranges in slices(topic, ends, settings["slice"]):
        objects = [object_of(topic, one) for one in ranges]
        yield listed(f"{number:0{DIGITS}}", objects, ())
        number += 1


def slices(topic: Topic, ends: Ends, most: int) -> Iterator[list[Bounds]]:
    """What lies behind `ends`, in ranges of at most `most` offsets of each partition."""
    at = {b.partition: ends.get(b.partition, b.first) for b in topic.bounds}
    while any(at[b.partition] < b.end for b in topic.bounds):
        found = [Bounds(b.partition, at[b.partition], min(b.end, at[b.partition] + most)) for b in topic.bounds]
        yield found
        at = {b.partition: b.end for b in found}


def ends_of(objects: Sequence[SourceObject], topic: Topic, *, accept: bool) -> Ends:
    """Where the last slice ended. `accept`: what is lost is lost, and the rest is what there is."""
    details = [o["detail"] for o in objects]
    ends = {int(d["partition"]): int(d["end"]) for d in details}
    if details and details[0]["topic"] != topic.id:
        if not accept:
            raise _lost("topic-recreated", topic, "was deleted and made again")
        return {}
    lost = [b for b in topic.bounds if b.partition in ends and not b.first <= ends[b.partition] <= b.end]
    if lost and not accept:
        told = ", ".join(f"{b.partition} (listed up to {ends[b.partition]}, holds {b.first} to {b.end})" for b in lost)
        raise _lost("offsets-expired", topic, f"no longer holds what comes next of partition {told}")
    return {p: end for p, end in ends.items() if p not in {b.partition for b in lost}}


def _lost(condition: str, topic: Topic, what: str) -> TaskFailure:
    hint = "`headgate refresh --accept-deletes` goes on with what there is"
    return TaskFailure(condition, f"the topic {topic.name} {what}; {hint}")


def object_of(topic: Topic, of: Bounds) -> SourceObject:
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


# --- server ---------------------------------------------------------------------------------------


def look(settings: Mapping[str, Json], name: str) -> Topic:
    """The topic as it is now, up to the last message of no open transaction. TaskFailure if that cannot be told."""
    with in_words(settings["servers"]):
        return _look(settings, name)


def _look(settings: Mapping[str, Json], name: str) -> Topic:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    errors: list[KafkaError] = []
    admin = AdminClient(client(settings, error_cb=errors.append))
    try:
        return _looked_at(admin, name, errors)
    except KafkaException as e:
        raise _refused([e.args[0], *errors], settings["servers"], name) from e


def _looked_at(admin: AdminClient, name: str, errors: Sequence[KafkaError]) -> Topic:
    from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    asked = admin.describe_topics(TopicCollection([name]), request_timeout=ANSWER_S)[name]
    _await(admin, asked, errors)
    told = asked.result()
    places = [TopicPartition(name, p.id) for p in told.partitions]
    firsts = admin.list_offsets(dict.fromkeys(places, OffsetSpec.earliest()), request_timeout=ANSWER_S)
    ends = admin.list_offsets(
        dict.fromkeys(places, OffsetSpec.latest()),
        isolation_level=IsolationLevel.READ_COMMITTED,
        request_timeout=ANSWER_S,
    )
    bounds = [Bounds(p.partition, firsts[p].result().offset, ends[p].result().offset) for p in places]
    return Topic(name, str(told.topic_id), tuple(sorted(bounds, key=lambda b: b.partition)))


def _await(admin: AdminClient, asked: Future[Any], errors: Sequence[KafkaError]) -> None:
    """An answer, or a reason for which there will be none: else a client tries again until its time is over."""
    from confluent_kafka import KafkaError, KafkaException

    while not wait([asked], LOOK_AGAIN_S).done:
        admin.poll(0)
        if final := [e for e in errors if e.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL)]:
            raise KafkaException(final[0])


def _refused(errors: Sequence[KafkaError], servers: str, name: str) -> TaskFailure:
    """The first error is the answer; the others are why there was none, if there was none."""
    from confluent_kafka import KafkaError

    codes = {error.code() for error in errors}
    told = errors[0].str()
    if KafkaError.UNKNOWN_TOPIC_OR_PART in codes:
        return TaskFailure("topic-not-found", f"there is no topic {name} at {servers}")
    if codes & {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}:
        return TaskFailure("permission-denied", f"the topic {name} at {servers} may not be read: {told}")
    if KafkaError._AUTHENTICATION in codes:
        return TaskFailure("credentials-refused", f"Kafka at {servers} does not accept user or password")
    if KafkaError._SSL in codes:
        return TaskFailure("tls-failed", f"no encrypted connection to Kafka at {servers}: {errors[-1].str()}")
    return TaskFailure("unreachable", f"Kafka at {servers} does not answer: {told}", "infrastructure")
