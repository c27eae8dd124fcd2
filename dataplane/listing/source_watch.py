"""Watches of sources: a process keeps one from a wait to the next, so that no change between them is
lost.

The first wait for a place ends at once: nothing is known of the time before its watch. So does the
first one after its watch had to be replaced.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

CHECK_S = 0.25
UNWATCHED_S = 60.0  # between listings of a place that cannot be watched
log = logging.getLogger(__name__)

IsOver = Callable[[], bool]
P = TypeVar("P", bound=Hashable)


class SourceWatch(ABC):
    """`changes` counts the changes of a place, `served` are those that a wait ended for."""

    def __init__(self) -> None:
        self.changes, self.served, self.waits = 0, 0, 0
        self._changed, self._stop = threading.Condition(), threading.Event()

    @abstractmethod
    def is_current(self) -> bool:
        """Whether all notices of the place come."""

    @abstractmethod
    def close(self) -> None:
        """End it, and the waits for it."""

    def has_changed(self, since: int, wait_s: float) -> bool:
        """Whether there are other changes than so many, at once or in so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self.changes != since, wait_s)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        self.waits += 1
        try:
            yield
        finally:
            self.waits -= 1

    def _count_change(self) -> None:
        with self._changed:
            self.changes += 1
            self._changed.notify_all()


W = TypeVar("W", bound=SourceWatch)


class SourceWatches(Generic[P, W]):
    """Watches by place, the one used last at the end. Safe for threads. `open_watch` raises OSError
    where there can be no watch."""

    def __init__(self, open_watch: Callable[[P], W], most: int) -> None:
        self._open_watch, self._most = open_watch, most
        self._lock = threading.Lock()
        self._by_place: dict[P, W] = {}
        atexit.register(self.close)

    def of(self, place: P) -> tuple[W, bool]:
        """The watch of a place, and whether it is new. Raises OSError."""
        with self._lock:
            present = self._by_place.pop(place, None)
        if present is not None and present.is_current():
            self._keep(place, present)
            return present, False
        if present is not None:
            present.close()
        self._make_room()
        watch = self._open_watch(place)
        self._keep(place, watch)
        return watch, True

    def _keep(self, place: P, watch: W) -> None:
        with self._lock:
            other = self._by_place.pop(place, None)
            self._by_place[place] = watch
        if other is not None and other is not watch:
            other.close()

    def _make_room(self) -> None:
        """Close the watch used longest ago, but none with a wait. OSError where all have one."""
        with self._lock:
            if len(self._by_place) < self._most:
                return
            idle = (place for place, watch in self._by_place.items() if not watch.waits)
            place = next(idle, None)
            if place is None:
                raise OSError(f"{self._most} other places are watched")
            closed = self._by_place.pop(place)
        closed.close()

    def close(self) -> None:
        with self._lock:
            watches = list(self._by_place.values())
            self._by_place.clear()
        for watch in watches:
            watch.close()

    def await_change(self, place: P, name: str, wait_s: float, is_over: IsOver) -> None:
        """Wait until the place changes, for `wait_s` at most, or until `is_over`."""
        until = time.monotonic() + wait_s
        try:
            watch, is_new = self.of(place)
        except OSError as e:
            log.warning(
                "%s cannot be watched, and is listed once in %d s: %s", name, UNWATCHED_S, e
            )
            pause(min(until, time.monotonic() + UNWATCHED_S), is_over)
            return
        if is_new:
            return
        since = watch.served
        with watch.waiting():
            while not is_over() and (left_s := until - time.monotonic()) > 0:
                if watch.has_changed(since, min(left_s, CHECK_S)):
                    break
            else:
                if is_over():
                    return
        watch.served = watch.changes  # a change during the listing ends the next wait


def pause(until: float, is_over: IsOver) -> None:
    """Sleep until this time of the monotonic clock, or until `is_over` says so."""
    while not is_over() and (left_s := until - time.monotonic()) > 0:
        time.sleep(min(left_s, CHECK_S))
