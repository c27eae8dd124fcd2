"""What a feed offers: the newest kept state of its dataset that keeps the contract.

A state that breaks the contract is passed over, so readers stay with the last good one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from controlplane.core.errors import HeadgateError
from controlplane.core.model.branches import MAIN
from controlplane.core.model.feeds import Feed, FeedAddress, FeedGrant
from controlplane.core.model.states import State
from controlplane.core.schema.contracts import breaches
from controlplane.ports.store import Tx

PAGE = 50  # states that are looked at at a time
MOST = 1_000  # states that are looked at for one that keeps the contract


class FeedNotGranted(HeadgateError):
    """There is no such feed for the caller. The error does not reveal whether others have one."""

    code = "feed-not-granted"


@dataclass(frozen=True, slots=True)
class Offer:
    """`state`: the one that readers get; None where no kept state keeps the contract. `newest`: of
    the dataset, if it has any. `breaches`: how the newest state breaks the contract, a sentence
    each."""

    feed: Feed
    state: State | None
    newest: State | None
    breaches: tuple[str, ...] = ()


def granted(tx: Tx, address: FeedAddress, reader: str, dataflow: str) -> Feed:
    """The feed, if a dataflow of the namespace `reader` may read it. `tx`: of the namespace that
    offers. Raises FeedNotGranted, in the same words whether there is a feed of this name or not."""
    feed = tx.feeds.get(address.name)
    if feed is None or not is_granted(tx.feeds.grants(address.name), reader, dataflow):
        raise FeedNotGranted(
            f"there is no feed {address} for dataflow {dataflow}: the name may be wrong, or the feed is not granted; "
            f"an administrator of {address.namespace} grants it with `headgate feed grant {address.name}`"
        )
    return feed


def is_granted(grants: Iterable[FeedGrant], reader: str, dataflow: str) -> bool:
    return any(
        feed_grant.namespace == reader and fnmatchcase(dataflow, feed_grant.dataflows)
        for feed_grant in grants
    )


def offer(tx: Tx, feed: Feed) -> Offer:
    """`tx`: of the namespace that offers it."""
    newest = tx.states.newest(MAIN, [feed.dataset]).get(feed.dataset)
    if newest is None:
        return Offer(feed, None, None)
    broken = breaches(feed.columns, newest.schema)
    if not broken:
        return Offer(feed, newest, newest)
    good = (state for state in _before(tx, newest) if not breaches(feed.columns, state.schema))
    return Offer(feed, next(good, None), newest, broken)


def _before(tx: Tx, newest: State) -> Iterator[State]:
    """Kept states before this one, newest first."""
    last = newest.seq
    for _ in range(MOST // PAGE):
        page = tx.states.history(MAIN, newest.dataset, PAGE, last)
        yield from page
        if len(page) < PAGE:
            return
        last = page[-1].seq
