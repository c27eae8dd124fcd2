"""Runs that a filter chooses, and how many of them began in each stretch of time.

Example: of 120 runs, 3 failed since Monday; the histogram has two bars, of 1 run and of 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from controlplane.core.model.answers.work import PastRun
from controlplane.ui.work_values import RunBar

BARS: Final = 48  # at most
MINUTE_S: Final = 60
ADDRESS_TIME: Final = "%Y-%m-%dT%H:%M"  # as a field of a form has it, in UTC


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Seconds since 1970, without its end; None is open."""

    since: float | None = None
    until: float | None = None

    def has(self, at: float) -> bool:
        is_after = self.since is None or self.since <= at
        return is_after and (self.until is None or at < self.until)


@dataclass(frozen=True, slots=True)
class RunFilter:
    """An empty text chooses every run. `dataset`: of those that a run reached."""

    state: str = ""
    cause: str = ""
    actor: str = ""
    dataset: str = ""
    times: TimeRange = TimeRange()

    def chooses(self, run: PastRun) -> bool:
        """True if all fields agree with the run."""
        if self.state not in ("", run["state"]):
            return False
        if self.cause not in ("", run["cause"]):
            return False
        if self.actor not in ("", run["actor"]):
            return False
        if self.dataset and self.dataset not in run["datasets"]:
            return False
        return self.times.has(seconds_of(run["began"]))


def seconds_of(instant: str) -> float:
    """Seconds since 1970 of a time with its zone, as answers write it."""
    return datetime.fromisoformat(instant).timestamp()


def histogram(runs: Sequence[PastRun]) -> list[RunBar]:
    """Runs by the time when they began, the earliest first. Bars begin at full minutes and are
    equally long; those without runs are left out."""
    if not runs:
        return []
    minutes = [int(seconds_of(run["began"]) // MINUTE_S) for run in runs]
    first = min(minutes)
    length = math.ceil((max(minutes) - first + 1) / BARS)
    by_place: dict[int, list[PastRun]] = {}
    for run, minute in zip(runs, minutes, strict=True):
        by_place.setdefault((minute - first) // length, []).append(run)
    return [
        _bar(place, first + place * length, length, by_place[place]) for place in sorted(by_place)
    ]


def _bar(place: int, minute: int, length: int, runs: Iterable[PastRun]) -> RunBar:
    states = [run["state"] for run in runs]
    return {
        "place": place,
        "since": _address_time(minute),
        "until": _address_time(minute + length),
        "runs": len(states),
        "failed": states.count("failed"),
    }


def _address_time(minute: int) -> str:
    return datetime.fromtimestamp(minute * MINUTE_S, UTC).strftime(ADDRESS_TIME)
