"""Whether tokens have ended, or may do other things by now, for streams: one look for each token now and then,
however many streams it has."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from anyio import CapacityLimiter, to_thread

from controlplane.core.rights import Principal
from controlplane.operations.desired import tokens
from controlplane.ports.store import Store

LOOK_AGAIN_S = 0.5
Part: TypeAlias = bytes | str | memoryview


class TokenEnded(Exception):
    """In the middle of an answer: its connection is cut."""


class Living:
    """Called from the event loop only. `at_end` is called when a token has ended, to wake streams that wait."""

    def __init__(self, store: Store, limiter: CapacityLimiter) -> None:
        self._store, self._limiter = store, limiter
        self._streams = Counter[str]()  # by id of their token
        self._looking: dict[str, asyncio.Task[None]] = {}
        self._ended: set[str] = set()
        self._changes = Counter[str]()  # how often what a token may do has changed since its first stream began
        self.at_end: list[Callable[[], None]] = []

    @contextmanager
    def watch(self, token: str) -> Iterator[Callable[[], bool]]:
        """Watch the token of one stream: whether it has ended or its rights have changed since the stream began, as
        of half a second ago."""
        self._streams[token] += 1
        if token not in self._looking:
            self._looking[token] = asyncio.get_running_loop().create_task(self._look(token))
        try:
            began = self._changes[token]
            yield lambda: token in self._ended or self._changes[token] != began
        finally:
            self._streams[token] -= 1
            if not self._streams[token]:
                del self._streams[token]
                self._ended.discard(token)
                self._changes.pop(token, None)
                self._looking.pop(token).cancel()

    async def while_live(
        self, token: str, parts: AsyncIterable[Part], *, has_no_end: bool = False
    ) -> AsyncIterator[Part]:
        """The parts of a stream. Raises TokenEnded, unless it is one without an end: a client must not take what is cut
        off for the whole."""
        with self.watch(token) as has_ended:
            async for part in parts:
                if not has_ended():
                    yield part
                elif has_no_end:
                    return
                else:
                    raise TokenEnded("the token of this request has ended, or may do other things by now")

    async def _look(self, token: str) -> None:
        """A store that does not answer ends nothing."""
        last_principal: Principal | None = None
        while True:
            try:
                principal = await to_thread.run_sync(tokens.standing, self._store, token, limiter=self._limiter)
            except OSError:
                principal = last_principal
            else:
                if principal is None:
                    break
                if last_principal not in (None, principal):
                    self._changes[token] += 1
                    self._wake()
                last_principal = principal
            await asyncio.sleep(LOOK_AGAIN_S)
        self._ended.add(token)
        self._wake()

    def _wake(self) -> None:
        for wake in self.at_end:
            wake()
