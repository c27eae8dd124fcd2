"""Decoded nodes kept in memory, so that a node is read, hashed and parsed once, however often it is
walked over.

A node never changes, so nothing is ever invalidated: a dropped node is only read again. A cached
node may outlive the stored one, and is found through any store that the cache is laid over; so a
cache is for one set of trees.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from threading import Lock

from controlplane.core.tree.codec import Node, ParsedKeys, decode
from controlplane.core.tree.tree_values import NodeStore


class NodeCache:
    """The nodes used last, for any number of threads. Their bytes, encoded, are bounded; decoded
    they are about twice as large. `reads` counts the nodes that were requested from the stores
    below."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size_bytes = self.reads = 0
        self._nodes: OrderedDict[bytes, Node] = OrderedDict()
        self._lock = Lock()

    def over(self, nodes: NodeStore) -> CachedNodes:
        """These nodes, read and written through the cache. Nodes that it lacks are read in one call
        per batch."""
        return CachedNodes(self, nodes)

    def find(self, digests: Iterable[bytes]) -> dict[bytes, Node]:
        """Those of the nodes that are here, which are the last to be forgotten now."""
        with self._lock:
            present = {digest: self._nodes[digest] for digest in digests if digest in self._nodes}
            for digest in present:
                self._nodes.move_to_end(digest)
        return present

    def add(self, nodes: Iterable[Node], reads: int = 0) -> None:
        with self._lock:
            self.reads += reads
            for node in nodes:
                self._keep(node)

    def _keep(self, node: Node) -> None:
        if node.digest not in self._nodes:
            self.size_bytes += node.size_bytes
        self._nodes[node.digest] = node
        self._nodes.move_to_end(node.digest)
        while self.size_bytes > self.max_bytes:
            _, forgotten = self._nodes.popitem(last=False)
            self.size_bytes -= forgotten.size_bytes


class CachedNodes:
    """A NodeStore with a cache in front, which spares its readers the decoding."""

    def __init__(self, cache: NodeCache, below: NodeStore) -> None:
        self._cache, self._below = cache, below

    def get_decoded(self, digests: Sequence[bytes]) -> Mapping[bytes, Node]:
        """Raises CorruptNode."""
        decoded = self._cache.find(digests)
        missing = [digest for digest in digests if digest not in decoded]
        if missing:
            read = fetch(self._below, missing)
            self._cache.add(read.values(), reads=len(missing))
            decoded |= read
        return decoded

    def get_nodes(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        return {digest: node.blob() for digest, node in self.get_decoded(digests).items()}

    def put_nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        present = self._cache.find(nodes)
        unknown = {digest: blob for digest, blob in nodes.items() if digest not in present}
        self.put_decoded(nodes, _decode(unknown).values())

    def put_decoded(self, nodes: Mapping[bytes, bytes], decoded: Iterable[Node]) -> None:
        """By a caller that has them decoded, too."""
        self._below.put_nodes(nodes)
        self._cache.add(decoded)


def fetch(nodes: NodeStore, digests: Sequence[bytes]) -> Mapping[bytes, Node]:
    """The nodes with these distinct digests; missing ones are absent. Raises CorruptNode."""
    return (
        nodes.get_decoded(digests)
        if isinstance(nodes, CachedNodes)
        else _decode(nodes.get_nodes(digests))
    )


def put(nodes: NodeStore, blobs: Mapping[bytes, bytes], decoded: Iterable[Node]) -> None:
    """Keep these nodes, given both ways."""
    if isinstance(nodes, CachedNodes):
        nodes.put_decoded(blobs, decoded)
    else:
        nodes.put_nodes(blobs)


def _decode(blobs: Mapping[bytes, bytes]) -> dict[bytes, Node]:
    parsed: ParsedKeys = {}
    return {digest: decode(digest, blob, parsed) for digest, blob in blobs.items()}
