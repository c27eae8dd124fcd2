"""What listings of sources found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from dataplane.contract.results import TaskError
from dataplane.contract.source_objects import SourceObject


class PlanLook(TypedDict):
    """Whose a listing is that belongs to a plan. `of`: the shared listing; `base`: the root that it
    had then."""

    plan: str
    of: str
    base: str
    since: float


class HeldListing(TypedDict, total=False):
    """What a listing waits for: a loss to be confirmed, the next listing, or that its plan is
    applied."""

    before: int  # objects of the last listing that was taken in
    lost: int  # of these
    accepted: bool  # the loss was confirmed: the next listing is taken in
    awaited: bool  # plans wait for the next one
    look: PlanLook


@dataclass(frozen=True, slots=True)
class Listing:
    """What a location held when it was last listed whole. `requested` > `served` asks for another
    listing."""

    id: bytes
    root: bytes | None  # of a tree: partition key -> source id
    at: float | None
    objects: int
    size_bytes: int
    requested: int = 0
    served: int = 0
    error: TaskError | None = None
    held: HeldListing | None = None
    digest: bytes | None = None  # of all that the worker found; an equal one is an equal listing
    # Distinct own columns of objects, in order of the first key
    columns: tuple[tuple[str, ...] | None, ...] = ()
    all_columns: bool = True  # there are no more than those

    @property
    def is_open(self) -> bool:
        """Another listing was requested."""
        return self.requested > self.served

    @property
    def is_awaited(self) -> bool:
        """The listing may be out of date for a reader that began just now."""
        return self.is_open and bool(self.held and self.held.get("awaited"))

    @property
    def look(self) -> PlanLook | None:
        """The plan that this listing belongs to; None for a shared listing."""
        return (self.held or {}).get("look")


@dataclass(frozen=True, slots=True)
class StoredPlanListing:
    """How much a listing of a plan holds. `size_bytes`: of its partitions."""

    id: bytes
    since: float
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SourcePartition:
    """The source objects behind one partition of a listing."""

    key: str
    source: bytes  # source id
    objects: tuple[SourceObject, ...]
