"""Slices that a worker reads without Spark: the driver's content and the driver's rows, or
`Undecided`.

Each value of a hostile corpus is read by itself. What the worker takes is read again, all in one
slice, by both. So a value that the driver refuses, or reads as another, is found with its offset.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from hashlib import sha256
from io import BytesIO
from itertools import count, product
from math import inf, nan
from typing import Any, cast

import fastavro
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from dataplane.connectors.kafka import kafka_server, slice_reader
from dataplane.connectors.kafka.avro import written
from dataplane.connectors.kafka.kafka_listing import object_of
from dataplane.connectors.kafka.kafka_server import OffsetBounds, look
from dataplane.connectors.kafka.schema_registry import Registry
from dataplane.connectors.kafka.slice_reader import read_slice, table_of
from dataplane.connectors.kafka.slice_values import KafkaMessage, Undecided, batch_of
from dataplane.contract.claims import ParseClaim, ParseTask
from dataplane.contract.results import FileEntry, Output, TaskResult
from dataplane.contract.schemas import Schema, struct_of
from dataplane.fragments.arrow import raw_batches
from dataplane.fragments.task_results import output_of
from dataplane.task_failures import TaskFailure
from tests.servers.kafka import Kafka
from tests.servers.registry import SchemaRegistry
from tests.spark.conftest import Lake, done, lake, schema_of

__all__ = ["lake"]
HANGS_S = 60.0
PARTITIONS = 2
NUMBERS = count()
ABOUT = (
    "_key STRING, _headers ARRAY<STRUCT<key: STRING, value: BINARY>>, _partition INT, "
    "_offset BIGINT, _timestamp TIMESTAMP"
)
RAW = (
    "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, `partition` INT, "
    "offset BIGINT, timestamp TIMESTAMP"
)
KINDS = {
    "s": "STRING",
    "b": "BOOLEAN",
    "t": "TINYINT",
    "h": "SMALLINT",
    "i": "INT",
    "l": "BIGINT",
    "d": "DOUBLE",
    "m": "DECIMAL(12,2)",
    "n": "DECIMAL(18,0)",
    "y": "DATE",
    "z": "TIMESTAMP",
    "x": "TIMESTAMP_NTZ",
}
NUMBERS_AS_WRITTEN = (
    "0 -0 1 -1 007 +1 .5 1. 0.0 -0.0 1.0 1.5 -1.5 0.1 1e2 1E2 1e+2 1.5e1 1e-2 -0e0 -0.0e5 1e400 -1e400 "
    "1e-400 5e-324 2.4e-324 1.7976931348623157e308 1.7976931348623159e308 127 128 -128 -129 255 256 "
    "32767 32768 2147483647 2147483648 -2147483648 9007199254740991 9007199254740992 "
    "9007199254740993 9223372036854775807 9223372036854775808 -9223372036854775808 "
    "-9223372036854775809 1234567890.12 1234567890.125 12345678901.25 9999999999.99 9999999999.999 "
    "99999999999.99 0.005 0.004 0.010 0.0100 1.20 1e1 1e9 1e10 12e-1 12e-3 120e-3 999999999999999999 "
    "1000000000000000000 0.1000000000000000055511151231257827 123456789012345678901234567890 "
    "0e400 0e401 0E2147483648 0e-1000000000000 NaN Infinity -Infinity nan 0x10 1_000 1,5 0b1 1f 1d 1L"
)
TIMES_AS_WRITTEN = (
    "2024-01-02 2024-1-2 2024-02-30 2023-02-29 2024-02-29 0001-01-01 0000-01-01 1582-10-10 1500-02-29 "
    "1899-12-31 9999-12-31 10000-01-01 +2024-01-02 -2024-01-02 20240102 2024-01 2024 2024-01-02Z "
    "2024-01-02+01:00 2024-W01-1 2024-001 2024/01/02 02.01.2024 now today epoch tomorrow 2024-01-02T "
    "2024-01-02T03:04:05Z 2024-01-02T03:04:05 2024-01-02T03:04:05.6Z 2024-01-02T03:04:05.60Z "
    "2024-01-02T03:04:05.678Z 2024-01-02T03:04:05.678901Z 2024-01-02T03:04:05.6789012Z "
    "2024-01-02T03:04:05.678901234Z 2024-01-02T03:04:05.678901 2024-01-02T03:04:05.67 "
    "2024-01-02T03:04:05+00:00 2024-01-02T03:04:05+01:00 2024-01-02T03:04:05+0100 "
    "2024-01-02T03:04:05-23:59 2024-01-02T03:04:05.5+05:30 2024-01-02T03:04:05UTC "
    "2024-01-02T03:04Z 2024-01-02T03Z 2024-01-02T24:00:00Z 2024-01-02T23:59:60Z 2024-01-02T3:4:5Z "
    "2024-01-02t03:04:05z 2024-01-02T03:04:05,5Z 2024-01-02T03:04:05z 0001-01-01T00:00:00Z "
    "0000-01-01T00:00:00Z 1582-10-10T00:00:00Z 1883-11-18T12:00:00Z 9999-12-31T23:59:59.999999Z "
    "10000-01-01T00:00:00Z 1969-12-31T23:59:59.999999Z 1970-01-01T00:00:00.000001 1700000000 "
    "1700000000000 1e9"
)
TEXTS = [
    "", " ", "a", "null", "true", "1", "\u00e9", "\u20ac", "\U0001f600", "e\u0301", "\ufeff", "\ufffd",
    "\u2028", "\x7f", "\u0085", "\u00a0", "x" * 31, "x" * 32, "x" * 33, "x" * 5000, "\t", "\n", "\r\n",
    "\0", "\x01", "\x1f", '"', "\\", "/", "'", "{", "}", "[1]", "a-0b", "-0", "\ud7ff", "\ue000",
]  # fmt: skip
OTHERS_AS_WRITTEN = (
    'true false null True TRUE nul "true" "false" "1" "-0.0" "1.5" "" "NaN" {} [] [1] {"a":1} [null] [[]] '
    '"\\u0041" "\\ud800" "\\udc00\\ud800" "\\ud83d\\ude00" "\\x" "\\u00e" "\\/" "\\u0000" \'a\' "a'
)
OBJECTS = [
    b"", b" ", b"\n", b"\t", b"{}", b" {} ", b"\r\n{}\r\n", b"\xef\xbb\xbf{}", b"null", b"1", b'"s"', b"true",
    b"[]", b"[{}]", b'[{"s":"a"}]', b"{", b"}", b"{]", b"{}}", b"{}{}", b"{} {}", b"{}\n{}\n", b"{},", b"{}x",
    b'{"s":"a"} x', b'{"s":"a"}\0', b'{"s":"a",}', b'{,"s":"a"}', b'{"s" "a"}', b"{s:1}", b"{'s':'a'}",
    b'{"s":"a"}// c', b'{/* c */"s":"a"}', b'{"s":"a","s":"b"}', b'{"s":"a","s":null}', b'{"s":null,"s":"a"}',
    b'{"q":1,"q":2,"s":"a"}', b'{"q":{"r":1,"r":2},"s":"a"}', b'{"S":"a"}', b'{"S":"a","s":"b"}',
    b'{"s ":"a"}', b'{"":1}', b'{"q":[1,{"r":[]}],"s":"a"}', b'{"q":NaN,"s":"a"}', b'{"q":1e999,"s":"a"}',
    b'{"q":-0,"d":0}', b'{"d":-0}', b'{"d": -0 }', b'{"i":-0}', b'{"m":-0}', b'{"m":-0.0}', b'{"d":0,"s":"-0"}',
    b'{"q":' + b"1" * 1100 + b',"s":"a"}', b'{"q":0.' + b"1" * 1100 + b',"s":"a"}', b'{"l":' + b"9" * 400 + b"}",
    b'{"q":' + b"[" * 200 + b"]" * 200 + b',"s":"a"}', b'{"q":' + b"[" * 990 + b"]" * 990 + b',"s":"a"}',
    b'{"q":' + b"[" * 1500 + b"]" * 1500 + b',"s":"a"}', b'{"' + b"k" * 49_000 + b'":1,"s":"a"}',
    b'{"' + b"k" * 60_000 + b'":1,"s":"a"}', b'{"s":"' + b"v" * 40_000 + b'"}', b'{"s":"' + b"v" * 60_000 + b'"}',
    b'{"s":"\xe9"}', b'{"\xe9":1,"s":"a"}', b'{"s":"\xc0\x80"}', b'{"s":"\xed\xa0\x80"}', b'{"s":"\xf5\x80\x80\x80"}',
    b'{"s":"a\x01b"}', b'{"s":"a\nb"}', b'{"s":"a\tb"}', b'{"s":"a\x00b"}', b"\x00\x00\x00\x00\x07{}",
    b'\x00\x00\x00\x00\x07{"s":"a"}', b"\x00\x00\x00\x00\x07", b"\x00", b"\x00{}", b'\x01\x00\x00\x00\x07{"s":"a"}',
    '{"s":"a"}'.encode("utf-16"), '{"s":"a"}'.encode("utf-16-le"), '{"s":"a"}'.encode("utf-32-be"),
    b'{"\\u0073":"a"}', b'{"s":"a","\\u0073":"b"}', b'{"s":"a"}\xc2\xa0', b"\x0b{}", b"\x0c{}", b'{\x0c"s":"a"}',
    b'{"s":"a"}\x1a', b'{"\\ud800":1,"s":"a"}', b'{"s":"a","b":true,"i":1,"d":1.5,"m":"1.5"}', b'{"s":\xa0"a"}',
]  # fmt: skip


def corpus() -> list[bytes | None]:
    """Messages' values: of each column each odd text, and odd objects."""
    written = [*NUMBERS_AS_WRITTEN.split(), *OTHERS_AS_WRITTEN.split()]
    quoted = [*NUMBERS_AS_WRITTEN.split()[:24], *TIMES_AS_WRITTEN.split()]
    written += [json.dumps(text) for text in quoted]
    values = [f'{{"{name}": {text}}}'.encode() for name, text in product(KINDS, written)]
    texts = [json.dumps({"s": text}).encode() for text in TEXTS]
    raw_texts = [json.dumps({"s": text}, ensure_ascii=False).encode() for text in TEXTS]
    return [None, *OBJECTS, *texts, *raw_texts, *values]


