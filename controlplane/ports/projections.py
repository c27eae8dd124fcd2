"""The part of a transaction for followers of states: published tables, and copies elsewhere.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from controlplane.core.model.projections import Publication, Target


class Projections(Protocol):
    """Publications of one namespace."""

    def publications(
        self, branch: str, datasets: Iterable[str] | None = None
    ) -> dict[str, Publication]:
        """Publications of a branch's own tables, by dataset. What it shares is in main's."""

    def branch_publications(self) -> tuple[Publication, ...]:
        """Publications of all branches beside main, in order. They outlive the branch, and the
        branch's override of the dataset: their table is then unknown (`unknown_table`) until its
        files are deleted and the publication is dropped."""

    def put_publication(self, publication: Publication) -> None: ...

    def drop_publication(self, branch: str, dataset: str) -> None:
        """Nothing is left of a table; nothing happens where it is not known."""

    def targets(
        self, branch: str, components: Iterable[str] | None = None
    ) -> dict[str, Target]: ...

    def put_target(self, target: Target) -> None: ...
