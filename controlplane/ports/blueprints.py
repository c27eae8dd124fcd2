"""The part of a transaction that is about blueprints, pauses and forces.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from controlplane.core.model.forces import ForcedRange
from controlplane.core.model.revisions import Revision


class Blueprints(Protocol):
    """Blueprint revisions of one namespace, with pauses and forces."""

    def revisions(self, branch: str, dataflows: Iterable[str] | None = None) -> dict[str, Revision]:
        """The newest revision of each live dataflow, or of those named that are live."""

    def revision(self, branch: str, dataflow: str, number: int) -> Revision | None:
        """One revision of a branch itself, live or not."""

    def put(self, revision: Revision, expected: int | None) -> None:
        """Store revision `number` = newest + 1 (numbers go on after a deletion); StaleRevision
        unless the newest is `expected` (0: none live; None: any), or `number` is another one."""

    def last_number(self, branch: str, dataflow: str) -> int:
        """The newest revision number ever given, deleted ones included; 0 if none."""

    def delete_dataflow(self, branch: str, dataflow: str) -> None:
        """Its revisions, demands, problems and pauses end; states stay for who comes back. NotFound
        if not live."""

    def uids(self, branch: str, dataflow: str) -> dict[str, str]:
        """Component name -> uid, as of the newest revision that had it, deleted ones included."""

    def paused(self, branch: str) -> frozenset[str]:
        """Names that an operator paused: `flow` or `flow.dataset`."""

    def set_paused(self, branch: str, target: str, paused: bool) -> None: ...

    def forces(self, branch: str) -> dict[str, int]:
        """Datasets whose results an operator has forced to be computed again: a number that grows
        with each time."""

    def force(self, branch: str, datasets: Iterable[str]) -> int:
        """Give these datasets a number that none in the namespace had before, in any branch; the
        number."""

    def force_range(self, branch: str, dataset: str, first: str, last: str) -> int:
        """Give one dataset such a number for its partitions from `first` to `last`; the others keep
        the number that they have."""

    def forced_ranges(self) -> dict[int, ForcedRange]:
        """Numbers of the namespace that stand for a range. They never change."""

    def bring_forces(self, branch: str, numbers: Mapping[str, int]) -> None:
        """Give each dataset its number, unless it has that one or a newer one. Of a number that
        stands for a range, other partitions keep the number that they have. Raises
        TooManyRanges."""

    def drop_ranges(self) -> int:
        """Delete ranges that no number of a branch leads to, nor one that a pinned branch sees of
        main; how many."""

    def mains_revisions(
        self, branch: str, dataflows: Iterable[str] | None = None
    ) -> dict[str, Revision]:
        """What main has, as this branch sees it."""

    def mains_forces(self, branch: str) -> dict[str, int]:
        """How often each dataset was forced in main, as this branch sees it."""
