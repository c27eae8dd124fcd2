"""Walking down a tree: references from parents to children, read in batches and checked against
each other.

What all readers share. Which children to follow is theirs to say.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from typing import NamedTuple

from controlplane.core.tree.codec import ID, Node, corrupt
from controlplane.core.tree.node_cache import fetch
from controlplane.core.tree.shape import boundaries, height
from controlplane.core.tree.tree_values import EMPTY_ROOT, NodeStore

WINDOW = 512
"""Nodes read at a time: some 30 MB as bytes."""

UNKNOWN = -1


class NodeRef(NamedTuple):
    """A node that is to be read. Refs order by tree and key, old before new."""

    tree: int  # which of several trees that are walked together
    low: str  # no key below it is less
    side: int  # 0 old, 1 new, where two trees are compared
    digest: bytes
    level: int  # UNKNOWN of a root, as are the next two
    last: str
    summary: bytes
    is_edge: bool  # the last node of its level

    @property
    def keys_digest(self) -> bytes:
        return self.summary[:ID]


def root_ref(digest: bytes, tree: int = 0, side: int = 0) -> NodeRef:
    return NodeRef(tree, "", side, digest, UNKNOWN, "", b"", is_edge=True)


def of_root(ref: NodeRef, node: Node) -> NodeRef:
    """The ref of a root once its node is known."""
    return ref._replace(level=node.level, last=node.keys[-1], summary=node.summary)


def child(ref: NodeRef, node: Node, i: int) -> NodeRef:
    low = after(node.keys[i - 1]) if i else ref.low
    is_edge = ref.is_edge and i == len(node.keys) - 1
    return NodeRef(
        ref.tree,
        low,
        ref.side,
        node.id(i),
        node.level - 1,
        node.keys[i],
        node.row_summary(i),
        is_edge,
    )


def after(key: str) -> str:
    """The least text greater than `key`."""
    return key + "\0"


def load(nodes: NodeStore, refs: Sequence[NodeRef]) -> list[Node]:
    """The nodes of these refs, in one call. Raises CorruptNode."""
    by_digest = fetch(nodes, list(dict.fromkeys(ref.digest for ref in refs))) if refs else {}
    for ref in refs:
        if ref.digest not in by_digest:
            raise corrupt(ref.digest, "it is missing")
        _check(ref, by_digest[ref.digest])
    return [by_digest[ref.digest] for ref in refs]


def load_root(nodes: NodeStore, root: bytes) -> tuple[NodeRef, Node]:
    """The root's node, not for the empty root."""
    ref = root_ref(root)
    [node] = load(nodes, [ref])
    return of_root(ref, node), node


def _check(ref: NodeRef, node: Node) -> None:
    """A child must be what its parent says, and end where the shape of the tree says."""
    if ref.level == UNKNOWN:
        return
    if (node.level, node.keys[-1], node.summary) != (ref.level, ref.last, ref.summary) or node.keys[
        0
    ] < ref.low:
        raise corrupt(node.digest, "it is not what its parent says")
    if not ref.is_edge and height(ref.last) <= ref.level:
        raise corrupt(node.digest, "no node ends at its last key")


def touching(keys: Sequence[str], removed: Sequence[str]) -> list[str]:
    """The keys that lead to all nodes that change with these: where a boundary goes, the node after
    it does too."""
    return sorted({*keys, *(after(removed[i]) for i in boundaries(removed))})


Pick = Callable[[NodeRef, Node], Iterable[NodeRef]]
"""The children to follow from an inner node, in key order."""


def leaves(
    nodes: NodeStore, root: bytes, pick: Pick, stop_level: int = 0, *, may_stop: bool = False
) -> Iterator[tuple[NodeRef, Node]]:
    """The leaves (or nodes of `stop_level`) reached through `pick`, in key order, at most WINDOW
    per level at a time.

    Batches start small, so that a reader who stops early costs little. `may_stop`: they start
    small on each level, at the cost of two calls more per level.
    """
    if root == EMPTY_ROOT:
        return
    ref, node = load_root(nodes, root)
    level: Iterator[tuple[NodeRef, Node]] = iter([(ref, node)])
    sizes = _batch_sizes()
    for _ in range(node.level - stop_level):
        level = _below(nodes, level, pick, _batch_sizes() if may_stop else sizes)
    yield from level


def _batch_sizes() -> Iterator[int]:
    return chain((8, 64), repeat(WINDOW))


def _below(
    nodes: NodeStore, above: Iterator[tuple[NodeRef, Node]], pick: Pick, sizes: Iterator[int]
) -> Iterator[tuple[NodeRef, Node]]:
    refs = chain.from_iterable(pick(ref, node) for ref, node in above)
    while window := list(islice(refs, next(sizes))):
        yield from zip(window, load(nodes, window), strict=True)


def all_children(ref: NodeRef, node: Node) -> Iterator[NodeRef]:
    return (child(ref, node, i) for i in range(len(node.keys)))


def routed(ref: NodeRef, node: Node, keys: Sequence[str], *, beyond: bool) -> Iterator[NodeRef]:
    """The children that hold, or would hold, any of the sorted `keys`.

    `beyond`: keys greater than all in the tree lead to its last nodes; else nowhere.
    """
    at = bisect_left(keys, ref.low)
    stop = len(keys) if beyond and ref.is_edge else bisect_right(keys, ref.last)
    while at < stop:
        i = min(bisect_left(node.keys, keys[at]), len(node.keys) - 1)
        yield child(ref, node, i)
        at = stop if i == len(node.keys) - 1 else bisect_right(keys, node.keys[i], at, stop)
