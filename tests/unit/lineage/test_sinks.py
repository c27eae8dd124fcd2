"""What events of lineage are sent to: all adapters take events in order, and tell a refusal from an outage.

Does not belong here: what becomes of an event that was not taken (test_export.py).
"""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

import pytest

from controlplane.ports.lineage_sink import LineageSink
from controlplane.sinks.memory import MemorySink
from controlplane.sinks.openlineage import FileSink, HttpSink, open_sink

EVENTS = [json.dumps({"n": n, "text": "a\nb 'é' \U0001f600"}, ensure_ascii=False).encode() for n in range(3)]
REFUSED = [400, 409, 410, 413, 415, 422, 431]
UNAVAILABLE = [301, 307, 401, 403, 404, 405, 407, 408, 425, 429, 500, 502, 503, 504]


class Service(ThreadingHTTPServer):
    """Answers with the statuses that it was told, then with 201."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses: deque[int] = deque()
        self.taken: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/api/v1/lineage"


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.statuses.popleft() if self.server.statuses else 201
        self.server.headers.append(dict(self.headers))
        if status == 201:
            self.server.taken.append(body)
        self.send_response(status)
        self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@contextmanager
def serving() -> Iterator[Service]:
    with Service() as service:
        thread = threading.Thread(target=service.serve_forever, args=[0.01])
        thread.start()
        try:
            yield service
        finally:
            service.shutdown()
            thread.join()


@pytest.fixture
def service() -> Iterator[Service]:
    with serving() as found:
        yield found


# --- what all have in common ----------------------------------------------------------------------


class Sunk(Protocol):
    """An adapter, and what is seen from the other side."""

    @property
    def sink(self) -> LineageSink: ...

    def taken(self) -> list[bytes]: ...

    def be_away_once(self) -> None: ...


class InMemory:
    def __init__(self) -> None:
        self.sink = MemorySink()

    def taken(self) -> list[bytes]:
        return self.sink.taken

    def be_away_once(self) -> None:
        self.sink.answers.append(ConnectionError("away"))


class InFile:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "new" / "events.ndjson"
        self.path.parent.mkdir()
        self.sink = open_sink(self.path.as_uri())

    def taken(self) -> list[bytes]:
        self.path.parent.mkdir(exist_ok=True)
        return self.path.read_bytes().splitlines()

    def be_away_once(self) -> None:
        self.path.parent.rename(self.path.parent.with_name("away"))

    def is_back(self) -> None:
        self.path.parent.with_name("away").rename(self.path.parent)


class OverHttp:
    def __init__(self, service: Service) -> None:
        self.service = service
        self.sink = open_sink(service.url)

    def taken(self) -> list[bytes]:
        return self.service.taken

    def be_away_once(self) -> None:
        self.service.statuses.append(503)


@pytest.fixture(params=["memory", "file", "http"])
def sunk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sunk]:
    match request.param:
        case "memory":
            yield InMemory()
        case "file":
            yield InFile(tmp_path)
        case _:
            found = OverHttp(request.getfixturevalue("service"))
            yield found
            found.sink.close()


def test_events_arrive_as_they_are_in_order(sunk: Sunk) -> None:
    assert [sunk.sink.send(event) for event in EVENTS] == [True, True, True]
    assert sunk.taken() == EVENTS


def test_what_is_sent_during_an_outage_is_not_taken_and_is_taken_afterwards(sunk: Sunk) -> None:
    sunk.sink.send(EVENTS[0])
    sunk.be_away_once()
    with pytest.raises(OSError, match=r"away|answered 503|No such file"):
        sunk.sink.send(EVENTS[1])
    if isinstance(sunk, InFile):
        sunk.is_back()
    assert sunk.sink.send(EVENTS[1])
    assert sunk.taken() == EVENTS[:2]


# --- files ----------------------------------------------------------------------------------------


def test_a_file_goes_on_after_it_was_moved_away(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "events.ndjson")
    sink.send(EVENTS[0])
    sink.path.rename(tmp_path / "events.1")
    sink.send(EVENTS[1])
    assert sink.path.read_bytes() == EVENTS[1] + b"\n"


def test_a_line_that_was_broken_off_spoils_no_other(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "events.ndjson")
    sink.path.write_bytes(EVENTS[0] + b"\n" + EVENTS[1][:5])
    sink.send(EVENTS[1])
    assert sink.path.read_bytes().splitlines() == [EVENTS[0], EVENTS[1][:5], EVENTS[1]]


# --- services -------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", REFUSED)
def test_an_event_that_is_refused_would_be_refused_again(service: Service, status: int) -> None:
    sink = HttpSink(service.url)
    service.statuses.append(status)
    assert [sink.send(event) for event in EVENTS[:2]] == [False, True]
    assert service.taken == [EVENTS[1]]
    sink.close()


@pytest.mark.parametrize("status", UNAVAILABLE)
def test_what_is_not_the_events_fault_is_tried_again(service: Service, status: int) -> None:
    sink = HttpSink(service.url, token="t0ken")
    service.statuses.append(status)
    with pytest.raises(OSError, match=f"answered {status}"):
        sink.send(EVENTS[0])
    assert len(service.headers) == 1  # no redirect was followed, with the token
    sink.close()


def test_a_service_is_told_who_asks(service: Service) -> None:
    sink = HttpSink(service.url, token="t0ken")
    sink.send(EVENTS[0])
    sink.close()
    [headers] = service.headers
    assert headers["Authorization"] == "Bearer t0ken"
    assert headers["Content-Type"] == "application/json"
    assert "t0ken" not in sink.place


def test_a_service_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        sink = HttpSink(f"http://127.0.0.1:{silent.getsockname()[1]}/", answer_s=0.05)
        with pytest.raises(OSError, match="does not answer"):
            sink.send(EVENTS[0])
        sink.close()


def test_a_service_that_is_not_there_is_an_outage() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    sink = HttpSink(f"http://127.0.0.1:{port}/")
    with pytest.raises(OSError, match="does not answer"):
        sink.send(EVENTS[0])
    sink.close()
