"""Inputs that are read beyond the granule of the output: the rules for their `reach`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import ceil

from controlplane.core import sql
from controlplane.core.blueprint import KeyColumn, PythonTransform, SqlTransform
from controlplane.core.compile.nodes import Slot
from controlplane.core.durations import duration
from controlplane.core.errors import Problem
from dataplane.contract.reach import Reach, most_neighbours

MOST_NEIGHBOURS = 500  # granules that a partition reads beside its own


def with_reach(
    body: SqlTransform | PythonTransform, slots: Sequence[Slot], query: sql.AnalysedQuery | None
) -> tuple[Slot, ...]:
    """The inputs with the reach that is declared, and words about its proof."""
    reaches = {hint.name: hint.reach for hint in body.inputs if hint.reach is not None}
    reaching: list[Slot] = []
    for slot in slots:
        reach = reaches.get(slot.name) if slot.mode == "by" else None
        if reach is not None:
            words = _in_words(reach, _distance(body, slots, slot, query))
            slot = replace(slot, reach=reach, reason=f"{slot.reason}; {words}")
        reaching.append(slot)
    return tuple(reaching)


def _in_words(reach: Reach, distance: sql.TimeDistance) -> str:
    reads = " and ".join(
        f"{duration(seconds)} {side}"
        for seconds, side in ((reach.before_s, "before"), (reach.after_s, "after"))
        if seconds
    )
    unknown = [
        side
        for seconds_apart, side in ((distance.before_s, "before"), (distance.after_s, "after"))
        if seconds_apart is None
    ]
    if not unknown:
        return f"reads {reads} its granule, which covers the conditions of the query"
    return (
        f"reads {reads} its granule, as declared: no condition says how far {' or '.join(unknown)}"
    )


def _distance(
    body: SqlTransform | PythonTransform,
    slots: Sequence[Slot],
    slot: Slot,
    query: sql.AnalysedQuery | None,
) -> sql.TimeDistance:
    part = _time_part(body)
    if query is None or part is None:
        return sql.TimeDistance(None, None)
    columns = {other.name: part.column for other in slots if other.mode == "by"}
    return query.time_distance(slot.name, columns)


def _time_part(body: SqlTransform | PythonTransform) -> KeyColumn | None:
    """The part of the key that is a granule of time; None where there is none, or several."""
    parts = [part for part in body.partition_by if part.granule]
    return parts[0] if len(parts) == 1 else None


def problems(
    body: SqlTransform | PythonTransform,
    slots: Sequence[Slot],
    query: sql.AnalysedQuery | None,
    timezone: str,
) -> Iterator[Problem]:
    """Reaches that mean nothing, or are shorter than the conditions of the query."""
    part = _time_part(body)
    by = {slot.name: slot for slot in slots if slot.mode == "by"}
    for hint in body.inputs:
        slot = by.get(hint.name)
        if hint.reach is None or slot is None:
            continue
        fault = _fault(by.values(), part, hint.reach, timezone)
        if fault is None:
            assert part is not None
            fault = _too_short(hint.reach, _distance(body, slots, slot, query))
        if fault is not None:
            yield hint.place.problem(*fault)


def _fault(
    by: Iterable[Slot], part: KeyColumn | None, reach: Reach, timezone: str
) -> tuple[str, str, str] | None:
    """A code, a message and a hint."""
    if part is None:
        message = "a reach needs one granule of time in partition_by, from which it counts"
        return "missing-key", message, "partition_by: [{at: hour}]"
    if all(slot.reach is not None for slot in by):
        message = "all inputs by key have a reach, so none says which partitions there are"
        return (
            "conflicting-keys",
            message,
            "read one of them `by` alone: the one whose rows are kept",
        )
    if timezone not in ("UTC", "Z"):
        message = f"a reach needs the time zone UTC, this dataflow has {timezone}"
        return "not-supported", message, "cast times to UTC before, and write timezone: UTC"
    count = most_neighbours(part.granule, reach)
    if count > MOST_NEIGHBOURS:
        message = f"a reach of {count:,} granules ({part.granule}); {MOST_NEIGHBOURS:,} at most"
        return "invalid-value", message, "partition by a longer granule, or reach less far"
    return None


def _too_short(reach: Reach, distance: sql.TimeDistance) -> tuple[str, str, str] | None:
    sides = (
        ("before", reach.before_s, distance.before_s),
        ("after", reach.after_s, distance.after_s),
    )
    for side, declared_s, needed_s in sides:
        if needed_s is not None and needed_s > declared_s:
            message = (
                f"the query joins rows up to {duration(needed_s)} {side}, the reach is"
                f" {duration(declared_s) if declared_s else 'none'}: rows would be missing"
            )
            return "reach-too-short", message, f"reach: {{{side}: {ceil(needed_s)}s}}"
    return None
