"""A run on one time axis: for each step its attempts as bars, waiting and work in two shades. Pure.

At most 300 bars are drawn. A step whose attempts are too many, or overlap too often, is folded: one
bar then stands for attempts without a visible gap between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Literal, TypeAlias

from controlplane.core.durations import duration
from controlplane.core.model.answers.work import (
    AttemptAnswer,
    AttemptEntry,
    PastRunAnswer,
    RunStep,
)

MOST_BARS: Final = 300
MOST_STEPS: Final = 100  # a row each
MOST_LANES: Final = 5  # attempts of one step that are drawn one above the other
LANE_PX: Final = 14
GAP: Final = 0.4  # percent of the axis: bars of a folded step with a smaller gap are one bar
THINNEST: Final = 0.3  # percent of the axis: shorter work would not be seen
ATTEMPTS_OF_STEP, ATTEMPTS_LISTED = 20, 200
TICKS: Final = 5  # at most
TICK_STEPS_S: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 86_400)
AttemptState: TypeAlias = Literal["running", "done", "failed", "retried"]
WORST_FIRST: Final[Sequence[AttemptState]] = ("failed", "retried", "running", "done")


@dataclass(frozen=True, slots=True)
class TimedAttempt:
    """An attempt in seconds since 1970. `ended` is now where it runs."""

    id: str
    state: AttemptState
    queued: float
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class AttemptBar:
    """One attempt, or `count` that are folded; `attempt` is the worst of them. `start`, `wait` and
    `work` are percent of the axis; `y` is in pixels."""

    start: float
    wait: float
    work: float
    y: int
    state: AttemptState
    attempt: str
    count: int
    words: str


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """A step with its bars. `attempts`: the entries of those that are listed below it, the first
    ones first; `unlisted`: how many there are beside them."""

    step: RunStep
    bars: list[AttemptBar]
    height: int
    is_critical: bool
    attempts: list[AttemptEntry]
    running: list[AttemptAnswer]
    unlisted: int

    @property
    def total(self) -> int:
        return len(self.attempts) + len(self.running) + self.unlisted


@dataclass(frozen=True, slots=True)
class Timeline:
    """`ticks`: places in percent, with the time since the begin. `unlisted`: how many steps have
    no row."""

    seconds: float = 0.0
    ticks: list[tuple[float, str]] = field(default_factory=list)
    rows: list[TimelineRow] = field(default_factory=list)
    unlisted: int = 0


def of_run(run: PastRunAnswer) -> Timeline:
    """A dataset with several steps, as of a run that took two arrivals, has its attempts at the
    first one."""
    by_dataset = _timed(run)
    every = [attempt for attempts in by_dataset.values() for attempt in attempts]
    begin = min([attempt.queued for attempt in every], default=0.0)
    seconds = max([attempt.ended - begin for attempt in every], default=0.0)
    axis = _Axis(begin, seconds or 1.0)
    steps = _shown_steps(run)
    bars = _bars({step["dataset"]: by_dataset.get(step["dataset"], []) for step in steps}, axis)
    rows = [_row(run, step, bars.pop(step["dataset"], [])) for step in steps]
    return Timeline(seconds, _ticks(seconds), _listed(rows), len(run["steps"]) - len(steps))


def _shown_steps(run: PastRunAnswer) -> list[RunStep]:
    """At most 100 steps, in their order. Failed ones come before those of the critical path, and
    these before the rest."""

    steps, critical = run["steps"], frozenset(run["critical"])

    def rank(place: int) -> tuple[bool, bool]:
        return steps[place]["state"] != "failed", steps[place]["dataset"] not in critical

    chosen = sorted(range(len(steps)), key=rank)[:MOST_STEPS]
    return [steps[place] for place in sorted(chosen)]


def _timed(run: PastRunAnswer) -> dict[str, list[TimedAttempt]]:
    """The attempts of each dataset, in the order in which they began."""
    now = _seconds(run["began"]) + run["seconds"]
    by_dataset: dict[str, list[TimedAttempt]] = {}
    for past in run["attempts"]:
        times = [_seconds(past[name]) for name in ("queued", "began", "ended")]
        by_dataset.setdefault(past["dataset"], []).append(
            TimedAttempt(past["attempt"], past["outcome"], *times)
        )
    for live in run["running"]:
        queued, began = _seconds(live["queued"]), _seconds(live["began"])
        by_dataset.setdefault(live["dataset"], []).append(
            TimedAttempt(live["attempt"], "running", queued, began, max(began, now))
        )
    for attempts in by_dataset.values():
        attempts.sort(key=lambda attempt: (attempt.began, attempt.id))
    return by_dataset


def _seconds(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()


# --- bars -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Axis:
    begin: float
    seconds: float

    def percent(self, seconds: float) -> float:
        return round(100 * seconds / self.seconds, 3)

    def bar(self, attempts: Sequence[TimedAttempt], lane: int) -> AttemptBar:
        """One bar of attempts: it waits from the first in the queue to the first begin."""
        began = min(attempt.began for attempt in attempts)
        queued = min(began, *(attempt.queued for attempt in attempts))
        ended = max(attempt.ended for attempt in attempts)
        worst = min(attempts, key=lambda attempt: WORST_FIRST.index(attempt.state))
        return AttemptBar(
            start=self.percent(queued - self.begin),
            wait=self.percent(began - queued),
            work=max(THINNEST, self.percent(ended - began)),
            y=lane * LANE_PX,
            state=worst.state,
            attempt=worst.id,
            count=len(attempts),
            words=_words(len(attempts), worst.state, began - queued, ended - began),
        )


def _words(count: int, state: AttemptState, waited: float, worked: float) -> str:
    what = state if count == 1 else f"{count:,} attempts, at worst {state}"
    return f"{what}: queued {duration(waited)}, ran {duration(worked)}"


def _bars(by_dataset: Mapping[str, list[TimedAttempt]], axis: _Axis) -> dict[str, list[AttemptBar]]:
    """The bars of each dataset. Datasets with the most attempts are folded until 300 bars are
    enough; where folding is not, each dataset is one bar."""
    bars = {name: _lanes(attempts, axis) for name, attempts in by_dataset.items()}
    for fold in (_folded, _as_one):
        for name in sorted(by_dataset, key=lambda name: -len(bars[name])):
            if sum(map(len, bars.values())) <= MOST_BARS:
                return bars
            bars[name] = fold(by_dataset[name], axis)
    return bars


def _lanes(attempts: Sequence[TimedAttempt], axis: _Axis) -> list[AttemptBar]:
    """Each attempt in the first lane that is free, or folded where the lanes are too few."""
    ends: list[float] = []
    bars: list[AttemptBar] = []
    for attempt in sorted(attempts, key=lambda attempt: (attempt.queued, attempt.began)):
        lane = next((i for i, end in enumerate(ends) if end <= attempt.queued), len(ends))
        if lane == MOST_LANES:
            return _folded(attempts, axis)
        ends[lane : lane + 1] = [attempt.ended]
        bars.append(axis.bar([attempt], lane))
    return bars


def _folded(attempts: Sequence[TimedAttempt], axis: _Axis) -> list[AttemptBar]:
    groups: list[list[TimedAttempt]] = []
    until = 0.0
    for attempt in attempts:
        gap = axis.percent(attempt.began - until)
        if groups and gap < GAP:
            groups[-1].append(attempt)
        else:
            groups.append([attempt])
        until = max(until, attempt.ended)
    return [axis.bar(group, 0) for group in groups]


def _as_one(attempts: Sequence[TimedAttempt], axis: _Axis) -> list[AttemptBar]:
    return [axis.bar(attempts, 0)] if attempts else []


def _ticks(seconds: float) -> list[tuple[float, str]]:
    """At most five places, at round times."""
    if not seconds:
        return []
    step = next((step for step in TICK_STEPS_S if seconds / step <= TICKS), seconds / TICKS)
    times = [step * number for number in range(1, int(seconds / step) + 1)]
    return [(round(100 * at / seconds, 2), duration(at)) for at in times if at < 0.94 * seconds]


# --- rows -------------------------------------------------------------------------------------------


def _row(run: PastRunAnswer, step: RunStep, bars: list[AttemptBar]) -> TimelineRow:
    name = step["dataset"]
    height = max([bar.y for bar in bars], default=0) + LANE_PX
    past = [attempt for attempt in run["attempts"] if attempt["dataset"] == name] if bars else []
    live = [attempt for attempt in run["running"] if attempt["dataset"] == name] if bars else []
    is_critical = bool(bars) and name in run["critical"]
    return TimelineRow(
        step,
        bars,
        height=height,
        is_critical=is_critical,
        attempts=past,
        running=live,
        unlisted=0,
    )


def _listed(rows: Iterable[TimelineRow]) -> list[TimelineRow]:
    """Rows with as many attempts below them as a page can have."""
    left, listed = ATTEMPTS_LISTED, list[TimelineRow]()
    for row in rows:
        room = min(ATTEMPTS_OF_STEP, left)
        running = row.running[:room]
        shown = row.attempts[: room - len(running)]
        left -= len(shown) + len(running)
        unlisted = row.total - len(shown) - len(running)
        listed.append(replace(row, attempts=shown, running=running, unlisted=unlisted))
    return listed
