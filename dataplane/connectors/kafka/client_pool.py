"""Clients of Kafka that stay connected from one use to the next.

A new client costs several requests before its first answer. So a process keeps those that it has
used: some admin clients for each server, and a consumer for each topic. A client is one thread's
while it is used. Unused ones are closed after a while, and the oldest where there are many. A
client that raised is closed at once.

Example:

    with pool.use(config_key(config), lambda: Consumer(config)) as pooled:
        pooled.assign([TopicPartition(topic, 0, first)])
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Generic, NamedTuple, Protocol, TypeVar

from dataplane.contract.schemas import Json

MOST_UNUSED = 32  # clients of one kind that are kept while nothing uses them
UNUSED_S = 30.0


class Closing(Protocol):
    def close(self) -> object: ...


C = TypeVar("C", bound=Closing)


class UnusedClient(NamedTuple, Generic[C]):
    """A client that nothing uses, and since when, by `time.monotonic`."""

    key: Hashable
    client: C
    since: float


class ClientPool(Generic[C]):
    """Clients by key. Safe for threads. A forked child has none of them, and closes none."""

    def __init__(
        self,
        most_unused: int = MOST_UNUSED,
        unused_s: float = UNUSED_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_unused, self._unused_s, self._monotonic = most_unused, unused_s, monotonic
        self._lock = threading.Lock()
        self._unused: list[UnusedClient[C]] = []  # the oldest first
        self._parents: list[UnusedClient[C]] = []
        self._timer: threading.Timer | None = None
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._forget_parents)

    @contextmanager
    def use(self, key: Hashable, make: Callable[[], C]) -> Iterator[C]:
        """An unused client of this key, or a new one."""
        used = self._take(key) or make()
        try:
            yield used
        except BaseException:
            used.close()
            raise
        self._put(key, used)

    def close(self) -> None:
        """Close the unused clients."""
        self._close_but(0)

    def close_unused(self) -> None:
        """Close the clients that were not used for too long."""
        before = self._monotonic() - self._unused_s
        with self._lock:
            is_over = [unused.since <= before for unused in self._unused]
        self._close_but(is_over.count(False))

    def _take(self, key: Hashable) -> C | None:
        with self._lock:
            for unused in reversed(self._unused):
                if unused.key == key:
                    self._unused.remove(unused)
                    return unused.client
        return None

    def _put(self, key: Hashable, used: C) -> None:
        with self._lock:
            self._unused.append(UnusedClient(key, used, self._monotonic()))
        self._close_but(self._most_unused)
        self._close_later()

    def _close_but(self, count: int) -> None:
        """Close all but the newest."""
        closed = []
        with self._lock:
            while len(self._unused) > count:
                closed.append(self._unused.pop(0).client)
        for unused in closed:
            unused.close()

    def _close_later(self) -> None:
        """By a thread of its own, which ends when nothing is left to close."""
        with self._lock:
            if self._timer is not None or not self._unused:
                return
            self._timer = threading.Timer(self._unused_s, self._closed_in_time)
            self._timer.daemon = True
            self._timer.start()

    def _closed_in_time(self) -> None:
        with self._lock:
            self._timer = None
        self.close_unused()
        self._close_later()

    def _forget_parents(self) -> None:
        # Still referred to: the threads of a client are the parent's, so its end would hang
        self._parents = self._unused
        self._lock, self._unused, self._timer = threading.Lock(), [], None


def config_key(config: Mapping[str, Json]) -> Hashable:
    """The key of clients with this configuration."""
    return tuple(sorted((name, str(setting)) for name, setting in config.items()))
