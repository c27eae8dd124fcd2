"""The part of a transaction that is about signed links.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from typing import Protocol

from controlplane.core.model.links import Link


class Links(Protocol):
    """Links of one namespace."""

    def get(self, id: str) -> Link | None: ...

    def all(self) -> tuple[Link, ...]:
        """All of them, the oldest first."""

    def put(self, link: Link) -> None:
        """Insert or replace."""
