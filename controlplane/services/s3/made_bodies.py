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
        self._makers: dict[Hashable, Lock] = {}
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Bodies]) -> Bodies:
        """Some that belong together. `key`: all that they are made of. Others that request them
        meanwhile wait, and do not make them too."""
        with self._lock:
            maker = self._makers.setdefault(key, Lock())
        with maker:
            try:
                bodies = self._find(key)
                if bodies is None:
                    bodies = make()
                    self._keep(key, bodies)
            finally:
                with self._lock:
                    self._makers.pop(key, None)
        return bodies  # type: ignore[return-value]  # as they were made

    def _find(self, key: Hashable) -> tuple[bytes, ...] | None:
        with self._lock:
            if key in self._bodies:
                self._bodies.move_to_end(key)
            return self._bodies.get(key)

    def _keep(self, key: Hashable, bodies: tuple[bytes, ...]) -> None:
        with self._lock:
            if key not in self._bodies:
                self._size += _size(bodies)
                self._bodies[key] = bodies
            while self._size > self._most:
                _, forgotten = self._bodies.popitem(last=False)
                self._size -= _size(forgotten)


def _size(bodies: tuple[bytes, ...]) -> int:
    return sum(map(len, bodies))
