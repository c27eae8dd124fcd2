"""Queries that run in this process, by user and by the id that was chosen for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from controlplane.core.errors import IdempotencyConflict, NotFound


class Cancel:
    """`Cancellation`. Each callback runs once: in the thread that cancels, or at once if that has
    happened."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._works = list[Callable[[], None]]()

    @property
    def is_cancelled(self) -> bool:
        return self._is_cancelled

    def then(self, work: Callable[[], None]) -> None:
        with self._lock:
            if not self._is_cancelled:
                self._works.append(work)
                return
        work()

    def cancel(self) -> None:
        with self._lock:
            self._is_cancelled = True
            works, self._works = self._works, []
        for work in works:
            work()


class RunningQueries:
    """Ids are a user's own: one user's id is not another's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[tuple[str, str], Cancel] = {}

    @contextmanager
    def running(self, user: str, id: str | None, cancel: Cancel) -> Iterator[None]:
        """Raises IdempotencyConflict where the user has a query of this id."""
        if id is None:
            yield
            return
        with self._lock:
            if (user, id) in self._running:
                raise IdempotencyConflict(f"a query {id} of yours runs already; choose another id")
            self._running[user, id] = cancel
        try:
            yield
        finally:
            with self._lock:
                del self._running[user, id]

    def cancel(self, user: str, id: str) -> None:
        """Raises NotFound."""
        with self._lock:
            running = self._running.get((user, id))
        if running is None:
            raise NotFound(f"no query {id} of yours runs; it may have ended")
        running.cancel()
