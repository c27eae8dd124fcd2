"""Listings: when a location is to be listed, and taking in a worker's result, whole or not at
all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from math import inf
from typing import TypeAlias

from controlplane.core import tree
from controlplane.core.compile import connector_identity, ids
from controlplane.core.compile.nodes import Desired, Source
from controlplane.core.model.events import NO_BRANCH, Event
from controlplane.core.model.sources import HeldListing, Listing
from controlplane.core.model.tasks import Demand, Task
from controlplane.operations.planning import plan_listings
from controlplane.operations.work import long_polls
from controlplane.operations.work.listing_diff import (
    Found,
    ListingDiff,
    Unchanged,
    compare,
    is_too_much,
    lines_of,
)
from controlplane.ports.lake import ObjectStore
from controlplane.ports.store import Store, Tx
from dataplane.contract.encoding import digest
from dataplane.contract.jobs import ListJob
from dataplane.contract.kinds import placement_of
from dataplane.contract.results import TaskError
from dataplane.contract.source_objects import ListingResult

GUARDED_FROM = 20  # objects from which on a loss can be held for confirmation
TURN_S = 1.0  # between a dataflow's tasks in the order of the queue, not in time
AHEAD = 2000  # partitions that are written in one transaction before their listing is there
Demanding: TypeAlias = Callable[[str], str]


def sources(desired: Desired, scope: Iterable[str]) -> list[Source]:
    """The sources that are listed. Feeds are not: their offers are known."""
    return [n for d in scope if (n := desired.nodes[d]).is_source and n.feed is None]


def request(
    tx: Tx, nodes: Iterable[Source], *, accept_deletes: bool = False, is_awaited: bool = False
) -> dict[bytes, Listing]:
    """Request a new listing of each location; returns the listings as they were. An open request is
    not repeated, unless a worker is at it: the worker may have listed before the change was there.
    One that a worker holds for want of news is ended, and listed at once.
    Until an awaited listing is there, nothing that reads there is up to date."""
    listing_ids = {n.listing for n in nodes}
    current = _locked_listings(tx, listing_ids)
    is_quiet = not (accept_deletes or is_awaited)
    quiet = {id for id, listing in current.items() if is_quiet and _is_as_planned(listing)}
    tx.listings.request_again(quiet)
    for listing in _requested(
        tx, [current.get(id, Listing(id, None, None, 0, 0)) for id in listing_ids - quiet]
    ):
        held: HeldListing = {**(listing.held or {})}
        if accept_deletes:
            held["accepted"] = True
        if is_awaited:
            held["awaited"] = True
        tx.listings.put(replace(listing, held=held or None))
    return current


def _is_as_planned(listing: Listing) -> bool:
    """True if plans stay as they are when it is requested again."""
    return not listing.is_open and not (listing.held and listing.held.get("awaited"))


def _locked_listings(tx: Tx, ids: Iterable[bytes]) -> dict[bytes, Listing]:
    """The listings, which no other transaction changes before this one ends."""
    tx.queue.lock()  # before the listings: reports take the two in this order
    return tx.listings.locked(ids)


def _requested(tx: Tx, current: Collection[Listing]) -> Iterator[Listing]:
    tasks = {
        _key(listing.id, listing.requested): listing.id for listing in current if listing.is_open
    }
    long_polls.end(tx, tasks)
    started = _started(tx, tasks)
    for listing in current:
        yield replace(
            listing, requested=(listing.requested if listing.id in started else listing.served) + 1
        )


def _started(tx: Tx, tasks: Mapping[bytes, bytes]) -> set[bytes]:
    """The listings whose tasks are running."""
    return {tasks[key] for key, task in tx.queue.tasks(tasks).items() if task.state == "running"}


def request_taken_up(
    tx: Tx, before: Desired, after: Desired, listed: Collection[bytes] = ()
) -> int:
    """Request a fresh listing for each known location that had no readers recently and has one
    again. The old listing may be long outdated: plans wait. `listed`: the locations that were
    listed for the edit."""
    live = {n.listing for n in sources(before, before.order)} | {*listed}
    taken_up = [
        n
        for n in sources(after, after.order)
        if n.listing not in live and n.read.refresh_s is not None
    ]
    current = _locked_listings(tx, [n.listing for n in taken_up]) if taken_up else {}
    for listing in _requested(tx, current.values()):
        tx.listings.put(replace(listing, held={**(listing.held or {}), "awaited": True}))
    return len(current)


def ask(tx: Tx, id: bytes) -> None:
    """Ask for another listing of a location that has been listed before."""
    for listing in _requested(tx, _locked_listings(tx, [id]).values()):
        tx.listings.put(listing)


def is_due(node: Source, listing: Listing | None, now: float, *, periodic: bool) -> bool:
    if listing is None or (listing.at is None and listing.requested == 0):
        return True
    if listing.requested > listing.served or listing.at is None or not periodic:
        return False
    return due_in(node, listing, now) <= 0.0


def due_in(node: Source, listing: Listing | None, now: float) -> float:
    """Seconds until the location is due by its period, 0 or less if it is; infinity if it has none.

    A listing that is ahead by more than a period was made before the clock went back, and is due at
    once. Any number of missed times of a cron expression is one listing."""
    if listing is None or listing.at is None:
        return inf
    scheduled = node.due_after(min(listing.at, now))
    if scheduled is not None:
        return scheduled - now
    period_s = long_polls.period_s(node.read, listing)
    if period_s is None:
        return inf
    if listing.at - now > period_s:
        return 0.0
    return listing.at + period_s - now


def next_due_in(
    node: Source, listing: Listing | None, now: float, requested: Collection[bytes]
) -> float:
    """As `due_in`; a listing that is requested already is due a period after it ends, at the
    earliest. The report of a continuous source wakes the loop."""
    if node.listing not in requested:
        return due_in(node, listing, now)
    if (scheduled := node.due_after(now)) is not None:
        return scheduled - now
    if node.read.refresh_s is None or node.read.within_s is not None:
        return inf
    return node.read.refresh_s


def demand_of(dataset: str) -> str:
    """The name that demands the listing of the location that a dataset reads."""
    return dataset + long_polls.DEMAND


def is_open(listing: Listing | None) -> bool:
    """True if it was requested and has not been served."""
    return listing is not None and listing.is_open


def dispatch(
    tx: Tx,
    branch: str,
    nodes: Iterable[Source],
    demand: Demanding = demand_of,
    *,
    is_periodic: bool = False,
) -> int:
    """Queue the worker tasks of open requests, each once the one before it is over. Components that
    share a location share the task, and demands of an earlier request are dropped. A task that is
    queued already costs only the check. A dataflow's tasks stand in the queue `TURN_S` apart, so
    that one with many leaves room for the few of another one that are queued later. `demand` names
    the demand for the listing that a dataset reads. `is_periodic`: a worker may hold the listings
    of continuous sources."""
    nodes = list(nodes)
    current = tx.listings.get(n.listing for n in nodes)
    listing_tasks = to_queue(tx, branch, nodes, current, demand, is_periodic=is_periodic)
    queued = 0
    tx.queue.put_jobs({listed.task.job: listed.job for listed in listing_tasks})
    for listing_task in listing_tasks:
        tx.queue.drop_demands(branch, listing_task.demand, [listing_task.task.key])
        long_polls.end_undemanded(tx, listing_task.replaced)
        queued += tx.queue.enqueue(
            branch, listing_task.demand, [listing_task.task], after_s=TURN_S * listing_task.turn
        )
    return queued


@dataclass(frozen=True, slots=True)
class ListingTask:
    """A listing that is to be queued: `turn` counts those of its dataflow before it that are not
    over. `replaced`: running tasks that its demand was for."""

    demand: str
    task: Task
    job: ListJob
    turn: int
    replaced: tuple[bytes, ...]


def to_queue(
    tx: Tx,
    branch: str,
    nodes: Iterable[Source],
    current: Mapping[bytes, Listing],
    demanding: Demanding = demand_of,
    *,
    is_periodic: bool = False,
) -> list[ListingTask]:
    """What `dispatch` would queue, where that much is known of the nodes' listings."""
    by_listing: dict[bytes, list[Source]] = {}
    for node in nodes:
        if is_open(current.get(node.listing)):
            by_listing.setdefault(node.listing, []).append(node)
    later = [current[id] for id in by_listing if current[id].requested > current[id].served + 1]
    started = (
        _started(tx, {_key(listing.id, listing.requested - 1): listing.id for listing in later})
        if later
        else set()
    )
    groups = {
        id: sorted(group, key=lambda n: n.dataset)
        for id, group in by_listing.items()
        if id not in started
    }
    demands = (
        tx.queue.demanded(branch, [demanding(group[0].dataset) for group in groups.values()])
        if groups
        else {}
    )
    listing_tasks, turn_of_flow = [], Counter[str]()
    for id, group in groups.items():
        task, job = _task(current[id], group, is_periodic=is_periodic)
        demand, flow = demanding(task.dataset), task.dataset.partition(".")[0]
        demanded = demands.get(demand, {})
        if not _is_under_way(demanded, task):
            replaced = _running(demanded, task.key)
            listing_tasks.append(ListingTask(demand, task, job, turn_of_flow[flow], replaced))
        turn_of_flow[flow] += 1
    return listing_tasks


