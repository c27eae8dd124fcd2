"""The outermost layer, in plain ASGI: request ids, the limit on bodies, the answer when something
unexpected breaks."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controlplane import logs
from controlplane.api import problem_json
from controlplane.api.driver_app import PREFIX, DriverApp
from controlplane.api.driver_services import DriverServices
from controlplane.services.iceberg import register as iceberg
from controlplane.services.s3 import register as s3
from controlplane.services.sharing import register as sharing
from controlplane.ui.page_recognition import is_for_pages

BODY_LIMIT_BYTES = 5_000_000
# Of a refused body: read and dropped, so that the client gets to read the answer
DISCARD_LIMIT_BYTES = 256_000_000
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
OF_ANOTHER_HOST = re.compile(r"/[\t\n\r]*[/\\]")  # as browsers read it where it is in a link

if TYPE_CHECKING:
    from fastapi import FastAPI

    from controlplane.api.services import Services

log = logs.get("api")


class Gateway:
    """All that is served: drivers' routes at once; the application, the S3 view, Delta Sharing, the
    catalogue of Iceberg and the pages at their first request."""

    def __init__(self, drivers: DriverServices, services: LazyServices) -> None:
        self._services = services
        self._drivers, self._app, self._counters = (
            DriverApp(drivers),
            LazyApp(services),
            drivers.counters,
        )
        self._s3, self._sharing, self._iceberg, self._pages = (
            LazyApplication(services, s3.app),
            LazyApplication(services, sharing.app),
            LazyApplication(services, iceberg.app),
            LazyApplication(services, _pages),
        )

    def load(self) -> None:
        """Build the application now, where requests for it are expected."""
        self._app.load()

    def close(self) -> None:
        self._services.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["headgate.request_id"] = _request_id(scope)
        exchange = HttpExchange(scope, receive, send, self._count)
        app: ASGIApp
        if OF_ANOTHER_HOST.match(scope["path"]):
            await problem_json.of_no_address(scope["headgate.request_id"])(
                scope, exchange.receive, exchange.send
            )
            return
        if s3.is_for_s3(scope):
            app = self._s3
        elif sharing.is_for_sharing(scope):
            app = self._sharing
        elif iceberg.is_for_iceberg(scope):
            app = self._iceberg
        elif is_for_pages(scope):
            app = self._pages
            if scope["method"] == "HEAD":
                scope = {**scope, "method": "GET"}
        else:
            # What GET would answer; the server below leaves out the body
            if scope["method"] == "HEAD":
                scope = {**scope, "method": "GET", "headgate.head": True}
            app = self._drivers if scope["path"].startswith(PREFIX) else self._app
        try:
            await app(scope, exchange.receive, exchange.send)
        except ClientDisconnect:
            return  # the client has left
        except Exception as error:  # noqa: BLE001  # the last place that can turn it into an answer
            await exchange.broken(error)

    def _count(self, status: int) -> None:
        self._counters.add("http_answers", str(status))


class LazyServices:
    """Services that are made when they are first needed. Safe to use from many threads."""

    def __init__(self, make: Callable[[], Services]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._services: Services | None = None

    def __call__(self) -> Services:
        with self._lock:
            if self._services is None:
                self._services = self._make()
            return self._services

    def close(self) -> None:
        if self._services is not None:
            self._services.reads.close()


class LazyApp:
    """The application, built at its first request: many runs end before there is one."""

    def __init__(self, services: LazyServices) -> None:
        self._services = services
        self._lock = threading.Lock()
        self._app: FastAPI | None = None

    def load(self) -> FastAPI:
        """Build it, or take it. Several threads may ask at once."""
        with self._lock:
            if self._app is None:
                from controlplane.api.app import create_app

                self._app = create_app(self._services())
            return self._app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = await run_in_threadpool(self.load) if self._app is None else self._app
        await app(scope, receive, send)


class LazyApplication:
    """An application that is loaded at its first request."""

    def __init__(self, services: LazyServices, load: Callable[[Services], ASGIApp]) -> None:
        self._services, self._load = services, load
        self._app: ASGIApp | None = None  # made and used on the event loop alone

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            services = await run_in_threadpool(self._services)
            self._app = self._load(services)
        await self._app(scope, receive, send)


def _pages(services: Services) -> ASGIApp:
    from controlplane.ui.pages_app import PagesApp

    return PagesApp(services)


class HttpExchange:
    """One request and its answer."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, count: Callable[[int], None]
    ) -> None:
        self._scope, self._receive, self._send, self._count = scope, receive, send, count
        self._declared = _content_length(scope)
        self._size = 0
        self._is_refused = False
        self._is_complete = False
        self._is_started = False
        self._is_answered = False

    async def receive(self) -> Message:
        """The next part of the body; 413 as soon as it is known to be too large, so that it is
        never held in memory."""
        if self._declared > BODY_LIMIT_BYTES:
            raise self._too_large()
        message = await self._receive()
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            self._is_complete = not message.get("more_body", False)
        if self._size > BODY_LIMIT_BYTES:
            raise self._too_large()
        return message

    def _too_large(self) -> HTTPException:
        self._is_refused = True
        return HTTPException(413, f"the body is larger than {BODY_LIMIT_BYTES} bytes")

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._is_started = True
            self._count(message["status"])
            MutableHeaders(scope=message)["X-Request-ID"] = self._scope["headgate.request_id"]
        elif self._is_refused and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._discard()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)
        self._is_answered = message["type"] == "http.response.body" and not message.get(
            "more_body", False
        )

    async def _discard(self) -> None:
        left = DISCARD_LIMIT_BYTES
        while not self._is_complete and left > 0:
            message = await self._receive()
            left -= len(message.get("body", b""))
            self._is_complete = not message.get("more_body", False)

    async def broken(self, error: Exception) -> None:
        """Log what broke under the request's id; the client learns only the id."""
        request_id = self._scope["headgate.request_id"]
        log.error("request failed", path=self._scope["path"], request_id=request_id, exc_info=error)
        if self._is_answered:
            return
        if self._is_started:
            raise error
        await problem_json.of_fault(request_id)(self._scope, self.receive, self.send)


def _request_id(scope: Scope) -> str:
    header = Headers(scope=scope).get("x-request-id", "")
    return header if REQUEST_ID.fullmatch(header) else uuid.uuid4().hex


def _content_length(scope: Scope) -> int:
    text = Headers(scope=scope).get("content-length", "")
    return int(text) if text.isdigit() and len(text) < 20 else 0