class Topic:
    """A topic of its own, and slices of it."""

    def __init__(self, kafka: Kafka, **settings: Any) -> None:
        self.name, self.servers = f"lane{next(NUMBERS)}", kafka.servers
        self.settings = {"servers": kafka.servers, "topic": self.name, **settings}
        self.admin = AdminClient({"bootstrap.servers": kafka.servers})
        self.make()

    def make(self) -> None:
        (made,) = self.admin.create_topics([NewTopic(self.name, PARTITIONS)]).values()
        made.result()

    def delete(self) -> None:
        (deleted,) = self.admin.delete_topics([self.name]).values()
        deleted.result()

    def send(self, values: Iterable[bytes | None], *, partition: int = 0, **options: Any) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        for value in values:
            self._produce(producer, value, partition, **options)
        assert producer.flush(HANGS_S) == 0

    def transaction(self, values: Sequence[bytes], *, commit: bool) -> None:
        own = {"transactional.id": self.name}
        producer = Producer({"bootstrap.servers": self.servers, **own})
        producer.init_transactions(HANGS_S)
        producer.begin_transaction()
        for value in values:
            self._produce(producer, value, 0)
        assert producer.flush(HANGS_S) == 0
        (producer.commit_transaction if commit else producer.abort_transaction)(HANGS_S)

    def _produce(
        self, producer: Producer, value: bytes | None, partition: int, **options: Any
    ) -> None:
        while True:
            try:
                producer.produce(self.name, value, partition=partition, **options)
            except BufferError:
                producer.poll(0.1)
            else:
                return

    def task(
        self, columns: Schema, *ranges: tuple[int, int, int], schema: int | None = None
    ) -> ParseTask:
        """A slice of these ranges of offsets (partition, first, end), by default of all there
        are."""
        topic = look(self.settings, self.name)
        bounds = [OffsetBounds(*of) for of in ranges] or topic.bounds
        objects = [object_of(topic, of) for of in bounds]
        if schema is not None:
            objects = [{**o, "detail": {**o["detail"], "schema": schema}} for o in objects]
        task = {"objects": objects, "columns": columns}
        return cast(
            "ParseTask",
            {
                "task": sha256(str(next(NUMBERS)).encode()).hexdigest(),
                "epoch": 1,
                "partition": "1",
                **task,
            },
        )

    def claim(self, lake: Lake, *tasks: ParseTask, on_bad_record: str = "fail") -> ParseClaim:
        job = {"connector": "kafka", "settings": self.settings, "timezone": "UTC"}
        job |= {"format": "kafka", "options": {}, "metadata": [], "on_bad_record": on_bad_record}
        return cast("ParseClaim", {**lake.claim("parse", job, []), "tasks": list(tasks)})


