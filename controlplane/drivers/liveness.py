"""When each child last called, as the API of this process noted it. In memory: children call no
other process."""

from __future__ import annotations

import time
from collections.abc import Callable


class Liveness:
    """Written by threads of the API, read by the pool."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._calls: dict[str, float] = {}
        self._with_spark: set[str] = set()
        self._unknown_call_at = float("-inf")

    def note(self, driver: str) -> None:
        self._calls[driver] = self._monotonic()

    def note_spark(self, driver: str) -> None:
        """The start of Spark is over in this driver, well or not."""
        self._with_spark.add(driver)

    def has_spark(self, driver: str) -> bool:
        return driver in self._with_spark

    def note_unknown_call(self) -> None:
        """Calls cannot be attributed, or were not received: until now, silence says nothing about
        any driver."""
        self._unknown_call_at = self._monotonic()

    def silence_s(self, driver: str, began: float, start_s: float) -> float:
        """Seconds since its last call; for a driver that never called, the time beyond its
        allowance to start."""
        now = self._monotonic()
        note_call = self._calls.get(driver, began + start_s)
        return now - max(note_call, self._unknown_call_at)

    def forget(self, driver: str) -> None:
        self._calls.pop(driver, None)
        self._with_spark.discard(driver)
