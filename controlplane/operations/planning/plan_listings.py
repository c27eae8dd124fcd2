"""Listings of one plan: the contents of its sources when it was made, apart from the listings that
branches work on.

Each is a listing under an id of its own, over the shared listing of the location (`base`): it has
the partitions that differ. It counts as long as the shared one is as it was then. It becomes the
shared one when its plan is applied, or goes after an hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from controlplane.core import tree
from controlplane.core.compile.nodes import Source
from controlplane.core.model.sources import HeldListing, Listing, PlanLook, SourcePartition
from controlplane.ports.store import Tx
from dataplane.contract.encoding import digest

KEPT_S: Final = 3600.0
MOST: Final = 2_000  # listings of plans in a namespace
MOST_BYTES: Final = 256_000_000  # of their partitions together
PARTITIONS_A_TIME: Final = 2_000


@dataclass(frozen=True, slots=True)
class PlanListings:
    """Those that count, by the id of the shared listing."""

    own: Mapping[bytes, Listing] = field(default_factory=dict)

    @property
    def shown(self) -> dict[bytes, Listing]:
        """Each as if it were the shared one."""
        return {shared: replace(listing, id=shared) for shared, listing in self.own.items()}

    def partitions(
        self, tx: Tx, keys: Mapping[bytes, Sequence[str]]
    ) -> Mapping[bytes, Mapping[str, SourcePartition]]:
        """As `Tx.partitions_of`."""
        shared = tx.listings.partitions_of(keys)
        looked = {self.own[id].id: some for id, some in keys.items() if id in self.own}
        if not looked:
            return shared
        own_partitions = tx.listings.partitions_of(looked)
        return {
            id: {**some, **(own_partitions[self.own[id].id] if id in self.own else {})}
            for id, some in shared.items()
        }


NO_LISTINGS: Final = PlanListings()


def id_of(plan: str, listing: bytes) -> bytes:
    return digest("plan listing/1", plan=plan, listing=listing)


def started(plan: str, listing: bytes, shared: Listing | None, now: float) -> Listing:
    """A requested listing of a plan."""
    base = shared or Listing(listing, None, None, 0, 0)
    look: PlanLook = {"plan": plan, "of": listing.hex(), "base": _hex(base.root), "since": now}
    own = id_of(plan, listing)
    return replace(base, id=own, at=None, requested=1, served=0, error=None, held={"look": look})


def of_plan(tx: Tx, plan: str, nodes: Iterable[Source]) -> PlanListings:
    """The listings of a plan that have been served, and that the shared ones have not gone
    beyond."""
    shared_ids = {node.listing for node in nodes} if plan else set()
    if not shared_ids:
        return NO_LISTINGS
    listings = tx.listings.get({id_of(plan, id) for id in shared_ids})
    shared = tx.listings.get(shared_ids)
    own = {id: listings[id_of(plan, id)] for id in shared_ids if id_of(plan, id) in listings}
    return PlanListings(
        {id: listing for id, listing in own.items() if _counts(listing, shared.get(id))}
    )


def _counts(own: Listing, shared: Listing | None) -> bool:
    look = own.look
    if look is None or own.is_open or own.at is None:
        return False
    root, at = (None, None) if shared is None else (shared.root, shared.at)
    return look["base"] == _hex(root) and (at is None or at <= own.at)


def is_moved(looked: PlanListings) -> bool:
    """Whether a plan over these differs from one over the shared listings."""
    return any(
        listing.error is not None
        or "lost" in (listing.held or {})
        or _hex(listing.root) != _base(listing)
        for listing in looked.own.values()
    )


def adopt(tx: Tx, plan: str, nodes: Iterable[Source]) -> frozenset[bytes]:
    """Make the listings of a plan the shared ones; their ids. One that failed, or lost too much,
    changes nothing."""
    nodes = list(nodes)
    listed = of_plan(tx, plan, nodes).own
    if listed:
        tx.queue.lock()  # before the listings: reports take the two in this order
    shared = tx.listings.locked(listed)
    # Compared once more: another listing may have come before the lock
    looked = of_plan(tx, plan, nodes)
    good = {
        id: own
        for id, own in looked.own.items()
        if own.error is None and own.root is not None and "lost" not in (own.held or {})
    }
    if good:
        tx.upkeep.collections()  # none begins before this transaction ends: the trees are there
    for id, own in good.items():
        _move(tx, id, own, shared.get(id))
    tx.listings.drop([own.id for own in looked.own.values()])
    return frozenset(good)


def _move(tx: Tx, id: bytes, own: Listing, shared: Listing | None) -> None:
    base = bytes.fromhex(_base(own)) or tree.EMPTY_ROOT
    assert own.root is not None
    removed_keys = (
        change.key for change in tree.diff(tx.nodes, base, own.root) if change.after is None
    )
    tx.listings.put_partitions(id, (), removed_keys)
    came = (
        change.key for change in tree.diff(tx.nodes, base, own.root) if change.after is not None
    )
    while keys := list(islice(came, PARTITIONS_A_TIME)):
        tx.listings.put_partitions(id, tx.listings.partitions(own.id, keys).values(), ())
    counters = (shared.requested, shared.served) if shared else (1, 1)
    held: HeldListing | None = (
        {"awaited": True} if shared is not None and shared.is_awaited else None
    )
    tx.listings.put(replace(own, id=id, requested=counters[0], served=counters[1], held=held))


def collect(tx: Tx, now: float) -> int:
    """Drop listings of plans that were not applied within an hour, and the oldest beyond the
    bounds; how many."""
    newest_first = sorted(tx.listings.of_plans(), key=lambda listing: listing.since, reverse=True)
    count = bytes_kept = 0
    dropped: list[bytes] = []
    for listing in newest_first:
        is_kept = (
            now - listing.since < KEPT_S
            and count < MOST
            and bytes_kept + listing.size_bytes <= MOST_BYTES
        )
        if is_kept:
            count, bytes_kept = count + 1, bytes_kept + listing.size_bytes
        else:
            dropped.append(listing.id)
    tx.listings.drop(dropped)
    return len(dropped)


def partitions_known(tx: Tx, listing: Listing, keys: Sequence[str]) -> Iterator[SourcePartition]:
    """Partitions of a shared listing, or of a plan's listing over the shared one."""
    by_key = tx.listings.partitions(listing.id, keys)
    if listing.look is not None:
        by_key = {**tx.listings.partitions(bytes.fromhex(listing.look["of"]), keys), **by_key}
    yield from by_key.values()


def _base(listing: Listing) -> str:
    return listing.look["base"] if listing.look else ""


def _hex(root: bytes | None) -> str:
    return "" if root is None else root.hex()