def _running(demands: Mapping[bytes, Demand], but: bytes) -> tuple[bytes, ...]:
    return tuple(key for key, task in demands.items() if task.state == "running" and key != but)


def _is_under_way(demands: Mapping[bytes, Demand], task: Task) -> bool:
    """True if exactly this task is demanded, and will be done as requested."""
    demand = demands.get(task.key)
    return (
        demand is not None
        and len(demands) == 1
        and demand.state in ("queued", "running")
        and demand.covers(task)
    )


def _task(listing: Listing, group: list[Source], *, is_periodic: bool) -> tuple[Task, ListJob]:
    node = group[0]
    job: ListJob = {
        "location": node.location,
        "format": node.read.format,
        "options": dict(node.read.options),
        "partition": node.read.partition,
        "metadata": sorted(connector_identity.listed_metadata(node.read)),
        "deletes_max": min(n.read.deletes_max for n in group),
        "accept_deletes": _is_accepted(listing),
        "listing": listing.id.hex(),
        **connector_identity.settings_of(node.read),
    }
    # It only adds to the listing before it, and its claim has the end of that one
    if node.read.is_growing:
        job["known"] = None
    bounds_s = [n.read.within_s for n in group if n.read.within_s is not None]
    if is_periodic and bounds_s:
        job["within_s"] = min(bounds_s)
        if any(n.read.is_watched for n in group):
            job["hold_s"] = long_polls.hold_s(n.read for n in group) or long_polls.LONG_POLL_S
    key = _key(listing.id, listing.requested)
    priority = max(n.component.priority for n in group)
    return Task(
        key,
        "list",
        node.dataset,
        partition="",
        job=ids.job_id(job),
        spec={"request": listing.requested},
        size_bytes=0,
        priority=priority,
        placement=placement_of("list", node.read.connector),
    ), job


