"""The part of a transaction for packs that are no longer needed.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from controlplane.core.model.pack_origins import Origin, PendingDeletion


class Packs(Protocol):
    """The part of a transaction for packs that are no longer needed."""

    def put_origins(self, origins: Sequence[Origin]) -> None:
        """Insert or replace, by pack."""

    def origins(self) -> Iterator[Origin]:
        """All of them, streamed."""

    def drop_packs(self, packs: Sequence[bytes]) -> None:
        """Their origins, and their fragments."""

    def put_leftovers(self, leftovers: Sequence[PendingDeletion]) -> None:
        """Insert or replace, by folder."""

    def leftovers(self, due: float, limit: int) -> tuple[PendingDeletion, ...]:
        """Those that are due by then."""

    def drop_leftovers(self, folders: Sequence[str]) -> None: ...
