"""Listings that a request waits for: of sources that are declared, or only proposed.

A listing for a plan is stored under the plan's id (`planning.plan_listings`), apart from those that
the loop works on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.core.compile.nodes import Source, is_paused
from controlplane.core.model.leases import LOOP
from controlplane.core.model.sources import Listing
from controlplane.operations.context import Context
from controlplane.operations.planning import plan_listings
from controlplane.operations.planning.pinned import is_pinned
from controlplane.operations.work import listings
from controlplane.ports.store import Tx

NEW_S = 10.0  # for which a listing is as good as one that is made now
PAUSED = "not looked at: it is paused"
BY_CRON = (
    "not looked at: its `refresh` is a cron expression, and a service would compute what is found "
    "(`headgate refresh` asks)"
)
ON_REQUEST = (
    "not looked at: its `refresh` is manual, and a service would compute what is found "
    "(`headgate refresh` asks)"
)
PINNED = "not looked at: the branch is pinned, and sees what there was; headgate branch update moves it to now"
LEFT_ALONE = frozenset({PAUSED, ON_REQUEST, BY_CRON, PINNED})  # on purpose
UNSEEN = (
    "not looked at: no worker was through with it in {timeout_s:g} s; it is told as it was before"
)


@dataclass(frozen=True, slots=True)
class ListingRequests:
    """A request to list some sources. `numbers`: the request number that each listing has to serve.
    `before`: the listings known before. `unseen`: why a dataset's source is not listed. `plan`: the
    plan that they are for, if any."""

    branch: str
    nodes: tuple[Source, ...]
    numbers: Mapping[bytes, int]
    before: Mapping[bytes, Listing]
    unseen: Mapping[str, str]
    plan: str = ""

    @property
    def demand(self) -> Callable[[str], str]:
        return lambda dataset: demand_of(dataset, self.plan)


def ask_for_plan(ctx: Context, branch: str, nodes: Iterable[Source], plan: str) -> ListingRequests:
    """Have workers list these sources under the id of a plan, each location once: the results are
    the plan's alone, until it is applied. A listing of a moment ago is used as it is, and paused
    sources are left alone."""
    sources = [node for node in nodes if not node.output]
    with ctx.begin() as tx:
        plan_listings.collect(tx, tx.now())
        unseen = _left_alone(tx, branch, sources)
        chosen = [node for node in sources if node.dataset not in unseen]
        shared = tx.listings.get(node.listing for node in chosen)
        due = [node for node in chosen if not _is_new(shared.get(node.listing), tx.now())]
        for id in {node.listing for node in due}:
            tx.listings.put(plan_listings.started(plan, id, shared.get(id), tx.now()))
        own = [replace(node, listing=plan_listings.id_of(plan, node.listing)) for node in due]
        requests = replace(_requests_of(tx, branch, own, shared, unseen), plan=plan)
        listings.dispatch(tx, branch, own, requests.demand)
    ctx.wake()
    return requests


def _is_new(shared: Listing | None, now: float) -> bool:
    if (
        shared is None
        or shared.at is None
        or shared.error is not None
        or shared.held
        or shared.is_open
    ):
        return False
    return 0 <= now - shared.at < NEW_S


def ask(ctx: Context, branch: str, nodes: Iterable[Source]) -> ListingRequests:
    """Have workers list these sources, each location once. Plans go on with the known listings
    meanwhile. Paused sources are left alone, and so are those that a service lists on request only:
    it would compute the results."""
    sources = [node for node in nodes if not node.output]
    with ctx.begin() as tx:
        unseen = _unseen(tx, branch, sources)
        chosen = [node for node in sources if node.dataset not in unseen]
        before = listings.request(tx, chosen)
        requests = _requests_of(tx, branch, chosen, before, unseen)
        listings.dispatch(tx, branch, chosen, requests.demand)
    ctx.wake()
    return requests


def request_listings(
    tx: Tx, branch: str, nodes: Iterable[Source], *, accept_deletes: bool = False
) -> ListingRequests:
    """Request new listings of just these sources, for an operator: plans wait for the results."""
    sources = [node for node in nodes if not node.output]
    if is_pinned(tx, branch):
        return _requests_of(tx, branch, [], {}, {node.dataset: PINNED for node in sources})
    before = listings.request(tx, sources, accept_deletes=accept_deletes, is_awaited=True)
    paused = tx.blueprints.paused(branch)
    unseen = {node.dataset: PAUSED for node in sources if is_paused(node, paused)}
    chosen = [node for node in sources if node.dataset not in unseen]
    return _requests_of(tx, branch, chosen, before, unseen)


def _requests_of(
    tx: Tx,
    branch: str,
    nodes: Sequence[Source],
    before: Mapping[bytes, Listing],
    unseen: Mapping[str, str],
) -> ListingRequests:
    numbers = {
        id: listing.requested for id, listing in tx.listings.get(n.listing for n in nodes).items()
    }
    return ListingRequests(branch, tuple(nodes), numbers, before, unseen)


def _left_alone(tx: Tx, branch: str, sources: Sequence[Source]) -> dict[str, str]:
    if is_pinned(tx, branch):
        return {node.dataset: PINNED for node in sources}
    paused = tx.blueprints.paused(branch)
    return {node.dataset: PAUSED for node in sources if is_paused(node, paused)}


def _unseen(tx: Tx, branch: str, sources: Sequence[Source]) -> dict[str, str]:
    lease = tx.leases.get(LOOP)
    is_led = lease is not None and lease.until > tx.now()
    on_request = {
        node.dataset: ON_REQUEST if node.read.cron is None else BY_CRON
        for node in sources
        if node.read.refresh_s is None and is_led
    }
    return {**on_request, **_left_alone(tx, branch, sources)}


def open_of(ctx: Context, requests: ListingRequests) -> frozenset[bytes]:
    """The listings that are still awaited. A listing that is not queued yet, since a worker was at
    an earlier request, is queued once that is over."""
    with ctx.read() as tx:
        current = tx.listings.get(requests.numbers)
        late = frozenset(
            id
            for id, number in requests.numbers.items()
            if id in current and current[id].served < number
        )
        waiting = [node for node in requests.nodes if node.listing in late]
        to_queue = listings.to_queue(tx, requests.branch, waiting, current, requests.demand)
    if to_queue:
        with ctx.begin() as tx:
            listings.dispatch(tx, requests.branch, waiting, requests.demand)
        ctx.wake()
    return late


def end(ctx: Context, requests: ListingRequests, timeout_s: float) -> dict[str, str]:
    """End the wait: drop the demands of this request, and so the tasks that only it demanded and
    that have not started. Answers why a dataset's source was not listed."""
    with ctx.begin() as tx:
        current = tx.listings.get(requests.numbers)
        for node in requests.nodes:
            tx.queue.drop_demands(requests.branch, requests.demand(node.dataset))
    late = {
        id
        for id, number in requests.numbers.items()
        if id not in current or current[id].served < number
    }
    late_reasons = {
        node.dataset: UNSEEN.format(timeout_s=timeout_s)
        for node in requests.nodes
        if node.listing in late
    }
    return {**requests.unseen, **late_reasons}


def demand_of(dataset: str, plan: str = "") -> str:
    """Another name than the loop's: it ends its own demands for itself. Each plan has its own."""
    return f"{dataset}#look{plan}"
