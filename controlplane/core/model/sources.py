"""What listings of sources found.

Does not belong here: how they are stored, or how they are decided.
"""

from __future__ import annotations

from dataclasses import dataclass

from dataplane.contract.listings import SourceObject
from dataplane.contract.results import TaskError
from dataplane.contract.schemas import Json

AWAITED = "awaited"  # in `Listing.held`


@dataclass(frozen=True, slots=True)
class Listing:
    """What a location held when it was last listed whole. `requested` > `served` asks for another listing."""

    id: bytes
    root: bytes | None  # of a tree: partition key -> source id
    at: float | None
    objects: int
    size_bytes: int
    requested: int = 0
    served: int = 0
    error: TaskError | None = None
    held: Json = None  # {before, lost}: a loss that waits for confirmation; {awaited}: plans wait for the next one
    digest: bytes | None = None  # of all that the worker found; an equal one is an equal listing
    columns: tuple[tuple[str, ...] | None, ...] = ()  # distinct own columns of objects, in order of the first key
    all_columns: bool = True  # there are no more than those

    @property
    def is_open(self) -> bool:
        """Somebody asked for another one."""
        return self.requested > self.served

    @property
    def is_awaited(self) -> bool:
        """What it says may be out of date for whoever has just begun to read there."""
        return self.is_open and bool(self.held and self.held.get(AWAITED))


@dataclass(frozen=True, slots=True)
class SourcePartition:
    """The source objects behind one partition of a listing."""

    key: str
    source: bytes  # source id
    objects: tuple[SourceObject, ...]
