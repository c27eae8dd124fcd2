"""Compare trees: walk two of them down together, level by level, and pass over every node that both have.

Many pairs of trees are compared in one walk, so that a thousand small differences cost a few batches of reads. The
walk streams: at each level a window of nodes is read at a time, in key order, and what belongs to later keys waits.
A node that both trees have may still be read where its like comes much later on the other side; that costs time only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain, islice
from typing import TypeVar

from controlplane.core.tree.codec import NO_ROWS, Columns, Node, join
from controlplane.core.tree.values import EMPTY_ROOT, Change, NodeStore
from controlplane.core.tree.walk import WINDOW, Ref, child, load, root_ref

Place = tuple[int, str]  # a tree and a key
Batch = tuple[Sequence[Ref], Place]  # some nodes to compare, and the place below which no more will come
Rows = tuple[Columns, Columns]  # of leaves, old and new

T = TypeVar("T")

_BLOCK = 32
_END: Place = (1 << 62, "")


def diff(nodes: NodeStore, old: bytes, new: bytes, *, window: int = WINDOW) -> Iterator[Change]:
    """The keys whose entries differ, in order. At most about `window` nodes per level are held at a time."""
    return (change for _, change in diff_many(nodes, [(old, new)], window=window))


def diff_many(
    nodes: NodeStore, pairs: Iterable[tuple[bytes, bytes]], *, window: int = WINDOW
) -> Iterator[tuple[int, Change]]:
    """The changes of each pair (old, new) of roots with the pair's number, from 0; pairs and keys in order."""
    unequal = ((tree, pair) for tree, pair in enumerate(pairs) if pair[0] != pair[1])
    while chunk := list(islice(unequal, window)):
        yield from _compare(nodes, chunk, window)


def _compare(
    nodes: NodeStore, pairs: Sequence[tuple[int, tuple[bytes, bytes]]], window: int
) -> Iterator[tuple[int, Change]]:
    sides = ((root, tree, side) for tree, pair in pairs for side, root in enumerate(pair))
    refs = [root_ref(root, tree, side) for root, tree, side in sides if root != EMPTY_ROOT]
    loaded = load(nodes, refs)
    roots = {node.digest: node for node in loaded}
    tops = [ref._replace(level=node.level, last=node.keys[-1]) for ref, node in zip(refs, loaded, strict=True)]
    walk: Iterator[Batch] = iter(())
    for level in range(max(node.level for node in loaded), -1, -1):
        walk = _windows(_unequal(nodes, walk, [ref for ref in tops if ref.level == level], roots), window)
    return _changes(nodes, walk, roots)


def _unequal(
    nodes: NodeStore, above: Iterator[Batch], tops: Sequence[Ref], roots: Mapping[bytes, Node]
) -> Iterator[Batch]:
    """The nodes of one level that only one side has: children of what differs above, and roots of this level."""
    waiting: Sequence[Ref] = tops
    for refs, place in above:
        waiting = _unshared(zip(refs, _load(nodes, refs, roots), strict=True), waiting)
        ready = bisect_left(waiting, place, key=_place)
        yield waiting[:ready], place
        waiting = waiting[ready:]
    yield waiting, _END


def _unshared(parents: Iterable[tuple[Ref, Node]], waiting: Sequence[Ref]) -> list[Ref]:
    """The children of the parents, and the refs that wait, that their tree has on one side only, in order."""
    above, beside = _by_tree(parents, lambda pair: pair[0]), _by_tree(waiting, lambda ref: ref)
    refs: list[Ref] = []
    for tree in above.keys() | beside.keys():
        sides: tuple[set[bytes], set[bytes]] = (set(), set())
        for ref, node in above.get(tree, ()):
            sides[ref.side].update(node.ids())
        for ref in beside.get(tree, ()):
            sides[ref.side].add(ref.digest)
        shared = sides[0] & sides[1]
        refs += (ref for ref in beside.get(tree, ()) if ref.digest not in shared)
        for ref, node in above.get(tree, ()):
            refs += (child(ref, node, i) for i, digest in enumerate(node.ids()) if digest not in shared)
    return sorted(refs)


