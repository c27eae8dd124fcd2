"""Watermarks in plans: they are measured when a read component commits, stand in the states of all
that reads it, and close partitions.

A dataset with `emit: final` has the partitions that are closed: those whose granule of time ends at
the watermark or before it. It is planned over a tree of closed keys (`closed`), which is the tree
of the input's keys without the open ones. So tasks, windows and commits are those of any input by
key, and a partition is computed once, when it closes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain

from controlplane.core import tree
from controlplane.core.compile.nodes import Node, Source
from controlplane.core.model.event_times import SECOND_US, EventTimes, Watermark
from controlplane.core.model.roll_ups import file_batches, with_other_rows
from controlplane.core.model.states import Consumed, PartialState, State
from controlplane.core.plan import lookups
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.source.read_extent import ReadCase
from dataplane.contract.key_values import granule_text
from dataplane.contract.keys import encode_segment
from dataplane.contract.reach import end_of_granule, start_of_granule

CHUNK = 1_000  # fragments that are looked up together
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


# --- measured times of read components --------------------------------------------------------------


def times_at(case: ReadCase, root: bytes) -> Deciding[EventTimes | None]:
    """The event times of a root: those of the present state, with those of slices that were added since. None where
    the component has no rule of event times."""
    rule = case.node.read.event_time
    if rule is None or case.node.output:
        return None
    base, before = EventTimes(rule.column), tree.EMPTY_ROOT
    present = _times_of(case.state)
    if present is not None and present.column == rule.column:
        base, before = present, case.root
    [changes] = yield from lookups.diffs([(before, root)])
    removed = [change.before for change in changes if change.before is not None]
    # A newest time cannot be taken back: all slices are looked at again.
    if removed and any(change.before is not None for change in with_other_rows(changes)):
        base, removed = EventTimes(rule.column), []
        [changes] = yield from lookups.diffs([(tree.EMPTY_ROOT, root)])
    rolled_up = yield from _plus(case, EventTimes(rule.column), removed)
    added = [change.after for change in changes if change.after is not None]
    times = yield from _plus(case, base, added)
    # The newest times of slices are those of their spans, but rows count once
    return replace(times, ahead=times.ahead - rolled_up.ahead)


def _plus(case: ReadCase, times: EventTimes, entries: Iterable[tree.Entry]) -> Deciding[EventTimes]:
    """With the times of these partitions. Memory lacks those that are united in this pass."""
    unions = case.planning.unions_of(case.node.maker)
    for batch in file_batches(entries, CHUNK):
        ids = [part.fragment for part in batch]
        new = [unions[id].fragment for id in ids if id in unions]
        fragments = yield from lookups.fragments([id for id in ids if id not in unions])
        files = chain.from_iterable(part.files for part in (*new, *fragments.values()))
        times = times.plus(file["times"] for file in files if "times" in file)
    return times


def _times_of(state: State | None) -> EventTimes | None:
    objects = state.inputs.get("objects") if state is not None else None
    return objects.times if objects is not None else None


# --- watermarks of states ---------------------------------------------------------------------------


def watermark_of_source(node: Source, state: State | None) -> Watermark | None:
    """That of a read component's state; None where none is known."""
    rule, times = node.read.event_time, _times_of(state)
    if rule is None or times is None or times.column != rule.column:
        return None
    return times.watermark(rule)


def watermark_us(node: Node, state: State | PartialState | None) -> int | None:
    """Up to which time the rows of a state are complete. A transform with `emit: final` lacks the
    granule that its inputs are in: it is complete up to the start of this."""
    if not isinstance(state, State):
        return None
    if node.is_source:
        watermark = watermark_of_source(node, state)
        return None if watermark is None else watermark.at_us
    at_us = watermark_of_inputs(state)
    if at_us is None or not node.is_transform or not node.body.is_final:
        return at_us
    after_s = max((slot.reach.after_s for slot in node.slots if slot.reach is not None), default=0)
    moment = time_of(at_us - after_s * SECOND_US)
    return (start_of_granule(moment, node.key[0].granule) - _EPOCH) // _MICROSECOND


def watermark_of_inputs(state: State) -> int | None:
    """The least of those that a state was made from."""
    marks = [consumed.watermark_us for consumed in state.inputs.values()]
    return min((mark for mark in marks if mark is not None), default=None)


# --- closed keys ------------------------------------------------------------------------------------


def time_of(us: int) -> datetime:
    """The time of microseconds since 1970, within the years that there are."""
    try:
        return _EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return _LATEST if us > 0 else _EARLIEST


def shown(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def closed_by(watermark_us: int) -> str:
    """Why partitions of a dataset with `emit: final` are there."""
    return f"closed by the watermark of {shown(time_of(watermark_us))}"


def closed(
    nodes: tree.NodeStore, keys: Consumed, granule: str, watermark: int | None, after_s: int
) -> Consumed:
    """The tree of an input's keys without the open ones. The granule of time is the first part of a
    key. `after_s`: how far behind their end the partitions read."""
    if watermark is None:
        return replace(keys, root=tree.EMPTY_ROOT)
    moment = time_of(watermark - after_s * SECOND_US)
    still_open = [(key, None) for key in _open(nodes, keys.root, granule, moment)]
    return replace(keys, root=tree.edit(nodes, keys.root, still_open))


def _open(nodes: tree.NodeStore, root: bytes, granule: str, moment: datetime) -> Iterator[str]:
    """Keys whose granules end behind a moment. Keys come in the order of time, so those of earlier
    granules are not read. Rows without a time are never closed."""
    first = next(tree.scan(nodes, root), None)
    if first is None:
        return
    column, _, _ = first.key.partition("/")[0].partition("=")
    start = f"{column}={encode_segment(granule_text(moment, granule, UTC))}"
    # Also years with a sign, which are not between 1 and 9999
    without_time = tree.scan(nodes, root, stop=f"{column}=0")
    for possible in chain(without_time, tree.scan(nodes, root, start=start)):
        end = end_of_granule(possible.key, granule)
        if end is None or end > moment:
            yield possible.key
