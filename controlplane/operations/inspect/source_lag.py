"""How far the datasets of streams are behind what their last listings found.

A slice of a stream is a range of offsets. The tree of a listing sums the offsets of its slices, so
the difference of two roots is the number of rows that are not committed. Offsets that hold no row,
as the ends of transactions, count as rows.

The age of a row counts from the listing that found its slice: messages are not read by listings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Source
from controlplane.core.model.answers.status import SourceLag
from controlplane.core.model.sources import Listing, SourcePartition
from controlplane.core.tree import NodeStore
from controlplane.operations.inspect import json_views
from controlplane.operations.inspect.data_age import in_words
from controlplane.operations.planning.snapshot import StoreSnapshot
from dataplane.contract.schemas import Json

STREAMS = frozenset({"kafka"})  # connectors whose sizes are offsets
NONE: Json = {}
BEYOND_ALL = "\U0010ffff"  # a key after all others
UNLISTED: SourceLag = {
    "rows": None,
    "seconds": None,
    "since": None,
    "sentence": "not known before its first listing",
}


@dataclass(frozen=True, slots=True, eq=False)
class _Backlog:
    """The listed and the committed root of a stream."""

    node: Source
    listing: Listing
    committed: bytes

    @property
    def listed(self) -> bytes:
        return self.listing.root or tree.EMPTY_ROOT


def of_sources(facts: StoreSnapshot, nodes: Iterable[Source]) -> dict[str, SourceLag]:
    """The lag of each stream among these, by dataset. The statements are as many for one stream as
    for many."""
    streams = [node for node in nodes if node.read.connector in STREAMS and not node.output]
    backlogs = [
        _Backlog(node, listing, _committed(facts, node))
        for node in streams
        if (listing := facts.listing(node.listing)) is not None and listing.root is not None
    ]
    behind = [backlog for backlog in backlogs if backlog.listed != backlog.committed]
    rows = _rows(facts, behind)
    listed_at = _listed_at(facts, [backlog for backlog in behind if rows[backlog.node.dataset]])
    lags = {node.dataset: UNLISTED for node in streams}
    now = facts.tx.now()
    for backlog in backlogs:
        name = backlog.node.dataset
        lags[name] = _lag(backlog.listing, rows.get(name, 0), listed_at.get(name), now)
    return lags


def _committed(facts: StoreSnapshot, node: Source) -> bytes:
    """The root of the listing that the newest state was made from. Nothing is committed of a topic
    that another one was replaced by."""
    state = facts.state(node.dataset)
    if state is None or "objects" not in state.inputs:
        return tree.EMPTY_ROOT
    is_same_topic = state.lineage == ids.lineage_id(state.logic, {"": node.listing})
    return state.inputs["objects"].root if is_same_topic else tree.EMPTY_ROOT


def _lag(listing: Listing, rows: int, since: float | None, now: float) -> SourceLag:
    """`since`: when the oldest row was listed, where that is known."""
    seconds = None if since is None else round(max(0.0, now - since), 3)
    if not rows:
        seconds = 0.0
    words = [_in_words(rows, seconds)]
    if listing.error is not None:
        words.append("there may be more, as its last listing failed")
    return {
        "rows": rows,
        "seconds": seconds,
        "since": json_views.when(since),
        "sentence": "; ".join(words),
    }


def _in_words(rows: int, seconds: float | None) -> str:
    behind = f"{rows:,} {'row' if rows == 1 else 'rows'} behind"
    if not rows:
        return behind
    if seconds is None:
        return f"{behind}; when they were listed is not known"
    return f"{behind}, the oldest listed {in_words(seconds)} ago"


def _rows(facts: StoreSnapshot, backlogs: Iterable[_Backlog]) -> Mapping[str, int]:
    """Offsets that are listed and not committed, by dataset."""
    backlogs = list(backlogs)
    roots = [root for backlog in backlogs for root in (backlog.listed, backlog.committed)]
    sizes = {
        root: summary.totals.content.sum1
        for root, summary in tree.summaries(facts.nodes, roots).items()
    }
    return {
        backlog.node.dataset: max(0, sizes[backlog.listed] - sizes[backlog.committed])
        for backlog in backlogs
    }


def _listed_at(facts: StoreSnapshot, backlogs: Iterable[_Backlog]) -> Mapping[str, float]:
    """When the first slice that is not committed was listed, by dataset."""
    oldest = _oldest_keys(facts, list(backlogs))
    keys: dict[bytes, list[str]] = {}
    for backlog, key in oldest.items():
        keys.setdefault(backlog.listing.id, []).append(key)
    partitions = facts.source_partitions(keys) if keys else {}
    times = {
        backlog.node.dataset: _time_of(partitions[backlog.listing.id].get(key))
        for backlog, key in oldest.items()
    }
    return {name: at for name, at in times.items() if at is not None}


def _oldest_keys(facts: StoreSnapshot, backlogs: Sequence[_Backlog]) -> Mapping[_Backlog, str]:
    """The first key that is not committed, by backlog. Nodes of all trees are read together."""
    nodes = facts.nodes
    tree.warm(nodes, [(backlog.committed, [BEYOND_ALL]) for backlog in backlogs])
    starts = {backlog: _after_last(nodes, backlog.committed) for backlog in backlogs}
    tree.warm(nodes, [(backlog.listed, [start]) for backlog, start in starts.items()])
    oldest: dict[_Backlog, str] = {}
    for backlog, start in starts.items():
        changes = tree.diff_keys(nodes, backlog.committed, backlog.listed, start=start, window=1)
        change = next(changes, None)
        if change is not None:
            oldest[backlog] = change.key
    return oldest


def _after_last(nodes: NodeStore, root: bytes) -> str:
    last = tree.last(nodes, root)
    return "" if last is None else tree.after(last.key)


def _time_of(partition: SourcePartition | None) -> float | None:
    """When a slice was listed. None of those that an earlier version listed."""
    objects = () if partition is None else partition.objects
    times_ms = [o["detail"]["listed_ms"] for o in objects if "listed_ms" in o.get("detail", NONE)]
    return min(times_ms) / 1000 if times_ms else None
