"""The review of an edit against the stored blueprints, and the questions that it has for Spark's
analyzer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from controlplane.core.compile.nodes import Desired, Node
from controlplane.core.model.memos import Memo
from controlplane.core.model.pins import Pin
from controlplane.core.model.sources import Listing
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Task
from controlplane.core.review import AnalyseRequest, Review, review
from controlplane.core.review.node_schemas import Schemas
from controlplane.core.review.review_values import KnownSchema
from controlplane.operations.context import Context
from controlplane.operations.planning.plan_listings import NO_LISTINGS, PlanListings
from controlplane.ports.store import Tx

# Behind the name of a dataset: no dataset has it, so that no plan follows from an answer
DEMAND = "#review"


@dataclass(frozen=True, slots=True)
class StoredFacts:
    """What a transaction has of the datasets in question."""

    tx: Tx
    states: Mapping[str, State]
    pins: Mapping[str, Pin]
    listings: Mapping[bytes, Listing]

    def state(self, dataset: str) -> State | None:
        return self.states.get(dataset)

    def pinned(self, dataset: str) -> Pin | None:
        return self.pins.get(dataset)

    def listing(self, id: bytes) -> Listing | None:
        return self.listings.get(id)

    def answers(self, keys: tuple[bytes, ...]) -> Mapping[bytes, Memo]:
        return self.tx.traces.memos(keys)

    def tasks(self, keys: tuple[bytes, ...]) -> Mapping[bytes, Task]:
        return self.tx.queue.tasks(keys)


def of_edit(
    tx: Tx,
    branch: str,
    before: Desired,
    after: Desired,
    unanswered: str = "",
    looked: PlanListings = NO_LISTINGS,
) -> Review:
    """The differences between the stored and the proposed blueprints. `unanswered`: why requested
    answers of Spark are missing. `looked`: listings in place of the shared ones."""
    return review(before, after, _facts(tx, branch, before, after, looked), unanswered)


def columns_of(
    tx: Tx, branch: str, before: Desired, after: Desired, dataset: str, unanswered: str = ""
) -> KnownSchema:
    """The columns that a dataset of an edit would have."""
    return Schemas(after, _facts(tx, branch, before, after), unanswered=unanswered).of(dataset)


def stored_columns(
    tx: Tx, branch: str, nodes: Desired, dataset: str
) -> tuple[KnownSchema, tuple[AnalyseRequest, ...]]:
    """The columns that a dataset of the stored blueprints has, or would have; and the analyses
    that they need from Spark."""
    scope = {dataset, *nodes.graph.upstream([dataset])}
    schemas = Schemas(nodes, _facts(tx, branch, nodes, nodes, within=scope))
    schemas.load(name for name in nodes.order if name in scope)
    return schemas.of(dataset), tuple(schemas.requests.values())


def _facts(
    tx: Tx,
    branch: str,
    before: Desired,
    after: Desired,
    looked: PlanListings = NO_LISTINGS,
    *,
    within: Collection[str] = (),
) -> StoredFacts:
    """`within`: names of datasets that are in question although nothing of them differs."""
    nodes = [*_in_question(before, after), *_in_question(after, before)]
    nodes += [after.nodes[name] for name in within if name in after.nodes]
    sources = [node for node in nodes if node.is_source]
    names = sorted({node.dataset for node in nodes})
    return StoredFacts(
        tx,
        tx.states.newest(branch, names),
        tx.states.pinned_schemas(branch, sorted({node.dataset for node in sources})),
        {**tx.listings.get(node.listing for node in sources), **looked.shown},
    )


def _in_question(some: Desired, other: Desired) -> Iterable[Node]:
    """Nodes that differ in `other`, and their inputs."""
    touched = {
        dataset for dataset, node in some.nodes.items() if _is_other(node, other.nodes.get(dataset))
    }
    read: set[str] = set()
    for dataset in touched:
        node = some.nodes[dataset]
        if node.is_transform:
            read |= {slot.dataset for slot in node.slots}
        if node.is_copy:
            read.add(node.source)
    return [some.nodes[dataset] for dataset in touched | read if dataset in some.nodes]


def _is_other(node: Node, other: Node | None) -> bool:
    if other is None or node.is_copy or other.is_copy:
        return node != other
    return node.lineage != other.lineage


# --- asking Spark ---------------------------------------------------------------------------------


def ask(ctx: Context, branch: str, requests: Iterable[AnalyseRequest]) -> None:
    """Queue the questions, as tasks that a run would demand as well. Repeating is harmless."""
    with ctx.begin() as tx:
        for request in requests:
            tx.queue.put_job(request.task.job, request.job)
            tx.queue.enqueue(branch, demand_of(request.task.dataset), [request.task])
    ctx.wake()


def unanswered(
    ctx: Context, branch: str, requests: Iterable[AnalyseRequest]
) -> tuple[AnalyseRequest, ...]:
    """Those that have neither an answer nor an error. A question is sent again if another request
    shared it, and dropped it when it stopped waiting."""
    keys = {request.task.key for request in requests}
    with ctx.read() as tx:
        left = keys - tx.traces.memos(keys).keys()
        tasks = tx.queue.tasks(left) if left else {}
    failed = {key for key, task in tasks.items() if task.state == "failed"}
    open_requests = tuple(request for request in requests if request.task.key in left - failed)
    if dropped := [request for request in open_requests if request.task.key not in tasks]:
        ask(ctx, branch, dropped)
    return open_requests


def forget(ctx: Context, branch: str, datasets: Iterable[str]) -> None:
    """Drop the demands for these analyses: no request waits for them. Answers stay: a run asks the
    same questions."""
    with ctx.begin() as tx:
        for dataset in datasets:
            tx.queue.drop_demands(branch, demand_of(dataset))


def demand_of(dataset: str) -> str:
    return dataset + DEMAND