Rows = list[dict[str, Any]]


def rows_of(lake: Lake, output: TaskResult | Output) -> Rows:
    """In the order of the log. Zeros have signs, and NaN equals itself: values are compared by
    their texts."""
    batches = [b for f in output["files"] for b in raw_batches(str(lake.root / f["path"]))]
    rows = [row for batch in batches for row in batch.to_pylist()]
    about = "_" if rows and "_offset" in rows[0] else ""
    return sorted(rows, key=lambda row: (row[f"{about}partition"], row[f"{about}offset"]))


def assert_same(
    lake: Lake, topic: Topic, *tasks: ParseTask, on_bad_record: str = "fail"
) -> list[Rows]:
    """Both read these slices: contents, rows, and the statistics of files are the same."""
    by_driver = lake.executor.run(topic.claim(lake, *tasks, on_bad_record=on_bad_record))
    rows = []
    for task, result in zip(tasks, by_driver, strict=True):
        expected = rows_of(lake, done(result))
        output = output_of(read_slice(topic.claim(lake, task), task, lake.executor.lake))
        rows.append(rows_of(lake, output))
        assert [*map(repr, rows[-1])] == [*map(repr, expected)]
        assert (output["content"], output["schema"]) == (result["content"], result["schema"])
        if len(result["files"]) <= 1:  # Spark writes a file for each partition of the topic
            assert [*map(counted, output["files"])] == [*map(counted, result["files"])]
    return rows


