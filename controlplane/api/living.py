"""Whether tokens have ended, for streams: one look for each token now and then, however many streams it has.

Does not belong here: the token of a request, which is looked up each time (`access`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

from anyio import CapacityLimiter, to_thread

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
        self.at_end: list[Callable[[], None]] = []

    @contextmanager
    def watch(self, token: str) -> Iterator[Callable[[], bool]]:
        """For one stream: tells whether its token has ended, as of half a second ago."""
        self._streams[token] += 1
        if token not in self._looking:
            self._looking[token] = asyncio.get_running_loop().create_task(self._look(token))
        try:
            yield lambda: token in self._ended
        finally:
            self._streams[token] -= 1
            if not self._streams[token]:
                del self._streams[token]
                self._ended.discard(token)
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
                    raise TokenEnded("the token of this request has ended")

    async def _look(self, token: str) -> None:
        """A store that does not answer ends nothing."""
        is_live = True
        while is_live:
            await asyncio.sleep(LOOK_AGAIN_S)
            with suppress(OSError):
                is_live = await to_thread.run_sync(tokens.is_live, self._store, token, limiter=self._limiter)
        self._ended.add(token)
        for wake in self.at_end:
            wake()
