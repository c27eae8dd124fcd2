"""Tree nodes that are counted as they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.core.tree import NodeStore


@dataclass(slots=True)
class CountedNodes:
    """Nodes that are only read, and how many were."""

    nodes: NodeStore
    reads: int = 0

    def get_nodes(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        read_nodes = self.nodes.get_nodes(digests)
        self.reads += len(read_nodes)
        return read_nodes

    def put_nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        self.nodes.put_nodes(nodes)
