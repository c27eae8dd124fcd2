"""Jumps of trends as conditions of datasets: the same figures as the marks of the dataset's page.

Generations that jump one after the other are one jump, which begins with the first of them. For
example, if rows go from 100 to 200 and stay there, the first generation with 200 rows is reported,
and the later ones are not.

A jump is a condition that holds for an hour from its commit. So a channel that is new, or a service
that was down for long, reports no jumps of the past. The stored alert has the time of the commit: a
process that starts does not report the jump again, and reports one that no process has reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from controlplane.core.alerts import Key, News
from controlplane.core.durations import duration
from controlplane.core.model.alerts import MEASURE_OF, Alert, Condition
from controlplane.core.model.answers.datasets import Trend, TrendMeasure, TrendPoint
from controlplane.core.model.events import Event
from controlplane.core.model.states import State
from controlplane.ports.store import Tx

JUMPED: Final = "dataset.jumped"
REPORTED_FOR_S: Final = 3_600.0  # after the commit of its first generation
_CONDITION_OF: Final[Mapping[TrendMeasure, Condition]] = {
    measure: condition for condition, measure in MEASURE_OF.items()
}
_WORDS: Final[Mapping[TrendMeasure, str]] = {
    "rows": "rows",
    "run_time": "run time",
    "cost": "cost",
    "interval": "time since the commit before",
}
Jumps = Mapping[TrendMeasure, TrendPoint]  # the first generation of each jump


@dataclass(frozen=True, slots=True)
class Jump:
    """A jump in words, and the commit of its first generation."""

    text: str
    began_at: float


@dataclass(frozen=True, slots=True)
class SeenGeneration:
    """The generation of a dataset at the last look, and the last jumps up to it."""

    generation: int
    jumps: Jumps


NOTHING_SEEN: Final = SeenGeneration(0, {})


@dataclass(slots=True)
class SeenJumps:
    """The last jumps of one branch. Generations are read where there are new ones."""

    by_dataset: dict[str, SeenGeneration] = field(default_factory=dict)

    def conditions(
        self,
        tx: Tx,
        branch: str,
        states: Mapping[str, State],
        measures: Mapping[str, Set[TrendMeasure]],
    ) -> dict[Key, Jump]:
        """Conditions that hold. `states`: the newest ones, by dataset. `measures`: those that are
        reported, by dataset."""
        earliest = tx.now() - REPORTED_FOR_S
        conditions: dict[Key, Jump] = {}
        for name in sorted(measures.keys() & states.keys()):
            points = self._jumps(tx, branch, states[name])
            for measure in sorted(measures[name] & points.keys()):
                jump = _jump(measure, points[measure])
                if jump.began_at >= earliest:
                    conditions[name, _CONDITION_OF[measure]] = jump
        return conditions

    def _jumps(self, tx: Tx, branch: str, state: State) -> Jumps:
        """The last ones. A first look is at all generations of the trends."""
        name, newest = state.dataset, state.generation
        before = self.by_dataset.get(name, NOTHING_SEEN)
        if before.generation == newest:
            return before.jumps
        # Only a channel that reports jumps needs the history of datasets
        from controlplane.operations.inspect import datasets, trends

        history = datasets.measured_generations(tx, branch, name, trends.GENERATIONS)
        measured = trends.of_generations(history)
        # An earlier jump stays: the transaction that reports it may fail
        jumps = {**before.jumps, **_jumps_after(measured, before.generation)}
        self.by_dataset[name] = SeenGeneration(newest, jumps)
        return jumps


def _jumps_after(measured: Iterable[Trend], generation: int) -> Jumps:
    jumps = {trend["measure"]: last_jump(trend["points"], generation) for trend in measured}
    return {measure: point for measure, point in jumps.items() if point is not None}


def last_jump(points: Sequence[TrendPoint], generation: int) -> TrendPoint | None:
    """The first point of the last jump, if it begins after this generation. `points`: oldest
    first."""
    first: TrendPoint | None = None
    for point in reversed(points):
        if point["is_jump"]:
            first = point
        elif first is not None:
            break
    return first if first is not None and first["generation"] > generation else None


def _jump(measure: TrendMeasure, point: TrendPoint) -> Jump:
    began_at = datetime.fromisoformat(point["at"]).timestamp()
    return Jump(_sentence(measure, point), began_at)


def _sentence(measure: TrendMeasure, point: TrendPoint) -> str:
    """`rows of generation 12: 5, usual 100`."""
    amount, usual = _amount(measure, point["amount"]), _amount(measure, point["usual"] or 0.0)
    return f"{_WORDS[measure]} of generation {point['generation']}: {amount}, usual {usual}"


def _amount(measure: TrendMeasure, amount: float) -> str:
    return f"{amount:,.0f}" if measure == "rows" else duration(amount)


def events(branch: str, before: Iterable[Alert], news: News) -> list[Event]:
    """Events of new jumps. `before`: alerts at the last look."""
    present = {(alert.key, alert.since) for alert in before}
    return [
        Event(JUMPED, alert.dataset, 1, _event_body(alert), branch=branch)
        for alert in news.changed
        if alert.condition in MEASURE_OF and (alert.key, alert.since) not in present
    ]


def _event_body(alert: Alert) -> dict[str, str]:
    return {"measure": MEASURE_OF[alert.condition], "text": alert.text}
