"""How much one listing may look at, and for how long, before it gives its worker back.

The cache keeps each file that was read, so the next attempt resumes from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from dataplane.task_failures import TaskFailure

TIMEOUT = "HEADGATE_LISTING_TIMEOUT"  # in seconds
DEFAULT_S = 3600.0
MOST_ENTRIES = 50_000_000  # files and folders, whether a glob wants them or not
AT_A_TIME = 2000  # files that are looked at before the next are
_EACH = 1000  # entries between two looks at the clock


class ListingBounds:
    """Counts what one listing looks at. TaskFailure once it is too much."""

    def __init__(
        self,
        timeout_s: float = DEFAULT_S,
        most: int = MOST_ENTRIES,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout_s, self._most, self._monotonic = timeout_s, most, monotonic
        self._ends = monotonic() + timeout_s
        self.entries = 0

    @staticmethod
    def of(environ: Mapping[str, str]) -> ListingBounds:
        """The bounds from environment variables. The control plane reports an operator's invalid
        value when it starts."""
        text = environ.get(TIMEOUT, "")
        return ListingBounds(float(text) if text.isascii() and text.isdigit() else DEFAULT_S)

    def count(self, entries: int = 1) -> None:
        """More entries have been looked at."""
        before = self.entries
        self.entries += entries
        if self.entries > self._most:
            message = f"more than {self._most} files and folders would have to be looked at"
            raise TaskFailure(
                "listing-too-large",
                f"{message}: begin the path with as much as is known, without **",
            )
        if self.entries // _EACH != before // _EACH:
            self.check_time()

    def left_s(self) -> float:
        """Seconds until the listing has taken too long."""
        return max(0.0, self._ends - self._monotonic())

    def check_time(self) -> None:
        if self._monotonic() > self._ends:
            message = f"listing took more than {self._timeout_s:g} s, and looked at {self.entries} entries"
            hint = f"begin the path with as much as is known, or have the operator raise {TIMEOUT}"
            raise TaskFailure("listing-too-long", f"{message}: {hint}", "infrastructure")