def counted(file: FileEntry) -> tuple[int, dict[str, Any]]:
    return file["rows"], file["stats"]


def decided(value: bytes | None, topic: Topic, columns: Schema, schema: int | None = None) -> bool:
    try:
        batch_of([KafkaMessage(None, value, 0, 0, 0)], topic.settings, schema, columns)
    except Undecided:
        return False
    return True


# --- values ---------------------------------------------------------------------------------------


def test_json_is_read_as_by_the_driver_or_not_at_all(
    lake: Lake, kafka: Kafka, spark: SparkSession
) -> None:
    declared = ", ".join(f"{name} {kind}" for name, kind in KINDS.items())
    topic = Topic(kafka, format="json", schema=declared)
    columns = schema_of(spark, f"{declared}, {ABOUT}")
    values = corpus()
    assert len(values) > 1_500
    taken = [value for value in values if decided(value, topic, columns)]
    topic.send(taken)
    (rows,) = assert_same(lake, topic, topic.task(columns), on_bad_record="drop")
    assert len(rows) == len(taken) > 150


PLAIN_COLUMNS = ", ".join(f"{name} {kind}" for name, kind in KINDS.items())
PLAIN_VALUES = [
    None, b"{}", b'{"s": "a"}', b'{"b": true}', b'{"t": 127}', b'{"i": -1}', b'{"l": 9223372036854775807}',
    b'{"d": 1.5}', b'{"d": 5}', b'{"d": -0.0}', b'{"m": 1.5}', b'{"m": 1}', b'{"n": 999999999999999999}',
    b'{"y": "2024-02-29"}', b'{"z": "2024-01-02T03:04:05.678Z"}', b'{"x": "2024-01-02T03:04:05"}',
    b'{"q": {"r": [1, 2.5, null]}, "s": "\\u00e9"}', b' {"s": null}\r\n', b'\0\0\0\0\7{"s": "a"}',
]  # fmt: skip


def test_plain_values_are_taken(kafka: Kafka, spark: SparkSession) -> None:
    topic = Topic(kafka, format="json", schema=PLAIN_COLUMNS)
    columns = schema_of(spark, f"{PLAIN_COLUMNS}, {ABOUT}")
    assert [value for value in PLAIN_VALUES if not decided(value, topic, columns)] == []


@pytest.mark.parametrize(
    "kind", ["VARCHAR(3)", "CHAR(3)", "STRING COLLATE UTF8_LCASE", "INT NOT NULL"]
)
def test_columns_that_are_more_than_their_types_are_left(
    kafka: Kafka, spark: SparkSession, kind: str
) -> None:
    topic = Topic(kafka, format="json", schema=f"s {kind}")
    assert not decided(b"{}", topic, schema_of(spark, f"s STRING, {ABOUT}"))


KEYS = [None, b"", b"k", "\u00e9".encode(), b"\xe9", b"\0"]


def test_keys_are_the_drivers(lake: Lake, kafka: Kafka, spark: SparkSession) -> None:
    topics = {
        RAW: Topic(kafka, format="raw"),
        f"s STRING, {ABOUT}": Topic(kafka, format="json", schema="s STRING"),
    }
    for ddl, topic in topics.items():
        columns = schema_of(spark, ddl)
        for key in KEYS:
            with suppress(Undecided):
                batch_of([KafkaMessage(key, b"{}", 0, 0, 0)], topic.settings, None, columns)
                topic.send([b"{}"], key=key, headers=[])
        topic.send([None, b"\xff\0"] if ddl == RAW else [None])
        (rows,) = assert_same(lake, topic, topic.task(columns))
        assert len(rows) > 5


