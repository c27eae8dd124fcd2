"""Which dataflows may have one more of a worker's slots: one whose listings hang leaves room for
the others.

A dataflow may go on taking slots while it has fewer than are free. So a single one gets half of
them, the next one half of the rest, and so on: of 16 slots four dataflows can hang without taking
the last one.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable

MOST_LONG_POLLS = 256  # beside the slots
log = logging.getLogger(__name__)


class Slots:
    """A thread for each thing that is done; they end with the process. Things are started by one
    thread."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._used, self._long_polls = Counter[str](), Counter[str]()
        self._changed = threading.Condition()

    def wait_for_one(self) -> None:
        """Until a slot is free."""
        with self._changed:
            self._changed.wait_for(lambda: self._free() > 0)

    def full(self) -> frozenset[str]:
        """Dataflows that are to have no more than they have."""
        with self._changed:
            free = self._free()
            return frozenset(flow for flow, used in self._used.items() if used >= free)

    def start(self, flow: str, work: Callable[[], None]) -> None:
        self._start(self._used, flow, work)

    def start_long_poll(self, flow: str, work: Callable[[], None]) -> None:
        """Start work that mostly waits: it takes no slot. Only while `may_wait`."""
        self._start(self._long_polls, flow, work)

    def may_wait(self) -> bool:
        """Whether there is room for one more long poll."""
        with self._changed:
            return self._long_polls.total() < MOST_LONG_POLLS

    def join(self) -> None:
        """Until nothing is under way."""
        with self._changed:
            self._changed.wait_for(lambda: not self._used and not self._long_polls)

    def _start(self, counts: Counter[str], flow: str, work: Callable[[], None]) -> None:
        with self._changed:
            counts[flow] += 1
        threading.Thread(
            target=self._do, args=(counts, flow, work), name=f"slot of {flow}", daemon=True
        ).start()

    def _free(self) -> int:
        return self._count - self._used.total()

    def _do(self, counts: Counter[str], flow: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            log.exception("an attempt could not be brought to its end: its lease runs out")
        finally:
            with self._changed:
                counts[flow] -= 1
                if not counts[flow]:
                    del counts[flow]
                self._changed.notify_all()
