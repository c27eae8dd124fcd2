"""From rows to nodes: cutting runs into nodes, stacking levels up to a root, writing in batches.

The common part of building and editing. Nothing here reads a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from controlplane.core.tree.codec import Node, NodeColumns, Row, encode, join
from controlplane.core.tree.node_cache import put
from controlplane.core.tree.shape import height
from controlplane.core.tree.tree_values import EMPTY_ROOT, NodeStore

BATCH = 256


class Writer:
    """Buffers nodes and puts them in batches."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes
        self._decoded: dict[bytes, Node] = {}
        self.buffer: dict[bytes, bytes] = {}

    def put(self, level: int, columns: NodeColumns) -> Row:
        row, blob = encode(level, columns)
        self.buffer[row.id] = blob
        self._decoded[row.id] = Node(row.id, level, columns, row.rest, len(blob))
        if len(self.buffer) >= BATCH:
            self.flush()
        return row

    def discard(self, digests: Iterable[bytes]) -> None:
        """These turned out not to belong to the tree. Those that are put already are harmless, and
        never reachable."""
        for digest in digests:
            self.buffer.pop(digest, None)
            self._decoded.pop(digest, None)

    def flush(self) -> None:
        if self.buffer:
            put(self._nodes, self.buffer, self._decoded.values())
            self.buffer, self._decoded = {}, {}


class NodeRun:
    """Consecutive rows of one level, given piece by piece and cut into nodes."""

    def __init__(self, level: int, writer: Writer) -> None:
        self._level, self._writer = level, writer
        self._open: list[NodeColumns] = []

    def add(self, columns: NodeColumns, cuts: Sequence[int]) -> Iterator[tuple[str, Row]]:
        """Nodes, with their last keys, that end within these rows: after the rows at the positions
        in `cuts`."""
        start = 0
        for cut in cuts:
            self._open.append(columns.part(start, cut + 1))
            yield from self.close()
            start = cut + 1
        if start < len(columns.keys):
            self._open.append(columns.part(start, len(columns.keys)) if start else columns)

    def close(self) -> Iterator[tuple[str, Row]]:
        """The node of the remaining rows, if there are any."""
        if self._open:
            columns = join(self._open)
            self._open = []
            yield columns.keys[-1], self._writer.put(self._level, columns)


class _TreeLevel:
    """Rows of one inner level: those that no node holds yet, how many there ever were, and the
    first."""

    def __init__(self) -> None:
        self.open: list[tuple[str, Row]] = []
        self.total = 0
        self.first = b""

    def add(self, key: str, row: Row) -> None:
        self.first = self.first or row.id
        self.total += 1
        self.open.append((key, row))

    def take(self) -> NodeColumns:
        keys, rows = zip(*self.open, strict=True)
        self.open = []
        return NodeColumns(
            keys, b"".join(row.id for row in rows), b"".join(row.rest for row in rows)
        )


class Tower:
    """Levels of inner nodes above given nodes, each cut into nodes by the shape of its keys."""

    def __init__(self, level: int, writer: Writer) -> None:
        self._base, self._writer = level + 1, writer  # `level` is that of the given nodes
        self._levels = [_TreeLevel()]

    def add(self, key: str, row: Row) -> None:
        """The next node, in key order: its last key and its row."""
        self._levels[0].add(key, row)
        for i in range(height(key) - self._base):
            if i + 1 == len(self._levels):
                self._levels.append(_TreeLevel())
            self._close(i)

    def root(self) -> bytes:
        """Close all levels. The root is the lowest node that is alone on its level."""
        for i, level in enumerate(self._levels):
            if level.total <= 1:
                self._writer.discard(above.first for above in self._levels[i + 1 :])
                return level.first or EMPTY_ROOT
            if i + 1 == len(self._levels):
                self._levels.append(_TreeLevel())
            self._close(i)
        raise AssertionError("a level above many nodes has one node in the end")

    def _close(self, i: int) -> None:
        level = self._levels[i]
        if level.open:
            key = level.open[-1][0]
            self._levels[i + 1].add(key, self._writer.put(self._base + i, level.take()))