def test_messages_with_headers_are_left(topic: Topic, columns: Schema) -> None:
    topic.send(numbered(1), headers=[("a", None)])
    with pytest.raises(Undecided, match="headers"):
        numbers(topic, topic.task(columns), columns)


def test_an_empty_value_is_no_missing_one(lake: Lake, kafka: Kafka, spark: SparkSession) -> None:
    topic = Topic(kafka, format="raw")
    topic.send([b"", None])
    (rows,) = assert_same(lake, topic, topic.task(schema_of(spark, RAW)))
    assert [row["value"] for row in rows] == [b"", None]


# --- slices ---------------------------------------------------------------------------------------

NUMBERED = "n BIGINT"


def numbered(*numbers: int) -> list[bytes]:
    return [b'{"n": %d}' % number for number in numbers]


@pytest.fixture
def topic(kafka: Kafka) -> Topic:
    return Topic(kafka, format="json", schema=NUMBERED)


@pytest.fixture
def columns(spark: SparkSession) -> Schema:
    return schema_of(spark, f"{NUMBERED}, {ABOUT}")


def numbers(topic: Topic, task: ParseTask, columns: Schema) -> list[int]:
    return sorted(table_of(topic.settings, task, columns)["n"].to_pylist())


def test_slices_are_cut_at_their_offsets(lake: Lake, topic: Topic, columns: Schema) -> None:
    """Clients read behind the end of a slice; transactions leave offsets without a message."""
    topic.send(numbered(*range(2_500)))
    topic.send(numbered(*range(2_500, 2_600)), partition=1)
    topic.transaction(numbered(2_600, 2_601), commit=True)
    topic.transaction(numbered(9_000, 9_001), commit=False)
    topic.send(numbered(2_602))
    topic.transaction(numbered(9_002), commit=False)
    ends = {b.partition: b.end for b in look(topic.settings, topic.name).bounds}
    slices = [
        topic.task(columns, (0, 0, 1_000), (1, 0, 10)),
        topic.task(columns, (0, 1_000, 2_499), (1, 10, 10)),
        topic.task(columns, (0, 2_499, 2_501), (1, 10, 99)),
        topic.task(columns, (0, 2_501, 2_502), (1, 99, 99)),
        topic.task(columns, (0, 2_502, 2_503), (1, 99, 99)),  # the end of a transaction
        topic.task(columns, (0, 2_503, ends[0]), (1, 99, ends[1])),
    ]
    rows = assert_same(lake, topic, *slices)
    assert [len(of_slice) for of_slice in rows] == [1_010, 1_499, 91, 1, 0, 2]
    read = [row["n"] for of_slice in rows for row in of_slice]
    assert sorted(read) == [*range(2_603)]


def test_a_topic_that_was_made_again_is_no_slice(topic: Topic, columns: Schema) -> None:
    topic.send(numbered(1, 2))
    task = topic.task(columns)
    topic.delete()
    make_again(topic)
    topic.send(numbered(3, 4))
    with pytest.raises(TaskFailure, match="made again"):
        numbers(topic, task, columns)


