"""When a worker that has grown makes room for a fresh one.

A write target may load Arrow, which takes three times the memory of a worker that only lists, and a
process cannot give it back. A pool that starts another worker at once says so by
HEADGATE_WORKER_REST_S.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from math import inf

HEAVY = ("pyarrow", "pyspark", "numpy", "pandas", "deltalake")
PATIENCE_S = 2.0  # of a claim, once the worker has grown: so late it notices that it is to end


class Rest:
    """Since when nothing was done that needs Arrow. `idle_s`: after so long a worker that has grown
    is to end, once nothing is under way; never by default."""

    def __init__(
        self,
        idle_s: float = inf,
        monotonic: Callable[[], float] = time.monotonic,
        modules: Container[str] = sys.modules,
    ) -> None:
        self._idle_s, self._monotonic, self._modules = idle_s, monotonic, modules
        self._lock = threading.Lock()
        self._under_way, self._since = 0, monotonic()

    @contextmanager
    def broken(self, *, is_heavy: bool) -> Iterator[None]:
        """While the body runs, work is under way. Only a heavy body restarts the idle time."""
        with self._lock:
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1
                if is_heavy:
                    self._since = self._monotonic()

    def wait_s(self, longest_s: float) -> float:
        """How long a claim may wait."""
        return min(longest_s, PATIENCE_S) if self._has_grown() else longest_s

    def is_over(self) -> bool:
        """Whether the worker is to end."""
        with self._lock:
            is_idle = not self._under_way and self._monotonic() - self._since >= self._idle_s
        return is_idle and self._has_grown()

    def _has_grown(self) -> bool:
        return self._idle_s != inf and any(name in self._modules for name in HEAVY)


def rest_of(environ: Mapping[str, str] = os.environ) -> Rest:
    """As the pool asks for it."""
    text = environ.get("HEADGATE_WORKER_REST_S")
    return Rest(float(text)) if text else Rest()
