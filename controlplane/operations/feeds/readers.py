"""Who reads a feed. Does not belong here: who may."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from controlplane.core.compile.nodes import Source
from controlplane.core.model.branches import MAIN
from controlplane.core.model.feeds import FeedAddress, FeedGrant
from controlplane.operations.feeds.offers import is_granted
from controlplane.operations.planning.snapshot import desired
from controlplane.ports.store import Store


@dataclass(frozen=True, slots=True, order=True)
class Reader:
    """A read component. What a branch has as main has it is main's."""

    namespace: str
    branch: str
    dataset: str


def of_feed(store: Store, address: FeedAddress, grants: Iterable[FeedGrant]) -> list[Reader]:
    """Those that are granted it and read it, of all namespaces and branches; those of main first."""
    grants = list(grants)
    found = [one for namespace in {g.namespace for g in grants} for one in _in(store, namespace, address, grants)]
    return sorted(found, key=lambda one: (one.namespace, one.branch != MAIN, one))


def _in(store: Store, namespace: str, address: FeedAddress, grants: list[FeedGrant]) -> Iterator[Reader]:
    with store.read(namespace) as tx:
        mains = set(_reading(desired(tx, MAIN, namespace=namespace).nodes.values(), address))
        yield from (Reader(namespace, MAIN, name) for name in mains if _may(grants, namespace, name))
        for branch in tx.branches():
            own = set(_reading(desired(tx, branch, namespace=namespace).nodes.values(), address)) - mains
            yield from (Reader(namespace, branch, name) for name in own if _may(grants, namespace, name))


def _reading(nodes: Iterable[object], address: FeedAddress) -> Iterator[str]:
    return (node.dataset for node in nodes if isinstance(node, Source) and node.feed == address)


def _may(grants: list[FeedGrant], namespace: str, dataset: str) -> bool:
    return is_granted(grants, namespace, dataset.partition(".")[0])
