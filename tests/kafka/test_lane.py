"""Slices that a worker reads without Spark: the driver's content and the driver's rows, or
`Undecided`.

Each value of a hostile corpus is read by itself. What the worker takes is read again, all in one
slice, by both. So a value that the driver refuses, or reads as another, is found with its offset.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import count, product
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from dataplane.connectors.kafka.avro import parsed
from dataplane.connectors.kafka import slice_values
from dataplane.connectors.kafka.kafka_listing import object_of
from dataplane.connectors.kafka.kafka_server import OffsetBounds, look
from dataplane.connectors.kafka.slice_reader import read_slice, table_of
from dataplane.connectors.kafka.slice_values import Message, Undecided, batch_of
from dataplane.contract.claims import ParseClaim, ParseTask
from dataplane.contract.results import FileEntry, Output, TaskResult
from dataplane.contract.schemas import Schema, canonical_schema
from dataplane.fragments.arrow import raw_batches
from dataplane.fragments.task_results import output_of
from dataplane.task_failures import TaskFailure
from tests.servers.kafka import Kafka
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
    "NaN Infinity -Infinity nan 0x10 1_000 1,5 0b1 1f 1d 1L"
).split()
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
).split()
TEXTS = [
    "", " ", "a", "null", "true", "1", "\u00e9", "\u20ac", "\U0001f600", "e\u0301", "\ufeff", "\ufffd",
    "\u2028", "\x7f", "\u0085", "\u00a0", "x" * 31, "x" * 32, "x" * 33, "x" * 5000, "\t", "\n", "\r\n",
    "\0", "\x01", "\x1f", '"', "\\", "/", "'", "{", "}", "[1]", "a-0b", "-0", "\ud7ff", "\ue000",
]  # fmt: skip
OTHERS_AS_WRITTEN = (
    'true false null True TRUE nul "true" "false" "1" "-0.0" "1.5" "" "NaN" {} [] [1] {"a":1} [null] [[]] '
    '"\\u0041" "\\ud800" "\\udc00\\ud800" "\\ud83d\\ude00" "\\x" "\\u00e" "\\/" "\\u0000" \'a\' "a'
).split()
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
    written = [*NUMBERS_AS_WRITTEN, *OTHERS_AS_WRITTEN]
    written += [json.dumps(text) for text in (*NUMBERS_AS_WRITTEN[:24], *TIMES_AS_WRITTEN)]
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

    def send(
        self, values: Iterable[bytes | None], *, partition: int = 0, **options: Any
    ) -> None:
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
        return cast("ParseTask", {"task": f"{next(NUMBERS):064x}", "epoch": 1, "partition": "1", **task})

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
        assert [*map(counted, output["files"])] == [*map(counted, result["files"])]
    return rows


def counted(file: FileEntry) -> tuple[int, dict[str, Any]]:
    return file["rows"], file["stats"]


def decided(value: bytes | None, topic: Topic, columns: Schema, schema: int | None = None) -> bool:
    try:
        batch_of([Message(None, value, None, 0, 0, 0)], topic.settings, schema, columns)
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


