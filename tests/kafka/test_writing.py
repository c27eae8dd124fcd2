"""The `write` kind into topics of a real Kafka: who keeps the last message of each key has the
dataset, whatever dies when."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from dataplane.connectors.kafka.kafka_client import messages
from dataplane.connectors.kafka.kafka_server import look
from dataplane.connectors.kafka.kafka_writer import check, writing
from dataplane.contract.claims import WriteTask
from dataplane.contract.jobs import ConnectJob, WriteJob
from dataplane.contract.schemas import Json, Schema, Type, field_of, struct_of
from dataplane.fragments.arrow import arrow_schema
from dataplane.storage.lake import LocalLake
from dataplane.task_failures import TaskFailure
from tests.servers.kafka import PASSWORD, Kafka, certificate


def struct(**columns: Type) -> Schema:
    return struct_of(field_of(n, t) for n, t in columns.items())


PLAIN = struct(id="integer", name="string")
MOST = 2  # changes in one transaction, so that a generation takes several
DIES = """
import json, sys
from pathlib import Path
from dataplane.storage.lake import LocalLake
from dataplane.connectors.kafka.kafka_writer import writing
job, task, lake, most = json.loads(sys.argv[1])
with writing(job, LocalLake(Path(lake)), most) as write:
    print(write(task))
