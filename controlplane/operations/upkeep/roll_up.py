"""Slices of topics are rolled up: those of an hour that is over become one partition of the listing.

Five slices a second are 432,000 partitions a day. Rolled up they are some 400, and no message is
read again: a pass unites the results of slices (`core.plan.unions`), in each branch by itself.

A roll-up is one transaction over the listing: its tree, its partitions, and the memo of members.
A process that ends before it has changed nothing; one that ends after it leaves the next pass to
find the new root. Slices stay apart until every dataset with a partition for each of them has all
of them, so that their results are there to be united.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice

from controlplane import logs
from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Desired, Source
from controlplane.core.model.branches import MAIN
from controlplane.core.model.roll_ups import FEWEST, SliceSpan, is_span, sources_memo, spans_of
from controlplane.core.model.sources import Listing, SourcePartition
from controlplane.core.plan.slice_readers import SliceReaders, slice_readers, topics
from controlplane.operations.planning.snapshot import desired
from controlplane.ports.store import Store, Tx
from dataplane.contract.identity import Content

log = logs.get("roll-up")

SPANS_A_TIME = 10  # of one listing, in one transaction
SLICES_A_TIME = 1_000  # whose objects are read together


@dataclass(frozen=True, slots=True)
class _Reader:
    """A read component of a topic in one branch, with the datasets that its slices are in."""

    branch: str
    desired: Desired
    source: Source
    slices: SliceReaders


@dataclass(frozen=True, slots=True)
class _RollUp:
    """Spans that a listing with this root is to have in place of their slices."""

    listing: Listing
    spans: tuple[SliceSpan, ...]


def sentence(tx: Tx, namespace: str, source: Source, sees: Callable[[str], bool]) -> str:
    """Whether slices of a topic are rolled up, and why not. `sees`: whether a dataset may be
    named."""
    reader = _obstructing(_readers(tx, namespace).get(source.listing, []))
    if reader is None or reader.slices.obstacle is None:
        return "slices of an hour that is over are rolled up"
    obstacle = reader.slices.obstacle
    reason = obstacle.sentence
    if not all(map(sees, obstacle.datasets)):
        reason = "a dataset that you may not see needs them"
    place = "" if reader.branch == MAIN else " (in a branch)"
    return f"slices are not rolled up: {reason}{place}"


def roll_up(store: Store, namespace: str, fewest: int = FEWEST) -> int:
    """Roll up due slices, a bounded number of spans of each topic; how many slices. Repeating it
    is harmless. `fewest`: slices in a span."""
    with store.read(namespace) as tx:
        due = list(_due(tx, namespace, fewest))
    return sum(_carry_out(store, namespace, change) for change in due)


# --- what is due ----------------------------------------------------------------------------------


def _readers(tx: Tx, namespace: str) -> Mapping[bytes, Sequence[_Reader]]:
    """The readers of topics by listing, of all branches. Pinned branches do not move."""
    offered = {feed.dataset: feed.name for feed in tx.feeds.all()}
    following = [name for name, branch in tx.branches.all().items() if not branch.pinned]
    readers: dict[bytes, list[_Reader]] = {}
    for branch in (MAIN, *following):
        nodes = desired(tx, branch, namespace=namespace)
        for source in topics(nodes):
            reader = _Reader(branch, nodes, source, slice_readers(nodes, source, offered))
            readers.setdefault(source.listing, []).append(reader)
    return readers


def _obstructing(readers: Iterable[_Reader]) -> _Reader | None:
    """The first reader that needs slices apart."""
    return next((reader for reader in readers if reader.slices.obstacle is not None), None)


def _due(tx: Tx, namespace: str, fewest: int) -> Iterator[_RollUp]:
    readers_of = _readers(tx, namespace)
    listings = tx.listings.get(readers_of)
    for id, readers in readers_of.items():
        listing = listings.get(id)
        if listing is None or listing.root is None or _obstructing(readers):
            continue
        most_offsets = int(str(dict(readers[0].source.read.settings)["slice"]))
        slices = _slices(tx, listing)
        spans = spans_of(slices, most_offsets, int(tx.now() * 1000), fewest)
        ready = tuple(_ready(tx, listing, readers, islice(spans, SPANS_A_TIME)))
        if ready:
            yield _RollUp(listing, ready)


def _slices(tx: Tx, listing: Listing) -> Iterator[SourcePartition]:
    """The slices behind the last span, but for the last one: the next listing goes on there."""
    assert listing.root is not None
    keys: list[str] = []
    for part in tree.scan(tx.nodes, listing.root):
        if is_span(part.key):
            keys.clear()
        else:
            keys.append(part.key)
    for start in range(0, len(keys) - 1, SLICES_A_TIME):
        some = keys[start : min(start + SLICES_A_TIME, len(keys) - 1)]
        partitions = tx.listings.partitions(listing.id, some)
        yield from (partitions[key] for key in some)


def _ready(
    tx: Tx, listing: Listing, readers: Sequence[_Reader], spans: Iterable[SliceSpan]
) -> Iterator[SliceSpan]:
    """The spans up to the first one that a dataset does not have all slices of."""
    for span in spans:
        if not all(_has_read(tx, listing, reader, span) for reader in readers):
            return
        yield span


def _has_read(tx: Tx, listing: Listing, reader: _Reader, span: SliceSpan) -> bool:
    """Whether the datasets of a branch have these very slices, by their present code."""
    keys = [part.key for part in span.slices]
    states = tx.states.newest(reader.branch, reader.slices.datasets)
    for dataset in reader.slices.datasets:
        state, node = states.get(dataset), reader.desired.nodes[dataset]
        if state is None or not node.has_rows or not node.has_made(state.logic):
            return False
        if len(tree.lookup(tx.nodes, state.root, keys)) < len(keys):
            return False
    objects = states[reader.source.dataset].inputs["objects"].root
    assert listing.root is not None
    return tree.lookup(tx.nodes, objects, keys) == tree.lookup(tx.nodes, listing.root, keys)


# --- carrying out ---------------------------------------------------------------------------------


def _carry_out(store: Store, namespace: str, change: _RollUp) -> int:
    """Zero where another listing came first: it is looked at again."""
    listing = change.listing
    assert listing.root is not None
    with store.begin(namespace) as tx:
        newest = tx.listings.get([listing.id]).get(listing.id)
        if newest is None or newest.root != listing.root:
            return 0
        # None begins before this transaction ends: what the trees share is still there
        tx.upkeep.collections()
        partitions = [span.partition for span in change.spans]
        removed = [part.key for span in change.spans for part in span.slices]
        span_entries = [_span_entry(tx, listing.root, span) for span in change.spans]
        edits: dict[str, tree.Entry | None] = dict.fromkeys(removed)
        edits.update((span.key, span) for span in span_entries)
        root = tree.edit(tx.nodes, listing.root, sorted(edits.items()))
        tx.listings.put_partitions(listing.id, partitions, removed)
        objects, size_bytes, _ = tree.totals(tx.nodes, root).content
        tx.listings.put(replace(newest, root=root, objects=objects, size_bytes=size_bytes))
        tx.traces.put_memos(
            {
                ids.members_key(part.source): sources_memo(span.slices)
                for part, span in zip(partitions, change.spans, strict=True)
            }
        )
    log.info("slices rolled up", slices=len(removed), partitions=len(span_entries))
    return len(removed)


def _span_entry(tx: Tx, root: bytes, span: SliceSpan) -> tree.Entry:
    """With the places of all slices, and the objects and offsets of the span."""
    partition = span.partition
    slices = tree.lookup(tx.nodes, root, [part.key for part in span.slices])
    content = reduce(Content.plus, (part.content for part in slices.values()))
    objects = len(partition.objects)
    return tree.Entry(span.key, partition.source, content._replace(rows=objects))
