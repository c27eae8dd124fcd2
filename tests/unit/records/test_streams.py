"""Bodies under way: memory stays flat, nothing is made that nobody takes, and whoever leaves frees
everything."""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pytest

from controlplane.operations.desired import tokens
from controlplane.ports.records import WantedRows
from dataplane.fragments import row_rendering
from tests.unit.lake.tables import struct
from tests.unit.records.conftest import order
from tests.unit.records.world import RECORDS, RecordWorld, Served, served

pytestmark = pytest.mark.unit
LONG_S = 60
MEGABYTE = 1 << 20


class Blocked(Iterator[bytes]):
    """A piece that is waited for until somebody closes."""

    def __init__(self) -> None:
        self.unfinished, self.closed = threading.Event(), threading.Event()

    def __next__(self) -> bytes:
        self.unfinished.set()
        assert self.closed.wait(LONG_S)
        raise StopIteration

    def close(self) -> None:
        self.closed.set()


class Endless:
    """Pieces without an end, counted."""

    def __init__(self) -> None:
        self.made, self.closed = 0, threading.Event()

    def pieces(self) -> Iterator[bytes]:
        try:
            while True:
                self.made += 1
                yield b"x" * MEGABYTE
        finally:
            self.closed.set()


def serving(tmp_path: Path, render: Any) -> Any:
    world = RecordWorld(tmp_path)
    world.commit({"a.csv": [order(1)]})
    return served(world, render=render)


def unfinished(place: Served) -> socket.socket:
    """A request whose answer nobody reads."""
    url = httpx2.URL(place.url)
    client = socket.create_connection((url.host, url.port or 80))
    client.sendall(
        f"GET {RECORDS}.csv HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {place.token}\r\n\r\n".encode()
    )
    return client


def is_free(place: Served) -> bool:
    """Asked until it is, as the end of a connection is noticed by another thread."""
    for _ in range(1_000):
        with place.http() as http:
            http.get("/v1/tokens")
        if place.services.streams.running == 0:
            return True
    return False


def test_nothing_is_made_that_nobody_takes(tmp_path: Path) -> None:
    source = Endless()
    with serving(tmp_path, lambda _: source.pieces()) as place:
        client = unfinished(place)
        assert client.recv(12) == b"HTTP/1.1 200"
        with place.http() as http:
            for _ in range(30):  # there is time to make more
                http.get("/v1/tokens")
        assert source.made < 40  # what sockets hold
        client.close()
        assert source.closed.wait(LONG_S)
        assert is_free(place)


def test_who_leaves_before_the_first_piece_is_not_waited_for(tmp_path: Path) -> None:
    source = Blocked()
    with serving(tmp_path, lambda _: source) as place:
        client = unfinished(place)
        assert source.unfinished.wait(LONG_S)
        client.close()
        assert source.closed.wait(LONG_S)
        assert is_free(place)


def test_one_caller_leaves_room_for_others(tmp_path: Path) -> None:
    sources: list[Blocked] = []
    is_blocking = True

    def render(wanted: WantedRows) -> Iterator[bytes]:
        if not is_blocking:
            return iter([b"rows"])
        sources.append(Blocked())
        return sources[-1]

    with serving(tmp_path, render) as place:
        clients = [unfinished(place) for _ in range(8)]
        while len(sources) < 8 or not all(source.unfinished.wait(LONG_S) for source in sources):
            pass
        is_blocking = False
        other, _ = tokens.create(place.world.ctx, "other", ("admin",))
        with place.http() as http:
            refused = http.get(f"{RECORDS}.csv")
        with place.http(other) as http:
            assert http.get(f"{RECORDS}.csv").text == "rows"
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:headgate:unavailable")
        for client in clients:
            client.close()
        assert all(source.closed.wait(LONG_S) for source in sources)
        assert is_free(place)
        with place.http() as http:
            assert http.get(f"{RECORDS}.csv").text == "rows"


def test_a_body_that_fails_in_its_middle_is_no_whole_one(tmp_path: Path) -> None:
    def render(_: WantedRows) -> Iterator[bytes]:
        yield b"k\n1\n"
        raise OSError("the lake is gone")

    with (
        serving(tmp_path, render) as place,
        place.http() as http,
        pytest.raises(httpx2.RemoteProtocolError, match="incomplete"),
    ):
        http.get(f"{RECORDS}.csv")
    assert place.services.streams.running == 0


@pytest.mark.parametrize("format", ["json", "ndjson", "csv", "arrow", "parquet"])
@pytest.mark.parametrize("compression", [None, "zstd"])
def test_a_large_stream_takes_little_memory(
    monkeypatch: pytest.MonkeyPatch, format: str, compression: str | None
) -> None:
    monkeypatch.setattr(row_rendering, "GROUP_BYTES", 4 * MEGABYTE)
    schema = struct(k="long", v="string")
    before, peak = pa.total_allocated_bytes(), 0

    def rows() -> Iterator[pa.RecordBatch]:
        nonlocal peak
        for _ in range(60):
            yield pa.record_batch(
                [pa.array(range(1_000)), pa.array(["x" * 500] * 1_000)], names=["k", "v"]
            )
            peak = max(peak, pa.total_allocated_bytes() - before)

    class Nowhere(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            return len(data)

    row_rendering.render(rows(), schema, Nowhere(), format=format, compression=compression)  # type: ignore[arg-type]
    assert peak < 16 * MEGABYTE  # of 30
    assert pa.total_allocated_bytes() - before < MEGABYTE
