"""A line to an HTTP server on which chosen requests go wrong, as they do between a client and an
object store.

Does not belong here: what the server is.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, cast

Kind = Literal["slow-down", "cut", "unanswered", "unconditional"]
SLOW_DOWN = (
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Please reduce your request "
    b"rate.</Message></Error>"
)


@dataclass
class Fault:
    """What happens to the first `times` requests that match.

    slow-down: 503 in place of an answer. cut: a reset in the middle of the answer's body.
    unanswered: the server does what it is asked, and the connection is reset. unconditional: as by
    a server that does not look at conditions, a put that must fail is told to have been done.
    """

    kind: Kind
    method: str
    path: str
    times: int = 1
    met: int = 0

    def takes(self, method: str, path: str) -> bool:
        return (
            self.met < self.times
            and method == self.method
            and re.search(self.path, path) is not None
        )


@dataclass
class Faulty:
    """Forwards requests from a port of its own to a port of this machine."""

    to_port: int
    faults: list[Fault] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.line = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def add(self, kind: Kind, method: str, path: str, times: int = 1) -> Fault:
        fault = Fault(kind, method, path, times)
        with self._lock:
            self.faults.append(fault)
        return fault

    def fault(self, method: str, path: str) -> Fault | None:
        """The fault that this request meets, counted."""
        with self._lock:
            self.asked.append((method, path))
            found = next((fault for fault in self.faults if fault.takes(method, path)), None)
            if found:
                found.met += 1
            return found

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    line: Faulty
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that go away are no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def _line(self) -> Faulty:
        return cast("_Server", self.server).line

    def do_GET(self) -> None:  # the names that the base class calls
        with suppress(OSError, HTTPException):
            return self._forward()
        self.close_connection = True
        return None

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

    def _forward(self) -> None:
        fault = self._line.fault(self.command, self.path)
        body = self._body()
        if fault and fault.kind == "slow-down":
            return self._answer(503, [("Content-Type", "application/xml")], SLOW_DOWN)
        status, headers, found = self._ask(body)
        if fault and fault.kind == "unconditional" and status == 412:
            return self._answer(200, [("ETag", '"done"')], b"")
        if fault and fault.kind == "unanswered":
            return self._reset()
        if fault and fault.kind == "cut":
            self._answer(status, headers, found[: len(found) // 2], len(found))
            return self._reset()
        return self._answer(status, headers, found, self._length(headers, found))

    def _body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            return b"".join(iter(self._chunk, b""))
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _chunk(self) -> bytes:
        size = int(self.rfile.readline().split(b";")[0], 16)
        chunk = self.rfile.read(size)
        self.rfile.readline()
        return chunk

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        left_out = {"transfer-encoding", "expect", "content-length"}
        server = HTTPConnection("127.0.0.1", self._line.to_port)
        try:
            server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in left_out:
                    server.putheader(name, value)
            server.putheader("Content-Length", str(len(body)))
            server.endheaders(body)
            answer = server.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            server.close()

    def _length(self, headers: list[tuple[str, str]], found: bytes) -> int:
        """That of an answer to HEAD is told, and nothing comes."""
        told = next((value for name, value in headers if name.lower() == "content-length"), None)
        return int(told) if self.command == "HEAD" and told else len(found)

    def _answer(
        self, status: int, headers: list[tuple[str, str]], body: bytes, length: int | None = None
    ) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def _reset(self) -> None:
        """The connection ends with a reset, not with an orderly end."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def log_message(self, *_: object) -> None: ...
