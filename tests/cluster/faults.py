"""A way to an API server that fails as told. Plain HTTP on loopback in front, the server's own TLS
behind.

Does not belong here: the server itself being away (`control`).
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

# 409: as where a quota moved meanwhile; unheard: what is asked is done, and nobody is told
Fault = Literal["", "409", "429", "500", "unheard"]
REASONS = {"409": "Conflict"}


class Between:
    """`fault` holds for all calls but watches, from the next one on; `only` narrows it to a
    method."""

    def __init__(self, url: str, authority: str) -> None:
        self.fault: Fault = ""
        self.only = ""
        self.asked: list[str] = []  # method and path of each call, in order
        self._there, self._tls = urlsplit(url), ssl.create_default_context(cafile=authority)
        self._watches: set[http.client.HTTPConnection] = set()
        between = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                between.handle(self)

            do_GET = do_POST = do_DELETE = _any  # noqa: N815  # names of the standard library's

            def log_message(self, *_: object) -> None:
                """Silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        request.close_connection = True
        self.asked.append(f"{request.command} {request.path}")
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        is_watch = "watch=1" in request.path
        fault = "" if is_watch or self.only not in ("", request.command) else self.fault
        if fault.isdigit():
            said = json.dumps(
                {"kind": "Status", "message": "as told", "reason": REASONS.get(fault, "")}
            ).encode()
            self._answer(request, int(fault), said)
            return
        upstream = http.client.HTTPSConnection(
            str(self._there.hostname), self._there.port, context=self._tls
        )
        headers = {
            k: v
            for k, v in request.headers.items()
            if k.lower() not in ("host", "connection", "accept-encoding")
        }
        with suppress(OSError, http.client.HTTPException):
            upstream.request(request.command, request.path, body or None, headers)
            answer = upstream.getresponse()
            if is_watch:
                self._stream(request, upstream, answer)
            elif fault != "unheard":
                self._answer(request, answer.status, answer.read())
            else:
                answer.read()
        upstream.close()

    def _answer(self, request: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
        with suppress(OSError):
            request.send_response(status)
            request.send_header("Content-Type", "application/json")
            request.send_header("Connection", "close")
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)

    def _stream(
        self,
        request: BaseHTTPRequestHandler,
        upstream: http.client.HTTPConnection,
        answer: http.client.HTTPResponse,
    ) -> None:
        self._watches.add(upstream)
        request.send_response(answer.status)
        request.send_header("Connection", "close")
        request.end_headers()
        while piece := answer.read1(65536):
            request.wfile.write(piece)
            request.wfile.flush()
        self._watches.discard(upstream)

    def drop_watches(self) -> None:
        for upstream in list(self._watches):
            if upstream.sock is not None:
                with suppress(OSError):
                    upstream.sock.shutdown(2)
        self._watches.clear()

    def close(self) -> None:
        self.drop_watches()
        self._server.shutdown()
        self._server.server_close()
