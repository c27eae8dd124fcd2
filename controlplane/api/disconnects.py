"""Clients that leave before they have their answer: the work for them ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Protocol

from anyio import CancelScope, to_thread
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from controlplane.core.errors import QueryCancelled


class Cancellable(Protocol):
    def cancel(self) -> None: ...


async def watch(receive: Receive, cancellable: Cancellable) -> None:
    """Cancel when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    cancellable.cancel()


class CancelledStream(StreamingResponse):
    """Parts of a body. When the client has left, what makes them is cancelled, also while a part is
    waited for; and however it ends, they are closed."""

    def __init__(
        self,
        parts: Generator[bytes, None, None],
        cancellable: Cancellable,
        media_type: str,
        headers: dict[str, str],
    ) -> None:
        super().__init__(parts, media_type=media_type, headers=headers)
        self._close: Callable[[], None] = parts.close
        self._cancellable = cancellable

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002  # of ASGI
        watching = asyncio.create_task(watch(receive, self._cancellable))
        try:
            with suppress(QueryCancelled):
                await self.stream_response(send)
        finally:
            watching.cancel()
            with CancelScope(shield=True):
                await to_thread.run_sync(self._close)
