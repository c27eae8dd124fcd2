"""A topic that is written to, as its one writer: taken by a note beside it, and changed by
transactions.

The note is the last message of the topic `<topic>-headgate`, written in the transaction that it
describes. All writers of a topic have one transactional id: a writer that begins ends the
transactions of the writer before and fences it, so that nothing can come between reading the note
and writing the next one.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from dataplane.connectors.kafka.kafka_client import ANSWER_S, client, messages
from dataplane.connectors.kafka.kafka_server import SERVERS_OWN, KafkaServer, Topic
from dataplane.connectors.kafka.key_cache import Change, batched
from dataplane.contract.failpoints import failpoint
from dataplane.contract.jobs import ConnectorSettings
from dataplane.contract.schemas import Json
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    from confluent_kafka import Message, Producer

BESIDE = "-headgate"  # ends the name of the topic with the note
NOTE_KEY = b"note"
TAIL = 64  # offsets behind which the note mostly is: a few transactions
MOST = 100_000  # changes in one transaction
QUEUED_KB = 65_536
WAIT_S = 30.0
POLLS, LOOK_AGAIN_S = 100, 0.1
NOWHERE = Topic("", "", ())


@dataclass(frozen=True, slots=True)
class TopicNote:
    """Whose a topic is. `commit` is a random name for its content since this note."""

    owner: str
    generation: int
    topic: str
    partitions: int
    commit: str

    @staticmethod
    def of(message: Message | None) -> TopicNote | None:
        value = message.value() if message else None
        return TopicNote(**json.loads(value)) if value else None


# --- the writer -----------------------------------------------------------------------------------


@dataclass(slots=True)
class TopicWriter:
    """The one writer of a topic, until another one begins. Its calls may be repeated."""

    settings: ConnectorSettings
    owner: str
    most: int = MOST
    topic: Topic = NOWHERE
    note: TopicNote | None = None
    ends: dict[int, int] = field(default_factory=dict)
    _producer: Producer | None = None

    @property
    def name(self) -> str:
        return str(self.settings["topic"])

    @property
    def beside(self) -> str:
        return self.name + BESIDE

    def open(self) -> None:
        """Make the topic ours. `target-owned` if it is another writer's, who is not disturbed;
        `target-occupied` if it has messages of others."""
        with closing(KafkaServer(self.settings)) as server:
            self._open(server)

    def _open(self, server: KafkaServer) -> None:
        before = server.topics(self._both)
        if there := before.get(self.beside):
            self._read_note(there)
        else:
            self._require_empty(before.get(self.name, NOWHERE))
        self._ensure(server, before)
        self._begin()
        now = self._looked(server)
        # The writer before may have written another note since
        if now[self.beside] != before.get(self.beside):
            self._read_note(now[self.beside])
        self.topic = now[self.name]
        self.ends = {b.partition: b.end for b in self.topic.bounds}
        if self.note is None or self.note.topic != self.topic.id:
            self._take()
        elif self.note.partitions != len(self.ends):
            message = f"the topic {self.name} had {self.note.partitions} partitions and has {len(self.ends)}"
            raise TaskFailure(
                "target-partitions-changed", f"{message}: keys would move. {self._release}"
            )

    @property
    def _both(self) -> tuple[str, str]:
        return self.name, self.beside

    def _looked(self, server: KafkaServer) -> dict[str, Topic]:
        topics = server.topics(self._both)
        if missing := [name for name in self._both if name not in topics]:
            raise TaskFailure(
                "unreachable", f"the topic {missing[0]} is not there any more", "infrastructure"
            )
        return topics

    def _ensure(self, server: KafkaServer, there: Mapping[str, Topic]) -> None:
        """Topics that keep the last message of each key, made if there are none. TaskFailure if one
        keeps less."""
        for name, policy in server.policies(there).items() if there else ():
            if policy != "compact":
                problem = f"its cleanup.policy is {policy}, and has to be compact"
                raise TaskFailure(
                    "topic-not-compacted",
                    f"the topic {name} does not keep what is in it: {problem}",
                )
        partitions = {self.name: self.settings["partitions"] or SERVERS_OWN, self.beside: 1}
        made = [name for name in self._both if name not in there]
        for name in made:
            server.create(name, partitions[name])
        if made:
            self._await(server)

    def _await(self, server: KafkaServer) -> None:
        """Wait until the created topics are known to the server, and have a leader."""
        for _ in range(POLLS):
            try:
                self._looked(server)
            except TaskFailure as e:
                if e.condition != "unreachable":
                    raise
            else:
                return
            time.sleep(LOOK_AGAIN_S)
        raise TaskFailure(
            "unreachable", f"the topic {self.name} was made and is not there", "infrastructure"
        )

    def _take(self) -> None:
        """An empty topic becomes ours; in the place of one that was, it has no earlier generation
        than that."""
        self._require_empty(self.topic)
        self._commit((), self._noted(self.note.generation if self.note else 0))
        failpoint("kafka-taken")

    def _require_empty(self, topic: Topic) -> None:
        if any(b.first < b.end for b in topic.bounds):
            message = f"the topic {self.name} holds messages that Headgate did not write: name another one"
            raise TaskFailure("target-occupied", message)

    def _noted(self, generation: int) -> TopicNote:
        return TopicNote(self.owner, generation, self.topic.id, len(self.ends), uuid4().hex)

    def mark(self) -> Json:
        """The state in which the topic was left, to detect later changes."""
        ends = {str(partition): end for partition, end in sorted(self.ends.items())}
        return {
            "topic": self.topic.id,
            "commit": self.note.commit if self.note else None,
            "ends": ends,
        }

    def messages(self) -> Iterator[Change]:
        """All that the topic holds, oldest first for each key."""
        starts = {b.partition: b.first for b in self.topic.bounds}
        for message in messages(self.settings, self.name, starts):
            yield message.key() or b"", message.value()

    def fence(self, generation: int) -> None:
        """Refuse to overwrite a later generation, however late an earlier writer comes."""
        assert self.note
        if self.note.generation > generation:
            message = f"{self.name} has seen generation {self.note.generation}, this is of generation {generation}"
            raise TaskFailure("target-ahead", message, "infrastructure")

    def send(self, changes: Iterable[Change], generation: int) -> None:
        """All changes, in transactions, the last of which notes the generation."""
        rest = batched(changes, self.most)
        some = next(rest, [])
        for after in rest:
            self._commit(some, None)
            failpoint("kafka-part")
            some = after
        self._commit(some, self._noted(generation))

    def _commit(self, changes: Iterable[Change], note: TopicNote | None) -> None:
        """One transaction."""
        assert self._producer
        last: dict[int, int] = {}
        self._producer.begin_transaction()
        for key, value in changes:
            self._produce(self.name, key, value, last)
        if note:
            self._produce(self.beside, NOTE_KEY, json.dumps(asdict(note)).encode(), {})
        self._producer.flush(WAIT_S)
        failpoint("kafka-sent")
        self._producer.commit_transaction(WAIT_S)
        # The message, and the transaction's end
        self.ends |= {partition: at + 2 for partition, at in last.items()}
        self.note = note or self.note

    def _produce(self, topic: str, key: bytes, value: bytes | None, last: dict[int, int]) -> None:
        def delivered(error: object, message: Message) -> None:
            if error is None:
                last[message.partition()] = max(last.get(message.partition(), 0), message.offset())

        assert self._producer
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=delivered)
            except BufferError:
                self._producer.poll(ANSWER_S)
            else:
                self._producer.poll(0)
                return

    def close(self) -> None:
        """Abort the open transaction: its messages stay invisible, and no reader waits for it."""
        from confluent_kafka import KafkaException

        if self._producer:
            self._producer.purge()
            with suppress(KafkaException):
                self._producer.abort_transaction(ANSWER_S)
            self._producer = None

    # the note

    def _begin(self) -> None:
        from confluent_kafka import Producer

        own = {"transactional.id": f"headgate {self.name}", "queue.buffering.max.kbytes": QUEUED_KB}
        # Where Java's clients expect a key
        how = {"partitioner": "murmur2_random", "compression.type": "lz4"}
        limits = {"message.timeout.ms": int(WAIT_S * 1000)}
        self._producer = Producer(client(self.settings, **own, **how, **limits))
        self._producer.init_transactions(ANSWER_S)

    def _read_note(self, there: Topic) -> None:
        """TaskFailure where it is another's."""
        at = there.bounds[0]
        last = self._last(max(at.first, at.end - TAIL)) or self._last(at.first)
        self.note = TopicNote.of(last)
        if self.note and self.note.owner != self.owner:
            message = f"the topic {self.name} belongs to {self.note.owner}: not written to. {self._release}"
            raise TaskFailure("target-owned", message)

    def _last(self, start: int) -> Message | None:
        last = deque(messages(self.settings, self.beside, {0: start}), maxlen=1)
        return last[0] if last else None

    @property
    def _release(self) -> str:
        return f"To give it up: delete the topic {self.beside}, and empty or delete {self.name}"
