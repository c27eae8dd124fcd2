"""Event times of a stream, and the watermark that follows from them.

A watermark says up to which time the rows of a stream are complete, as far as one can know. It is
a function of the committed slices alone: neither their order nor a clock enters it.

    newest times of each partition of the topic, over all slices of a root
      | without the partitions that are idle
    the least of them, less the delay
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from dataplane.contract.results import MeasuredTimes

SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class EventTime:
    """How a stream is judged by the times in a column. `idle_s`: a partition of the topic does not
    hold the others back once they have had messages for so long after its last one; None: it always
    does. Rows with times more than `max_ahead_s` after their listing count nothing."""

    column: str
    delay_s: float
    idle_s: float | None
    max_ahead_s: float

    @property
    def delay_us(self) -> int:
        return round(self.delay_s * SECOND_US)

    @property
    def max_ahead_us(self) -> int:
        return round(self.max_ahead_s * SECOND_US)


class PartitionTime(NamedTuple):
    """The newest event time in a partition of a topic, and when its last messages with a time were
    listed (in milliseconds since 1970)."""

    partition: int
    newest_us: int
    listed_ms: int


@dataclass(frozen=True, slots=True)
class EventTimes:
    """The newest times in all slices of a root, by partition; and how many rows are too far
    ahead. `rows`: of all slices, where late ones are taken out of them."""

    column: str
    newest: tuple[PartitionTime, ...] = ()
    ahead: int = 0
    rows: int = 0

    @property
    def newest_us(self) -> dict[str, int]:
        """By partition, as measured times have them."""
        return {str(time.partition): time.newest_us for time in self.newest}

    def plus(self, measured: Iterable[MeasuredTimes]) -> EventTimes:
        """With more slices, in any order. Those of another column say nothing."""
        newest = {time.partition: time for time in self.newest}
        ahead = self.ahead
        for times in measured:
            if times["column"] != self.column:
                continue
            ahead += times["ahead"]
            for name, newest_us in times["newest_us"].items():
                time = PartitionTime(int(name), newest_us, times["listed_ms"])
                newest[time.partition] = _later(newest.get(time.partition, time), time)
        return replace(self, newest=tuple(sorted(newest.values())), ahead=ahead)

    def watermark(self, rule: EventTime) -> Watermark | None:
        """None before any time is known."""
        last_ms = max((time.listed_ms for time in self.newest), default=0)
        active: list[PartitionTime] = []
        idle: list[PartitionTime] = []
        for time in self.newest:
            is_idle = rule.idle_s is not None and last_ms - time.listed_ms > rule.idle_s * 1_000
            (idle if is_idle else active).append(time)
        if not active:
            return None
        least = min(active, key=lambda time: time.newest_us)
        at_us = least.newest_us - rule.delay_us
        return Watermark(at_us, least.partition, tuple(idle), self.ahead)


@dataclass(frozen=True, slots=True)
class SliceTimes:
    """The times in one slice, by partition of the topic. `behind_us`: how far a row is behind an
    earlier one of the slice, or more than that. `is_known`: whether all rows were measured."""

    least_us: Mapping[str, int]
    behind_us: Mapping[str, int]
    listed_ms: int = 0
    is_known: bool = True

    @staticmethod
    def of(times_of_files: Sequence[MeasuredTimes | None]) -> SliceTimes:
        """Those of a slice, of which each file has some rows. None: not measured."""
        measured = [times for times in times_of_files if times is not None]
        listed_ms = max((times["listed_ms"] for times in measured), default=0)
        # An earlier version measured the newest times alone
        measured = [times for times in measured if "least_us" in times]
        if len(measured) < len(times_of_files):
            return SliceTimes({}, {}, listed_ms, is_known=False)
        least: dict[str, int] = {}
        behind: dict[str, int] = {}
        for partition in {p for times in measured for p in times["least_us"]}:
            own = [times for times in measured if partition in times["least_us"]]
            least[partition] = min(times["least_us"][partition] for times in own)
            if len(own) == 1 and partition in own[0]["behind_us"]:
                behind[partition] = own[0]["behind_us"][partition]
                continue
            # The order of rows in several files is not known
            newest = [times["newest_us"].get(partition, least[partition]) for times in own]
            behind[partition] = max(newest) - least[partition]
        return SliceTimes(least, behind, listed_ms)

    def may_be_late(self, before_us: Mapping[str, int], delay_us: int) -> bool:
        """Whether a row may be late. `before_us`: the newest times of earlier slices."""
        if not self.is_known:
            return True
        for partition, least in self.least_us.items():
            if max(self.behind_us[partition], before_us.get(partition, least) - least) > delay_us:
                return True
        return False


def _later(a: PartitionTime, b: PartitionTime) -> PartitionTime:
    newest_us, listed_ms = max(a.newest_us, b.newest_us), max(a.listed_ms, b.listed_ms)
    return PartitionTime(a.partition, newest_us, listed_ms)


@dataclass(frozen=True, slots=True)
class Watermark:
    """A time in microseconds since 1970, the partition that holds it back, and those that do not
    count. `ahead`: rows that are left out."""

    at_us: int
    partition: int
    idle: tuple[PartitionTime, ...]
    ahead: int
