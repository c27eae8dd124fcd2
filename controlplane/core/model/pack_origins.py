"""What is left of packs that nobody reads by any more: where each came from, and folders that wait for deletion.

Does not belong here: deciding that a pack is not needed (operations.projections.compaction_gc), fragments of datasets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Origin:
    """The leaf that a pack was asked for, one fragment in it, and when. Other leaves of the same rows have the same
    pack: each of them holds `member`."""

    pack: bytes
    leaf: bytes
    member: bytes
    at: float


@dataclass(frozen=True, slots=True)
class Leftover:
    """A folder of the lake that is used for nothing new. From `due` on, nobody who was reading it still does."""

    folder: str
    attempt: str
    due: float


class Remains(Protocol):
    """The part of a transaction that is about packs which are not needed any more."""

    def put_origins(self, origins: Sequence[Origin]) -> None:
        """Insert or replace, by pack."""

    def origins(self) -> Iterator[Origin]:
        """All of them, streamed."""

    def drop_packs(self, packs: Sequence[bytes]) -> None:
        """Their origins, and their fragments."""

    def put_leftovers(self, leftovers: Sequence[Leftover]) -> None:
        """Insert or replace, by folder."""

    def leftovers(self, due: float, limit: int) -> tuple[Leftover, ...]:
        """Those that are due by then."""

    def drop_leftovers(self, folders: Sequence[str]) -> None: ...
