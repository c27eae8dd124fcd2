"""A nudge that shortens waits. Losing one changes nothing: every waiter also has a time-out."""

from __future__ import annotations

import threading
from typing import Protocol


class Ends(Protocol):
    """Something that is over one day, such as a `threading.Event` that is set."""

    def is_set(self) -> bool: ...


class Wake:
    """A counter that many threads can wait on to move."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._count = 0

    def notify(self) -> None:
        with self._condition:
            self._count += 1
            self._condition.notify_all()

    @property
    def count(self) -> int:
        """Read it before looking for work, and hand it to `wait`, so that no nudge in between is lost."""
        return self._count

    def wait(self, timeout_s: float, seen: int | None = None) -> None:
        """Return at a nudge that came after `seen` (after now, by default), or after `timeout_s`."""
        with self._condition:
            before = self._count if seen is None else seen
            self._condition.wait_for(lambda: self._count != before, timeout_s)
