"""The limit on attempts to sign in."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

OF_ONE = 10  # failures of one address in a window
OF_ALL = 200  # of all addresses
WINDOW_S = 60.0
ADDRESSES = 1_000  # with a count of their own; the rest shares the limit of all


@dataclass(slots=True)
class Tries:
    """Failed tries of the last minute, of this process. A token has 256 random bits: this only
    bounds the load."""

    clock: Callable[[], float] = time.monotonic
    _by_address: dict[str, deque[float]] = field(default_factory=dict)
    _all: deque[float] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait_s(self, address: str) -> float:
        """Seconds until this address may try again; 0: now."""
        with self._lock:
            own = self._by_address.get(address, deque())
            return max(self._left(own, OF_ONE), self._left(self._all, OF_ALL))

    def failed(self, address: str) -> None:
        with self._lock:
            if address not in self._by_address and len(self._by_address) >= ADDRESSES:
                self._forget()
            now = self.clock()
            self._all.append(now)
            if address in self._by_address or len(self._by_address) < ADDRESSES:
                self._by_address.setdefault(address, deque()).append(now)

    def _left(self, times: deque[float], most: int) -> float:
        """Seconds until another try is allowed, 0 if it is now; drops times older than the
        window."""
        now = self.clock()
        while times and times[0] <= now - WINDOW_S:
            times.popleft()
        return 0.0 if len(times) < most else times[0] + WINDOW_S - now

    def _forget(self) -> None:
        since = self.clock() - WINDOW_S
        for address in [
            a for a, times in self._by_address.items() if not times or times[-1] <= since
        ]:
            del self._by_address[address]
