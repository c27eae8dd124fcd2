"""The part of a transaction that is about shares.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from typing import Protocol

from controlplane.core.model.shares import SharedTable, ShareRow


class Shares(Protocol):
    """Shares of one namespace."""

    def all(self) -> tuple[ShareRow, ...]:
        """All of them, by name."""

    def put(self, share: ShareRow) -> None:
        """Insert, or replace that of the same name."""

    def drop(self, share: ShareRow) -> None:
        """With its tables."""

    def tables(self, share: str) -> tuple[SharedTable, ...]:
        """All of the share with this id, by schema and name."""

    def put_table(self, table: SharedTable) -> None:
        """Insert or replace."""

    def drop_table(self, table: SharedTable) -> None: ...
