"""What fake-gcs-server lacks, on a port before it: the XML API that obstore and deltalake speak,
tokens, and TLS.

Requests of the XML API are put to the server's JSON API, which honours generations; answers come
back in the form of the XML API. Whoever takes this for a proxy (CONNECT) and asks for
storage.googleapis.com is answered here, too. A token counts if it was given out here, or signed by
the key that the credentials name. Does not belong here: objects.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit
from xml.sax.saxutils import escape

TOKEN = "given-out-by-the-front"  # in exchange for what a key has signed
JSON_API = re.compile(r"/(upload/|download/|batch/|resumable/)?(storage/v1|resumable|batch)")
MOVE = re.compile(r"/storage/v1(/b/[^/]+)(/o/[^/]+)/moveTo(/o/[^/?]+)")
PAGE = 1000
Headers = list[tuple[str, str]]


class Front:
    """Forwards from a port of its own to that of the server. `key_id` names the one key whose
    tokens count."""

    def __init__(self, to_port: int, key_id: str, tls: ssl.SSLContext, port: int = 0) -> None:
        self.to_port, self.key_id, self.tls = to_port, key_id, tls
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.front = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    front: Front
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that go away are no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def _front(self) -> Front:
        return cast("_Server", self.server).front

    def do_CONNECT(self) -> None:  # the names that the base class calls
        self.send_response_only(200)
        self.end_headers()
        self.connection = self._front.tls.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb", -1)
        self.wfile = self.connection.makefile("wb", 0)
        self.close_connection = False

    def finish(self) -> None:
        super().finish()
        self.connection.close()  # which may be another one than the server knows

    def do_GET(self) -> None:
        with suppress(OSError, HTTPException):
            return self._serve(self._body())
        self.close_connection = True
        return None

    do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = do_GET  # noqa: N815

    def _serve(self, body: bytes) -> None:
        self.path = self.path.replace("//", "/", 1)  # which Java's client puts before a batch
        if self.path == "/token":
            return self._exchange(body)
        if not self._is_known(self._token(body)):
            return self._fail(401, "AuthenticationRequired", "Authentication required.")
        if move := MOVE.match(self.path):
            return self._move(*move.groups())
        if JSON_API.match(self.path):
            return self._answer(
                *self._ask(self.command, self.path, body, dict(self.headers.items()))
            )
        bucket, _, name = urlsplit(self.path).path.removeprefix("/").partition("/")
        if self._ask("GET", f"/storage/v1/b/{bucket}")[0] == 404:
            return self._fail(404, "NoSuchBucket", "The specified bucket does not exist.")
        match self.command, name:
            case "GET", "":
                return self._list(bucket)
            case "PUT", _ if source := self.headers.get("x-goog-copy-source"):
                return self._copy(source, bucket, unquote(name))
            case "PUT", _:
                return self._put(bucket, unquote(name), body)
            case _:
                return self._object(bucket, unquote(name))

    def _move(self, bucket: str, old: str, new: str) -> None:
        """https://docs.cloud.google.com/storage/docs/json_api/v1/objects/move"""
        headers = {"Content-Type": "application/json"}
        told = self._ask("POST", f"/storage/v1{bucket}{old}/copyTo{bucket}{new}", b"{}", headers)
        if told[0] == 200:
            self._ask("DELETE", f"/storage/v1{bucket}{old}")
        return self._answer(*told)

    # --- who asks ---------------------------------------------------------------------------------

    def _exchange(self, body: bytes) -> None:
        """https://datatracker.ietf.org/doc/html/rfc7523#section-2.1"""
        if not self._is_known(parse_qs(body.decode())["assertion"][0]):
            refusal = {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}
            return self._answer(
                400, [("Content-Type", "application/json")], json.dumps(refusal).encode()
            )
        given = {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600}
        return self._answer(200, [("Content-Type", "application/json")], json.dumps(given).encode())

    def _token(self, body: bytes) -> str:
        """In a batch each of the requests has one."""
        batched = (
            re.search(rb"\nAuthorization: ([^\r\n]*)", body)
            if self.path.startswith("/batch/")
            else None
        )
        return (
            batched[1].decode() if batched else self.headers.get("Authorization", "")
        ).removeprefix("Bearer ")

    def _is_known(self, token: str) -> bool:
        """Signatures are not checked, but the key that they are said to be of."""
        if token == TOKEN:
            return True
        with suppress(ValueError):
            header = token.partition(".")[0]
            return bool(
                json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))["kid"]
                == self._front.key_id
            )
        return False

    # --- the XML API ------------------------------------------------------------------------------

    def _put(self, bucket: str, name: str, body: bytes) -> None:
        asked = {"uploadType": "media", "name": name}
        if generation := self.headers.get("x-goog-if-generation-match"):
            asked["ifGenerationMatch"] = generation
        path = f"/upload/storage/v1/b/{bucket}/o?{urlencode(asked)}"
        status, _, found = self._ask(
            "POST", path, body, {"Content-Type": "application/octet-stream"}
        )
        if status == 412:
            return self._fail(
                412, "PreconditionFailed", "At least one of the pre-conditions did not hold."
            )
        return self._answer(status, _versions(json.loads(found)["generation"]), b"")

    def _copy(self, source: str, bucket: str, name: str) -> None:
        of, _, old = unquote(source).removeprefix("/").partition("/")
        path = (
            f"/storage/v1/b/{of}/o/{quote(old, safe='')}/copyTo/b/{bucket}/o/{quote(name, safe='')}"
        )
        status, _, _ = self._ask("POST", path, b"{}", {"Content-Type": "application/json"})
        if status == 404:
            return self._fail(404, "NoSuchKey", "The specified key does not exist.")
        return self._answer(status, [], b"<CopyObjectResult/>")

    def _object(self, bucket: str, name: str) -> None:
        """GET, HEAD or DELETE."""
        path = f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}"
        status, _, found = self._ask("GET", path)
        if status == 404:
            return self._fail(404, "NoSuchKey", "The specified key does not exist.")
        meta = json.loads(found)
        if self.headers.get("If-Match", f'"{meta["generation"]}"').strip('"') != meta["generation"]:
            return self._fail(
                412, "PreconditionFailed", "At least one of the pre-conditions did not hold."
            )
        if self.command == "DELETE":
            return self._answer(*self._ask("DELETE", path))
        asked = {"Range": self.headers["Range"]} if "Range" in self.headers else {}
        status, headers, body = self._ask("GET", f"/download{path}", b"", asked)
        kept = [
            (k, v)
            for k, v in headers
            if k.lower() in ("content-range", "content-type", "last-modified")
        ]
        return self._answer(status, [*kept, *_versions(meta["generation"])], body)

    def _list(self, bucket: str) -> None:
        """A page of ListObjectsV2."""
        given = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        asked = {
            "prefix": given.get("prefix", ""),
            "delimiter": given.get("delimiter", ""),
            "maxResults": str(PAGE),
        }
        if after := given.get("start-after"):
            asked["startOffset"] = f"{after}\x01"
        if token := given.get("continuation-token"):
            asked["pageToken"] = token
        found = json.loads(self._ask("GET", f"/storage/v1/b/{bucket}/o?{urlencode(asked)}")[2])
        parts = [_listed(meta) for meta in found.get("items", ())]
        parts += [
            f"<CommonPrefixes><Prefix>{escape(p)}</Prefix></CommonPrefixes>"
            for p in found.get("prefixes", ())
        ]
        if token := found.get("nextPageToken"):
            parts.append(f"<NextContinuationToken>{escape(token)}</NextContinuationToken>")
        body = f"<?xml version='1.0'?><ListBucketResult>{''.join(parts)}</ListBucketResult>"
        return self._answer(200, [("Content-Type", "application/xml")], body.encode())

    # --- lines ------------------------------------------------------------------------------------

    def _ask(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Any:
        """Status, headers and body of the server's answer."""
        left_out = {
            "host",
            "transfer-encoding",
            "expect",
            "content-length",
            "connection",
            "accept-encoding",
        }
        server = HTTPConnection("127.0.0.1", self._front.to_port)
        try:
            sent = {
                name: value
                for name, value in (headers or {}).items()
                if name.lower() not in left_out
            }
            server.request(method, path, body, sent)
            answer = server.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            server.close()

    def _body(self) -> bytes:
        headers: HTTPMessage = cast("HTTPMessage", self.headers)
        if headers.get("Expect", "").lower() == "100-continue":
            headers.replace_header("Expect", "")
        if "chunked" in headers.get("Transfer-Encoding", ""):
            return b"".join(iter(self._chunk, b""))
        return self.rfile.read(int(headers.get("Content-Length") or 0))

    def _chunk(self) -> bytes:
        size = int(self.rfile.readline().split(b";")[0], 16)
        chunk = self.rfile.read(size)
        self.rfile.readline()
        return chunk

    def _fail(self, status: int, code: str, message: str) -> None:
        body = (
            f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
        )
        self._answer(status, [("Content-Type", "application/xml")], body.encode())

    def _answer(self, status: int, headers: Headers, body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


def _versions(generation: str) -> Headers:
    return [("ETag", f'"{generation}"'), ("x-goog-generation", generation)]


def _listed(meta: dict[str, Any]) -> str:
    etag = f"&quot;{meta['generation']}&quot;"
    told = f"<Key>{escape(meta['name'])}</Key><LastModified>{meta['updated']}</LastModified>"
    return f"<Contents>{told}<ETag>{etag}</ETag><Size>{meta['size']}</Size></Contents>"
