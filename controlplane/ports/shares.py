"""The part of a transaction that is about shares.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from typing import Protocol

from controlplane.core.model.shares import Share, SharedTable


class Shares(Protocol):
    """Shares of one namespace."""

    def shares(self) -> tuple[Share, ...]:
        """All of them, by name."""

    def put_share(self, share: Share) -> None:
        """Insert, or replace that of the same name."""

    def drop_share(self, share: Share) -> None:
        """With its tables."""

    def shared_tables(self, share: str) -> tuple[SharedTable, ...]:
        """All of the share with this id, by schema and name."""

    def put_shared_table(self, table: SharedTable) -> None:
        """Insert or replace."""

    def drop_shared_table(self, table: SharedTable) -> None: ...
