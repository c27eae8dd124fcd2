"""Waiting for changes of a bucket, by the events that an S3 store sends to a topic.

AWS's format, which MinIO, Ceph and versitygw have as well: `Records`, each with the name of a bucket
and of an object. The topic may have events of other buckets; they end no wait. Nothing is committed
to Kafka, and no consumer group is joined.
https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote_plus

from dataplane.connectors.kafka.kafka_client import consumer, in_words
from dataplane.connectors.kafka.kafka_server import Topic, look
from dataplane.contract.jobs import NOTICES, ConnectorSettings, ListJob
from dataplane.contract.schemas import Json
from dataplane.listing.glob import matcher
from dataplane.listing.source_watch import CHECK_S, IsOver, SourceWatch, SourceWatches
from dataplane.storage.source_stores import root_of
from dataplane.task_failures import TaskFailure

MOST_WATCHES = 64  # consumers of a process
CLOSE_S = 5.0
READING = {
    "fetch.queue.backoff.ms": 20,
    "fetch.message.max.bytes": 1 << 20,
    "queued.max.messages.kbytes": 4096,
}
log = logging.getLogger(__name__)


class NoticedPlace(NamedTuple):
    """The objects of a bucket that a glob finds, for one listing."""

    listing: str
    bucket: str
    names: str
    connection: tuple[tuple[str, Json], ...]  # settings of the client, and the topic

    @property
    def settings(self) -> ConnectorSettings:
        return dict(self.connection)


def place_of(job: ListJob) -> NoticedPlace:
    """Raises TaskFailure for a location that names no bucket."""
    root = root_of(job["location"])
    connection = (
        (name.removeprefix(NOTICES), setting)
        for name, setting in (job.get("settings") or {}).items()
        if name.startswith(NOTICES)
    )
    names = job["location"].removeprefix(root).removeprefix("/")
    bucket = root.rpartition("/")[2]
    return NoticedPlace(job["listing"], bucket, names, tuple(sorted(connection)))


class NoticeWatch(SourceWatch):
    """A watch of a bucket. Raises OSError where Kafka does not answer, and TaskFailure where it
    refuses, or its client is missing."""

    def __init__(self, place: NoticedPlace) -> None:
        super().__init__()
        self.place, self._finds = place, matcher(place.names)
        self._topic = _topic(place)
        self._thread = threading.Thread(target=self._run, name="notices", daemon=True)
        self._thread.start()

    def is_current(self) -> bool:
        """A topic that was created again, or has more partitions, needs another watch."""
        if not self._thread.is_alive():
            return False
        try:
            topic = _topic(self.place)
        except (OSError, TaskFailure):
            return False
        return _partitions(topic) == _partitions(self._topic)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        try:
            self._follow()
        except TaskFailure as e:
            log.warning("notices of %s end: %s", self.place.bucket, e)
        finally:
            self._count_change()  # what comes now is seen by a listing

    def _follow(self) -> None:
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        settings, topic = self.place.settings, self._topic
        ends = [TopicPartition(topic.name, b.partition, b.end) for b in topic.bounds]
        with in_words(settings["servers"]), consumer(settings, topic.name, **READING) as events:
            events.assign(ends)
            while not self._stop.is_set():
                message = events.poll(CHECK_S)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    self._take(message.value() or b"")
                elif error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)

    def _take(self, event: bytes) -> None:
        if any(bucket == self.place.bucket and self._finds(n) for bucket, n in names_of(event)):
            self._count_change()


def names_of(event: bytes) -> Iterator[tuple[str, str]]:
    """Bucket and object of each record of an event. AWS writes names as in a form; others write
    them as they are, so both readings are given. Nothing of a message that is no event of S3."""
    try:
        records = json.loads(event)["Records"]
        changed = [(r["s3"]["bucket"]["name"], r["s3"]["object"]["key"]) for r in records]
    except (ValueError, KeyError, TypeError, RecursionError):
        log.warning("a message of the notices' topic is no event of S3: %.100r", event)
        return
    for bucket, name in changed:
        yield str(bucket), str(name)
        yield str(bucket), unquote_plus(str(name))


def _topic(place: NoticedPlace) -> Topic:
    try:
        return look(place.settings, str(place.settings["topic"]))
    except TaskFailure as e:
        if e.kind == "infrastructure":
            raise OSError(e.message) from e
        raise


def _partitions(topic: Topic) -> tuple[str, int]:
    return topic.id, len(topic.bounds)


NoticeWatches = SourceWatches[NoticedPlace, NoticeWatch]


def notice_watches() -> NoticeWatches:
    return NoticeWatches(NoticeWatch, MOST_WATCHES)


_watches = notice_watches()


def await_notice(job: ListJob, is_over: IsOver, watches: NoticeWatches = _watches) -> None:
    """Wait until the job's bucket changes, for `wait_s` at most, or until `is_over`. Raises
    TaskFailure where Kafka refuses, or its client is missing."""
    place = place_of(job)
    watches.await_change(place, f"the bucket {place.bucket}", job["wait_s"], is_over)
