"""Limits on concurrent queries, in all and per user. The user with the fewest running queries is
next."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from controlplane.core.errors import QueriesBusy

ENDS = "the service ends; ask again"
OURS = "other queries of yours"
OTHERS = "other queries"


@dataclass(frozen=True, slots=True)
class QueryBounds:
    """How many queries run at a time, and how many of one user; how many wait beyond them, and how
    many of one user. A user who has none waiting may always wait with one."""

    at_once: int
    each: int
    waiting: int

    @property
    def each_waiting(self) -> int:
        return max(1, self.waiting // 2)


class UserLimits:
    """Safe to use from many threads. `free`: the lock, shared with the owner of the processes."""

    def __init__(self, bounds: QueryBounds, free: threading.Condition) -> None:
        self._bounds, self._free = bounds, free
        self._running = Counter[str]()  # by user
        self._waiting: list[tuple[str, object]] = []  # in the order in which they came
        self._is_closed = False

    @contextmanager
    def turn(self, user: str, deadline: float, timeout_s: float) -> Iterator[None]:
        """Waits for it. Raises QueriesBusy where too many wait, and at the deadline
        (`time.monotonic`)."""
        with self._free:
            self._wait(user, deadline, timeout_s)
            self._running[user] += 1
        try:
            yield
        finally:
            with self._free:
                self._running[user] -= 1
                if not self._running[user]:
                    del self._running[user]
                self._free.notify_all()

    def close(self) -> None:
        with self._free:
            self._is_closed = True
            self._free.notify_all()

    def _wait(self, user: str, deadline: float, timeout_s: float) -> None:
        self._require_place(user)
        place = (user, object())
        self._waiting.append(place)
        try:
            has_turn = self._free.wait_for(
                lambda: self._is_closed or self._is_next(place), _left_s(deadline)
            )
        finally:
            self._waiting.remove(place)
            self._free.notify_all()  # another one may be next now
        if self._is_closed:
            raise QueriesBusy(ENDS)
        if not has_turn:
            whose = OURS if self._running[user] >= self._bounds.each else OTHERS
            raise QueriesBusy(f"{whose} took all of the {timeout_s:g} s; try again later")

    def _require_place(self, user: str) -> None:
        own = sum(1 for other, _ in self._waiting if other == user)
        if own >= self._bounds.each_waiting:
            raise QueriesBusy(f"{OURS} wait already; try again later")
        if own and len(self._waiting) >= self._bounds.waiting:
            raise QueriesBusy(f"{OTHERS} wait already; try again later")

    def _is_next(self, place: tuple[str, object]) -> bool:
        if self._running.total() >= self._bounds.at_once:
            return False
        may = [
            waiting for waiting in self._waiting if self._running[waiting[0]] < self._bounds.each
        ]
        # The first of equals
        return bool(may) and min(may, key=lambda waiting: self._running[waiting[0]]) is place


def _left_s(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
