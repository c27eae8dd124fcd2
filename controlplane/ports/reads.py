"""The part of a transaction that is about reads of data.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from controlplane.core.model.reads import Read


class Reads(Protocol):
    """Recorded reads of one namespace."""

    def put_reads(self, reads: Sequence[Read]) -> None: ...

    def reads(
        self, branch: str | None, limit: int, *, since: float = 0.0, until: float | None = None
    ) -> tuple[Read, ...]:
        """Reads of a branch, or of all branches with None; those at or after `since` and before `until`. The last ones
        come first."""

    def drop_reads(self, before: float, limit: int) -> int:
        """At most `limit` reads of before this time, the oldest first; how many went."""