def _key(listing: bytes, request: int) -> bytes:
    return digest("list/1", listing=listing, request=request)


def with_known(tx: Tx, job: ListJob, tasks: Iterable[Task]) -> ListJob:
    """The job of a listing with known contents: the digest of the one before it (`was`); or the
    last key of that one and the objects behind it, if the new one is only to add to it. A listing
    that may be held has `wait_s`."""
    listing = _stored(tx, job) or Listing(bytes.fromhex(job["listing"]), None, None, 0, 0)
    wait_s = long_polls.wait_s(tx, listing, job, tasks) if "within_s" in job else None
    if wait_s is not None:
        job = {**job, "wait_s": wait_s}
    if "known" not in job:
        return {**job, "was": listing.digest.hex()} if listing.digest else job
    last = tree.last(tx.nodes, listing.root or tree.EMPTY_ROOT)
    if last is None:
        return {**job, "known": {"key": None, "objects": []}}
    [partition] = plan_listings.partitions_known(tx, listing, [last.key])
    return {**job, "known": {"key": last.key, "objects": list(partition.objects)}}


def _is_accepted(listing: Listing) -> bool:
    """True if the loss was confirmed; that holds for the next listing that succeeds or fails."""
    return bool(listing.held and listing.held.get("accepted"))


def read(
    store: Store,
    namespace: str,
    job: ListJob,
    result: ListingResult,
    lake: ObjectStore,
    prefix: str,
) -> Found:
    """A worker's listing, compared with the current one. To be closed. Raises Damaged.

    The partitions of a first listing are written here already: they are not read before it has a
    root, and writing a million rows would keep all other writers waiting.
    """
    with store.read(namespace) as tx:
        listing = _stored(tx, job)
        if listing is None:
            return Unchanged(b"")
        change = compare(
            tx.nodes, listing, result, lambda: lines_of(result, lake, prefix), job["deletes_max"]
        )
    if listing.root is None and isinstance(change, ListingDiff):
        try:
            _write_ahead(store, namespace, listing, change)
        except BaseException:
            change.close()
            raise
    return change


def _write_ahead(store: Store, namespace: str, listing: Listing, change: ListingDiff) -> None:
    partitions = change.partitions()
    while some := list(islice(partitions, AHEAD)):
        with store.begin(namespace) as tx:
            tx.listings.put_partitions(listing.id, some, ())


