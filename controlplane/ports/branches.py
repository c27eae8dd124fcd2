"""The part of a transaction that is about branches.

A branch has rows of its own for what was edited or computed in it. All else is read from main: revisions, states and
their history, pauses, forces and pinned schemas. A pinned branch reads all of these as they were when it was pinned,
and is told of no mark of main's. What is computed for it, what is asked for, tables and copies elsewhere are never read
from main: demands, unfinished runs, problems, publications, targets.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from controlplane.core.model.branches import Branch
from controlplane.core.model.revisions import Revision


class Branches(Protocol):
    """Of one namespace. `main` is always there, and is not among them."""

    def branches(self) -> dict[str, Branch]:
        """By name."""

    def create_branch(self, branch: Branch) -> None:
        """It points to what its source has: main, or what another branch has of its own; and sees of main what that
        sees, where that is pinned. One row, if the source is main. BranchExists if the name is taken or is that of the
        source, NotFound if the source is not there."""

    def put_branch(self, branch: Branch) -> None:
        """Replace what is said of one that is there, but for whether it is pinned; nothing where it is gone. Of main,
        whether it is protected is all that is kept."""

    def pin_now(self, branch: str) -> None:
        """A branch sees main as it is when this transaction ends. NotFound."""

    def mains_revisions(self, branch: str, dataflows: Iterable[str] | None = None) -> dict[str, Revision]:
        """What main has, as this branch sees it."""

    def mains_forces(self, branch: str) -> dict[str, int]:
        """How often each dataset was forced in main, as this branch sees it."""

    def is_protected(self, name: str) -> bool:
        """Whether a branch, or main, changes by merges alone."""

    def hold_branch(self, name: str) -> None:
        """Nobody drops it before this transaction ends. NotFound if somebody has."""

    def drop_branch(self, name: str) -> None:
        """It and all its own rows go, but for publications, of which nothing is known any more. Queued or failed tasks
        that nobody else demands go with it. NotFound."""

    def own_dataflows(self, branch: str) -> dict[str, int]:
        """Dataflows that were edited or deleted in a branch, with the revision of main that they come from, or 0."""

    def own_datasets(self, branch: str) -> frozenset[str]:
        """Datasets that have states of their own in a branch."""

    def share(self, branch: str, datasets: Iterable[str]) -> None:
        """These datasets of a branch are main's from now on: its own states of them go, and what it asked for. Nothing
        is known of their tables any more."""

    def share_dataflows(self, branch: str, dataflows: Iterable[str]) -> None:
        """These dataflows of a branch are main's from now on: its own revisions of them go."""
