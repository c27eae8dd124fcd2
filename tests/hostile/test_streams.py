"""Many streams of events, and slow routes of users: neither is in the way of drivers and probes."""

from __future__ import annotations

import asyncio
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from controlplane.api import event_feed
from controlplane.api.problem_json import RequestRefused
from controlplane.api.threads import EVENTS, USERS
from controlplane.core.model.events import CLAIMED, Event
from tests.e2e.workspace import until
from tests.hostile.attacked import Attacked, attacked

WORKERS = "AnyIO worker thread"


def put(world: Attacked, *kinds: str) -> None:
    with world.services.store.begin() as tx:
        tx.events.put([Event(kind, "a.b", 1, branch="main") for kind in kinds])
    world.services.wake.notify()


def told(stream: socket.socket, text: bytes, seen: bytes = b"") -> bytes:
    """What a stream says until it says this."""
    while text not in seen:
        part = stream.recv(65536)
        assert part, seen
        seen += part
    return seen


@contextmanager
def streams(world: Attacked, count: int, path: str = "/v1/events") -> Iterator[list[socket.socket]]:
    """So many, each of which has begun."""
    with ExitStack() as stack:
        found = []
        for start in range(0, count, 100):
            some = [
                stack.enter_context(world.raw("GET", path)) for _ in range(min(100, count - start))
            ]
            for stream in some:
                told(stream, b": events\n\n")
            found += some
        yield found


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Both ends of all connections are in this process."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert limits[1] >= 12_000, "this needs a hard limit of 12,000 open files (ulimit -Hn)"
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.usefixtures("descriptors")
@pytest.mark.parametrize("count", [300, pytest.param(5_000, marks=pytest.mark.soak)])
def test_streams_hold_no_threads_and_one_event_is_read_once(tmp_path: Path, count: int) -> None:
    before = sum(t.name == WORKERS for t in threading.enumerate())
    with (
        attacked(tmp_path) as world,
        streams(world, count) as some,
        world.http(world.driver) as http,
    ):
        limits = world.services.threads

        def borrowed() -> tuple[float, float]:
            return limits.users.borrowed_tokens, limits.events.borrowed_tokens

        until(lambda: borrowed() == (0, 0), lambda: f"streams hold threads: {borrowed()}")
        assert sum(t.name == WORKERS for t in threading.enumerate()) - before <= EVENTS + 4
        put(world, "first")
        for stream in some:
            told(stream, b"event: first\n")
        read = world.services.store.statements
        put(world, "second")
        for stream in some:
            told(stream, b"event: second\n")
        assert world.services.store.statements - read < 30, "however many streams there are"
        assert http.get("/livez").status_code == 200
        assert http.post("/v1/driver/heartbeat", json={"attempts": []}).status_code == 200


def test_a_stream_that_is_not_read_loses_nothing(tmp_path: Path) -> None:
    """It falls behind what is kept as text, and goes on with pages from the store."""
    with attacked(tmp_path) as world, streams(world, 1) as [slow], streams(world, 1) as [fast]:
        seen = b""
        for n in range(4):
            put(world, *(f"kind-{n}-{i}-{'x' * 2_000}" for i in range(event_feed.KEPT // 2)))
            seen = told(fast, f"event: kind-{n}-{event_feed.KEPT // 2 - 1}-".encode())
        put(world, "last")
        told(fast, b"event: last\n", seen)
        ids = [
            int(line[4:])
            for line in told(slow, b"event: last\n").split(b"\n")
            if line.startswith(b"id: ")
        ]
    assert ids == list(range(1, 4 * (event_feed.KEPT // 2) + 2))


def test_a_stream_after_an_id_that_is_to_come_goes_on_from_now(tmp_path: Path) -> None:
    """A browser takes its stream up again after the database was restored from an older copy."""
    with attacked(tmp_path) as world, streams(world, 1, "/v1/events?after=5000") as [stream]:
        put(world, "news")
        told(stream, b"event: news\n")


def test_one_token_cannot_take_all_places(tmp_path: Path) -> None:
    async def places(of: event_feed.EventFeed) -> None:
        with ExitStack() as stack:
            for _ in range(event_feed.OF_ONE_TOKEN):
                stack.enter_context(of.place("one"))
            with pytest.raises(RequestRefused, match="too many streams"), of.place("one"):
                pass
            for _ in range(event_feed.STREAMS - event_feed.OF_ONE_TOKEN):
                stack.enter_context(of.place("two"))
            with pytest.raises(RequestRefused, match="too many streams"), of.place("three"):
                pass
        with of.place("one"):
            pass  # those that ended left room

    with attacked(tmp_path) as world:
        asyncio.run(places(event_feed.EventFeed(world.services)))


def test_slow_routes_of_users_hold_up_neither_drivers_nor_probes(tmp_path: Path) -> None:
    attempt = "a" * 32
    with attacked(tmp_path) as world, ExitStack() as stack:
        with world.services.store.begin() as tx:
            body = {"attempt": attempt, "driver": "d1"}
            tx.events.put([Event(CLAIMED, "a.b", 1, body, branch="main")])
        slow = [
            stack.enter_context(world.raw("GET", f"/v1/attempts/{attempt}/log"))
            for _ in range(3 * USERS)
        ]
        with world.http(world.driver) as http, world.http() as other, streams(world, 1) as [stream]:
            for _ in range(10):
                assert http.post("/v1/driver/heartbeat", json={"attempts": []}).status_code == 200
            assert (
                http.post("/v1/driver/claim", json={"contract": 1, "kinds": ["list"]}).status_code
                == 204
            )
            assert other.get("/livez").status_code == other.get("/readyz").status_code == 200
            assert other.get("/metrics").status_code == 200
            put(world, "news")
            told(stream, b"event: news\n")
        world.gate.set()
        for connection in slow:
            assert told(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 200")
