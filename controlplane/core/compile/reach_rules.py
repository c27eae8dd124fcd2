"""Inputs that are read beyond the granule of the output: the rules for their `reach`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

from controlplane.core import sql
from controlplane.core.blueprint import KeyColumn, PythonTransform, SqlTransform
from controlplane.core.compile.nodes import Slot
from controlplane.core.durations import duration
from controlplane.core.errors import Problem
from dataplane.contract.reach import Reach, most_neighbours
from dataplane.contract.zones import UTC_NAMES

MOST_NEIGHBOURS = 500  # granules that a partition reads beside its own

_Fault = tuple[str, str, str]  # a code, a message and a hint


@dataclass(frozen=True)
class ReachRules:
    """The declared reaches of a transform, against its query; Python has none."""

    body: SqlTransform | PythonTransform
    slots: Sequence[Slot]
    timezone: str
    query: sql.AnalysedQuery | None = None
    case_sensitive: bool = False

    def slots_with_reach(self) -> tuple[Slot, ...]:
        """The inputs with the reach that is declared, and words about its proof."""
        return tuple(self._with_reach(slot) for slot in self.slots)

    def problems(self) -> Iterator[Problem]:
        """Reaches that mean nothing, or are shorter than the conditions of the query."""
        by = {slot.name: slot for slot in self.slots if slot.mode == "by"}
        for hint in self.body.inputs:
            if hint.reach is None or hint.name not in by:
                continue
            fault = self._fault(hint.reach) or self._fault_of_query(by[hint.name], hint.reach)
            if fault is not None:
                yield hint.place.problem(*fault)

    # --- what is declared ---

    @cached_property
    def _reaches(self) -> Mapping[str, Reach]:
        """The declared reach of each input by key that has one."""
        by = {slot.name for slot in self.slots if slot.mode == "by"}
        return {
            hint.name: hint.reach
            for hint in self.body.inputs
            if hint.reach is not None and hint.name in by
        }

    @cached_property
    def _leading(self) -> tuple[str, ...]:
        """The inputs whose keys are the partitions of the output."""
        by = (slot.name for slot in self.slots if slot.mode == "by")
        return tuple(name for name in by if name not in self._reaches)

    @cached_property
    def _time_part(self) -> KeyColumn | None:
        """The part of the key that is a granule of time; None where there is none, or several."""
        parts = [part for part in self.body.partition_by if part.granule]
        return parts[0] if len(parts) == 1 else None

    # --- words ---

    def _with_reach(self, slot: Slot) -> Slot:
        reach = self._reaches.get(slot.name)
        if reach is None:
            return slot
        reads = " and ".join(
            f"{duration(seconds)} {side}"
            for seconds, side in ((reach.before_s, "before"), (reach.after_s, "after"))
            if seconds
        )
        words = f"reads {reads} its granule, {self._proof(slot)}"
        return replace(slot, reach=reach, reason=f"{slot.reason}; {words}")

    def _proof(self, slot: Slot) -> str:
        distance = self._distance(slot)
        sides = ((distance.before_s, "before"), (distance.after_s, "after"))
        unknown = [side for seconds, side in sides if seconds is None]
        if unknown:
            return f"as declared: no condition says how far {' or '.join(unknown)}"
        if not all(self._is_keyed(name, self.body.partition_by) for name in self._leading):
            return f"as declared: it is not proven that {' and '.join(self._leading)} can be read by it"
        others = [part for part in self.body.partition_by if part is not self._time_part]
        if others and not self._is_keyed(slot.name, others):
            columns = ", ".join(part.column for part in others)
            return f"as declared: no condition says that {columns} is equal"
        return "which covers the times of the conditions"

    def _distance(self, slot: Slot) -> sql.TimeDistance:
        if self.query is None or self._time_part is None:
            return sql.TimeDistance(None, None)
        by = (other.name for other in self.slots if other.mode == "by")
        column_by_input = dict.fromkeys(by, self._time_part.column)
        columns = sql.TimeColumns(column_by_input, self._leading, self.case_sensitive)
        return self.query.time_distance(slot.name, columns)

    def _verdict(self, name: str, key: Sequence[KeyColumn]) -> sql.Verdict | None:
        """How the query could read the input by these parts of the key."""
        if self.query is None:
            return None
        parts = [sql.OutputKeyPart(part.column, part.granule) for part in key]
        return self.query.verdicts(parts, case_sensitive=self.case_sensitive).get(name)

    def _is_keyed(self, name: str, key: Sequence[KeyColumn]) -> bool:
        """Whether the query could read the input by the columns of these names."""
        verdict = self._verdict(name, key)
        if verdict is None or verdict.mode != "by":
            return False
        fold = str if self.case_sensitive else str.lower
        proven = [fold(part.column) for part in verdict.keys]
        return proven == [fold(part.column) for part in key]

    # --- faults ---

    def _fault(self, reach: Reach) -> _Fault | None:
        part = self._time_part
        if part is None:
            message = "a reach needs one granule of time in partition_by, from which it counts"
            return "missing-key", message, "partition_by: [{at: hour}]"
        if not self._leading:
            message = "all inputs by key have a reach, so none says which partitions there are"
            hint = "read one of them `by` alone: the one whose rows are kept"
            return "conflicting-keys", message, hint
        if self.timezone not in UTC_NAMES:
            message = f"a reach needs the time zone UTC, this dataflow has {self.timezone}"
            return "not-supported", message, "cast times to UTC before, and write timezone: UTC"
        count = most_neighbours(part.granule, reach)
        if count > MOST_NEIGHBOURS:
            message = f"a reach of {count:,} granules ({part.granule}); {MOST_NEIGHBOURS:,} at most"
            return "invalid-value", message, "partition by a longer granule, or reach less far"
        return None

    def _fault_of_query(self, slot: Slot, reach: Reach) -> _Fault | None:
        verdict = self._verdict(slot.name, self.body.partition_by)
        if verdict is not None and verdict.mode == "by":
            message = f"the output's key is that of {slot.name}, which therefore has no reach"
            hint = "declare the reach of the inputs that its rows are joined with"
            return "conflicting-keys", message, hint
        return _too_short(reach, self._distance(slot))


def _too_short(reach: Reach, distance: sql.TimeDistance) -> _Fault | None:
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
