"""Listings: when a location is to be listed, and taking in what a worker found there, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from controlplane.core import ids, tree
from controlplane.core.dataflow import Desired, Source
from controlplane.core.model import Event, Listing, SourcePartition, Task
from controlplane.ports import Tx
from dataplane.contract import Content, Json, ListedPartition, TaskError, digest

GUARDED_FROM = 20  # objects from which on a loss can be held for confirmation


def sources(desired: Desired, scope: Iterable[str]) -> list[Source]:
    return [n for d in scope if isinstance(n := desired.nodes[d], Source)]


def request(tx: Tx, nodes: Iterable[Source], *, accept_deletes: bool = False) -> int:
    """Ask for a new listing of each location; one that is asked for already is not asked for twice."""
    wanted = {n.listing for n in nodes}
    known = tx.listings(wanted)
    for id in wanted:
        listing = known.get(id, Listing(id, None, None, 0, 0))
        held = {**(listing.held or {}), "accepted": True} if accept_deletes else listing.held
        tx.put_listing(replace(listing, requested=listing.served + 1, held=held))
    return len(wanted)


def ask(tx: Tx, id: bytes) -> None:
    """Ask for another listing of a location that has been listed before."""
    for listing in tx.listings([id]).values():
        tx.put_listing(replace(listing, requested=listing.served + 1))


def is_due(node: Source, listing: Listing | None, now: float, *, periodic: bool) -> bool:
    if listing is None or (listing.at is None and listing.requested == 0):
        return True
    if listing.requested > listing.served or listing.at is None or not periodic or node.read.refresh_s is None:
        return False
    return now - listing.at >= node.read.refresh_s


def is_open(listing: Listing | None) -> bool:
    """Somebody asked for it and it has not been served."""
    return listing is not None and listing.requested > listing.served


def dispatch(tx: Tx, branch: str, nodes: Iterable[Source]) -> int:
    """Queue the worker tasks of open requests. Components that share a location share the task."""
    by_listing: dict[bytes, list[Source]] = {}
    for node in nodes:
        by_listing.setdefault(node.listing, []).append(node)
    queued = 0
    for id, listing in tx.listings(by_listing).items():
        if is_open(listing):
            group = sorted(by_listing[id], key=lambda n: n.dataset)
            task, job = _task(listing, group)
            tx.put_job(task.job, job)
            queued += sum(tx.enqueue(branch, n.dataset + "#listing", [task]) for n in group[:1])
    return queued


def _task(listing: Listing, group: list[Source]) -> tuple[Task, Json]:
    node = group[0]
    job = {
        "location": node.location,
        "format": node.read.format,
        "options": dict(node.read.options),
        "partition": node.read.partition,
        "metadata": sorted(node.read.metadata),
        "deletes_max": min(n.read.deletes_max for n in group),
        "accept_deletes": _is_accepted(listing),
        "listing": listing.id.hex(),
    }
    key = digest("list/1", listing=listing.id, request=listing.requested)
    priority = max(n.component.priority for n in group)
    return Task(key, "list", node.dataset, "", ids.job_id(job), {"request": listing.requested}, 0, priority), job


def _is_accepted(listing: Listing) -> bool:
    """Somebody confirmed what was lost; it holds for the next listing that succeeds or fails."""
    return bool(listing.held and listing.held.get("accepted"))


def take_in(tx: Tx, job: Json, request: int, result: Json) -> Event:
    """Make a finished listing the current one, unless it lost more than the components allow."""
    id = bytes.fromhex(job["listing"])
    listing = tx.listings([id]).get(id, Listing(id, None, None, 0, 0))
    parts = [_partition(p, job["metadata"]) for p in result["partitions"]]
    entries = (tree.Entry(p.key, p.source, _content(p)) for p in sorted(parts, key=lambda p: p.key.encode()))
    root = tree.build(tx, entries)
    before = listing.root or tree.EMPTY_ROOT
    changes = list(tree.diff(tx, before, root))
    lost = _lost(changes)
    served = replace(listing, at=tx.now(), served=max(listing.served, request), error=None)
    count = tree.totals(tx, before).content.rows
    if count >= GUARDED_FROM and lost > job["deletes_max"] * count and not _is_accepted(listing):
        tx.put_listing(replace(served, held={"before": count, "lost": lost}))
        return Event("listing.held", body={"location": job["location"], "lost": lost, "before": count})
    by_key = {p.key: p for p in parts}
    tx.put_source_partitions(
        id, [by_key[c.key] for c in changes if c.after], [c.key for c in changes if c.after is None]
    )
    _refresh_objects(tx, id, by_key, {c.key for c in changes})
    tx.put_listing(replace(served, root=root, objects=result["objects"], size_bytes=result["bytes"], held=None))
    return Event("listing.done", n=result["objects"], body={"location": job["location"], "changed": len(changes)})


def _refresh_objects(tx: Tx, id: bytes, parts: dict[str, SourcePartition], changed: set[str]) -> None:
    """Sizes, times and places of unchanged partitions may have moved (a touched file): readers check them."""
    same = [k for k in parts if k not in changed]
    known = tx.source_partitions(id, same)
    tx.put_source_partitions(id, [parts[k] for k in same if known.get(k) != parts[k]], [])


def _lost(changes: list[tree.Change]) -> int:
    """Objects that are gone; what only moved to another name is not lost."""
    arrived = {c.after.fragment for c in changes if c.after}
    return sum(c.before.content.rows for c in changes if c.before and not c.after and c.before.fragment not in arrived)


def _partition(found: ListedPartition, metadata: list[str]) -> SourcePartition:
    return SourcePartition(found["key"], ids.source_of(found["objects"], metadata), tuple(found["objects"]))


def _content(part: SourcePartition) -> Content:
    """In a listing's tree, rows count objects and sum1 adds up bytes."""
    return Content(len(part.objects), sum(o["size"] for o in part.objects), 0)


def fail(tx: Tx, job: Json, request: int, error: TaskError) -> Event:
    """A failed listing never changes what is known of the location."""
    id = bytes.fromhex(job["listing"])
    listing = tx.listings([id]).get(id, Listing(id, None, None, 0, 0))
    held = {k: v for k, v in (listing.held or {}).items() if k != "accepted"} or None
    tx.put_listing(replace(listing, at=tx.now(), served=max(listing.served, request), error=error, held=held))
    return Event("listing.failed", body={"location": job["location"], "message": error["message"]})