def _changes(nodes: NodeStore, above: Iterator[Batch], roots: Mapping[bytes, Node]) -> Iterator[tuple[int, Change]]:
    carried: dict[int, Rows] = {}
    for refs, place in above:
        leaves = list(zip(refs, _load(nodes, refs, roots), strict=True))
        groups: dict[int, list[tuple[Ref, Node]]] = {tree: [] for tree in carried}
        groups |= _by_tree(leaves, lambda pair: pair[0])
        for tree, group in groups.items():
            limit = place[1] if tree == place[0] else None
            changes, rest = _settle(group, carried.pop(tree, (NO_ROWS, NO_ROWS)), limit)
            yield from ((tree, change) for change in changes)
            if rest[0].keys or rest[1].keys:
                carried[tree] = rest
    for tree, (old, new) in carried.items():
        yield from ((tree, change) for change in _merge(old, new))


def _settle(leaves: Sequence[tuple[Ref, Node]], carried: Rows, limit: str | None) -> tuple[Iterator[Change], Rows]:
    """The changes below `limit` in order, and the rows from there on, for later. Most leaves differ in no key."""
    olds = {node.keys_digest: node.columns for ref, node in leaves if ref.side == 0}
    twins: list[Rows] = []
    news: list[Columns] = []
    for node in (node for ref, node in leaves if ref.side == 1):
        old = olds.get(node.keys_digest)
        if old and old.keys == node.keys:
            twins.append((olds.pop(node.keys_digest), node.columns))
        else:
            news.append(node.columns)
    old, old_rest = _split(join([carried[0], *olds.values()]), limit)
    new, new_rest = _split(join([carried[1], *news]), limit)
    replaced = chain.from_iterable(_replacements(*rows) for rows in twins)
    return merge(replaced, _merge(old, new), key=_key), (old_rest, new_rest)


def _split(rows: Columns, limit: str | None) -> tuple[Columns, Columns]:
    at = len(rows.keys) if limit is None else bisect_left(rows.keys, limit)
    return rows.part(0, at), rows.part(at, len(rows.keys))


def _merge(old: Columns, new: Columns) -> Iterator[Change]:
    """The changes in order. Between two keys that one side lacks, both have the same keys."""
    if not (old.keys and new.keys):
        yield from (Change(entry.key, entry, None) for entry in old.entries())
        yield from (Change(entry.key, None, entry) for entry in new.entries())
        return
    i = j = 0
    for key, side, at in sorted([*_absent(0, old, new), *_absent(1, new, old)]):
        same = at - (j if side else i)
        if same:
            yield from _replacements(old.part(i, i + same), new.part(j, j + same))
        i, j = i + same, j + same
        if side:
            yield Change(key, None, new.entry(j))
        else:
            yield Change(key, old.entry(i), None)
        i, j = i + 1 - side, j + side
    yield from _replacements(old.part(i, len(old.keys)), new.part(j, len(new.keys)))


def _absent(side: int, rows: Columns, other: Columns) -> Iterator[tuple[str, int, int]]:
    """The keys that the other side lacks, with their positions."""
    keys = frozenset(other.keys)
    return ((key, side, i) for i, key in enumerate(rows.keys) if key not in keys)


def _replacements(old: Columns, new: Columns) -> Iterator[Change]:
    """The changes between rows that have the same keys. Blocks of rows are compared first."""
    for start in range(0, len(old.keys), _BLOCK):
        a, b = old.part(start, start + _BLOCK), new.part(start, start + _BLOCK)
        if a != b:
            pairs = zip(a.entries(), b.entries(), strict=True)
            yield from (Change(before.key, before, after) for before, after in pairs if before != after)


def _windows(batches: Iterator[Batch], window: int) -> Iterator[Batch]:
    """At most `window` refs at a time, or one more so as not to part an old and a new node of one place."""
    for refs, place in batches:
        at = 0
        while at < len(refs):
            stop = at + window
            if stop < len(refs) and _place(refs[stop]) == _place(refs[stop - 1]):
                stop += 1
            yield refs[at:stop], _place(refs[stop]) if stop < len(refs) else place
            at = stop


def _load(nodes: NodeStore, refs: Sequence[Ref], roots: Mapping[bytes, Node]) -> list[Node]:
    fresh = iter(load(nodes, [ref for ref in refs if ref.digest not in roots]))
    return [roots.get(ref.digest) or next(fresh) for ref in refs]


def _by_tree(items: Iterable[T], ref_of: Callable[[T], Ref]) -> dict[int, list[T]]:
    groups: dict[int, list[T]] = {}
    for item in items:
        groups.setdefault(ref_of(item).tree, []).append(item)
    return groups


def _place(ref: Ref) -> Place:
    return ref.tree, ref.low


def _key(change: Change) -> str:
    return change.key
