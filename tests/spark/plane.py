"""A control plane as a driver sees it: hands out what a test puts in, keeps what it is told, and
plans nothing."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from dataplane.contract.claims import CONTRACT, Claim

TOKEN = "hg_test"


class Plane:
    """`claims` are handed out once each; `answers` given by status instead of a call's own until
    they run out."""

    def __init__(self) -> None:
        self.claims: queue.Queue[Claim] = queue.Queue()
        self.reports: queue.Queue[dict[str, Any]] = queue.Queue()
        self.fenced: set[str] = set()
        self.drain = False
        self.answers: list[int] = []
        self.asked: list[tuple[str, Any]] = []
        self._ending = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.block_on_close = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def serving(self) -> Iterator[Plane]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self._ending.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        plane = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # the name that the base class calls
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                call = self.path.removeprefix("/v1/driver/")
                known = self.headers["Authorization"] == f"Bearer {TOKEN}"
                status, answer = plane.answer(call, body) if known else (401, None)
                with suppress(ConnectionError):
                    self.send_response(status)
                    self.end_headers()
                    self.wfile.write(b"" if answer is None else json.dumps(answer).encode())

            def log_message(self, *_: object) -> None: ...

        return Handler

    def answer(self, call: str, body: Any) -> tuple[int, Any]:
        self.asked.append((call, body))
        if self.answers:
            return self.answers.pop(0), None
        match call:
            case "claim":
                found = self._next_claim(body["wait_s"]) if body["contract"] == CONTRACT else None
                return (200, found) if found else (204, None)
            case "heartbeat":
                return 200, {
                    "fenced": sorted(self.fenced & {*body["attempts"]}),
                    "drain": self.drain,
                }
            case _:
                self.reports.put(body)
                return 200, {"accepted": [r["task"] for r in body["results"]], "fenced": []}

    def _next_claim(self, wait_s: float) -> Claim | None:
        for _ in range(int(wait_s / 0.05)):
            if self._ending.is_set():
                return None
            with suppress(queue.Empty):
                return self.claims.get(timeout=0.05)
        return None
