"""Reading one tree: ranges, single keys, totals, and the digests of its nodes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from controlplane.core.tree.codec import Node
from controlplane.core.tree.tree_values import (
    EMPTY_ROOT,
    EMPTY_SUMMARY,
    Entry,
    NodeStore,
    Summary,
    Totals,
)
from controlplane.core.tree.walk import (
    WINDOW,
    NodeRef,
    all_children,
    child,
    leaves,
    load,
    load_root,
    root_ref,
    routed,
    touching,
)

AHEAD = 2048
"""Nodes that are read at a time where all are kept."""

MayHold: TypeAlias = Callable[[str, str], bool]
"""Whether a wanted key may lie between two texts, both included."""


def scan(
    nodes: NodeStore,
    root: bytes,
    start: str = "",
    stop: str | None = None,
    prefix: str = "",
    may_hold: MayHold | None = None,
) -> Iterator[Entry]:
    """The entries with start <= key < stop and this prefix, in key order. Nodes whose range of keys
    `may_hold` rules out are not read."""
    start, end = max(start, prefix), _least(stop, _after_prefix(prefix))

    def pick(ref: NodeRef, node: Node) -> Iterator[NodeRef]:
        for i in range(bisect_left(node.keys, start), _children_before(node, end)):
            below = child(ref, node, i)
            if may_hold is None or may_hold(below.low, below.last):
                yield below

    for _, leaf in leaves(nodes, root, pick, may_stop=True):
        last = len(leaf.keys) if end is None else bisect_left(leaf.keys, end)
        yield from leaf.columns.part(bisect_left(leaf.keys, start), last).entries()


def by_leaf(nodes: NodeStore, root: bytes) -> Iterator[tuple[bytes, tuple[Entry, ...]]]:
    """All entries in key order, leaf by leaf, with the digest of each leaf."""
    for _, leaf in leaves(nodes, root, all_children):
        yield leaf.digest, tuple(leaf.columns.entries())


def leaf_digests(nodes: NodeStore, root: bytes) -> Iterator[bytes]:
    """Digests of all leaves, in key order. Reads none of them, except for one that is the root."""
    for _, node in leaves(nodes, root, all_children, stop_level=1):
        yield from node.ids() if node.level else [node.digest]


def leaf_totals(nodes: NodeStore, root: bytes) -> Iterator[tuple[str, Totals]]:
    """The last key of each leaf, in order, and the leaf's totals. Reads no leaf, except for one
    that is the root."""
    for _, node in leaves(nodes, root, all_children, stop_level=1):
        if node.level:
            yield from ((last, node.row_totals(i)) for i, last in enumerate(node.keys))
        else:
            yield node.keys[-1], node.verify().totals


def lookup(nodes: NodeStore, root: bytes, keys: Iterable[str]) -> dict[str, Entry]:
    """The entries of the present keys."""
    in_order = sorted(set(keys))
    entries: dict[str, Entry] = {}
    if in_order:
        for ref, leaf in leaves(
            nodes, root, lambda ref, node: routed(ref, node, in_order, beyond=False)
        ):
            mine = in_order[bisect_left(in_order, ref.low) : bisect_right(in_order, leaf.keys[-1])]
            entries.update((key, leaf.columns.entry(i)) for key, i in _positions(leaf.keys, mine))
    return entries


def before(nodes: NodeStore, root: bytes, key: str) -> Entry | None:
    """The entry with the greatest key that is less than `key`."""
    return None if root == EMPTY_ROOT else _before(nodes, *load_root(nodes, root), key)


def last(nodes: NodeStore, root: bytes) -> Entry | None:
    """The entry with the greatest key."""
    if root == EMPTY_ROOT:
        return None
    ref, node = load_root(nodes, root)
    while node.level:
        ref = child(ref, node, len(node.keys) - 1)
        [node] = load(nodes, [ref])
    return node.columns.entry(len(node.keys) - 1)


def warm(nodes: NodeStore, paths: Iterable[tuple[bytes, Sequence[str]]]) -> None:
    """Read all nodes on the paths to these keys below these roots: level by level, over all trees
    at once.

    Through a cache that holds them, later reads and edits of these keys read nothing. No keys:
    the root only.
    """
    trees = [(root, touching(keys, keys)) for root, keys in paths if root != EMPTY_ROOT]
    refs = [root_ref(root, tree) for tree, (root, _) in enumerate(trees)]
    while refs:
        refs = [
            r
            for ref, node in _loaded(nodes, refs)
            if node.level
            for r in routed(ref, node, trees[ref.tree][1], beyond=True)
        ]


def heads(nodes: NodeStore, roots: Iterable[bytes], count: int) -> dict[bytes, list[Entry]]:
    """The first `count` entries of many trees, by root. Read level by level, over all trees at
    once."""
    trees = list(dict.fromkeys(roots))
    first: dict[bytes, list[Entry]] = {root: [] for root in trees}
    refs = [root_ref(root, tree) for tree, root in enumerate(trees) if root != EMPTY_ROOT]
    while refs:
        below: list[NodeRef] = []
        reached = Counter[int]()  # entries below the chosen children, by tree
        for ref, node in _loaded(nodes, refs):
            if not node.level:
                missing = count - len(first[trees[ref.tree]])
                first[trees[ref.tree]] += node.columns.part(0, missing).entries()
                continue
            for i in range(len(node.keys)):
                if reached[ref.tree] >= count:
                    break
                reached[ref.tree] += node.row_totals(i).partitions
                below.append(child(ref, node, i))
        refs = below
    return first


def _loaded(nodes: NodeStore, refs: Sequence[NodeRef]) -> Iterator[tuple[NodeRef, Node]]:
    """The nodes of one level, in batches."""
    for start in range(0, len(refs), AHEAD):
        batch = refs[start : start + AHEAD]
        yield from zip(batch, load(nodes, batch), strict=True)


def totals(nodes: NodeStore, root: bytes) -> Totals:
    """Reads one node."""
    summary = EMPTY_SUMMARY if root == EMPTY_ROOT else load_root(nodes, root)[1].verify()
    return summary.totals


def summaries(nodes: NodeStore, roots: Iterable[bytes]) -> dict[bytes, Summary]:
    """Totals and keys digests of many trees, by root. Reads their root nodes in batches."""
    by_root = {EMPTY_ROOT: EMPTY_SUMMARY}
    distinct = iter(dict.fromkeys(root for root in roots if root != EMPTY_ROOT))
    while window := list(islice(distinct, WINDOW)):
        loaded = load(nodes, [root_ref(root) for root in window])
        by_root.update((node.digest, node.verify()) for node in loaded)
    return by_root


def reachable(
    nodes: NodeStore, root: bytes, visited: Container[bytes] = frozenset()
) -> Iterator[bytes]:
    """The digests of all nodes of the tree, each once, a node after its ancestors; the empty tree
    has none.

    Leaves are not read. A node in `visited` is skipped, with all below it: so the nodes of many
    generations of one dataset cost no more than the differing ones.
    """
    if root == EMPTY_ROOT or root in visited:
        return
    ref, top = load_root(nodes, root)
    yield root
    yield from _descendants(nodes, iter([(ref, top)]), top.level, visited)


def _descendants(
    nodes: NodeStore, above: Iterator[tuple[NodeRef, Node]], level: int, visited: Container[bytes]
) -> Iterator[bytes]:
    """Digests below nodes of one level. Depth first by windows, so that memory stays bounded."""
    if level == 0:
        return
    below = (r for ref, node in above for r in all_children(ref, node) if r.digest not in visited)
    while window := list(islice(below, WINDOW)):
        yield from (ref.digest for ref in window)
        if level > 1:
            loaded = zip(window, load(nodes, window), strict=True)
            yield from _descendants(nodes, loaded, level - 1, visited)


def _before(nodes: NodeStore, ref: NodeRef, node: Node, key: str) -> Entry | None:
    at = bisect_left(node.keys, key)
    if not node.level:
        return node.columns.entry(at - 1) if at else None
    # The first may hold no key that is less
    for i in (i for i in (at, at - 1) if 0 <= i < len(node.keys)):
        below = child(ref, node, i)
        [below_node] = load(nodes, [below])
        if entry := _before(nodes, below, below_node, key):
            return entry
    return None


def _positions(keys: Sequence[str], searched: Iterable[str]) -> Iterator[tuple[str, int]]:
    for key in searched:
        i = bisect_left(keys, key)
        if keys[i] == key:
            yield key, i


def _children_before(node: Node, end: str | None) -> int:
    return len(node.keys) if end is None else min(bisect_left(node.keys, end) + 1, len(node.keys))


def _least(a: str | None, b: str | None) -> str | None:
    return min(a, b) if a is not None and b is not None else a if b is None else b


def _after_prefix(prefix: str) -> str | None:
    """The least text greater than every text with this prefix; None if there is none."""
    head = prefix.rstrip("\U0010ffff")
    if not head:
        return None
    following = ord(head[-1]) + 1
    return head[:-1] + chr(0xE000 if following == 0xD800 else following)
