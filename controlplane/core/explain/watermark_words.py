"""Watermarks in sentences: up to which time a stream is complete, what holds it back, and what it
closes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from controlplane.core.compile.nodes import Node, Source, Transform
from controlplane.core.model.answers.status import DatasetWatermark
from controlplane.core.model.event_times import Watermark
from controlplane.core.model.states import State
from controlplane.core.plan import event_watermarks

LEFT_OUT = "left out by its expectations"
LATE = {
    "drop": "late, and dropped",
    "quarantine": "late, and quarantined",
    "fail": "late: else it fails",
}
UNKNOWN = "no watermark before its first messages with a time"


def of_dataset(node: Node, state: State | None) -> DatasetWatermark | None:
    """That of a stream with a rule of event times, of a dataset without its late rows, and of one
    with `emit: final`."""
    if node.is_source:
        return _of_source(node, state)
    if node.is_transform and node.late is not None and not node.output:
        return _of_late(node, state)
    if not node.is_transform or not node.body.is_final:
        return None
    at_us = None if state is None else event_watermarks.watermark_of_inputs(state)
    if at_us is None:
        return {"at": None, "ahead": 0, "sentence": UNKNOWN}
    return {"at": _at(at_us), "ahead": 0, "sentence": event_watermarks.closed_by(at_us)}


def _of_late(node: Transform, state: State | None) -> DatasetWatermark | None:
    """How many rows are late; with those that other expectations take out, where there are some."""
    consumed = next(iter(state.inputs.values()), None) if state is not None else None
    if state is None or consumed is None or consumed.times is None:
        return None
    rows, at_us = consumed.times.rows, consumed.watermark_us
    taken_out = rows - state.rows
    words = LEFT_OUT
    checks = [check for check in node.checks if check.is_drop]
    if len(checks) == 1:
        words = LATE.get(checks[0].of.on_fail, words)
    return {
        "at": None if at_us is None else _at(at_us),
        "ahead": consumed.times.ahead,
        "sentence": f"{taken_out:,} of {rows:,} rows are {words}",
    }


def _of_source(node: Source, state: State | None) -> DatasetWatermark | None:
    if node.read.event_time is None or node.output:
        return None
    watermark = event_watermarks.watermark_of_source(node, state)
    if watermark is None:
        return {"at": None, "ahead": 0, "sentence": UNKNOWN}
    return {
        "at": _at(watermark.at_us),
        "ahead": watermark.ahead,
        "sentence": "; ".join(_words(watermark)),
    }


def _words(watermark: Watermark) -> Iterator[str]:
    at = event_watermarks.shown(event_watermarks.time_of(watermark.at_us))
    yield f"the watermark is {at}, by partition {watermark.partition}"
    for idle in watermark.idle[:3]:
        since = datetime.fromtimestamp(idle.listed_ms / 1_000, UTC)
        yield f"partition {idle.partition} is idle since {event_watermarks.shown(since)}"
    if len(watermark.idle) > 3:
        yield f"{len(watermark.idle) - 3} more partitions are idle"
    if watermark.ahead:
        rows = "row is" if watermark.ahead == 1 else "rows are"
        yield f"{watermark.ahead:,} {rows} too far ahead, and left out of it"


def _at(us: int) -> str:
    return event_watermarks.time_of(us).isoformat()
