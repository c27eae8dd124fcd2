"""The part of a transaction that is about attempts that are over.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from controlplane.core.model.past_attempts import Cost, PastAttempt

if TYPE_CHECKING:
    from controlplane.core.model.efforts import Effort


class PastAttempts(Protocol):
    """Past attempts of one namespace."""

    def put(self, attempts: Sequence[PastAttempt]) -> None:
        """Insert them; existing ones, by id and branch, are left alone."""

    def newest(
        self,
        branch: str,
        datasets: Iterable[str] | None = None,
        *,
        ended: tuple[float, float] | None = None,
        limit: int = 1000,
    ) -> tuple[PastAttempt, ...]:
        """Those of a branch that ended last come first; of these datasets, or of all. `ended`:
        after the first of the two times, and not after the second."""

    def newest_of_each(
        self, branch: str, datasets: Iterable[str], *, since: float, limit: int
    ) -> Mapping[str, Sequence[PastAttempt]]:
        """The last `limit` attempts of each of these datasets that ended after `since`, the newest
        first; in one statement."""

    def find(self, ids: Iterable[str]) -> dict[str, PastAttempt]:
        """By id, of any branch."""

    def costs(self, branch: str, datasets: Iterable[str]) -> Mapping[str, Cost]:
        """What a task of these datasets cost, by the last attempts of the branch or of main; in one
        statement. A dataset of which no attempt is known is left out."""

    def efforts(self, branch: str, since: float, limit: int) -> tuple[Effort, ...]:
        """The work of a branch since a time, by dataset and day: the newest day first, then by
        name; in one statement."""

    def drop(self, before: float, limit: int) -> int:
        """Those that ended before this time; how many went."""
