"""The HTTP server in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import anyio.to_thread
import uvicorn

from controlplane.api.driver_services import DriverServices
from controlplane.api.edge import Gateway, LazyServices
from controlplane.api.threads import USERS
from controlplane.core.errors import Broken

BACKLOG = 256  # connections that are accepted in one turn of the loop, too
TICK_S = 1.0
GRACE_S = 5
KEEP_ALIVE_S = 75


class Listener(uvicorn.Server):
    """Ticks once a second instead of ten times, and ends on request instead of at the next tick."""

    _loop: asyncio.AbstractEventLoop | None = None
    _end: asyncio.Event

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        anyio.to_thread.current_default_thread_limiter().total_tokens = USERS
        await super().startup(sockets)

    async def main_loop(self) -> None:
        self._end, self._loop = asyncio.Event(), asyncio.get_running_loop()
        while not self.should_exit:
            await self.on_tick(0)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._end.wait(), TICK_S)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if not self.force_exit:
            await super().shutdown(sockets)

    def end(self, *, at_once: bool) -> None:
        """From any thread. `at_once`: do not wait for requests under way."""
        self.force_exit, self.should_exit = at_once, True
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is over already
                self._loop.call_soon_threadsafe(self._end.set)


class _NoCutOffRequests(logging.Filter):
    """A process that ends at once cuts off requests under way: no faults, which uvicorn would log
    with a trace."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, asyncio.CancelledError)


NO_CUT_OFF_REQUESTS = _NoCutOffRequests()


def allow_descriptors() -> None:
    """As many open files as the system lets this process have: each connection is one, and the
    usual 1,024 are few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # macOS says unlimited, and means less
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Serving(threading.Thread):
    """Serves on a socket that listens already, so that clients may connect before this thread runs.

    `eager`: build the whole application at once, not at the first request beyond those of drivers.
    """

    def __init__(
        self,
        drivers: DriverServices,
        services: LazyServices,
        bound: socket.socket,
        on_failure: Callable[[], None],
        *,
        eager: bool = True,
    ) -> None:
        super().__init__(name="api", daemon=True)
        self._bound, self._on_failure, self._eager = bound, on_failure, eager
        self._edge = Gateway(drivers, services)
        self._listener = Listener(
            uvicorn.Config(
                self._edge,
                http="h11",
                ws="none",
                loop="asyncio",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            allow_descriptors()
            # One and the same: added once
            logging.getLogger("uvicorn.error").addFilter(NO_CUT_OFF_REQUESTS)
            if self._eager:
                self._edge.load()
            self._listener.run(sockets=[self._bound])
            if not self._listener.should_exit:
                raise RuntimeError("the API ended without a request to end")
        except BaseException as error:  # noqa: BLE001  # handed to who waits for us
            self.failure = error
            self._on_failure()

    def stop(self, *, at_once: bool = False) -> None:
        """Let requests under way finish, and end. Raises Broken with the thread's failure."""
        self._listener.end(at_once=at_once)
        if self.ident is not None:
            self.join()
        self._edge.close()
        if self.failure is not None:
            raise Broken(
                f"the API ended ({type(self.failure).__name__}: {self.failure})"
            ) from self.failure
