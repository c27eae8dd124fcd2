"""The part of a transaction that is about how far others have read our events.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from typing import Protocol


class Cursors(Protocol):
    """Event cursors of one namespace, by the name of the reader."""

    def cursor(self, name: str) -> int | None:
        """The id of the last event that this reader needs no more; None for a reader without a cursor."""

    def move_cursor(self, name: str, event: int) -> None:
        """Insert, or move on. A cursor never goes back: an earlier event leaves it where it is."""
