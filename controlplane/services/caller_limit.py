"""How many requests of one caller are answered at a time, so that none takes all from others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from anyio import CapacityLimiter


class TooManyAtOnce(Exception):
    """The caller has as many requests under way as there may be."""


class CallerLimit:
    """By id of the caller. Called from the event loop only, so it needs no lock."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._running: Counter[str] = Counter()
        self._caller_limits: dict[str, CapacityLimiter] = {}

    @contextmanager
    def of(self, caller: str) -> Iterator[CapacityLimiter]:
        """The limiter of a caller's requests, which read metadata one after the other. Raises
        TooManyAtOnce."""
        if self._running[caller] >= self.most:
            raise TooManyAtOnce
        self._running[caller] += 1
        try:
            yield self._caller_limits.setdefault(caller, CapacityLimiter(1))
        finally:
            self._running[caller] -= 1
            if not self._running[caller]:
                del self._running[caller], self._caller_limits[caller]
