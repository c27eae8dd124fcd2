"""A REST API with pages, a token, rate limits and errors, as a test says.

Does not belong here: what is expected.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

TOKEN = "of-the-tickets-4711"
PAGE = 2  # rows


@dataclass
class TicketApi:
    """`rows` by path. `answers`: the statuses of the next requests for a path, in place of its
    rows; 200 gives these."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    answers: dict[str, list[int]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    url: str = ""
    _held: dict[str, tuple[threading.Event, threading.Event]] = field(default_factory=dict)

    @contextmanager
    def held(self, path: str) -> Iterator[threading.Event]:
        """Requests for a path wait until the block is left. The event says that there is one."""
        reached, released = self._held[path] = threading.Event(), threading.Event()
        try:
            yield reached
        finally:
            del self._held[path]
            released.set()

    def wait(self, path: str) -> None:
        if path in self._held:
            reached, released = self._held[path]
            reached.set()
            released.wait()

    def page(self, path: str, query: dict[str, list[str]]) -> dict[str, Any]:
        since = query.get("since", [""])[0]
        chosen = [row for row in self.rows[path] if row.get("updated", since) >= since]
        start = int(query.get("start", ["0"])[0])
        follows = f"{self.url}/{path}?since={since}&start={start + PAGE}"
        is_last = start + PAGE >= len(chosen)
        return {"items": chosen[start : start + PAGE], "next": None if is_last else follows}


class _Handler(BaseHTTPRequestHandler):
    api: ClassVar[TicketApi]

    def do_GET(self) -> None:  # the name that the base class calls
        parts = urlsplit(self.path)
        path = parts.path.strip("/")
        self.api.requests.append(self.path)
        self.api.wait(path)
        statuses = self.api.answers.get(path, [])
        status = statuses.pop(0) if statuses else 200
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            status = 401
        body = json.dumps(self.api.page(path, parse_qs(parts.query)) if status == 200 else {})
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        with suppress(BrokenPipeError, ConnectionResetError):  # of a client that was killed
            self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None: ...


@contextmanager
def ticket_api() -> Iterator[TicketApi]:
    api = TicketApi()
    handler = type("Handler", (_Handler,), {"api": api})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
