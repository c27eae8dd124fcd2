"""The part of a transaction that is about feeds.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from typing import Protocol

from controlplane.core.model.feeds import Feed, FeedGrant


class Feeds(Protocol):
    """Feeds that one namespace offers, and their grants."""

    def all(self) -> tuple[Feed, ...]:
        """All of them, by name."""

    def get(self, name: str) -> Feed | None: ...

    def put(self, feed: Feed) -> None:
        """Insert, or replace that of the same name."""

    def drop(self, name: str) -> None:
        """With its grants."""

    def grants(self, feed: str | None = None) -> tuple[FeedGrant, ...]:
        """Grants of a feed, or of all feeds, by feed, namespace and dataflows."""

    def put_grant(self, grant: FeedGrant) -> None:
        """Insert or replace."""

    def drop_grant(self, grant: FeedGrant) -> None: ...
