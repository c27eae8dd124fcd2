"""One reader of events per process and namespace, and any number of streams that wait for it in the
event loop.

The reader looks into the store once per change and keeps the newest events of all branches as text.
A stream is a cursor into that text, and skips other branches: it buffers nothing, and holds no
thread. A stream that is further behind reads pages from the store, few at a time.
"""

from __future__ import annotations

import asyncio
import json
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from anyio import CapacityLimiter, to_thread

from controlplane import logs
from controlplane.api.problem_json import RequestRefused
from controlplane.api.services import Services
from controlplane.core.model.answers import EventRecord
from controlplane.core.model.events import NO_BRANCH
from controlplane.core.model.namespaces import DEFAULT
from controlplane.operations.context import Context
from controlplane.operations.inspect import overview

STREAMS = 10_000  # of this process
OF_ONE_TOKEN = 7_500
HEARTBEAT_S = 15.0
LOOK_AGAIN_S = 3.0  # another process may share the database, and its notices do not reach us
FAILED_S = 1.0
BATCH = 500
KEPT = 2_000  # events as text
CHUNK_BYTES = 16_384  # that a stream is given at a time, if it is more than one event
GROUP = 50  # streams that are woken at a time: other requests have their turn in between
HELLO, STILL_HERE = b": events\n\n", b": still here\n\n"

log = logs.get("api")


class _Kept(NamedTuple):
    """An event as it is sent."""

    id: int
    branch: str
    text: bytes


