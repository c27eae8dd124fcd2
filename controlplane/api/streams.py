"""Bodies that are made while they are sent: the next piece when the client has taken the one
before.

A client that leaves frees the generator of the pieces at once, also while a piece is awaited.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from functools import partial

import anyio
from anyio import CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from controlplane.core.errors import TooManyStreams

MOST = 32  # at a time: each is a process
MOST_OF_ONE = 8


class BodyCut(Exception):
    """Making a body failed in its middle. The connection ends before the body does, so clients see
    it."""


class Streams:
    """How many bodies are under way, so that one caller leaves room for others."""

    def __init__(self, most: int = MOST, most_of_one: int = MOST_OF_ONE) -> None:
        self._most, self._most_of_one = most, most_of_one
        self._running: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, caller: str) -> None:
        """Room for one of this caller's. TooManyStreams if there is none."""
        with self._lock:
            if self._running[caller] >= self._most_of_one:
                raise TooManyStreams(
                    f"{self._most_of_one} streams of this token or link are under way: try again"
                )
            if self._running.total() >= self._most:
                raise TooManyStreams(f"{self._most} streams are under way: try again")
            self._running[caller] += 1

    def give_back(self, caller: str) -> None:
        with self._lock:
            self._running[caller] -= 1
            if not self._running[caller]:
                del self._running[caller]

    @property
    def running(self) -> int:
        with self._lock:
            return self._running.total()


class PieceResponse(StreamingResponse):
    """Sends pieces, and closes them however that ends."""

    def __init__(
        self,
        stream: Stream,
        first: bytes,
        headers: Mapping[str, str],
        media_type: str,
    ) -> None:
        super().__init__(stream.after(first), headers=headers, media_type=media_type)
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._stream.close()


class Stream:
    """Pieces that are made by threads of their own limit, and the room that their caller has for
    them."""

    def __init__(
        self, streams: Streams, caller: str, pieces: Iterator[bytes], limiter: CapacityLimiter
    ) -> None:
        """Takes the room. TooManyStreams if there is none."""
        streams.take(caller)
        self._streams, self._caller = streams, caller
        self._pieces, self._limiter = pieces, limiter
        self._is_open = True

    async def response(
        self, request: Request, headers: Mapping[str, str], media_type: str
    ) -> PieceResponse:
        """With the first piece here already: what fails at once is raised, and still gets an answer
        of its own."""
        try:
            first = await self._first(request)
        except BaseException:
            await self.close()
            raise
        return PieceResponse(self, first, headers, media_type)

    async def _first(self, request: Request) -> bytes:
        first_piece: list[bytes] = []
        failure: Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch, request, group.cancel_scope)
            try:
                first_piece.append(await self._next())
            except Exception as e:  # noqa: BLE001  # raised again outside of the group, which would wrap it
                failure = e
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        if not first_piece:
            raise ClientDisconnect
        return first_piece[0]

    async def _watch(self, request: Request, scope: anyio.CancelScope) -> None:
        """Until the client goes away."""
        while (await request.receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async def _next(self) -> bytes:
        """Empty at the end. Who waits may leave: closing ends the thread."""
        take = partial(next, self._pieces, b"")
        return await to_thread.run_sync(take, abandon_on_cancel=True, limiter=self._limiter)

    async def after(self, first: bytes) -> AsyncIterator[bytes]:
        """All pieces, the first of which is here."""
        piece = first
        while piece:
            yield piece
            try:
                piece = await self._next()
            except OSError as e:  # which would be taken for a client that has left
                raise BodyCut(str(e)) from e

    async def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._streams.give_back(self._caller)
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(_close, self._pieces)


def _close(pieces: Iterator[bytes]) -> None:
    # No generator; it is at work in a thread that was left
    with suppress(AttributeError, ValueError):
        pieces.close()  # type: ignore[attr-defined]
