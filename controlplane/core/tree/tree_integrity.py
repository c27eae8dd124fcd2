"""Going through many trees that share nodes, each node once: telling which there are, and checking
them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from controlplane.core.errors import CorruptNode
from controlplane.core.tree.codec import Node, corrupt, row_ids
from controlplane.core.tree.shape import height
from controlplane.core.tree.tree_values import EMPTY_ROOT, Entry, NodeStore
from controlplane.core.tree.walk import UNKNOWN, WINDOW, NodeRef, all_children, load, root_ref

Found: TypeAlias = tuple[Entry, ...] | CorruptNode


def spread(nodes: NodeStore, roots: Iterable[bytes], digests: set[bytes]) -> None:
    """Add the digests of all nodes of these trees to `digests`. A node in `digests` has all nodes
    below it there, too.

    Reads the roots and the inner nodes that are not there, of many trees at a time. Raises
    CorruptNode, and leaves `digests` half done then.
    """
    _spread(nodes, (root for root in roots if root != EMPTY_ROOT), digests)


def _spread(nodes: NodeStore, digests: Iterable[bytes], collected: set[bytes]) -> None:
    """Adds the digests of nodes that may be inner ones, and of those below. Depth first by windows,
    so that memory stays bounded."""
    fresh = (digest for digest in digests if digest not in collected)
    while window := set(islice(fresh, WINDOW)):
        blobs = nodes.get_nodes(list(window))
        collected |= window
        inner: list[bytes] = []
        for digest in window:
            if digest not in blobs:
                raise corrupt(digest, "it is missing")
            level, ids = row_ids(digest, blobs[digest])
            if level == 1:
                collected.update(ids)
            elif level:
                inner += ids
        del blobs
        _spread(nodes, inner, collected)


def audit(nodes: NodeStore, root: bytes, identities: set[int]) -> Iterator[Found]:
    """Check all nodes of the tree but those in `identities`, and add them to `identities`.

    Yields the entries of each leaf, and each wrong node as the error that it is; below one nothing
    is read. `identities` is to be passed from tree to tree; it grows by a number for each node.
    """
    if root != EMPTY_ROOT:
        yield from _audit(nodes, [root_ref(root)], identities)


def _audit(nodes: NodeStore, refs: Iterable[NodeRef], identities: set[int]) -> Iterator[Found]:
    """Depth first, so that memory holds one window for each level."""
    fresh = (ref for ref in refs if _identity(ref) not in identities)
    while window := list(islice(fresh, WINDOW)):
        identities.update(map(_identity, window))
        for ref, node in zip(window, _loaded(nodes, window), strict=True):
            wrong = node if isinstance(node, CorruptNode) else _wrong(ref, node)
            if wrong is not None:
                yield wrong
            elif isinstance(node, Node) and node.level:
                yield from _audit(nodes, all_children(ref, node), identities)
            elif isinstance(node, Node):
                yield tuple(node.columns.entries())


def _identity(ref: NodeRef) -> int:
    """Hash of a node and of all fields that its parent has about it."""
    return hash((ref.digest, ref.level, ref.last, ref.summary))


def _loaded(nodes: NodeStore, refs: Sequence[NodeRef]) -> list[Node | CorruptNode]:
    """All in one call; one by one where something is wrong."""
    try:
        return list(load(nodes, refs))
    except CorruptNode as error:
        return (
            [error] if len(refs) == 1 else [node for ref in refs for node in _loaded(nodes, [ref])]
        )


def _wrong(ref: NodeRef, node: Node) -> CorruptNode | None:
    if ref.level == UNKNOWN and node.level and len(node.keys) == 1:
        return corrupt(node.digest, "a root has more than one child")
    try:
        node.verify()
        _verify_shape(ref, node)
    except CorruptNode as error:
        return error
    return None


def _verify_shape(ref: NodeRef, node: Node) -> None:
    heights = list(map(height, node.keys))
    if any(h > node.level for h in heights[:-1]):
        raise corrupt(node.digest, "it goes on where a node must end")
    if any(h < node.level for h in heights[:-1]) or (not ref.is_edge and heights[-1] <= node.level):
        raise corrupt(node.digest, "a node ends where none must")
