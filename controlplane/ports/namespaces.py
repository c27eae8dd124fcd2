"""The part of a transaction that is about namespaces.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from typing import Protocol

from controlplane.core.model.namespaces import Namespace


class Namespaces(Protocol):
    """Namespaces, as a transaction in `default` alone sees them."""

    def all(self) -> tuple[Namespace, ...]:
        """All but `default`, by name, also those that have ended."""

    def put(self, namespace: Namespace) -> None:
        """Insert, or replace that of the same name."""

    def is_in_use(self, namespace: str) -> bool:
        """Whether there is a live dataflow, a branch or an attempt in it."""

    def empty(self, namespace: str) -> None:
        """Drop every row that it has: tokens, audit, events and all."""
