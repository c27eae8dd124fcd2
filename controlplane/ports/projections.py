"""The part of a transaction that is about what follows states: published tables, and copies elsewhere.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from controlplane.core.model.projections import Publication, Target


class Projections(Protocol):
    """Of one namespace."""

    def publications(self, branch: str, datasets: Iterable[str] | None = None) -> dict[str, Publication]: ...

    def put_publication(self, publication: Publication) -> None: ...

    def targets(self, branch: str, components: Iterable[str] | None = None) -> dict[str, Target]: ...

    def put_target(self, target: Target) -> None: ...
