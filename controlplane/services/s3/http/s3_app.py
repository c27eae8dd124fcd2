"""The endpoint: signed requests in the protocol of S3, answered from the view. Read-only.

It answers on the port of the API, and knows its requests by their signatures: many clients take no
path in an endpoint. Addresses have path style. Each answer is counted, and logged in a line with
the access key.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate
from functools import partial
from typing import Protocol, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from controlplane import logs
from controlplane.core.errors import CorruptNode, NotFound, problem_text
from controlplane.operations.desired import recipients, s3_keys, vended_keys
from controlplane.services.caller_limit import CallerLimit, TooManyAtOnce
from controlplane.services.http_parts import HttpParts
from controlplane.services.s3 import s3_addresses
from controlplane.services.s3.http import bucket_pages, conditional_requests, sigv4, xml
from controlplane.services.s3.http.s3_recognition import REGION
from controlplane.services.s3.http.s3_refusals import S3Refused
from controlplane.services.s3.http.sigv4 import SignedRequest
from controlplane.services.s3.iceberg_files import TooManyPartitions
from controlplane.services.s3.key_scope import OutOfScope, Reader
from controlplane.services.s3.reads import ReadCounts
from controlplane.services.s3.s3_objects import S3Object
from controlplane.services.s3.view import S3View

PER_KEY = 64  # requests at a time, bodies under way among them
BINARY = "binary/octet-stream"
_OF_BUCKETS = frozenset(
    [
        "accelerate",
        "acl",
        "analytics",
        "cors",
        "encryption",
        "intelligent-tiering",
        "inventory",
        "lifecycle",
        "logging",
        "metrics",
        "notification",
        "object-lock",
        "ownershipControls",
        "policy",
        "policyStatus",
        "publicAccessBlock",
        "replication",
        "requestPayment",
        "tagging",
        "uploads",
        "versions",
        "website",
    ]
)
_OF_OBJECTS = frozenset(
    [
        "acl",
        "attributes",
        "legal-hold",
        "retention",
        "select",
        "tagging",
        "torrent",
        "uploadId",
        "uploads",
    ]
)
T = TypeVar("T")
log = logs.get("s3")


@dataclass(frozen=True, slots=True)
class _BucketRequest:
    """One request, whose signature is good."""

    view: S3View
    reader: Reader
    turn: CapacityLimiter  # of the key
    method: str
    bucket: str
    key: str
    query: Mapping[str, str]
    headers: Mapping[str, str]


class BodyCut(Exception):
    """The lake failed in the middle of a body. The connection ends before the length that was
    announced."""


class S3Parts(HttpParts, Protocol):
    @property
    def reads(self) -> ReadCounts: ...


class S3App:
    """Plain ASGI. It never reads a body: a refused one is left in the connection, which is then
    closed."""

    def __init__(self, parts: S3Parts, per_key: int = PER_KEY) -> None:
        self._parts = parts
        self._views = dict[str, S3View]()  # by namespace
        self._caller_limits = CallerLimit(per_key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _signed_request(scope)
        answer = _Answer(self._parts, scope, request)
        try:
            limiter = self._parts.threads.s3_keys
            key, s3_object = await to_thread.run_sync(self._started, request, limiter=limiter)
            answer.key = key
            with self._caller_limits.of(key.id) as turn:
                view = self._view_of(key.namespace)
                response = await self._answered(
                    request, view, Reader(key.scopes, key.principal), turn, s3_object
                )
                if isinstance(response, StreamingResponse):
                    response.body_iterator = self._parts.token_watch.while_live(
                        key.id, response.body_iterator, key.standing
                    )
                await answer.send(response, receive, send)
        except S3Refused as refused:
            await answer.send(answer.refusal(refused), receive, send)
        except TooManyAtOnce:
            words = f"this key has {self._caller_limits.most} requests under way: try again"
            await answer.send(answer.refusal(S3Refused("SlowDown", 503, words)), receive, send)
        except OutOfScope as e:
            await answer.send(answer.refusal(S3Refused("AccessDenied", 403, str(e))), receive, send)
        except TooManyPartitions as e:
            await answer.send(
                answer.refusal(S3Refused("InvalidRequest", 400, str(e))), receive, send
            )
        except CorruptNode as e:
            if answer.is_started:
                raise
            log.error(
                "request failed", path=request.path, request_id=answer.request_id, reason=str(e)
            )
            await answer.send(
                answer.refusal(S3Refused("InternalError", 500, problem_text(e))), receive, send
            )
        except OSError as e:
            if answer.is_started:
                raise
            log.warning(
                "request failed", path=request.path, request_id=answer.request_id, reason=str(e)
            )
            words = "the database or the lake does not answer; the log has the reason under this request id"
            await answer.send(
                answer.refusal(S3Refused("ServiceUnavailable", 503, words)), receive, send
            )

    def _started(self, request: SignedRequest) -> tuple[s3_keys.S3Key, S3Object | None]:
        """Who asks, and the object if it is found by a short look: to go to another thread takes
        longer than that."""
        key = self._key(request)
        if request.method not in ("GET", "HEAD"):
            return key, None
        bucket, _, name = (
            sigv4.decoded(request.path).decode(errors="replace").removeprefix("/").partition("/")
        )
        if bucket != key.namespace:
            return key, None
        return key, self._view_of(key.namespace).find_at_once(
            Reader(key.scopes, key.principal), name
        )

    def _key(self, request: SignedRequest) -> s3_keys.S3Key:
        """The live key that signed a request."""
        keys: dict[str, s3_keys.S3Key] = {}

        def secret_of(access_key: str) -> str | None:
            store = self._parts.store
            if access_key.startswith(vended_keys.PREFIX):
                key = vended_keys.find(store, access_key)
            else:
                key = s3_keys.find(store, access_key) or recipients.s3_key(store, access_key)
            if key is None:
                return None
            keys[access_key] = key
            return s3_keys.secret_key(self._parts.s3_secret, key.namespace, access_key)

        return keys[sigv4.verify(request, secret_of, time.time())]

    def _view_of(self, namespace: str) -> S3View:
        """The bucket of a namespace: one for all threads."""
        view = self._views.get(namespace)
        if view is None:
            parts = self._parts
            made = S3View(parts.store, parts.lake, namespace, make_checkpoint=parts.checkpoint)
            view = self._views.setdefault(namespace, made)
        return view

    async def _answered(
        self,
        request: SignedRequest,
        view: S3View,
        reader: Reader,
        turn: CapacityLimiter,
        s3_object: S3Object | None,
    ) -> Response:
        """`found`: the object, if it is known."""
        if request.method not in ("GET", "HEAD"):
            raise S3Refused(
                "AccessDenied",
                403,
                "this is a view of what Headgate computed: nothing can be written",
            )
        s3_request = _request_of(request, view, reader, turn)
        if not s3_request.bucket:
            return _xml(xml.buckets(view.namespace))
        if s3_request.bucket != view.namespace:
            raise S3Refused(
                "NoSuchBucket", 404, f"there is no such bucket; the only one is {view.namespace}"
            )
        return await (
            self._object(s3_request, s3_object) if s3_request.key else self._bucket(s3_request)
        )

    async def _bucket(self, s3_request: _BucketRequest) -> Response:
        if s3_request.method == "HEAD":
            return Response(headers={"x-amz-bucket-region": REGION})
        if "location" in s3_request.query:
            return _xml(xml.location(REGION))
        if "versioning" in s3_request.query:
            return _xml(xml.versioning())
        _check_part(s3_request, _OF_BUCKETS)
        return _xml(
            await self._in_turn(
                s3_request.turn,
                partial(bucket_pages.listing, s3_request.view, s3_request.reader, s3_request.query),
            )
        )

    async def _object(self, s3_request: _BucketRequest, s3_object: S3Object | None) -> Response:
        _check_part(s3_request, _OF_OBJECTS)
        s3_object = s3_object or await self._in_turn(
            s3_request.turn, partial(s3_request.view.find, s3_request.reader, s3_request.key)
        )
        if s3_object is None:
            raise S3Refused("NoSuchKey", 404, "there is no such object")
        headers = {
            "ETag": f'"{s3_object.etag}"',
            "Last-Modified": formatdate(s3_object.at, usegmt=True),
        }
        if conditional_requests.is_unchanged(s3_request.headers, s3_object.etag):
            return Response(status_code=304, headers=headers)
        part = conditional_requests.part(s3_request.headers, s3_object.size)
        start, end = part or (0, s3_object.size)
        headers |= {
            "Accept-Ranges": "bytes",
            "Content-Type": BINARY,
            "Content-Length": str(end - start),
        }
        if part is not None:
            headers["Content-Range"] = f"bytes {start}-{end - 1}/{s3_object.size}"
        status = 200 if part is None else 206
        if s3_request.method == "HEAD" or start == end:
            return Response(status_code=status, headers=headers)
        return await self._body(s3_object, start, end, status, headers)

    async def _body(
        self, s3_object: S3Object, start: int, end: int, status: int, headers: Mapping[str, str]
    ) -> Response:
        """The next piece is read when the client has taken the one before."""
        if isinstance(s3_object.source, bytes):
            return Response(s3_object.source[start:end], status, headers)
        pieces = self._parts.lake.stream_range(s3_object.source, start, end)
        limiter = self._parts.threads.s3_bodies
        try:
            first = await to_thread.run_sync(next, pieces, b"", limiter=limiter)
        except NotFound as e:
            raise S3Refused("NoSuchKey", 404, "there is no such object any more") from e

        async def body() -> AsyncIterator[bytes]:
            piece = first
            try:
                while piece:
                    yield piece
                    piece = await to_thread.run_sync(next, pieces, b"", limiter=limiter)
            except OSError as e:  # an OSError would be taken for a client that has left
                raise BodyCut(f"{s3_object.name}: {e}") from e
            finally:
                _close(pieces)

        return StreamingResponse(body(), status, headers)

    async def _in_turn(self, turn: CapacityLimiter, work: Callable[[], T]) -> T:
        """One of a key at a time: while a long listing of one is made, there is a thread for those
        of others."""
        async with turn:
            return await to_thread.run_sync(work, limiter=self._parts.threads.s3)


class _Answer:
    """The answer to one request, as it is counted and logged."""

    def __init__(self, parts: S3Parts, scope: Scope, request: SignedRequest) -> None:
        self._parts, self._scope, self._request = parts, scope, request
        self.request_id = str(scope["headgate.request_id"])
        self.code, self.is_started = "", False
        self.key: s3_keys.S3Key | None = None

    def refusal(self, refused: S3Refused) -> Response:
        self.code = refused.code
        body = xml.error(refused.code, str(refused), self._request.path, self.request_id)
        headers = {"Content-Type": xml.MEDIA_TYPE}
        if _has_body(self._request):
            # It is not read, and what follows in the connection is the body
            headers["Connection"] = "close"
        return Response(body if self._request.method != "HEAD" else b"", refused.status, headers)

    async def send(self, response: Response, receive: Receive, send: Send) -> None:
        self.is_started = True
        sent = 0

        async def counted(message: Message) -> None:
            nonlocal sent
            await send(message)
            sent += len(message.get("body", b""))

        try:
            await response(self._scope, receive, counted)
        finally:
            self._parts.counters.add("s3_answers", self.code or str(response.status_code))
            self._parts.counters.add("s3_sent_bytes", n=sent)
            self._note_read(response.status_code, sent)
            log.info(
                "answered",
                access_key="" if self.key is None else self.key.id,
                method=self._request.method,
                path=self._request.path,
                status=response.status_code,
                code=self.code,
                sent=sent,
                request_id=self.request_id,
            )

    def _note_read(self, status: int, sent: int) -> None:
        """Note that content of a dataset was read, also where the body was cut off."""
        if (
            self.key is None
            or status not in (200, 206)
            or not sent
            or self._request.method != "GET"
        ):
            return
        path = sigv4.decoded(self._request.path).decode(errors="replace")
        place = s3_addresses.split(path.removeprefix("/").partition("/")[2])
        if place is not None:
            table, _ = place
            self._parts.reads.add(self.key.id, self.key.name, table.ref.branch, table.name, sent)


def _signed_request(scope: Scope) -> SignedRequest:
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    path = scope["raw_path"].decode("latin-1")
    return SignedRequest(scope["method"], path, scope["query_string"].decode("latin-1"), headers)


def _has_body(request: SignedRequest) -> bool:
    length = request.headers.get("content-length", "0")
    return (
        request.method not in ("GET", "HEAD")
        or length != "0"
        or "transfer-encoding" in request.headers
    )


def _request_of(
    request: SignedRequest, view: S3View, reader: Reader, turn: CapacityLimiter
) -> _BucketRequest:
    try:
        path = sigv4.decoded(request.path).decode()
        query = {name.decode(): value.decode() for name, value in sigv4.pairs_of(request.query)}
    except UnicodeDecodeError:
        raise S3Refused("InvalidURI", 400, "the address is not in UTF-8") from None
    bucket, _, key = path.removeprefix("/").partition("/")
    return _BucketRequest(
        view,
        reader,
        turn,
        method=request.method,
        bucket=bucket,
        key=key,
        query=query,
        headers=request.headers,
    )


def _check_part(s3_request: _BucketRequest, others: frozenset[str]) -> None:
    for name in sorted(others.intersection(s3_request.query)):
        raise S3Refused("NotImplemented", 501, f"the view has no {name}")


def _xml(text: str) -> Response:
    return Response(text, media_type=xml.MEDIA_TYPE)


def _close(pieces: Iterator[bytes]) -> None:
    # No generator; it is at work in a thread that was left
    with suppress(AttributeError, ValueError):
        pieces.close()  # type: ignore[attr-defined]
