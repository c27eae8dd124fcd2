"""Going through trees that many pointers lead to, of all branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from controlplane.core import tree
from controlplane.core.model.branches import MAIN
from controlplane.core.model.retention import Pointer
from controlplane.ports.store import Tx

ROOTS = 500  # read at a time: some 25 MB


def with_roots(tx: Tx, pointers: Iterable[Pointer]) -> Iterator[tuple[Pointer, tree.NodeStore]]:
    """Each pointer with tree nodes to follow it through; roots are read in batches."""
    source = iter(pointers)
    while window := list(islice(source, ROOTS)):
        roots = {p.root for p in window if p.root != tree.EMPTY_ROOT}
        nodes = _Ahead(tx, tx.nodes.get_nodes(list(roots)))
        for pointer in window:
            yield pointer, nodes


def branches(tx: Tx) -> set[str]:
    """All that there are, and those of which states are left."""
    return {MAIN} | tx.branches.all().keys() | {span.branch for span in tx.upkeep.spans()}


class _Ahead:
    """The transaction's tree nodes, with some of them at hand."""

    def __init__(self, tx: Tx, at_hand: Mapping[bytes, bytes]) -> None:
        self._tx, self._at_hand = tx, at_hand

    def get_nodes(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        cached = {d: self._at_hand[d] for d in digests if d in self._at_hand}
        missing = [d for d in digests if d not in cached]
        return {**cached, **self._tx.nodes.get_nodes(missing)} if missing else cached

    def put_nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        self._tx.nodes.put_nodes(nodes)