class EventFeed:
    """Shared event streams. Methods run on the event loop only, except `_look` and `_page`."""

    def __init__(self, services: Services, namespace: str = DEFAULT) -> None:
        self._services = services
        self._context, self._news = Context(services.store, namespace), services.wake.of(namespace)
        self._reader = CapacityLimiter(1)
        self._reading: asyncio.Task[None] | None = None
        self._streams = Counter[str]()
        self._waiting: dict[asyncio.Future[None], float] = {}  # since when, the oldest first
        self._ids: list[int] = []
        self._branches: list[str] = []
        self._texts: list[bytes] = []
        # Every later event is among the texts; None: nothing was read yet
        self._floor: int | None = None
        self._newest, self._reported_newest = 0, -1
        services.token_watch.at_end.append(self._wake_all)

    @contextmanager
    def place(self, token: str) -> Iterator[None]:
        """For one stream of a token's owner. Raises Refused where there are too many."""
        if self._streams.total() >= STREAMS or self._streams[token] >= OF_ONE_TOKEN:
            raise RequestRefused(
                "unavailable", "too many streams of events are open", {"Retry-After": "15"}
            )
        self._streams[token] += 1
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read())
        try:
            yield
        finally:
            self._streams[token] -= 1
            self._streams += Counter()  # forget who has none

    async def follow(self, branch: str, after: int | None) -> AsyncIterator[bytes]:
        """Events after an id, or from now on, until the process ends. A comment shows now and then
        that it lives: after a while, or when something happened in another branch. An id that is to
        come is of a database that was restored since: the stream goes on from now."""
        if after is None or after > self._newest:
            last = await to_thread.run_sync(self._last, limiter=self._services.threads.events)
            after = last if after is None else min(after, last)
        yield HELLO
        while not self._services.stopping.is_set():
            chunk, after = await self._next(branch, after)
            if not chunk:
                await self._wait()
                chunk, after = await self._next(branch, after)
            yield chunk or STILL_HERE

    async def until_newest(self, branch: str, after: int | None) -> AsyncIterator[bytes]:
        """Events after an id that are there by now."""
        yield HELLO
        if after is None:
            return
        while not self._services.stopping.is_set():
            chunk, after = await self._paged(branch, after)
            if not chunk:
                return
            yield chunk

    async def _next(self, branch: str, after: int) -> tuple[bytes, int]:
        """Nothing only if there is nothing at this moment: until the loop has its turn, a caller
        may begin to wait."""
        while (floor := self._floor) is None or after < floor:
            chunk, last = await self._paged(branch, after)
            if chunk:
                return chunk, last
            if self._floor is None:
                return b"", after  # the reader wakes all when it has begun
            after = max(after, floor or 0)
        return self._kept_texts(branch, after)

    def _kept_texts(self, branch: str, after: int) -> tuple[bytes, int]:
        """Events of other branches are skipped up to the first of its own that does not fit, or to
        the newest."""
        texts, size = list[bytes](), 0
        for i in range(bisect_right(self._ids, after), len(self._ids)):
            if size >= CHUNK_BYTES:
                break
            after = self._ids[i]
            if self._branches[i] in (NO_BRANCH, branch):
                texts.append(self._texts[i])
                size += len(self._texts[i])
        return b"".join(texts), after

    async def _paged(self, branch: str, after: int) -> tuple[bytes, int]:
        return await to_thread.run_sync(
            self._page, branch, after, limiter=self._services.threads.events
        )

    def _page(self, branch: str, after: int) -> tuple[bytes, int]:
        events = overview.events(self._context, branch, after, BATCH)
        return b"".join(map(_text, events)), events[-1]["id"] if events else after

    def _last(self) -> int:
        with self._context.read() as tx:
            return tx.events.last()

    # --- the reader

    async def _read(self) -> None:
        """Read events as long as there are streams. A store that does not answer is read again
        later: streams go on, and say so."""
        self._reported_newest = -1
        while self._streams and not self._services.stopping.is_set():
            try:
                self._keep(
                    await to_thread.run_sync(self._look, self._floor is None, limiter=self._reader)
                )
            except Exception as error:  # noqa: BLE001  # streams wait for this task alone
                log.warning("events cannot be read", reason=str(error))
                await asyncio.sleep(FAILED_S)
            await self._rouse()
        self._reading, self._floor = None, None
        self._ids.clear()
        self._branches.clear()
        self._texts.clear()
        self._wake_all()

    def _wake_all(self) -> None:
        for future in list(self._waiting):
            _set(future)

    def _look(self, is_first: bool) -> list[_Kept] | int:
        """New events, or none after a while; the first time, only the id of the newest."""
        count = self._news.count
        if is_first:
            return self._last()
        events = overview.events(self._context, None, self._newest, BATCH)
        if not events:
            self._news.wait(LOOK_AGAIN_S, count)
        return [_Kept(event["id"], event["branch"], _text(event)) for event in events]

    def _keep(self, news: list[_Kept] | int) -> None:
        if isinstance(news, int):
            self._floor = self._newest = news
            return
        for event in news:
            self._ids.append(event.id)
            self._branches.append(event.branch)
            self._texts.append(event.text)
            self._newest = event.id
        if (spare := len(self._ids) - KEPT) > 0:
            self._floor = self._ids[spare - 1]
            del self._ids[:spare], self._branches[:spare], self._texts[:spare]

    async def _rouse(self) -> None:
        """Wake streams that wait if there is something new for them, or if they have been quiet for
        long.

        A stream that waits has all events that it could be woken for before.
        """
        quiet = time.monotonic() - HEARTBEAT_S
        is_news = self._newest != self._reported_newest
        self._reported_newest = self._newest
        due = [future for future, since in self._waiting.items() if is_news or since < quiet]
        began = time.monotonic()
        for start in range(0, len(due), GROUP):
            for future in due[start : start + GROUP]:
                _set(future)
            await asyncio.sleep(0)
        # Streams take half of the loop's time at most
        await asyncio.sleep(time.monotonic() - began)

    async def _wait(self) -> None:
        if self._reading is None:
            return  # the process ends
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = time.monotonic()
        try:
            await future
        finally:
            del self._waiting[future]


class EventFeeds:
    """A feed for each namespace that has streams. Called from the event loop only."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._feeds = dict[str, EventFeed]()

    def of(self, namespace: str) -> EventFeed:
        if namespace not in self._feeds:
            self._feeds[namespace] = EventFeed(self._services, namespace)
        return self._feeds[namespace]


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _text(event: EventRecord) -> bytes:
    """JSON has no line breaks outside of its strings, and none inside, so one data line is
    enough."""
    return f"id: {event['id']}\nevent: {event['kind']}\ndata: {json.dumps(event)}\n\n".encode()