"""
Rows = Mapping[int, str | None]


class World:
    """A topic, and the lake that it is copied from. Each fragment is `{id: name}`."""

    def __init__(self, kafka: Kafka, name: str, folder: Path) -> None:
        self.kafka, self.name, self.lake = kafka, name, folder / "lake"
        self.settings = {
            "servers": kafka.servers,
            "topic": name,
            "format": "json",
            "key": ["id"],
            "partitions": 2,
        }
        self.admin = AdminClient({"bootstrap.servers": kafka.servers})
        self.lake.mkdir()

    def job(self, owner: str = "f.o 1", schema: Schema = PLAIN, **more: Json) -> WriteJob:
        own = {
            "connector": "kafka",
            "settings": self.settings | more,
            "owner": owner,
            "schema": schema,
        }
        return cast("WriteJob", own)

    def secured(self, mechanism: str, **more: str) -> WriteJob:
        """The job of a writer that logs in."""
        told = {**self.kafka.login(mechanism), "sasl.password": "secret://kafka/password", **more}
        own: Json = {f"client.{name}": text for name, text in told.items() if text}
        return self.job(servers=self.kafka.servers_with_login, **own)

    def fragment(self, rows: Rows, copies: int = 1) -> Json:
        """Named by its rows."""
        id = f"{abs(hash(tuple(rows.items()))):032x}"[:32]
        found = [{"id": key, "name": text} for key, text in rows.items()]
        pq.write_table(
            pa.Table.from_pylist(found, arrow_schema(PLAIN)), self.lake / f"{id}.parquet"
        )
        return {
            "id": id,
            "copies": copies,
            "files": [{"path": f"{id}.parquet", "size": 1, "rows": len(rows)}],
        }

    def task(self, generation: int, *fragments: Rows | Json) -> WriteTask:
        told = [cast("Json", f) if "id" in f else self.fragment(cast("Rows", f)) for f in fragments]
        return cast("WriteTask", {"partition": "", "generation": generation, "fragments": told})

    def write(self, generation: int, *fragments: Rows | Json, job: WriteJob | None = None) -> int:
        """How many messages it took."""
        with writing(job or self.job(), LocalLake(self.lake), MOST) as write:
            return int(write(self.task(generation, *fragments))["messages"])

    def dies(self, failpoint: str, task: WriteTask) -> None:
        command = [sys.executable, "-c", DIES, json.dumps([self.job(), task, str(self.lake), MOST])]
        environment = {**os.environ, "HEADGATE_FAILPOINTS": failpoint}
        assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL

    def log(self) -> list[tuple[Json, Json]]:
        """Every message that counts, in order within a partition, once all transactions are
        over."""
        own = {"bootstrap.servers": self.kafka.servers, "transactional.id": f"headgate {self.name}"}
        Producer(own).init_transactions()
        starts = {b.partition: b.first for b in look(self.settings, self.name).bounds}
        found = messages(self.settings, self.name, starts)
        return [(json.loads(m.key()), json.loads(m.value()) if m.value() else None) for m in found]

    def rows(self) -> dict[int, str | None]:
        """What a reader has who keeps the last message of each key."""
        last = {key["id"]: row for key, row in self.log()}
        assert all(row is None or row["id"] == key for key, row in last.items())
        return {key: row["name"] for key, row in sorted(last.items()) if row is not None}

    def condition(
        self, generation: int, *fragments: Rows | Json, job: WriteJob | None = None
    ) -> str:
        with pytest.raises(TaskFailure) as caught:
            self.write(generation, *fragments, job=job)
        return caught.value.condition

    def delete(self, *topics: str) -> None:
        for done in self.admin.delete_topics(list(topics)).values():
            done.result()
        while set(topics) & self.admin.list_topics().topics.keys():
            pass

    def meddle(self, key: bytes, value: bytes | None) -> None:
        producer = Producer(
            {"bootstrap.servers": self.kafka.servers, "partitioner": "murmur2_random"}
        )
        producer.produce(self.name, value, key)
        assert producer.flush() == 0


@pytest.fixture
def world(
    kafka: Kafka, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))
    world = World(kafka, name, tmp_path)
    yield world
    # What was caught may keep the world: its client would ask for the server when that has gone
    del world.admin


A: dict[int, str | None] = {1: "one", 2: "two", 3: None}
B: dict[int, str | None] = {4: "four", 5: ""}


def test_only_what_changed_is_sent(world: World) -> None:
    assert world.write(1, A, B) == 5
    assert world.rows() == A | B
    assert world.write(2, {1: "one", 2: "deux"}, B) == 2, (
        "a row that is another one, and one that went"
    )
    assert world.rows() == {1: "one", 2: "deux", **B}
    assert world.write(3, {1: "one", 2: "deux", 4: "four"}, {5: ""}) == 0, (
        "a row that moved is the same"
    )
    assert world.write(4) == 4
    assert world.rows() == {}
    assert len(world.log()) == 5 + 2 + 0 + 4


def test_who_knows_nothing_of_the_topic_reads_it(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world.write(1, A, B)
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "other"))
    assert world.write(2, A, {4: "vier"}) == 2
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))
    assert world.write(3, A, B) == 2, "what was known before somebody else wrote is not trusted"
    monkeypatch.delenv("HEADGATE_HOME")
    assert world.write(3, A, B) == 0
    assert world.rows() == A | B


FAILPOINTS = ("kafka-compared", "kafka-sent", "kafka-part", "kafka-committed")


@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_what_dies_in_the_middle_is_done_again(world: World, failpoint: str) -> None:
    world.write(1, A, B)
    task = world.task(2, {1: "uno", 2: "two", 6: "six"}, {4: "vier"})
    world.dies(failpoint, task)
    before = world.rows()
    sent = {"kafka-compared": 0, "kafka-sent": 0, "kafka-part": 2, "kafka-committed": 5}[failpoint]
    assert len(world.log()) == 5 + sent, "of transactions that are not over, nothing is seen"
    with writing(world.job(), LocalLake(world.lake), MOST) as write:
        assert write(task)["messages"] == 5 - sent, "what was done is not done again"
    assert world.rows() == {1: "uno", 2: "two", 4: "vier", 6: "six"}
    assert before == (A | B if sent == 0 else before)
    assert world.write(3, {1: "uno", 2: "two", 6: "six"}, {4: "vier"}) == 0


@pytest.mark.parametrize("failpoint", ["kafka-taken", "kafka-sent", "kafka-part"])
def test_what_dies_at_the_beginning_is_ours_all_the_same(world: World, failpoint: str) -> None:
    world.dies(failpoint, world.task(1, A, B))
    world.write(1, A, B)
    assert world.rows() == A | B
    assert world.condition(1, A, job=world.job("f.o 2")) == "target-owned"


def test_two_writers_never_own_a_topic(world: World) -> None:
    with writing(world.job(), LocalLake(world.lake)) as write:
        while look(world.settings, f"{world.name}-headgate").bounds[0].end < 2:
            pass  # the end of the transaction is being written
        assert world.condition(9, A, job=world.job("f.o 2")) == "target-owned"
        write(world.task(1, A))  # and was not disturbed
    world.delete(f"{world.name}-headgate", world.name)
    world.write(1, B, job=world.job("f.o 2"))
    assert world.condition(2, A) == "target-owned"
    assert world.rows() == B


def test_of_two_that_begin_together_the_first_is_fenced(world: World) -> None:
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(writing(world.job(), LocalLake(world.lake))) for _ in range(2)
        )
        with pytest.raises(TaskFailure) as caught:
            first(world.task(1, A))
        assert (caught.value.condition, caught.value.kind) == ("target-busy", "infrastructure")
        second(world.task(1, B))
    assert world.rows() == B


def test_a_topic_of_somebody_else_is_left_alone(world: World) -> None:
    config = {"cleanup.policy": "compact"}
    world.admin.create_topics([NewTopic(world.name, 1, config=config)])[world.name].result()
    world.meddle(b'{"id":1}', b'{"id":1}')
    assert world.condition(1, A) == "target-occupied"
    assert f"{world.name}-headgate" not in world.admin.list_topics().topics
    assert len(world.log()) == 1


def test_a_topic_in_the_place_of_ours_is_somebody_elses(world: World) -> None:
    world.write(2, A)
    world.delete(world.name)
    assert world.condition(1, A) == "target-ahead", (
        "of one that is made anew, it is known what it has to hold"
    )
    world.delete(world.name)
    config = {"cleanup.policy": "compact"}
    world.admin.create_topics([NewTopic(world.name, 2, config=config)])[world.name].result()
    world.meddle(b'{"id":7}', b'{"id":7,"name":"theirs"}')
    assert world.condition(3, A) == "target-occupied"
    assert world.rows() == {7: "theirs"}


def test_a_topic_that_forgets_is_no_copy(world: World) -> None:
    world.admin.create_topics([NewTopic(world.name, 1)])[world.name].result()
    assert world.condition(1, A) == "topic-not-compacted"


def test_keys_never_move(world: World) -> None:
    world.write(1, A)
    world.admin.create_partitions([NewPartitions(world.name, 3)])[world.name].result()
    assert world.condition(2, B) == "target-partitions-changed"


def test_what_comes_late_changes_nothing(world: World) -> None:
    world.write(2, A)
    assert world.condition(1, B) == "target-ahead"
    assert world.rows() == A


def test_what_others_did_to_the_topic_is_put_right(world: World) -> None:
    world.write(1, A)
    world.meddle(b'{"id":1}', b'{"id":1,"name":"meddled"}')
    world.meddle(b'{"id":7}', b'{"id":7,"name":"meddled"}')
    assert world.write(2, A) == 2
    assert world.rows() == A
    world.delete(world.name)
    assert world.write(3, A) == 3, "a topic that is gone is made again"
    assert world.rows() == A


def test_a_key_has_one_row(world: World) -> None:
    world.write(1, A)
    assert world.condition(2, A, {3: "three"}) == "key-not-unique"
    assert world.condition(2, {1: "x"}, {1: "y"}) == "key-not-unique"
    assert world.condition(2, world.fragment(B, copies=2)) == "key-not-unique"
    assert world.condition(2, A, job=world.job(key=["nothing"])) == "column-missing"
    assert world.rows() == A
    assert world.write(2, {1: "one"}, {2: "two", 3: None}) == 0


def test_other_keys_and_columns_are_other_messages(world: World) -> None:
    world.write(1, A)
    assert world.write(2, A, job=world.job(key=["id", "name"])) == 3 + 3
    keys = [key for key, row in world.log() if row]
    assert {"id": 3, "name": None} in keys
    assert (
        world.write(3, A, job=world.job(schema=struct(id="integer", name="string", more="date")))
        == 3 + 3
    )
    last = {json.dumps(key): row for key, row in world.log()}
    assert {json.dumps({"id": k}): {"id": k, "name": v, "more": None} for k, v in A.items()} == {
        key: row for key, row in last.items() if row
    }


def connecting(job: WriteJob, *, writes: bool) -> ConnectJob:
    return cast("ConnectJob", {**job, "writes": writes})


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_who_has_to_log_in(world: World, monkeypatch: pytest.MonkeyPatch, mechanism: str) -> None:
    """Over TLS, with a certificate that is trusted."""
    job = world.secured(mechanism)
    assert world.condition(1, A, job=job) == "secret-missing"
    monkeypatch.setenv("HEADGATE_SECRET_KAFKA_PASSWORD", PASSWORD)
    check(connecting(job, writes=True))
    world.write(1, A, job=job)
    assert world.rows() == A
    check(connecting(job, writes=False))
    monkeypatch.setenv("HEADGATE_SECRET_KAFKA_PASSWORD", "wrong")
    assert world.condition(2, B, job=job) == "credentials-refused"


def test_whom_nobody_trusts(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADGATE_SECRET_KAFKA_PASSWORD", PASSWORD)
    other, _ = certificate(tmp_path, "other")
    (tmp_path / "no.pem").write_text("no certificate")
    for wrong in (
        {"ssl.ca.location": str(other)},
        {"ssl.ca.location": ""},
        {"ssl.ca.location": "/nowhere/ca.pem"},
        {"ssl.ca.location": str(tmp_path / "no.pem")},
    ):
        job = world.secured("PLAIN", **wrong)
        assert world.condition(1, A, job=job) == "tls-failed", wrong
        with pytest.raises(
            TaskFailure, match=r"no encrypted connection to Kafka at .*127\.0\.0\.1"
        ):
            check(connecting(job, writes=False))


def test_no_client_outlives_a_question_that_failed(world: World, tmp_path: Path) -> None:
    """Else it ends in whatever thread collects garbage, and with it, perhaps, the process."""

    def clients() -> int:
        return sum(isinstance(one, AdminClient) for one in gc.get_objects())

    gc.collect()  # what tests before have left
    before = clients()
    job = world.secured(
        "PLAIN",
        **{"ssl.ca.location": str(certificate(tmp_path, "other")[0]), "sasl.password": "none"},
    )
    for settings, condition in (
        (job["settings"], "tls-failed"),
        (world.settings, "topic-not-found"),
    ):
        with pytest.raises(TaskFailure) as caught:
            look(settings, world.name)
        assert caught.value.condition == condition
        assert clients() <= before, "one that stayed connected may have been used, and closed"


def test_what_is_gone_is_not_jumped_over(world: World) -> None:
    world.admin.create_topics([NewTopic(world.name, 1)])[world.name].result()
    for key in (b"1", b"2", b"3"):
        world.meddle(key, b"")
    gone = TopicPartition(world.name, 0, 2)
    world.admin.delete_records([gone])[gone].result()
    assert len(list(messages(world.settings, world.name, {0: 2}))) == 1
    with pytest.raises(KafkaException):
        list(messages(world.settings, world.name, {0: 0}))


def test_trying_a_connection_changes_nothing(world: World) -> None:
    check(connecting(world.job(), writes=True))
    assert world.name not in world.admin.list_topics().topics
