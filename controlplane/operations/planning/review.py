"""The review of an edit with what is stored, and the questions that it has for Spark's analyzer.

Does not belong here: waiting for answers (the API), and how an edit is judged (core.review).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controlplane.core.compile.nodes import Desired, Node, Sink, Source, Transform
from controlplane.core.model.memos import Memo
from controlplane.core.model.pins import Pin
from controlplane.core.model.sources import Listing
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Task
from controlplane.core.review import Review, Wish, review
from controlplane.operations.context import Context
from controlplane.ports.store import Tx

DEMAND = "#review"  # behind the name of a dataset: no dataset has it, so that no plan follows from an answer


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
        return self.tx.memos(keys)

    def tasks(self, keys: tuple[bytes, ...]) -> Mapping[bytes, Task]:
        return self.tx.tasks(keys)


def of_edit(tx: Tx, branch: str, before: Desired, after: Desired) -> Review:
    """What differs between what is stored and what is proposed."""
    nodes = [*_in_question(before, after), *_in_question(after, before)]
    sources = [node for node in nodes if isinstance(node, Source)]
    names = sorted({node.dataset for node in nodes})
    facts = StoredFacts(
        tx,
        tx.states(branch, names),
        tx.pinned_schemas(branch, sorted({node.dataset for node in sources})),
        tx.listings(node.listing for node in sources),
    )
    return review(before, after, facts)


def _in_question(some: Desired, other: Desired) -> Iterable[Node]:
    """Nodes that are others in `other`, and what they read."""
    touched = {dataset for dataset, node in some.nodes.items() if _is_other(node, other.nodes.get(dataset))}
    read: set[str] = set()
    for dataset in touched:
        node = some.nodes[dataset]
        if isinstance(node, Transform):
            read |= {slot.dataset for slot in node.slots}
        if isinstance(node, Sink):
            read.add(node.source)
    return [some.nodes[dataset] for dataset in touched | read if dataset in some.nodes]


def _is_other(node: Node, other: Node | None) -> bool:
    if other is None or isinstance(node, Sink) or isinstance(other, Sink):
        return node != other
    return node.lineage != other.lineage


# --- asking Spark ---------------------------------------------------------------------------------


def ask(ctx: Context, branch: str, wishes: Iterable[Wish]) -> tuple[bytes, ...]:
    """Queue the questions, as tasks that a run would ask as well; their keys."""
    asked: list[bytes] = []
    with ctx.store.begin(ctx.namespace) as tx:
        for wish in wishes:
            tx.put_job(wish.task.job, wish.job)
            tx.enqueue(branch, f"{wish.task.dataset}{DEMAND}", [wish.task])
            asked.append(wish.task.key)
    ctx.wake()
    return tuple(asked)


def is_answered(ctx: Context, asked: Iterable[bytes]) -> bool:
    """Each has an answer, or an error."""
    keys = set(asked)
    with ctx.store.read(ctx.namespace) as tx:
        left = keys - tx.memos(keys).keys()
        tasks = tx.tasks(left) if left else {}
    return all(key in tasks and tasks[key].state == "failed" for key in left)


def forget(ctx: Context, branch: str, datasets: Iterable[str]) -> None:
    """Nobody waits for them any more. Answers stay: a run asks the same questions."""
    with ctx.store.begin(ctx.namespace) as tx:
        for dataset in datasets:
            tx.drop_demands(branch, f"{dataset}{DEMAND}")
