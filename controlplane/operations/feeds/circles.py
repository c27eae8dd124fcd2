"""Circles of feeds: a dataset that would be made of itself, through feeds of any namespaces.

Within a dataflow the compiler refuses them; across feeds they are found when one is followed.
"""

from __future__ import annotations

from typing import TypeAlias

from controlplane.core.model.branches import MAIN
from controlplane.operations.planning.snapshot import desired
from controlplane.ports.store import Store

Place: TypeAlias = tuple[str, str]  # a namespace, and a dataset of its main


def circle_of(store: Store, namespace: str, dataset: str, reader: Place) -> tuple[str, ...]:
    """The feeds on the way from the reader to itself, upstream of the offered dataset; empty if
    there is no circle."""
    waiting: list[tuple[Place, tuple[str, ...]]] = [((namespace, dataset), ())]
    visited: set[Place] = set()
    while waiting:
        place, way = waiting.pop()
        if place in visited:
            continue
        visited.add(place)
        upstream, feeds = _above(store, place)
        if reader in upstream:
            return (*way, reader[1])
        waiting += [(behind, (*way, name)) for name, behind in feeds.items()]
    return ()


def _above(store: Store, place: Place) -> tuple[set[Place], dict[str, Place]]:
    """What a dataset is made of in its namespace, itself among it; and datasets behind feeds that
    are read there."""
    namespace, dataset = place
    with store.read(namespace) as tx:
        nodes = desired(tx, MAIN, namespace=namespace)
    if dataset not in nodes.nodes:
        return {place}, {}
    names = {dataset, *nodes.graph.upstream([dataset])}
    feeds = [source for name in names if (source := nodes.nodes[name].feed)]
    behind: dict[str, Place] = {}
    for address in feeds:
        with store.read(address.namespace) as tx:
            feed = tx.feeds.get(address.name)
        if feed is not None:
            behind[str(address)] = (address.namespace, feed.dataset)
    return {(namespace, name) for name in names}, behind
