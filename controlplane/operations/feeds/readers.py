"""Who reads a feed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from controlplane.core.compile.nodes import Node
from controlplane.core.model.branches import MAIN
from controlplane.core.model.feeds import FeedAddress, FeedGrant
from controlplane.operations.feeds.offers import is_granted
from controlplane.operations.planning.snapshot import desired
from controlplane.ports.store import Store


@dataclass(frozen=True, slots=True, order=True)
class ReadComponent:
    """A read component. What a branch has as main has it is main's."""

    namespace: str
    branch: str
    dataset: str


def of_feed(store: Store, address: FeedAddress, grants: Iterable[FeedGrant]) -> list[ReadComponent]:
    """Those that are granted it and read it, of all namespaces and branches; those of main
    first."""
    return of_feeds(store, address.namespace, {address.name: list(grants)})[address.name]


def of_feeds(
    store: Store, namespace: str, feeds: Mapping[str, Sequence[FeedGrant]]
) -> dict[str, list[ReadComponent]]:
    """The same of all of these feeds of a namespace, with their grants: each branch is examined
    once."""
    granted = {grant.namespace for grants in feeds.values() for grant in grants}
    reading = [
        (reader, feed)
        for feed_grant in granted
        for reader, feed in _in(store, feed_grant)
        if feed.namespace == namespace
    ]
    by_feed: dict[str, list[ReadComponent]] = {name: [] for name in feeds}
    for reader, feed in reading:
        grants = feeds.get(feed.name, ())
        if is_granted(grants, reader.namespace, reader.dataset.partition(".")[0]):
            by_feed[feed.name].append(reader)
    for readers in by_feed.values():
        readers.sort(
            key=lambda feed_grant: (feed_grant.namespace, feed_grant.branch != MAIN, feed_grant)
        )
    return by_feed


def _in(store: Store, namespace: str) -> Iterator[tuple[ReadComponent, FeedAddress]]:
    """All readers of feeds in a namespace. A branch's reader that main has, too, is not
    repeated."""
    with store.read(namespace) as tx:
        mains = set(_reading(desired(tx, MAIN, namespace=namespace).nodes.values()))
        yield from ((ReadComponent(namespace, MAIN, name), feed) for name, feed in mains)
        for branch in tx.branches.all():
            own = set(_reading(desired(tx, branch, namespace=namespace).nodes.values())) - mains
            yield from ((ReadComponent(namespace, branch, name), feed) for name, feed in own)


def _reading(nodes: Iterable[Node]) -> Iterator[tuple[str, FeedAddress]]:
    return ((node.dataset, node.feed) for node in nodes if node.feed is not None)
