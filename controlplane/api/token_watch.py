"""Whether tokens have ended, or may do other things by now, for streams: one look for each token
now and then, however many streams it has."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

from anyio import CapacityLimiter, to_thread

from controlplane.core.rights import Principal
from controlplane.operations.desired import tokens
from controlplane.ports.store import Store

LOOK_AGAIN_S = 0.5
Part: TypeAlias = bytes | str | memoryview


class TokenEnded(Exception):
    """In the middle of an answer: its connection is cut."""


class TokenWatch:
    """Called from the event loop only. `at_end` is called when a token has ended, to wake streams
    that wait."""

    def __init__(self, store: Store, limiter: CapacityLimiter) -> None:
        self._store, self._limiter = store, limiter
        # Whether each has ended, by id of its token
        self._streams = defaultdict[str, list[Callable[[], bool]]](list)
        self._polls: dict[str, asyncio.Task[None]] = {}
        self._ended: set[str] = set()
        # As of the last look, with when it began
        self._rights: dict[str, tuple[float, Principal]] = {}
        self.at_end: list[Callable[[], None]] = []

    @contextmanager
    def watch(self, token: str, principal: Principal) -> Iterator[Callable[[], bool]]:
        """Watch the token of one stream: whether it has ended or its rights have changed since its
        request was let in with those of `principal`, as of half a second ago."""
        began = time.monotonic()

        def has_ended() -> bool:
            looked, latest = self._rights.get(token, (began, principal))
            # A look before this stream saw older rights
            has_other_rights = latest != principal and looked >= began
            return token in self._ended or has_other_rights

        self._streams[token].append(has_ended)
        if token not in self._polls:
            self._polls[token] = asyncio.get_running_loop().create_task(self._look(token))
        try:
            yield has_ended
        finally:
            self._streams[token].remove(has_ended)
            if not self._streams[token]:
                del self._streams[token]
                self._ended.discard(token)
                self._rights.pop(token, None)
                self._polls.pop(token).cancel()

    async def while_live(
        self,
        token: str,
        parts: AsyncIterable[Part],
        principal: Principal,
        *,
        has_no_end: bool = False,
    ) -> AsyncIterator[Part]:
        """The parts of a stream. Raises TokenEnded, unless it is one without an end: a client must
        not take a truncated stream for the whole."""
        with self.watch(token, principal) as has_ended:
            async for part in parts:
                if not has_ended():
                    yield part
                elif has_no_end:
                    return
                else:
                    raise TokenEnded(
                        "the token of this request has ended, or may do other things by now"
                    )

    async def _look(self, token: str) -> None:
        """A store that does not answer ends nothing."""
        while True:
            began = time.monotonic()
            with suppress(OSError):
                principal = await to_thread.run_sync(
                    tokens.standing, self._store, token, limiter=self._limiter
                )
                if principal is None:
                    self._ended.add(token)
                else:
                    self._rights[token] = began, principal
            # Again at each look: a stream that was still reading at the last one may have begun to
            # wait since.
            if any(has_ended() for has_ended in self._streams[token]):
                self._wake()
            await asyncio.sleep(LOOK_AGAIN_S)

    def _wake(self) -> None:
        for wake in self.at_end:
            wake()
