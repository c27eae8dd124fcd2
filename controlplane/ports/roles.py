"""The part of a transaction that is about roles of a namespace's own.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from typing import Protocol

from controlplane.core.rights import NamedRole


class Roles(Protocol):
    """Custom roles of one namespace."""

    def roles(self) -> tuple[NamedRole, ...]:
        """All of them, by name; not those that are built in."""

    def role(self, name: str) -> NamedRole | None: ...

    def put_role(self, role: NamedRole) -> None:
        """Insert, or replace that of the same name."""

    def drop_role(self, name: str) -> None: ...
