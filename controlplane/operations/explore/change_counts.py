"""How many partitions differ between two generations."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Final

from controlplane.core import tree
from controlplane.core.errors import CorruptNode
from controlplane.core.model.answers.datasets import ChangeKind, Changes
from controlplane.operations.explore.counted import CountedNodes

MOST_CHANGES: Final = 1_000  # of one generation that are counted
MOST_READS: Final = 2_000  # tree nodes, for one answer
# Of them at a time: where all has changed, so many have as many keys as are counted
WINDOW: Final = 4


@dataclass(slots=True)
class ChangeCounting:
    """Differences of some pairs of roots, as long as not too much was read for them."""

    nodes: CountedNodes
    most_reads: int = MOST_READS

    def between(self, before: bytes, after: bytes) -> Changes | None:
        """None where too much was read already, or a tree is damaged."""
        if self.nodes.reads >= self.most_reads:
            return None
        counts: dict[ChangeKind, int] = {"added": 0, "changed": 0, "removed": 0}
        try:
            for change in islice(
                tree.diff(self.nodes, before, after, window=WINDOW), MOST_CHANGES + 1
            ):
                counts[kind_of(change)] += 1
        except CorruptNode:
            return None
        return {
            "added": counts["added"],
            "changed": counts["changed"],
            "removed": counts["removed"],
            "is_all": sum(counts.values()) <= MOST_CHANGES,
        }


def kind_of(change: tree.EntryChange) -> ChangeKind:
    if change.before is None:
        return "added"
    return "removed" if change.after is None else "changed"
