"""Edit a tree: read the nodes that changes touch, cut their rows again, and carry the differences
up to a root.

One rule serves all levels: a level is an ordered map from a node's last key to the node, and the
edit of one level yields the changes of the next. Only where the key at which a node ended is
removed, its neighbour is touched too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter

from controlplane.core.tree.build import build
from controlplane.core.tree.codec import Node, NodeColumns, Row, join, leaf_row, lone_child
from controlplane.core.tree.shape import height
from controlplane.core.tree.tree_values import EMPTY_ROOT, Entry, NodeStore
from controlplane.core.tree.tree_writer import NodeRun, Tower, Writer
from controlplane.core.tree.walk import WINDOW, NodeRef, load, load_root, routed, touching

PASS = 50_000
"""Changes per pass: a pass holds the inner nodes that its changes touch."""

RowChange = tuple[str, Row | None]
Loaded = Iterable[tuple[NodeRef, Node]]


def edit(nodes: NodeStore, root: bytes, changes: Iterable[tuple[str, Entry | None]]) -> bytes:
    """The root of the map with these changes: an entry is added or replaces the key's entry, None
    removes the key.

    Equal to the root that `build` gives for the resulting map. Raises ValueError unless keys
    strictly ascend and each entry has its key.
    """
    source = _checked(changes)
    while root != EMPTY_ROOT and (window := list(islice(source, PASS))):
        root = _edit(nodes, root, window)
    return (
        root
        if root != EMPTY_ROOT
        else build(nodes, (entry for _, entry in source if entry is not None))
    )


def _checked(changes: Iterable[tuple[str, Entry | None]]) -> Iterator[tuple[str, Entry | None]]:
    last = None
    for key, entry in changes:
        if last is not None and last >= key:
            raise ValueError("the keys of changes must strictly ascend")
        if entry is not None and entry.key != key:
            raise ValueError("a change's entry must have its key")
        yield key, entry
        last = key


def _edit(nodes: NodeStore, root: bytes, changes: Sequence[tuple[str, Entry | None]]) -> bytes:
    writer = Writer(nodes)
    removed = [key for key, entry in changes if entry is None]
    levels = _touched(nodes, root, touching([key for key, _ in changes], removed))
    rows: list[RowChange] = [
        (key, None if entry is None else leaf_row(entry)) for key, entry in changes
    ]
    for level, loaded in enumerate(reversed(levels)):
        rows = _recut(level, loaded, rows, writer)
    if rows:
        [(ref, _)] = levels[0]
        root = _top(nodes, ref, dict(rows), writer)
        writer.flush()
    return root


def _touched(nodes: NodeStore, root: bytes, keys: Sequence[str]) -> list[Loaded]:
    """The nodes on the paths to these keys by level, from the root to the leaves, which are read
    when iterated."""
    levels: list[Loaded] = [[load_root(nodes, root)]]
    [(_, top)] = levels[0]
    for level in range(top.level, 0, -1):
        refs = [below for ref, node in levels[-1] for below in routed(ref, node, keys, beyond=True)]
        levels.append(_windows(nodes, refs) if level == 1 else list(_windows(nodes, refs)))
    return levels


def _windows(nodes: NodeStore, refs: Sequence[NodeRef]) -> Iterator[tuple[NodeRef, Node]]:
    for i in range(0, len(refs), WINDOW):
        window = refs[i : i + WINDOW]
        yield from zip(window, load(nodes, window), strict=True)


def _recut(
    level: int, touched: Loaded, changes: Sequence[RowChange], writer: Writer
) -> list[RowChange]:
    """Apply changes to the rows of a level's touched nodes; what this changes in the rows of the
    level above."""
    run, at = NodeRun(level, writer), 0
    before: dict[str, bytes] = {}
    after: dict[str, Row | None] = {}
    for ref, node in touched:
        stop = len(changes) if ref.is_edge else bisect_right(changes, ref.last, at, key=_key)
        before[ref.last], after[ref.last] = node.digest, None
        after.update(run.add(*_splice(node, changes[at:stop])))
        at = stop
    after.update(run.close())
    return [
        (key, row)
        for key, row in sorted(after.items(), key=_key)
        if row is None or row.id != before.get(key)
    ]


def _splice(node: Node, changes: Sequence[RowChange]) -> tuple[NodeColumns, list[int]]:
    """The node's rows with the changes, and the positions of the rows after which a node of its
    level ends.

    Among the keys that stay, only the last can be one at which a node ends.
    """
    keys, final = node.keys, len(node.keys) - 1
    parts: list[NodeColumns] = []
    ends: list[tuple[int, str]] = []
    at = size = 0
    for key, row in (*changes, (None, None)):
        i = len(keys) if key is None else bisect_left(keys, key, at)
        if i > at:
            parts.append(node.columns.part(at, i))
            size += i - at
            ends += [(size - 1, keys[final])] if i > final else []
        at = i + (i <= final and keys[i] == key)
        if key is not None and row is not None:
            parts.append(NodeColumns((key,), *row))
            size += 1
            ends += [(size - 1, key)] if at > final or at == i else []
    return join(parts), [position for position, key in ends if height(key) > node.level]


def _top(nodes: NodeStore, old: NodeRef, changes: dict[str, Row | None], writer: Writer) -> bytes:
    """The root above what the old root became: of one node, of several, or of the only child of
    one."""
    rows = {old.last: Row(old.digest, old.summary)} | changes
    tower = Tower(old.level, writer)
    for key, row in sorted(rows.items(), key=_key):
        if row is not None:
            tower.add(key, row)
    root = tower.root()
    while root != EMPTY_ROOT and (alone := _lone_child(nodes, root, writer)):
        writer.discard([root])
        root = alone
    return root


def _lone_child(nodes: NodeStore, root: bytes, writer: Writer) -> bytes | None:
    if root in writer.buffer:
        return lone_child(writer.buffer[root])
    _, node = load_root(nodes, root)
    return node.id(0) if node.level and len(node.keys) == 1 else None


_key = itemgetter(0)