def test_nor_is_one_that_is_made_again_meanwhile(
    topic: Topic, columns: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.send(numbered(1, 2))
    task, before = topic.task(columns), look(topic.settings, topic.name)
    topic.delete()
    make_again(topic)
    topic.send(numbered(3, 4))
    looks = iter([before])
    monkeypatch.setattr(
        slice_reader, "look", lambda *of: next(looks, None) or kafka_server.look(*of)
    )
    with pytest.raises(Undecided, match="made again"):
        numbers(topic, task, columns)


def make_again(topic: Topic) -> None:
    """The server removes a topic some time after its answer."""
    for _ in range(600):
        try:
            topic.make()
        except KafkaException as e:
            if e.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        else:
            break
    for _ in range(600):
        with suppress(TaskFailure):
            look(topic.settings, topic.name)
            return
    raise AssertionError("the topic was not made again")


def test_what_is_not_read_in_time_is_left(
    topic: Topic, columns: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.send(numbered(1, 2))
    task = topic.task(columns)
    assert numbers(topic, task, columns) == [1, 2]
    monkeypatch.setattr(slice_reader, "READ_S", -1.0)
    with pytest.raises(Undecided, match="not read within"):
        numbers(topic, task, columns)


def test_a_large_slice_is_left(
    topic: Topic, columns: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slice_reader, "MOST_BYTES", 10)
    topic.send(numbered(1, 2))
    with pytest.raises(Undecided, match="more than 10 bytes"):
        numbers(topic, topic.task(columns), columns)


def test_expired_offsets_are_the_drivers_error(topic: Topic, columns: Schema) -> None:
    topic.send(numbered(1, 2, 3))
    task = topic.task(columns)
    (done_,) = topic.admin.delete_records([TopicPartition(topic.name, 0, 2)]).values()
    done_.result()
    with pytest.raises(TaskFailure, match="no longer holds"):
        numbers(topic, task, columns)


# --- Avro -----------------------------------------------------------------------------------------

FIELDS = [
    ("i", "int"), ("l", ["null", "long"]), ("f", "float"), ("d", "double"), ("s", "string"), ("b", "bytes"),
    ("o", "boolean"), ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
    ("m", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}),
    ("y", {"type": "int", "logicalType": "date"}), ("z", {"type": "long", "logicalType": "timestamp-micros"}),
    ("x", {"type": "long", "logicalType": "local-timestamp-millis"}),
]  # fmt: skip
PLAIN_RECORD = {
    "i": 1, "l": None, "f": 0.1, "d": -0.0, "s": "a", "b": b"\xff", "o": True, "e": "B", "m": Decimal("1.20"),
    "y": date(1582, 10, 10), "z": datetime(1, 1, 1, tzinfo=UTC), "x": datetime.fromisoformat("2024-01-02T03:04:05.678"),
}  # fmt: skip
RECORDS = [
    PLAIN_RECORD, {**PLAIN_RECORD, "f": nan, "d": nan}, {**PLAIN_RECORD, "f": inf, "d": -inf},
    {**PLAIN_RECORD, "f": -0.0, "d": 5e-324, "l": -(2**63)}, {**PLAIN_RECORD, "s": "\U0001f600\0", "b": b""},
    {**PLAIN_RECORD, "m": Decimal("-9999999999.99"), "y": date(9999, 12, 31), "i": -(2**31)},
    {**PLAIN_RECORD, "z": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)},
]  # fmt: skip


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    server = SchemaRegistry().start()
    yield server
    server.remove()


def record_schema(*names: str) -> dict[str, Any]:
    fields = [{"name": name, "type": kind} for name, kind in FIELDS if not names or name in names]
    return {"type": "record", "name": "R", "fields": fields}


def encoded(id: int, schema: dict[str, Any], record: dict[str, Any]) -> bytes:
    out = BytesIO()
    out.write(b"\0" + id.to_bytes(4))
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), record)
    return out.getvalue()


def test_avro_is_read_as_by_the_driver_or_not_at_all(
    lake: Lake, kafka: Kafka, registry: SchemaRegistry, spark: SparkSession
) -> None:
    whole, part = record_schema(), record_schema("i", "l", "s")
    new, old = (registry.register("r-value", json.dumps(schema)) for schema in (whole, part))
    settings = {"format": "avro", "registry": registry.url, "subject": "r-value"}
    topic = Topic(kafka, **settings)
    columns = under_schema(spark, topic, new)
    values = [encoded(new, whole, record) for record in RECORDS]
    bad = [
        b"",
        b"\0",
        b"x" + values[0],
        values[0] + b"x",
        values[0][:-1],
        encoded(old, part, RECORDS[0]),
    ]
    assert [decided(value, topic, columns, new) for value in [*values, None]] == [True] * 8
    assert [decided(value, topic, columns, new) for value in bad] == [False] * 6
    topic.send([*values, None])
    (rows,) = assert_same(lake, topic, topic.task(columns, schema=new))
    assert len(rows) == len(values) + 1
    narrow = Topic(kafka, **settings)
    narrow.send([encoded(old, part, RECORDS[0]), values[1]])
    task = narrow.task(under_schema(spark, narrow, old), schema=old)
    (rows,) = assert_same(lake, narrow, task)
    assert [row["s"] for row in rows] == ["a", "a"]


def under_schema(spark: SparkSession, topic: Topic, id: int) -> Schema:
    own = written(Registry.of(topic.settings), id).columns["fields"]
    return struct_of([*own, *schema_of(spark, ABOUT)["fields"]])
