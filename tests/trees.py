"""Tools for tests of partition trees: nodes in a dictionary, the digest of keys, and a full check
of one tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controlplane.core.errors import CorruptNode
from controlplane.core.tree import NodeStore, audit, summaries


class MemoryNodes:
    """A NodeStore that counts: `reads` nodes fetched in `calls` of get_nodes, `writes` nodes
    put."""

    def __init__(self) -> None:
        self.blobs: dict[bytes, bytes] = {}
        self.reads = self.calls = self.writes = 0

    def get_nodes(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        present = {digest: self.blobs[digest] for digest in digests if digest in self.blobs}
        self.calls += 1
        self.reads += len(present)
        return present

    def put_nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        self.blobs.update(nodes)
        self.writes += len(nodes)

    def reset(self) -> None:
        """Start counting again."""
        self.reads = self.calls = self.writes = 0


def keys_digest(nodes: NodeStore, root: bytes) -> bytes:
    """A digest that two maps share iff they have the same keys. Reads one node."""
    return summaries(nodes, [root])[root].keys


def verify(nodes: NodeStore, root: bytes) -> None:
    """Checks all nodes of the tree. Raises CorruptNode for the first wrong node."""
    for part in audit(nodes, root, set()):
        if isinstance(part, CorruptNode):
            raise part
