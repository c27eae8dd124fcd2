"""A throw-away web server on a loopback port, with files in memory: with strong etags, with times
of change alone, or with neither; and with redirects."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl


class Web:
    """`requests`: of each the status that was answered. `headers`: those of the last request."""

    def __init__(self, *, etags: bool = True, times: bool = False) -> None:
        self.files: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self.etags, self.times = etags, times
        self.changed_s: dict[str, float] = {}
        self.requests: list[int] = []
        self.headers: dict[str, str] = {}
        self.token = ""  # needed in `Authorization`, unless empty
        self.is_signed: Callable[[str, Mapping[str, str]], bool] | None = None  # path and headers
        self.forms: dict[str, dict[str, str]] = {}  # by path, those that are answered by a file
        self.url = ""


class _Handler(BaseHTTPRequestHandler):
    web: Web

    def do_GET(self) -> None:
        web = self.web
        web.headers = {name.lower(): text for name, text in self.headers.items()}
        content = web.files.get(self.path)
        etag = f'"{hashlib.md5(content).hexdigest()}"' if content is not None else ""
        time = formatdate(web.changed_s.get(self.path, 0), usegmt=True)
        if web.token and self.headers.get("Authorization") != web.token:
            return self._answer(401)
        if web.is_signed and not web.is_signed(self.path, web.headers):
            return self._answer(403)
        if self.path in web.redirects:
            return self._answer(302, headers={"Location": web.redirects[self.path]})
        if content is None:
            return self._answer(404)
        if web.etags and self.headers.get("If-Match", etag) != etag:
            return self._answer(412)
        is_same = web.etags and self.headers.get("If-None-Match") == etag
        if is_same or (web.times and self.headers.get("If-Modified-Since") == time):
            return self._answer(304)
        headers = {"ETag": etag} if web.etags else {}
        return self._answer(200, content, headers | ({"Last-Modified": time} if web.times else {}))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path in self.web.redirects:
            return self._answer(307, headers={"Location": self.web.redirects[self.path]})
        if dict(parse_qsl(body)) != self.web.forms.get(self.path):
            return self._answer(401)
        return self._answer(200, self.web.files[self.path])

    def _answer(
        self, status: int, content: bytes = b"", headers: dict[str, str] | None = None
    ) -> None:
        self.web.requests.append(status)
        self.send_response(status)
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def web_server(*, etags: bool = True, times: bool = False) -> Iterator[Web]:
    """A server that ends with the test."""
    web = Web(etags=etags, times=times)
    handler = type("Handler", (_Handler,), {"web": web})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    web.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