@dataclass(frozen=True, slots=True)
class Taken:
    """The outcome of a finished listing. `is_news`: there may be something to plan, or to list once
    more. A listing without changes is no event: thousands of them would hide the others."""

    event: Event | None
    is_news: bool = True


def take_in(tx: Tx, job: ListJob, request: int, change: Found) -> Taken:
    """Make a finished listing the current one, unless it lost more than the components allow."""
    listing = _locked(tx, job)
    if listing is None:
        return Taken(None)
    served = replace(listing, at=tx.now(), served=max(listing.served, request), error=None)
    if (listing.root or tree.EMPTY_ROOT) != change.base:  # another one came first: look again
        tx.listings.put(replace(served, requested=served.served + 1))
        return Taken(_event(job, "listing.repeated"))
    if isinstance(change, Unchanged):
        is_as_before = listing.error is None and listing.held is None
        if is_as_before:
            tx.listings.confirm(listing.id, request)
        else:
            tx.listings.put(replace(served, held=_carried(served) or None))
        was_wrong = listing.look is None and (
            listing.error is not None or "lost" in (listing.held or {})
        )
        event = (
            _event(job, "listing.done", {"changed": 0}, n=listing.objects) if was_wrong else None
        )
        return Taken(event, is_news=served.is_open or not is_as_before)
    return Taken(_move(tx, job, served, change))


def _move(tx: Tx, job: ListJob, listing: Listing, change: ListingDiff) -> Event | None:
    """Move a listing to its new root, or hold it where too much is lost. A listing for a plan is no
    event: nothing follows from it."""
    # None begins before this transaction ends: what the trees share is still there
    tx.upkeep.collections()
    is_guarded = change.before >= GUARDED_FROM and not _is_accepted(listing)
    if is_guarded and is_too_much(change.removed, change.before, job["deletes_max"]):
        held: HeldListing = {"before": change.before, "lost": change.removed, **_carried(listing)}
        tx.listings.put(replace(listing, held=held))
        return (
            None
            if listing.look
            else _event(job, "listing.held", {"lost": change.removed, "before": change.before})
        )
    root = tree.edit(tx.nodes, change.base, change.edits())
    assert root == change.root, "a tree that was edited is the tree that is built"
    if listing.root is not None:  # else they are there
        tx.listings.put_partitions(listing.id, (), change.gone_keys())
        tx.listings.put_partitions(listing.id, change.partitions(), ())
    objects, size_bytes, _ = change.totals
    updated = replace(
        listing, digest=change.digest, columns=change.columns, all_columns=change.all_columns
    )
    tx.listings.put(
        replace(
            updated,
            root=root,
            objects=objects,
            size_bytes=size_bytes,
            held=_carried(listing) or None,
        )
    )
    return (
        None
        if listing.look
        else _event(job, "listing.done", {"changed": change.changed}, n=objects)
    )


def _event(
    job: ListJob, kind: str, details: Mapping[str, object] | None = None, n: int = 0
) -> Event:
    """An event of no branch: all branches share the listing of a location."""
    return Event(kind, "", n, {"location": job["location"], **(details or {})}, branch=NO_BRANCH)


def _carried(listing: Listing) -> HeldListing:
    """The marks that stay: that another listing is awaited, requested while this one was under way;
    and the plan it is for."""
    held: HeldListing = {"awaited": True} if listing.is_awaited else {}
    if listing.look is not None:
        held["look"] = listing.look
    return held


def _stored(tx: Tx, job: ListJob) -> Listing | None:
    """None where it was a plan's, which has been collected since."""
    id = bytes.fromhex(job["listing"])
    return tx.listings.get([id]).get(id)


def _locked(tx: Tx, job: ListJob) -> Listing | None:
    id = bytes.fromhex(job["listing"])
    return tx.listings.locked([id]).get(id)


def fail(tx: Tx, job: ListJob, request: int, error: TaskError) -> Event | None:
    """Record the failure of a listing. The known contents of the location never change by it."""
    listing = _locked(tx, job)
    if listing is None:
        return None
    served = replace(listing, at=tx.now(), served=max(listing.served, request), error=error)
    held: HeldListing = _carried(served)
    # A loss waits on; the confirmation is used up
    if listing.held is not None and "lost" in listing.held:
        held["before"], held["lost"] = listing.held["before"], listing.held["lost"]
    tx.listings.put(replace(served, held=held or None))
    return None if listing.look else _event(job, "listing.failed", {"message": error["message"]})
