"""Files that were made on request, kept in memory until there are others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import TypeVar

Bodies = TypeVar("Bodies", bound=tuple[bytes, ...])


class MadeBodies:
    """The bodies that were requested last, up to so many bytes. Safe to use from many threads."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._size = 0
        self._bodies: OrderedDict[Hashable, tuple[bytes, ...]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Bodies]) -> Bodies:
        """Some that belong together. `key`: all that they are made of."""
        with self._lock:
            if key in self._bodies:
                self._bodies.move_to_end(key)
                return self._bodies[key]  # type: ignore[return-value]  # as they were made
        bodies = make()
        with self._lock:
            if key not in self._bodies:
                self._size += _size(bodies)
                self._bodies[key] = bodies
            while self._size > self._most:
                _, forgotten = self._bodies.popitem(last=False)
                self._size -= _size(forgotten)
        return bodies


def _size(bodies: tuple[bytes, ...]) -> int:
    return sum(map(len, bodies))
