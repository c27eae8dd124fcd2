"""Messages of slices without Spark, and without a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from dataplane.connectors.kafka import slice_reader
from dataplane.connectors.kafka.kafka_server import OffsetBounds, Topic
from dataplane.connectors.kafka.slice_reader import _Left, table_of
from dataplane.connectors.kafka.slice_values import KafkaMessage, Undecided, batch_of
from dataplane.contract.claims import ParseTask
from dataplane.contract.schemas import HEADERS, Json, Schema, field_of, struct_of

ABOUT = [
    field_of("_key", "string"),
    field_of("_headers", HEADERS),
    field_of("_partition", "integer"),
    field_of("_offset", "long"),
    field_of("_timestamp", "timestamp"),
]
SETTINGS: Json = {"topic": "t", "format": "json", "schema": "c STRING"}
TOPIC = Topic("t", "id", (OffsetBounds(0, 0, 9),))


def columns_with(kind: str) -> Schema:
    return struct_of([field_of("c", kind), *ABOUT])


def plain(value: bytes, offset: int = 0) -> KafkaMessage:
    return KafkaMessage(None, value, 0, offset, 0)


@dataclass(frozen=True)
class Arrived:
    """A message as the client gives it; `found` is what it says of headers."""

    at: int = 0
    found: Any = None

    def error(self) -> None:
        return None

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"{}"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, 0

    def headers(self) -> Any:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def accepted(*arrived: Arrived) -> list[int]:
    left = _Left({0: OffsetBounds(0, 2, 4)})
    return [message.offset for message in left.accept(cast("Any", arrived))]


@pytest.mark.parametrize(
    "headers", [SystemError("no UTF-8"), ValueError("no UTF-8"), [("a", b"1")], [("a", None)]]
)
def test_messages_with_headers_are_left(headers: Any) -> None:
    """Their names are cut at a zero byte, so they may be others."""
    with pytest.raises(Undecided, match="headers"):
        accepted(Arrived(2, headers))


def test_messages_of_the_range_alone_are_read() -> None:
    assert accepted(*map(Arrived, range(6))) == [2, 3]
    assert accepted(Arrived(2), Arrived(2), Arrived(3, [])) == [2, 3]


@pytest.mark.parametrize("zero", ["0E2147483648", "0e-1000000000000", "0e401", "0.0e-400"])
def test_decimals_with_a_large_exponent_are_left(zero: str) -> None:
    columns = columns_with("decimal(12,2)")
    values = [f'{{"c": {text}}}'.encode() for text in ("0", "0e10", "0.00", zero)]
    batch_of([*map(plain, values[:-1])], SETTINGS, None, columns)
    with pytest.raises(Undecided, match="exponent"):
        batch_of([plain(values[-1])], SETTINGS, None, columns)


def test_hour_24_is_left() -> None:
    """Python 3.14 reads it, as another day."""
    with pytest.raises(Undecided, match="another form"):
        batch_of(
            [plain(b'{"c": "2024-01-02T24:00:00Z"}')], SETTINGS, None, columns_with("timestamp")
        )


def task_of(first: int, end: int, columns: Schema) -> ParseTask:
    detail = {"topic": "id", "partition": 0, "first": first, "end": end}
    task = {"task": "0" * 64, "epoch": 1, "partition": "1", "columns": columns}
    return cast("ParseTask", {**task, "objects": [{"detail": detail}]})


def read_as(monkeypatch: pytest.MonkeyPatch, looks: list[Topic], *messages: KafkaMessage) -> None:
    """What the server says of the topic each time, and the messages of a slice."""
    monkeypatch.setattr(slice_reader, "look", lambda *_: looks.pop(0))
    monkeypatch.setattr(slice_reader, "messages_of", lambda *_: iter([list(messages)]))


def test_rows_that_were_read_may_expire_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = columns_with("string")
    expired = Topic("t", "id", (OffsetBounds(0, 5, 9),))
    read_as(monkeypatch, [TOPIC, expired], plain(b"{}"))
    assert table_of(SETTINGS, task_of(0, 1, columns), columns).num_rows == 1
    read_as(monkeypatch, [TOPIC, Topic("t", "other", TOPIC.bounds)], plain(b"{}"))
    with pytest.raises(Undecided, match="made again"):
        table_of(SETTINGS, task_of(0, 1, columns), columns)
