"""Listings and the source objects behind them, as a worker's report would have left them.

Does not belong here: what was computed from them (states).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from benchmarks.planning import contents
from benchmarks.planning.graph import COLUMNS, FOLDER, key
from benchmarks.planning.trees import Wanted
from controlplane.core import tree
from controlplane.core.compile.nodes import Desired, Source
from controlplane.core.model.sources import Listing, SourcePartition
from controlplane.ports.store import Store
from dataplane.contract.identity import Content
from dataplane.contract.source_objects import SourceObject

AT = 1_700_000_000.0
STEP = 5_000  # source partitions in a transaction
ids_of = lru_cache(maxsize=4)(contents.ids)


def reads(nodes: Desired) -> list[str]:
    """Read components, in order."""
    return [d for d in nodes.order if isinstance(nodes.nodes[d], Source)]


def listing_id(nodes: Desired, dataset: str) -> bytes:
    node = nodes.nodes[dataset]
    assert isinstance(node, Source)
    return node.listing


def listing(dataset: str, partitions: int) -> Wanted:
    """The tree of what was listed first."""
    return Wanted(_name(dataset, "first"), partitions, is_listing=True)


def put_listings(store: Store, nodes: Desired, roots: Mapping[str, bytes], partitions: int) -> None:
    size_bytes = partitions * contents.OBJECT_BYTES
    with store.begin() as tx:
        for dataset, root in roots.items():
            id = listing_id(nodes, dataset)
            found = Listing(
                id, root, AT, partitions, size_bytes, requested=1, served=1, columns=(COLUMNS,)
            )
            tx.listings.put(found)


def put_sources(
    store: Store, nodes: Desired, dataset: str, numbers: Iterable[int], version: str = "first"
) -> None:
    """The objects behind these partitions of a read component."""
    every = list(numbers)
    for first in range(0, len(every), STEP):
        parts = [_part(dataset, number, version) for number in every[first : first + STEP]]
        with store.begin() as tx:
            tx.listings.put_partitions(listing_id(nodes, dataset), parts, [])


def arrive(
    store: Store, nodes: Desired, changed: Mapping[str, Iterable[int]], version: str
) -> None:
    """These partitions of read components have other bytes; their listings say so."""
    with store.begin() as tx:
        known = tx.listings.get(listing_id(nodes, dataset) for dataset in changed)
        for dataset, numbers in changed.items():
            found = known[listing_id(nodes, dataset)]
            parts = [_part(dataset, number, version) for number in sorted(numbers)]
            tx.listings.put_partitions(found.id, parts, [])
            assert found.root is not None
            root = tree.edit(tx.nodes, found.root, list(_edits(parts)))
            tx.listings.put(replace(found, root=root, at=AT + 1, digest=None))


def _edits(parts: Iterable[SourcePartition]) -> Iterator[tuple[str, tree.Entry]]:
    for part in parts:
        yield part.key, tree.Entry(part.key, part.source, Content(1, contents.OBJECT_BYTES, 0))


def _name(dataset: str, version: str) -> str:
    return f"{version} listing of {dataset}"


def _part(dataset: str, number: int, version: str) -> SourcePartition:
    """`version` names what the bytes are."""
    chunk, place = divmod(number, contents.CHUNK)
    source = ids_of(_name(dataset, version), chunk)[place]
    name = key(number)
    object = SourceObject(
        name=name,
        uri=f"file://{FOLDER}/{dataset.partition('.')[2]}/{name}",
        size=contents.OBJECT_BYTES,
        modified_ms=int(AT * 1000),
        version=f"sha256:{source.hex()}",
        columns=list(COLUMNS),
    )
    return SourcePartition(name, source, (object,))


def listings(store: Store, nodes: Desired) -> list[Listing]:
    """All of them as they are."""
    with store.read() as tx:
        return list(
            tx.listings.get(listing_id(nodes, dataset) for dataset in reads(nodes)).values()
        )


def put_back(store: Store, before: Iterable[Listing]) -> None:
    """Make those that have changed what they were."""
    with store.begin() as tx:
        wanted = {found.id: found for found in before}
        for id, found in tx.listings.get(wanted).items():
            if found.root != wanted[id].root:
                tx.listings.put(wanted[id])
