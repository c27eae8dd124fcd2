"""Which partitions a piece of work is about: listed one by one, or as the keys that one tree has
and another lacks.

So a million partitions are described in O(1), and enumerated only where they are shown. Pure
values.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby

from controlplane.core import tree
from controlplane.core.tree import NodeStore


@dataclass(frozen=True, slots=True)
class Keys:
    """`listed`, and the keys of each tree `root` that `have` lacks. `count` is exact, or an upper
    bound.

    `trees` are known by the digests of their keys, so that equal sets of keys are one, whatever
    they hold.
    """

    listed: tuple[str, ...] = ()
    # -> (wanted, have)
    trees: Mapping[tuple[bytes, bytes], tuple[bytes, bytes]] = field(default_factory=dict)
    count: int = 0

    @property
    def name(self) -> object:
        """Equal for equal sets of keys in the same form."""
        return self.listed, tuple(sorted(self.trees))

    def read(self, nodes: NodeStore, start: str = "") -> Iterator[str]:
        """In order, each once; those that are not less than `start`."""
        several = [_missing_keys(nodes, root, have, start) for root, have in self.trees.values()]
        for key, _ in groupby(merge(self.listed[bisect_left(self.listed, start) :], *several)):
            yield key


def _missing_keys(nodes: NodeStore, root: bytes, have: bytes, start: str) -> Iterator[str]:
    if have == tree.EMPTY_ROOT:
        for entry in tree.scan(nodes, root, start=start):
            yield entry.key
        return
    for change in tree.diff_keys(nodes, have, root, start=start):
        if change.after:
            yield change.key


def listed(keys: Iterable[str]) -> Keys:
    """A value of sorted keys."""
    names = tuple(keys)
    return Keys(names, {}, len(names))


def lacking(nodes: NodeStore, root: bytes, have: bytes = tree.EMPTY_ROOT) -> Keys:
    """The keys of `root` that `have` lacks; it has no others. Reads both roots."""
    summaries = tree.summaries(nodes, (root, have))
    ours, theirs = summaries[root], summaries[have]
    count = ours.totals.partitions - theirs.totals.partitions
    if count <= 0:
        return Keys()
    return Keys((), {(ours.keys, theirs.keys): (root, have)}, count)


def union(parts: Iterable[Keys]) -> Keys:
    """All of them. Exact where at most one is not listed."""
    several = [part for part in parts if part.count]
    if len(several) == 1:
        return several[0]
    names: set[str] = set()
    trees: dict[tuple[bytes, bytes], tuple[bytes, bytes]] = {}
    counts: dict[object, int] = {}  # of equal trees once
    for part in several:
        names.update(part.listed)
        trees.update(part.trees)
        if part.trees:
            counts[tuple(part.trees)] = part.count - len(part.listed)
    return Keys(tuple(sorted(names)), trees, len(names) + sum(counts.values()))


def minus(part: Keys, other: Keys) -> Keys:
    """The keys that are in `part` alone. Exact where all are listed, or both speak of the same
    trees."""
    other_keys = set(other.listed)
    names = tuple(key for key in part.listed if key not in other_keys)
    trees = {id: pair for id, pair in part.trees.items() if id not in other.trees}
    count = len(names)
    if trees:
        count += part.count - len(part.listed)
    return Keys(names, trees, count)
