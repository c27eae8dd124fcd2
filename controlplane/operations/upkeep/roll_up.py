"""Slices of topics are rolled up: those of an hour that is over become partitions of the listing,
each of up to a hundred slices.

Five slices a second are 432,000 partitions a day. Rolled up they are some 4,400, and no message is
read again: a pass unites the results of slices (`core.plan.unions`), in each branch by itself.

A roll-up is one transaction over the listing: its tree, its partitions, and the memo of members.
The listing is locked meanwhile, so a listing that is taken in is there before, and stays, or comes
after, and is compared with the rolled-up one. A process that ends before the end of the transaction
has changed nothing. One that ends after it leaves the next pass to find the new root.

Slices stay apart until every dataset with a partition for each of them has all of them, so that
their results are there to be united. Readers are checked in the transaction itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import islice, takewhile
from typing import Final

from controlplane import logs
from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Desired, Source
from controlplane.core.model.branches import MAIN
from controlplane.core.model.roll_ups import (
    FEWEST,
    HOUR_MS,
    SliceSpan,
    hour_of,
    is_span,
    sources_memo,
    spans_of,
)
from controlplane.core.model.sources import Listing, SourcePartition
from controlplane.core.model.states import State
from controlplane.core.plan.slice_readers import Obstacle, SliceReaders, slice_readers, topics_of
from controlplane.operations.planning.snapshot import compile_live
from controlplane.ports.store import Store, Tx
from dataplane.contract.identity import Content

log = logs.get("roll-up")

SPANS_A_TIME = 10  # of one listing, in one transaction
SLICES_A_LOOK = 2_000  # of one listing
SLICES_A_TIME = 1_000  # whose objects are read together
NOT_COMPILED: Final = SliceReaders(
    (), Obstacle("a dataflow does not compile, and may need them: see `headgate status`", ())
)


@dataclass(slots=True)
class ScanProgress:
    """How far the slices of one listing were looked at."""

    start: str = ""  # spans can only be made of slices from this key on
    hour: int = -1  # no span is due of slices from before this hour
    is_cut: bool = False  # slices behind SLICES_A_LOOK wait for the next look


@dataclass(slots=True)
class ScanMemory:
    """What the last look at a namespace saw, so that a look at rest is one statement. `hour`: since
    1970; `mark`: the newest change of main."""

    hour: int = -1
    mark: int = 0
    by_listing: Mapping[bytes, ScanProgress] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Reader:
    """A read component of a topic in one branch, with the datasets that its slices are in, the read
    component first."""

    branch: str
    desired: Desired
    slices: SliceReaders


@dataclass(frozen=True, slots=True)
class _RollUp:
    """Spans that a listing is to have in place of their slices."""

    listing: bytes
    spans: Sequence[SliceSpan]


def sentence(tx: Tx, namespace: str, source: Source, sees: Callable[[str], bool]) -> str:
    """Whether slices of a topic are rolled up, and why not. `sees`: whether a dataset may be
    named."""
    reader = _obstructing(_readers(tx, namespace, source.listing))
    if reader is None or reader.slices.obstacle is None:
        return (
            f"{FEWEST} slices or more of an hour are rolled up, "
            "once the hour is over and every dataset has them"
        )
    obstacle = reader.slices.obstacle
    reason = obstacle.sentence
    if not all(map(sees, obstacle.datasets)):
        reason = "a dataset that you may not see needs them"
    place = "" if reader.branch == MAIN else " (in a branch)"
    return f"slices are not rolled up: {reason}{place}"


def roll_up(
    store: Store, namespace: str, fewest: int = FEWEST, memory: ScanMemory | None = None
) -> int:
    """Roll up due slices, a bounded number of spans of each topic that main reads; how many slices.
    Repeating it is harmless. `fewest`: slices in a span. `memory`: what former calls saw."""
    with store.read(namespace) as tx:
        due = list(_due(tx, namespace, fewest, memory or ScanMemory()))
    return sum(_carry_out(store, namespace, change) for change in due)


# --- readers --------------------------------------------------------------------------------------


def _readers(tx: Tx, namespace: str, listing: bytes) -> Iterator[_Reader]:
    """The readers of a topic, those of main first. Pinned branches do not move."""
    offered = _offered(tx)
    following = [name for name, branch in tx.branches.all().items() if not branch.pinned]
    for branch in (MAIN, *following):
        nodes = _compiled(tx, namespace, branch)
        if nodes.left_out:
            yield _Reader(branch, nodes, NOT_COMPILED)
        for source in topics_of(nodes.nodes):
            if source.listing == listing:
                yield _Reader(branch, nodes, slice_readers(nodes, source, offered))


def _offered(tx: Tx) -> dict[str, str]:
    """Feeds by their datasets."""
    return {feed.dataset: feed.name for feed in tx.feeds.all()}


def _compiled(tx: Tx, namespace: str, branch: str) -> Desired:
    return compile_live(tx.blueprints.revisions(branch).values(), namespace)


def _obstructing(readers: Iterable[_Reader]) -> _Reader | None:
    """The first reader that needs slices apart."""
    return next((reader for reader in readers if reader.slices.obstacle is not None), None)


# --- what is due ----------------------------------------------------------------------------------


def _due(tx: Tx, namespace: str, fewest: int, memory: ScanMemory) -> Iterator[_RollUp]:
    """Spans that may be made, as far as main and the clock say: `_carry_out` asks all readers."""
    hour = int(tx.now() * 1000) // HOUR_MS
    mark, _ = tx.states.marked(MAIN, memory.mark)
    if (hour, mark) == (memory.hour, memory.mark):
        return
    nodes = _compiled(tx, namespace, MAIN)
    sources = {source.listing: source for source in topics_of(nodes.nodes)}
    memory.by_listing = {id: memory.by_listing.get(id, ScanProgress()) for id in sources}
    offered = _offered(tx) if sources else {}
    for id, source in sources.items():
        progress = memory.by_listing[id]
        if progress.hour == hour or slice_readers(nodes, source, offered).obstacle is not None:
            continue
        spans = _spans(tx, source, progress, hour, fewest)
        # Asked here as well: a transaction that writes holds up others
        if spans and _obstructing(_readers(tx, namespace, id)) is None:
            yield _RollUp(id, spans)
    if not any(progress.is_cut for progress in memory.by_listing.values()):
        memory.hour, memory.mark = hour, mark


def _spans(
    tx: Tx, source: Source, progress: ScanProgress, hour: int, fewest: int
) -> Sequence[SliceSpan]:
    """The next spans of slices from before this hour."""
    slices = takewhile(
        lambda part: hour_of(part) < hour, _slices(tx, source.listing, progress.start)
    )
    closed = list(islice(slices, SLICES_A_LOOK))
    most_offsets = int(str(dict(source.read.settings)["slice"]))
    spans = list(islice(spans_of(closed, most_offsets, fewest), SPANS_A_TIME))
    progress.is_cut = not spans and len(closed) == SLICES_A_LOOK
    if not spans and closed:
        # The last of them may be the first of a span
        progress.start = closed[-fewest:][0].key
    if not spans and not progress.is_cut:
        progress.hour = hour
    return spans


def _slices(tx: Tx, id: bytes, start: str) -> Iterator[SourcePartition]:
    """The slices from a key on, but for the last one: the next listing goes on there."""
    listing = tx.listings.get([id]).get(id)
    if listing is None or listing.root is None:
        return
    last = tree.last(tx.nodes, listing.root)
    entries = tree.scan(tx.nodes, listing.root, start=start)
    keys = (part.key for part in entries if part != last and not is_span(part.key))
    while some := list(islice(keys, SLICES_A_TIME)):
        partitions = tx.listings.partitions(id, some)
        yield from (partitions[key] for key in some)


# --- carrying out ---------------------------------------------------------------------------------


def _carry_out(store: Store, namespace: str, change: _RollUp) -> int:
    """Roll up those of the spans that no reader needs apart; how many slices."""
    with store.begin(namespace) as tx:
        readers = list(_readers(tx, namespace, change.listing))
        if _obstructing(readers) is not None:
            return 0
        spans = change.spans
        for reader in readers:
            spans = list(_read_by(tx, reader, spans))
        listing = tx.listings.locked([change.listing]).get(change.listing)
        if listing is None or listing.root is None:
            return 0
        # None begins before this transaction ends: what the trees share is still there
        tx.upkeep.collections()
        # More slices may have come, or another listing
        sources = _Sources(tx, listing.root)
        spans = [span for span in spans if sources.has(span)]
        _put_spans(tx, listing, listing.root, spans)
    slices = sum(len(span.slices) for span in spans)
    if spans:
        log.info("slices rolled up", slices=slices, partitions=len(spans))
    return slices


@dataclass(frozen=True, slots=True)
class _Sources:
    """Slices with their source ids: of a listing, or of a state of a read component."""

    tx: Tx
    root: bytes

    def has(self, span: SliceSpan) -> bool:
        """Whether it has just the slices of the span."""
        parts = tree.lookup(self.tx.nodes, self.root, span.keys)
        return [parts[key].fragment for key in span.keys if key in parts] == [
            part.source for part in span.slices
        ]


def _read_by(tx: Tx, reader: _Reader, spans: Iterable[SliceSpan]) -> Iterator[SliceSpan]:
    """Those of the spans whose slices the datasets of a reader have, by their present code."""
    datasets = reader.slices.datasets
    states = tx.states.newest(reader.branch, datasets)
    if not all(_is_present(reader, dataset, states) for dataset in datasets):
        return
    sources = _Sources(tx, states[datasets[0]].inputs["objects"].root)
    for span in spans:
        lookups = (tree.lookup(tx.nodes, states[of].root, span.keys) for of in datasets)
        if sources.has(span) and all(len(entries) == len(span.keys) for entries in lookups):
            yield span


def _is_present(reader: _Reader, dataset: str, states: Mapping[str, State]) -> bool:
    state, node = states.get(dataset), reader.desired.nodes[dataset]
    return state is not None and node.has_rows and node.has_made(state.logic)


def _put_spans(tx: Tx, listing: Listing, root: bytes, spans: Sequence[SliceSpan]) -> None:
    """Have a locked listing with this root name spans in place of their slices."""
    if not spans:
        return
    partitions = [span.partition for span in spans]
    removed = [key for span in spans for key in span.keys]
    edits: dict[str, tree.Entry | None] = dict.fromkeys(removed)
    for span, partition in zip(spans, partitions, strict=True):
        edits[partition.key] = _span_entry(tx, root, span, partition)
    new_root = tree.edit(tx.nodes, root, sorted(edits.items()))
    tx.listings.put_partitions(listing.id, partitions, removed)
    objects, size_bytes, _ = tree.totals(tx.nodes, new_root).content
    tx.listings.put(replace(listing, root=new_root, objects=objects, size_bytes=size_bytes))
    tx.traces.put_memos(
        {
            ids.members_key(partition.source): sources_memo(span.slices)
            for span, partition in zip(spans, partitions, strict=True)
        }
    )


def _span_entry(tx: Tx, root: bytes, span: SliceSpan, partition: SourcePartition) -> tree.Entry:
    """With the places of all slices, and the objects and offsets of the span."""
    slices = tree.lookup(tx.nodes, root, span.keys)
    content = reduce(Content.plus, (part.content for part in slices.values()))
    objects = len(partition.objects)
    return tree.Entry(span.key, partition.source, content._replace(rows=objects))
