"""A nudge that shortens waits. Losing one changes nothing: every waiter also has a time-out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from controlplane.core.model.namespaces import DEFAULT


class Ends(Protocol):
    """Something that is over one day, such as a `threading.Event` that is set."""

    def is_set(self) -> bool: ...


def no_pass() -> bool:
    """The pass of a process without a loop: none is made."""
    return False


class WakeCounter:
    """A counter that many threads can wait on to move. `make_pass` is the loop's while it runs in
    this process: see `Context`."""

    def __init__(self) -> None:
        self.make_pass: Callable[[], bool] = no_pass
        self._condition = threading.Condition()
        self._count = 0
        self._others: dict[str, WakeCounter] = {}

    def of(self, namespace: str) -> WakeCounter:
        """What waits for changes in this namespace. That of `default` is this one."""
        if namespace == DEFAULT:
            return self
        with self._condition:
            return self._others.setdefault(namespace, WakeCounter())

    def notify(self) -> None:
        with self._condition:
            self._count += 1
            self._condition.notify_all()

    def notify_all(self) -> None:
        """In every namespace."""
        with self._condition:
            others = list(self._others.values())
        for wake in (self, *others):
            wake.notify()

    @property
    def count(self) -> int:
        """Read it before looking for work, and hand it to `wait`, so that no nudge in between is
        lost."""
        return self._count

    def wait(self, timeout_s: float, count: int | None = None) -> None:
        """Return at a nudge that came after `seen` (after now, by default), or after
        `timeout_s`."""
        with self._condition:
            before = self._count if count is None else count
            self._condition.wait_for(lambda: self._count != before, timeout_s)
