"""Nodes in a dictionary: the store's twin for tests, simulations and trees that are thrown away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class MemoryNodes:
    """A NodeStore that counts: `reads` nodes fetched in `calls` of get_nodes, `writes` nodes put."""

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
