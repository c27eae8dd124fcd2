"""Bodies of the S3 view are sent as fast as the client takes them, and one key leaves room for
others."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from obstore import sign
from obstore.store import S3Store

from controlplane.api.services import Services
from controlplane.lake.lake_objects import LocalObjects
from controlplane.operations.context import Context
from controlplane.operations.desired import s3_keys
from controlplane.services.s3.http.s3_app import BodyCut, S3App
from tests.unit.api.world import TellingWake, render
from tests.unit.s3.world import World

PIECES = 50
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Counted(LocalObjects):
    """A lake that counts the pieces which are read of it."""

    def __init__(self, root: Path, fault: Exception | None = None) -> None:
        super().__init__(root)
        self.read_pieces = 0
        self.is_closed = False
        self._fault = fault

    def stream_range(self, path: str, start: int, end: int) -> Iterator[bytes]:
        size = (end - start) // PIECES
        try:
            for _ in range(PIECES):
                self.read_pieces += 1
                yield b"x" * size
                if self._fault is not None:
                    raise self._fault
            yield b"x" * (end - start - PIECES * size)
        finally:
            self.is_closed = True


class Stuck(LocalObjects):
    """A lake whose listings take long."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.is_asked, self.may_go_on = threading.Event(), threading.Event()

    def sizes(self, prefix: str) -> dict[str, int]:
        self.is_asked.set()
        self.may_go_on.wait()
        return super().sizes(prefix)


class Place:
    """One file, and an app that answers for it."""

    def __init__(self, root: Path, per_key: int = 8, lake: LocalObjects | None = None) -> None:
        self.world = World(root)
        self.world.commit("shop.a", {"x": [{"k": 1, "v": "a"}]})
        self.lake = lake or Counted(root)
        self.services = Services(
            self.world.store,
            self.lake,
            TellingWake(),
            render,
            lambda driver, lines: "",
            stopping=threading.Event(),
        )
        self.app = S3App(self.services, per_key)
        self.key = s3_keys.create(Context(self.world.store), "one", ["main"]).id
        (self.name,) = self.world.names("main/shop/a/")

    def scope(self, key: str = "", name: str = "") -> dict[str, Any]:
        access_key = key or self.key
        store = S3Store(
            "default",
            endpoint="http://127.0.0.1:9",
            access_key_id=access_key,
            secret_access_key=s3_keys.secret_key(self.services.s3_secret, "default", access_key),
            region="headgate",
            client_options={"allow_http": True},
        )
        url = urlsplit(sign(store, "GET", name or self.name, timedelta(seconds=600)))
        return {
            "type": "http",
            "method": "GET",
            "raw_path": url.path.encode(),
            "query_string": url.query.encode(),
            "headers": [(b"host", b"127.0.0.1:9")],
            "headgate.request_id": "r",
            "asgi": {"spec_version": "2.4"},
        }

    def ask(self, send: Send, key: str = "") -> None:
        async def run() -> None:
            await self.app(self.scope(key), _nothing, send)  # type: ignore[arg-type]  # messages are plain dictionaries

        anyio.run(run)


async def _nothing() -> dict[str, Any]:
    return {"type": "http.request"}


def test_the_next_piece_is_read_when_the_one_before_was_taken(tmp_path: Path) -> None:
    lake = Counted(tmp_path)
    place = Place(tmp_path, lake=lake)
    taken, ahead = 0, 0

    async def send(message: dict[str, Any]) -> None:
        nonlocal taken, ahead
        if message.get("body"):
            ahead = max(ahead, lake.read_pieces - taken)
            taken += 1

    place.ask(send)
    assert taken >= PIECES
    assert ahead == 1
    assert lake.is_closed


def test_a_client_that_leaves_ends_the_reading(tmp_path: Path) -> None:
    lake = Counted(tmp_path)
    place = Place(tmp_path, lake=lake)

    async def send(message: dict[str, Any]) -> None:
        if message.get("body"):
            raise OSError("the client is gone")

    with pytest.raises(Exception, match=r"^$"):  # ClientDisconnect, which the gateway takes
        place.ask(send)
    assert lake.read_pieces == 1
    assert lake.is_closed


def test_a_fault_in_the_middle_is_no_end_of_the_body(tmp_path: Path) -> None:
    """The length that was announced is not reached, and the server cuts the connection."""
    place = Place(tmp_path, lake=Counted(tmp_path, OSError("the disk")))
    messages: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    with pytest.raises(BodyCut, match="the disk"):
        place.ask(send)
    assert all(message.get("more_body") for message in messages[1:])


def test_a_key_with_many_requests_under_way_leaves_room_for_others(tmp_path: Path) -> None:
    place = Place(tmp_path, per_key=1)
    other = s3_keys.create(Context(place.world.store), "two", ["main"]).id
    statuses: dict[str, int] = {}

    async def first(message: dict[str, Any]) -> None:
        if message.get("body") and not statuses:
            for key in (place.key, other):

                async def second(message: dict[str, Any], key: str = key) -> None:
                    statuses.setdefault(key, message.get("status", 0))

                await place.app(place.scope(key), _nothing, second)  # type: ignore[arg-type]  # as above

    place.ask(first)
    assert statuses == {place.key: 503, other: 200}
    place.ask(first)  # there is room again
    assert place.services.counters.snapshot()["s3_answers", "SlowDown"] == 1


def test_a_long_look_up_of_one_key_stops_no_other(tmp_path: Path) -> None:
    lake = Stuck(tmp_path)
    place = Place(tmp_path, lake=lake)
    other = s3_keys.create(Context(place.world.store), "two", ["main"]).id
    statuses: list[int] = []
    meanwhile: list[int] = []

    async def send(message: dict[str, Any]) -> None:
        if "status" in message:
            statuses.append(message["status"])

    async def run() -> None:
        stuck = place.scope(name="main/shop/a/_delta_log/0.json")
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(place.app, stuck, _nothing, send)  # type: ignore[arg-type]  # as above
            await anyio.to_thread.run_sync(lake.is_asked.wait)
            with anyio.move_on_after(30):  # where it is stopped, or the test would not end
                await place.app(place.scope(other), _nothing, send)  # type: ignore[arg-type]  # as above
            meanwhile.extend(statuses)
            lake.may_go_on.set()

    anyio.run(run)
    assert meanwhile == [200]
    assert statuses == [200, 404, 404, 404, 404]
