"""How much of each dataset is as it shall be, is to do, or failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controlplane.core import tree
from controlplane.core.compile.nodes import Sink
from controlplane.core.errors import CorruptNode
from controlplane.core.model.answers.explore import Share
from controlplane.core.model.states import State
from controlplane.core.model.tasks import TaskState
from controlplane.core.plan import Decision
from controlplane.core.tree.tree_values import EMPTY_SUMMARY
from controlplane.operations.planning.snapshot import StoreSnapshot


@dataclass(frozen=True, slots=True)
class DatasetTotals:
    """Totals of a dataset's newest state, or of a copy elsewhere."""

    generation: int
    partitions: int
    rows: int


@dataclass(frozen=True, slots=True)
class ShareFacts:
    """Facts about the chosen datasets: one statement for all tasks, and one for each 512 trees of
    datasets that are half-built, or whose copies have fallen behind."""

    facts: StoreSnapshot
    settled: frozenset[str]
    tasks: Mapping[str, Mapping[TaskState, int]]
    trees: Mapping[bytes, tree.Totals]

    @classmethod
    def of(cls, facts: StoreSnapshot, decisions: Iterable[Decision]) -> ShareFacts:
        chosen = list(decisions)
        names = [decision.dataset for decision in chosen]
        settled = frozenset(
            decision.dataset for decision in chosen if decision.status == "up_to_date"
        )
        halves = [half.root for name in names if (half := facts.building(name)) is not None]
        behind = [
            copy.root
            for name in names
            if name not in settled and (copy := facts.target(name)) is not None
        ]
        counts = facts.tx.queue.demand_counts(facts.branch)
        return cls(facts, settled, counts, _totals(facts, [*halves, *behind]))

    def totals(self, name: str) -> DatasetTotals:
        node = self.facts.desired.nodes[name]
        if node.is_copy:
            return self._of_copy(node)
        return _of_state(self.facts.state(name))

    def _of_copy(self, node: Sink) -> DatasetTotals:
        copy = self.facts.target(node.dataset)
        if copy is None:
            return DatasetTotals(0, 0, 0)
        if node.dataset in self.settled:
            return _of_state(self.facts.state(node.source))
        there = self.trees[copy.root]
        return DatasetTotals(copy.generation, there.partitions, there.content.rows)

    def share(self, decision: Decision) -> Share:
        """Partitions done, to do and failed. `done` counts those of a half-built state, or else
        those of the newest state that need no work."""
        name = decision.dataset
        planned = sum(
            item.count for item in decision.items if item.action not in ("remove", "check")
        )
        failed = self.tasks.get(name, {}).get("failed", 0)
        to_do = max(0, planned - failed)
        half = self.facts.building(name)
        if half is not None:
            return {"done": self.trees[half.root].partitions, "to_do": to_do, "failed": failed}
        return {
            "done": max(0, self.totals(name).partitions - to_do - failed),
            "to_do": to_do,
            "failed": failed,
        }


def _totals(facts: StoreSnapshot, roots: Sequence[bytes]) -> dict[bytes, tree.Totals]:
    """A damaged tree counts as empty, and hides no other."""
    try:
        return {
            root: summary.totals for root, summary in tree.summaries(facts.nodes, roots).items()
        }
    except CorruptNode:
        return {root: _totals_of_one(facts, root) for root in roots}


def _totals_of_one(facts: StoreSnapshot, root: bytes) -> tree.Totals:
    try:
        return tree.totals(facts.nodes, root)
    except CorruptNode:
        return EMPTY_SUMMARY.totals


def _of_state(state: State | None) -> DatasetTotals:
    return (
        DatasetTotals(0, 0, 0)
        if state is None
        else DatasetTotals(state.generation, state.partitions, state.rows)
    )


def added(shares: Iterable[Share]) -> Share:
    every = list(shares)
    return {
        "done": sum(share["done"] for share in every),
        "to_do": sum(share["to_do"] for share in every),
        "failed": sum(share["failed"] for share in every),
    }
