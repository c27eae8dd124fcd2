"""What a kubelet answers the API server that is asked for a pod's log. Does not belong here: what
pods say."""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

PLACE = re.compile(r"/containerLogs/(?P<namespace>[^/]+)/(?P<pod>[^/]+)/(?P<container>[^/]+)")


class Said:
    """`of` gives the file that a pod's output goes to, None if it was not started. With the
    certificate of the API server, which does not look at it."""

    def __init__(self, of: Callable[[str, str], Path | None], certificate: Path, key: Path) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked = urlsplit(self.path)
                found = PLACE.fullmatch(asked.path)
                log = of(found["namespace"], found["pod"]) if found else None
                body = (
                    b"nothing has been said"
                    if log is None
                    else _cut(log.read_bytes(), parse_qs(asked.query))
                )
                self.send_response(400 if log is None else 200)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _cut(said: bytes, query: dict[str, list[str]]) -> bytes:
    """As a kubelet: the last lines, and of these the first bytes."""
    (lines,), (limit,) = query["tailLines"], query["limitBytes"]
    return b"".join(said.splitlines(keepends=True)[-int(lines) :])[: int(limit)]
