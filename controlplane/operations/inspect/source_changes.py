"""What sources hold that datasets do not: counts and first names, from trees of listings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from controlplane.core import tree
from controlplane.core.compile.nodes import Source, is_paused
from controlplane.core.model.answers import SourceChange, SourceCounts, SourceObjectChange
from controlplane.core.model.feeds import BREACH
from controlplane.core.model.sources import Listing, SourcePartition
from controlplane.core.plan import Plan
from controlplane.operations.context import Context
from controlplane.operations.inspect import data_age, json_views
from controlplane.operations.planning.pinned import is_pinned
from controlplane.operations.planning.plan_listings import NO_LISTINGS, PlanListings
from controlplane.operations.planning.snapshot import StoreSnapshot
from controlplane.operations.work.listing_requests import LEFT_ALONE, ListingRequests
from controlplane.ports.store import Tx

SHOWN = 10  # objects of a source
Change: TypeAlias = Literal["added", "changed", "removed"]
ALL_SEEN: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _ListingDifference:
    """How a listing differs from a root. `first` are the first keys."""

    counts: SourceCounts
    first: list[tuple[str, Change]]


NONE = _ListingDifference({"added": 0, "changed": 0, "removed": 0}, [])


def of_plan(
    ctx: Context, plan: Plan, facts: StoreSnapshot, unseen: Mapping[str, str] = ALL_SEEN
) -> list[SourceChange]:
    """How the visible sources of a plan differ from the inputs of their datasets."""
    nodes = [
        n
        for d in ctx.visible(plan).decisions
        if (n := facts.desired.nodes[d.dataset]).is_source and not n.output
    ]
    roots = {n.dataset: _consumed(facts, n) for n in nodes}
    return _source_changes(
        ctx, facts.tx, facts.nodes, nodes, roots, unseen, branch=facts.branch, looked=facts.looked
    )


def of_requests(
    ctx: Context, requests: ListingRequests, unseen: Mapping[str, str] = ALL_SEEN
) -> list[SourceChange]:
    """How visible sources that were just listed differ from their listings before."""
    nodes = [node for node in requests.nodes if ctx.sees(node.dataset)]
    roots = {node.dataset: _root(requests.before.get(node.listing)) for node in nodes}
    with ctx.read() as tx:
        return _source_changes(ctx, tx, tx.nodes, nodes, roots, unseen, branch=requests.branch)


def as_of(listing: Listing | None) -> str | None:
    """When the location was last listed; None where that was never, or failed the last time."""
    return None if listing is None or listing.error is not None else json_views.when(listing.at)


def _consumed(facts: StoreSnapshot, node: Source) -> bytes:
    """The root of the listing that the dataset was made of."""
    state = facts.state(node.dataset)
    if state is None or "objects" not in state.inputs:
        return tree.EMPTY_ROOT
    return state.inputs["objects"].root


def _root(listing: Listing | None) -> bytes:
    return tree.EMPTY_ROOT if listing is None or listing.root is None else listing.root


def _source_changes(
    ctx: Context,
    tx: Tx,
    nodes: tree.NodeStore,
    sources: Sequence[Source],
    before: Mapping[str, bytes],
    unseen: Mapping[str, str],
    *,
    branch: str,
    looked: PlanListings = NO_LISTINGS,
) -> list[SourceChange]:
    ids = {node.listing for node in sources}
    # What a planner keeps does not say when it was confirmed
    listings = {**tx.listings.get(ids), **looked.shown}
    listed = {n.dataset: listings[n.listing].root for n in sources if n.listing in listings}
    differences = _differences(nodes, before, listed)
    names = _names(tx, sources, differences, looked)
    changes: list[SourceChange] = [
        {
            "dataset": node.dataset,
            "location": node.location,
            "as_of": _followed(listings.get(node.listing))
            if node.feed
            else as_of(listings.get(node.listing)),
            "changed": differences[node.dataset].counts,
            "objects": names[node.dataset],
            "problem": unseen.get(node.dataset) or _problem(node, listings.get(node.listing)),
            "is_left_alone": unseen.get(node.dataset) in LEFT_ALONE,
        }
        for node in sources
    ]
    due = due_times(tx, branch, sources, listings)
    for node, change in zip(sources, changes, strict=True):
        if node.dataset in due:
            change["due"] = due[node.dataset]
        if node.read.refresh_s is not None and node.pulled_by:
            change["pulled"] = _pulled(ctx, node.pulled_by, node.read.refresh_s)
    return changes


def _pulled(ctx: Context, dataset: str, every_s: float) -> str:
    """How often a source on demand is listed, and for which dataset, if the actor sees it."""
    reader = dataset if ctx.sees(dataset) else "a dataset downstream"
    return f"listed every {data_age.in_words(every_s)}, for the freshness of {reader}"


def due_times(
    tx: Tx, branch: str, sources: Iterable[Source], listings: Mapping[bytes, Listing]
) -> dict[str, str]:
    """When cron expressions have locations listed next, by dataset. Paused sources and those of a
    pinned branch have no next listing. The first listing is made at once."""
    scheduled = [node for node in sources if node.read.cron is not None]
    if not scheduled or is_pinned(tx, branch):
        return {}
    paused = tx.blueprints.paused(branch)
    due: dict[str, str] = {}
    for node in scheduled:
        listing = listings.get(node.listing)
        listed_at = None if listing is None else listing.at
        at = None if listed_at is None else node.due_after(listed_at)
        if at is not None and not is_paused(node, paused):
            due[node.dataset] = json_views.instant(at)
    return due


def _followed(listing: Listing | None) -> str | None:
    """When a feed last gave data. A later error does not change that time."""
    return None if listing is None or listing.root is None else json_views.when(listing.at)


def _problem(node: Source, listing: Listing | None) -> str | None:
    if listing is None or listing.is_awaited:
        return None
    if listing.error is not None and node.feed is not None:
        is_breach = listing.error["condition"] == BREACH  # whose words say all of it
        return (
            listing.error["message"]
            if is_breach
            else f"the feed cannot be followed: {listing.error['message']}"
        )
    if listing.error is not None:
        return f"the listing failed: {listing.error['message']}"
    if listing.held and "lost" in listing.held:
        lost, before = listing.held["lost"], listing.held["before"]
        return f"the listing lost {lost} of {before} partitions and waits for `headgate refresh --accept-deletes`"
    return None


# --- differences ------------------------------------------------------------------------------------


def _differences(
    nodes: tree.NodeStore, before: Mapping[str, bytes], listed: Mapping[str, bytes | None]
) -> dict[str, _ListingDifference]:
    """The counts of added, changed and removed partitions by dataset, all zero for a source that
    was never listed. The trees of all sources are read together."""
    moved = {d: root for d, root in listed.items() if root is not None and root != before[d]}
    new = {d: root for d, root in moved.items() if before[d] == tree.EMPTY_ROOT}
    pairs = {d: (before[d], root) for d, root in moved.items() if d not in new}
    return {**dict.fromkeys(before, NONE), **_all_added(nodes, new), **_compared(nodes, pairs)}


def _compared(
    nodes: tree.NodeStore, pairs: Mapping[str, tuple[bytes, bytes]]
) -> dict[str, _ListingDifference]:
    differences = {
        dataset: _ListingDifference({"added": 0, "changed": 0, "removed": 0}, [])
        for dataset in pairs
    }
    datasets = list(pairs)
    for number, change in tree.diff_many(nodes, pairs.values()):
        kind: Change = (
            "added" if change.before is None else "removed" if change.after is None else "changed"
        )
        difference = differences[datasets[number]]
        difference.counts[kind] += 1
        if len(difference.first) < SHOWN:
            difference.first.append((change.key, kind))
    return differences


def _all_added(nodes: tree.NodeStore, roots: Mapping[str, bytes]) -> dict[str, _ListingDifference]:
    """Without reading each of their partitions."""
    summaries = tree.summaries(nodes, roots.values())
    heads = tree.heads(nodes, roots.values(), SHOWN)
    return {
        dataset: _ListingDifference(
            {"added": summaries[root].totals.partitions, "changed": 0, "removed": 0},
            [(entry.key, "added") for entry in heads[root]],
        )
        for dataset, root in roots.items()
    }


def _names(
    tx: Tx,
    sources: Iterable[Source],
    differences: Mapping[str, _ListingDifference],
    looked: PlanListings,
) -> dict[str, list[SourceObjectChange]]:
    """By dataset. A removed object has its partition key only."""
    keys: dict[bytes, list[str]] = {}
    for node in sources:
        present = [key for key, kind in differences[node.dataset].first if kind != "removed"]
        if present:
            keys.setdefault(node.listing, []).extend(present)
    parts = looked.partitions(tx, keys) if keys else {}
    return {
        n.dataset: list(_objects(differences[n.dataset].first, parts.get(n.listing, {})))
        for n in sources
    }


def _objects(
    first: Iterable[tuple[str, Change]], parts: Mapping[str, SourcePartition]
) -> Iterator[SourceObjectChange]:
    for key, kind in first:
        part = parts.get(key)
        objects = part.objects if part is not None else ()
        yield {"name": objects[0]["name"] if len(objects) == 1 else key, "change": kind}
