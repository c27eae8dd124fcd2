"""The part of a transaction that is about audited changes, reads of data, and answers to requests.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from controlplane.core.model.access import StoredAnswer
from controlplane.core.model.reads import RecordedRead
from controlplane.core.model.revisions import AuditedChange


class AuditTrail(Protocol):
    """Who changed and read what in one namespace, and the answers that repeated requests get."""

    def put_change(self, change: AuditedChange) -> None: ...

    def changes(
        self,
        branch: str | None,
        limit: int = 100,
        *,
        since: float = 0.0,
        until: float | None = None,
    ) -> tuple[AuditedChange, ...]:
        """Those of the branch and those of no branch (all with None), at or after `since` and
        before `until`, newest first."""

    def answer(self, key: str) -> StoredAnswer | None: ...

    def put_answer(self, answer: StoredAnswer) -> None:
        """IdempotencyConflict if the key has an answer (another request was first: begin again, and
        read it)."""

    def put_reads(self, reads: Sequence[RecordedRead]) -> None: ...

    def reads(
        self, branch: str | None, limit: int, *, since: float = 0.0, until: float | None = None
    ) -> tuple[RecordedRead, ...]:
        """Reads of a branch, or of all branches with None; those at or after `since` and before
        `until`. The last ones come first."""

    def drop_reads(self, before: float, limit: int) -> int:
        """At most `limit` reads of before this time, the oldest first; how many went."""

    def drop_answers(self, before: float, limit: int) -> int: ...
