"""The part of a transaction that is about branches.

Edits and results of a branch are rows of its own. All else is read from main: revisions, states and
their history, pauses, forces and pinned schemas. A pinned branch reads all of these as they were
when it was pinned, and gets no mark of main's. Demands, unfinished runs, problems, publications and
targets of a branch are never read from main.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from controlplane.core.model.branches import Branch


class Branches(Protocol):
    """Branches of one namespace. `main` is always there, and is not among them."""

    def all(self) -> dict[str, Branch]:
        """By name."""

    def create(self, branch: Branch) -> None:
        """It points to what its source has: main, or what another branch has of its own; and sees
        of main what that sees, where that is pinned. One row, if the source is main. BranchExists
        if the name is taken or is that of the source, NotFound if the source is not there."""

    def put(self, branch: Branch) -> None:
        """Replace the description of an existing branch, but for whether it is pinned; no effect on
        a branch that is gone. For main, only its protection is kept."""

    def pin(self, branch: str) -> None:
        """A branch sees main as it is when this transaction ends. NotFound."""

    def is_protected(self, name: str) -> bool:
        """Whether a branch, or main, changes by merges alone."""

    def hold(self, name: str) -> None:
        """Prevent a deletion of the branch until this transaction ends. NotFound if it is deleted
        already."""

    def drop(self, name: str) -> None:
        """It and all its own rows go, but for publications, whose tables are unknown from then on.
        Queued or failed tasks without another demand go with it. NotFound."""

    def own_dataflows(self, branch: str) -> dict[str, int]:
        """Dataflows that were edited or deleted in a branch, with the revision of main that they
        come from, or 0."""

    def own_datasets(self, branch: str) -> frozenset[str]:
        """Datasets that have states of their own in a branch."""

    def share(self, branch: str, datasets: Iterable[str]) -> None:
        """These datasets of a branch are main's from now on: the branch's own states and demands of
        them go. Their tables are unknown from then on."""

    def share_dataflows(self, branch: str, dataflows: Iterable[str]) -> None:
        """These dataflows of a branch are main's from now on: its own revisions of them go."""
