"""The part of a transaction that is about events and tokens.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from controlplane.core.model.access import Token
from controlplane.core.model.events import Event


class Events(Protocol):
    """Events of one namespace."""

    def put_events(self, events: Sequence[Event]) -> None:
        """Ids grow without gaps being promised; `at` is the database's clock."""

    def events(self, branch: str | None, after: int, limit: int = 1000) -> tuple[Event, ...]:
        """In the order of their ids: those of the branch and those of no branch; all with None."""

    def last_event(self) -> int:
        """The newest id, of whichever branch."""

    def claim_of(self, attempt: str) -> Event | None:
        """The event of an attempt's claim, as long as events are kept. No index leads there: for people's questions
        only."""

    def events_of(self, branch: str, kind: str, since: float) -> tuple[Event, ...]:
        """Those of one kind in a branch that came after a time, in order. No index leads there: for people's questions
        only."""

    def count_events(self, branch: str, after: int, flows: Collection[str] | None = None) -> dict[str, int]:
        """Sum of `n` by kind of the events with id > `after`, of the branch and of no branch. With `flows`, only of
        these dataflows and their datasets, and of what names none."""

    def token(self, hashed: bytes) -> Token | None: ...

    def token_by_id(self, id: str) -> Token | None: ...

    def tokens(self) -> tuple[Token, ...]: ...

    def put_token(self, token: Token) -> None:
        """Insert or replace by id."""

    def touch_token(self, id: str, at: float) -> None:
        """It was used at this time. Nothing else of it is changed."""
