"""The part of a transaction that is about events, and how far others have read them.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from controlplane.core.model.events import Event


class Events(Protocol):
    """Events of one namespace, and cursors over them by the name of their reader."""

    def put(self, events: Sequence[Event]) -> None:
        """Ids grow without gaps being promised; `at` is the database's clock."""

    def newer(self, branch: str | None, after: int, limit: int = 1000) -> tuple[Event, ...]:
        """In the order of their ids: those of the branch and those of no branch; all with None."""

    def last(self) -> int:
        """The newest id, of any branch."""

    def claim_of(self, attempt: str) -> Event | None:
        """The event of an attempt's claim, as long as events are kept. No index leads there: for
        people's questions only."""

    def of_kind(self, branch: str, kind: str, since: float) -> tuple[Event, ...]:
        """Those of one kind in a branch that came after a time, in order. No index leads there: for
        people's questions only."""

    def count(
        self, branch: str, after: int, among: Callable[[str], bool] | None = None
    ) -> dict[str, int]:
        """Sum of `n` by kind of the events with id > `after`, of the branch and of no branch. With
        `among`, only of these dataflows and datasets, and of events that name none."""

    def cursor(self, name: str) -> int | None:
        """The id of the last event that this reader needs no more; None for a reader without a
        cursor."""

    def move_cursor(self, name: str, event: int) -> None:
        """Insert, or move on. A cursor never goes back: an earlier event leaves it where it is."""

    def drop(self, before: float, limit: int) -> int:
        """Delete the oldest events, up to the first that is not older than `before`, at most
        `limit`; how many."""
