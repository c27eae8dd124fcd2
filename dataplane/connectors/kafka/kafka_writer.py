"""The `write` kind for topics of Kafka: the last message of each key is the row of the dataset that
has this key.

A write compares the topic with the generation's rows and sends the difference, so that an
interrupted write resumes where it ended, and a finished one sends nothing.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from dataplane.connectors.kafka.kafka_client import in_words
from dataplane.connectors.kafka.kafka_listing import newest
from dataplane.connectors.kafka.kafka_server import SERVERS_OWN, KafkaServer
from dataplane.connectors.kafka.key_cache import KeyCache, opened
from dataplane.connectors.kafka.topic import BESIDE, MOST, TopicWriter
from dataplane.contract.claims import WriteTask, WrittenFragment
from dataplane.contract.failpoints import failpoint
from dataplane.contract.jobs import ConnectJob, ConnectorSettings, WriteJob
from dataplane.contract.results import WriteAnswer
from dataplane.contract.schemas import Json, Schema, column_names
from dataplane.fragments.arrow import arrow_schema, batches, dumps, plain_rows
from dataplane.storage.lake import Lake
from dataplane.task_failures import TaskFailure


@contextmanager
def writing(
    job: WriteJob, lake: Lake, most: int = MOST
) -> Iterator[Callable[[WriteTask], WriteAnswer]]:
    """The function that runs the `write` tasks of a claim."""
    settings, schema = job["settings"], job["schema"]
    if lacking := [c for c in settings["key"] if c not in column_names(schema)]:
        raise TaskFailure(
            "column-missing", f"the dataset has no column {', '.join(lacking)}, which the key names"
        )
    with (
        in_words(settings["servers"]),
        closing(TopicWriter(settings, job["owner"], most)) as writer,
    ):
        writer.open()
        target = KafkaTarget(writer, schema, settings["key"], lake)
        with _file(settings) as file:
            yield lambda task: target.sync(task, file)


@contextmanager
def _file(settings: ConnectorSettings) -> Iterator[Path]:
    """The file of a topic's key cache for workers of this home; a temporary one without a home."""
    name = sha256(dumps([settings["servers"], settings["topic"]]).encode()).hexdigest()[:32]
    with tempfile.TemporaryDirectory(prefix="headgate-kafka-") as scratch:
        home = os.environ.get("HEADGATE_HOME")
        yield Path(home or scratch) / "cache" / f"kafka-{name}.db"


@dataclass(frozen=True, slots=True)
class KafkaTarget:
    """One topic that is ours. Its calls may be repeated."""

    writer: TopicWriter
    schema: Schema
    key: Sequence[str]
    lake: Lake

    def sync(self, task: WriteTask, file: Path) -> WriteAnswer:
        """Bring the topic to a generation. Result: `{rows, bytes, messages}`."""
        with in_words(self.writer.settings["servers"]), opened(file) as held:
            self.writer.fence(task["generation"])
            self._catch_up(held)
            sent = self._compare(held, task["fragments"])
            failpoint("kafka-compared")
            self.writer.send(held.outgoing(), task["generation"])
            failpoint("kafka-committed")
            held.keep(self._mark())
        rows = sum(entry["rows"] for f in task["fragments"] for entry in f["files"])
        return {"rows": rows, "bytes": 0, "messages": sent}

    def _mark(self) -> Json:
        """The state of the topic with the form of its messages: equal if the key cache still
        holds."""
        return {**self.writer.mark(), "schema": self.schema, "key": list(self.key)}

    def _catch_up(self, held: KeyCache) -> None:
        if held.mark() != self._mark():
            held.replay(self.writer.messages())

    def _compare(self, held: KeyCache, fragments: Sequence[WrittenFragment]) -> int:
        """Note what differs; how much that is."""
        by_id = {f["id"]: f for f in fragments if f["files"]}
        if any(f["copies"] > 1 for f in by_id.values()):
            raise TaskFailure(
                "key-not-unique", "the dataset has all rows of a partition in another one, too"
            )
        held.drop(held.fragments() - by_id.keys())
        for id in sorted(by_id.keys() - held.fragments()):
            files = [self.lake.open(entry["path"]) for entry in by_id[id]["files"]]
            held.add(id, self._messages(files))
        return held.settle()

    def _messages(self, files: Iterable[Any]) -> Iterator[tuple[bytes, bytes]]:
        """Rows as JSON: the columns of the key, and all of them."""
        for batch in batches(files, arrow_schema(self.schema)):
            for row in plain_rows(batch, self.schema):
                yield dumps({name: row[name] for name in self.key}).encode(), dumps(row).encode()


def check(job: ConnectJob) -> None:
    """Check that a topic can be read, or be written to; nothing is changed. TaskFailure gives the
    reason."""
    settings = job["settings"]
    name = settings["topic"]
    with in_words(settings["servers"]), closing(KafkaServer(settings)) as server:
        if not job["writes"]:
            server.topic(name)
            newest(settings)
            return
        there = server.topics([name, name + BESIDE])
        missing = {name: settings["partitions"] or SERVERS_OWN, name + BESIDE: 1}
        for topic_name in (topic for topic in missing if topic not in there):
            server.create(topic_name, missing[topic_name], only_try=True)
