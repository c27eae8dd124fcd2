"""Walk pairs of trees down together, level by level, and pass over every node that both of a pair
have.

Many pairs are walked at once, so that a thousand small differences cost a few batches of reads. The
walk streams: at each level a window of nodes is read at a time, in key order, and what belongs to
later keys waits. A node that both trees have may still be read where its like comes much later on
the other side; that costs time only.

A `Rule` decides when two nodes are equal, and which changes the rows of differing leaves give.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import chain, islice
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

from controlplane.core.tree.codec import NO_ROWS, Node, NodeColumns, join
from controlplane.core.tree.tree_values import EMPTY_ROOT, NodeStore
from controlplane.core.tree.walk import NodeRef, child, load, of_root, root_ref

Place = tuple[int, str]  # a tree and a key
# Some nodes to compare, and the place below which no more will come
Batch = tuple[Sequence[NodeRef], Place]
Rows = tuple[NodeColumns, NodeColumns]  # of leaves, old and new
Pair = tuple[bytes, bytes]  # of roots, old and new

_END: Place = (1 << 62, "")


class Keyed(Protocol):
    @property
    def key(self) -> str: ...


T = TypeVar("T")
C = TypeVar("C", bound=Keyed)


@dataclass(frozen=True, slots=True)
class Rule(Generic[C]):
    """Two nodes are equal if they have the same name. Equal nodes are at the same place of both
    trees or of none."""

    name: Callable[[NodeRef], bytes]
    names: Callable[[Node], Iterable[bytes]]  # of a node's children
    rows: Callable[[Node], NodeColumns]  # what of a leaf is compared
    # What differs between old and new rows, in key order
    merged: Callable[[NodeColumns, NodeColumns], Iterator[C]]
    # The same, of rows with the same keys
    replaced: Callable[[NodeColumns, NodeColumns], Iterator[C]]


def compare(
    nodes: NodeStore, pairs: Iterable[Pair], rule: Rule[C], *, window: int, start: str = ""
) -> Iterator[tuple[int, C]]:
    """What differs in each pair of roots with the pair's number, from 0; pairs and keys in order.

    Nodes all of whose keys are less than `start` are passed over too; single keys are not.
    """
    unequal = ((tree, pair) for tree, pair in enumerate(pairs) if pair[0] != pair[1])
    while chunk := list(islice(unequal, window)):
        yield from _compare(nodes, chunk, rule, window, start)


def _compare(
    nodes: NodeStore, pairs: Sequence[tuple[int, Pair]], rule: Rule[C], window: int, start: str
) -> Iterator[tuple[int, C]]:
    sides = ((root, tree, side) for tree, pair in pairs for side, root in enumerate(pair))
    refs = [root_ref(root, tree, side) for root, tree, side in sides if root != EMPTY_ROOT]
    loaded = load(nodes, refs)
    roots = {node.digest: node for node in loaded}
    tops = _unshared((), map(of_root, refs, loaded), rule, start)
    walk: Iterator[Batch] = iter(())
    for level in range(max((ref.level for ref in tops), default=0), -1, -1):
        below = _unequal(
            nodes, walk, [ref for ref in tops if ref.level == level], roots, rule, start
        )
        walk = _windows(below, window)
    return _changes(nodes, walk, roots, rule)


def _unequal(
    nodes: NodeStore,
    above: Iterator[Batch],
    tops: Sequence[NodeRef],
    roots: Mapping[bytes, Node],
    rule: Rule[C],
    start: str,
) -> Iterator[Batch]:
    """The nodes of one level that only one side has: children of what differs above, and roots of
    this level."""
    waiting: Sequence[NodeRef] = tops
    for refs, place in above:
        waiting = _unshared(zip(refs, _load(nodes, refs, roots), strict=True), waiting, rule, start)
        ready = bisect_left(waiting, place, key=_place)
        yield waiting[:ready], place
        waiting = waiting[ready:]
    yield waiting, _END


def _unshared(
    parents: Iterable[tuple[NodeRef, Node]], waiting: Iterable[NodeRef], rule: Rule[C], start: str
) -> list[NodeRef]:
    """The children of the parents, and the refs that wait, that their tree has on one side only, in
    order."""
    above, beside = _by_tree(parents, lambda pair: pair[0]), _by_tree(waiting, lambda ref: ref)
    refs: list[NodeRef] = []
    for tree in above.keys() | beside.keys():
        sides: tuple[set[bytes], set[bytes]] = (set(), set())
        for ref, node in above.get(tree, ()):
            sides[ref.side].update(rule.names(node))
        for ref in beside.get(tree, ()):
            sides[ref.side].add(rule.name(ref))
        shared = sides[0] & sides[1]
        refs += (ref for ref in beside.get(tree, ()) if rule.name(ref) not in shared)
        for ref, node in above.get(tree, ()):
            unequal = (i for i, name in enumerate(rule.names(node)) if name not in shared)
            refs += (child(ref, node, i) for i in unequal if node.keys[i] >= start)
    return sorted(refs)


def _changes(
    nodes: NodeStore, above: Iterator[Batch], roots: Mapping[bytes, Node], rule: Rule[C]
) -> Iterator[tuple[int, C]]:
    carried: dict[int, Rows] = {}
    for refs, place in above:
        leaves = list(zip(refs, _load(nodes, refs, roots), strict=True))
        groups: dict[int, list[tuple[NodeRef, Node]]] = {tree: [] for tree in carried}
        groups |= _by_tree(leaves, lambda pair: pair[0])
        for tree, group in groups.items():
            limit = place[1] if tree == place[0] else None
            changes, rest = _settle(group, carried.pop(tree, (NO_ROWS, NO_ROWS)), limit, rule)
            yield from ((tree, change) for change in changes)
            if rest[0].keys or rest[1].keys:
                carried[tree] = rest
    for tree, (old, new) in carried.items():
        yield from ((tree, change) for change in rule.merged(old, new))


def _settle(
    leaves: Sequence[tuple[NodeRef, Node]], carried: Rows, limit: str | None, rule: Rule[C]
) -> tuple[Iterator[C], Rows]:
    """The differences below `limit` in order, and the rows from there on, for later. Most leaves
    differ in no key."""
    olds = {node.keys_digest: rule.rows(node) for ref, node in leaves if ref.side == 0}
    twins: list[Rows] = []
    news: list[NodeColumns] = []
    for node in (node for ref, node in leaves if ref.side == 1):
        old = olds.get(node.keys_digest)
        if old and old.keys == node.keys:
            twins.append((olds.pop(node.keys_digest), rule.rows(node)))
        else:
            news.append(rule.rows(node))
    old, old_rest = _split(join([carried[0], *olds.values()]), limit)
    new, new_rest = _split(join([carried[1], *news]), limit)
    replaced = chain.from_iterable(rule.replaced(*rows) for rows in twins)
    return merge(replaced, rule.merged(old, new), key=_key), (old_rest, new_rest)


def _split(rows: NodeColumns, limit: str | None) -> tuple[NodeColumns, NodeColumns]:
    at = len(rows.keys) if limit is None else bisect_left(rows.keys, limit)
    return rows.part(0, at), rows.part(at, len(rows.keys))


def _windows(batches: Iterator[Batch], window: int) -> Iterator[Batch]:
    """At most `window` refs at a time, or one more so as not to part an old and a new node of one
    place."""
    for refs, place in batches:
        at = 0
        while at < len(refs):
            stop = at + window
            if stop < len(refs) and _place(refs[stop]) == _place(refs[stop - 1]):
                stop += 1
            yield refs[at:stop], _place(refs[stop]) if stop < len(refs) else place
            at = stop


def _load(nodes: NodeStore, refs: Sequence[NodeRef], roots: Mapping[bytes, Node]) -> list[Node]:
    fresh = iter(load(nodes, [ref for ref in refs if ref.digest not in roots]))
    return [roots.get(ref.digest) or next(fresh) for ref in refs]


def _by_tree(items: Iterable[T], ref_of: Callable[[T], NodeRef]) -> dict[int, list[T]]:
    groups: dict[int, list[T]] = {}
    for item in items:
        groups.setdefault(ref_of(item).tree, []).append(item)
    return groups


def _place(ref: NodeRef) -> Place:
    return ref.tree, ref.low


_key = attrgetter("key")
