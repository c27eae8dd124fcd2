"""The language of event time: the column of a stream that says when something happened, and what
follows for its watermark."""

from __future__ import annotations

from controlplane.core.blueprint.freshness import Duration
from controlplane.core.blueprint.section_keys import Fields, Key, Nested, Section
from controlplane.core.blueprint.value_kinds import Choice, Reading, Text
from controlplane.core.model.event_times import EventTime

COLUMN = Key(
    "column",
    Text(),
    "",
    "The column with the time of an event: TIMESTAMP or TIMESTAMP_NTZ.",
    is_required=True,
    example="at",
)
DELAY: Key[float | None] = Key(
    "delay",
    Duration(),
    None,
    "How far the watermark stays behind the newest time. Without it: not at all.",
    example="10m",
)
IDLE: Key[float | None] = Key(
    "idle",
    Duration(),
    None,
    "A partition without messages for so long, while others had some, holds nothing back. Without it: it always does.",
    example="1m",
)
MAX_AHEAD = Key(
    "max_ahead",
    Duration(),
    3600.0,
    "Rows with times so far ahead of their listing do not move the watermark.",
    written="1h",
    example="1h",
)


def _event_time(fields: Fields, _: Reading) -> EventTime:
    return EventTime(fields[COLUMN], fields[DELAY] or 0.0, fields[IDLE], fields[MAX_AHEAD])


EVENT_TIME: Key[EventTime | None] = Key(
    "event_time",
    Nested(Section((COLUMN, DELAY, IDLE, MAX_AHEAD)), _event_time),
    None,
    "The column with the time of an event, which the watermark follows.",
    example={"column": "at", "delay": "10m"},
)

KEPT = "keep"
LATE = Key(
    "late",
    Choice(("correct", "drop", "quarantine", "fail", KEPT)),
    "correct",
    "What becomes of late rows. keep: another component's expectation `late` judges them.",
)

EMIT = Key(
    "emit",
    Choice(("changes", "final")),
    "changes",
    "changes: all partitions, as they are by now. final: those that the watermark has closed.",
)
