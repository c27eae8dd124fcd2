"""The part of a transaction that is about listings of sources.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from controlplane.core.model.sources import Listing, SourcePartition, StoredPlanListing


class Listings(Protocol):
    """Listings of one namespace."""

    def get(self, ids: Iterable[bytes]) -> dict[bytes, Listing]: ...

    def locked(self, ids: Iterable[bytes]) -> dict[bytes, Listing]:
        """As `get`. No other transaction puts one of these before this one ends: for all that puts
        a listing which depends on the one before it. In a transaction that writes."""

    def put(self, listing: Listing) -> None:
        """Insert or replace; but `requested` and `served` never go down, so that no request is
        lost."""

    def request_again(self, ids: Iterable[bytes]) -> None:
        """Request another listing of each of these, unless it is requested already, in one
        statement. For no plan that waits for it: nothing is marked."""

    def confirm(self, id: bytes, served: int) -> None:
        """It was listed again, and is as it was: `at` becomes now. Plans do not depend on that:
        nothing is marked."""

    def partitions(self, listing: bytes, keys: Iterable[str]) -> dict[str, SourcePartition]: ...

    def partitions_of(
        self, keys: Mapping[bytes, Sequence[str]]
    ) -> dict[bytes, dict[str, SourcePartition]]:
        """Those of several listings, in one statement per 10,000 keys."""

    def put_partitions(
        self, listing: bytes, changed: Iterable[SourcePartition], removed: Iterable[str]
    ) -> None:
        """Remove those that are gone, then insert or replace the changed ones. Both are read chunk
        by chunk."""

    def of_plans(self) -> Sequence[StoredPlanListing]:
        """All listings that belong to plans."""

    def drop(self, ids: Iterable[bytes]) -> None:
        """With their partitions."""
