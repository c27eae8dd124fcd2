"""Jumps of trends as conditions of datasets: the same figures as the marks of the dataset's page.

Generations that jump one after the other are one jump, which begins with the first of them. For
example, if rows go from 100 to 200 and stay there, the first generation with 200 rows is reported,
and the later ones are not.

A jump is reported within an hour of its commit. So a channel that is new, or a service that was
down for long, reports no jumps of the past.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
class SeenGeneration:
    """The generation of a dataset at the last look, and the jumps that last in it."""

    generation: int
    jumps: Jumps


@dataclass(slots=True)
class SeenJumps:
    """Jumps of one branch since the last look. Generations are read where there are new ones."""

    by_dataset: dict[str, SeenGeneration] = field(default_factory=dict)

    def conditions(
        self, tx: Tx, branch: str, states: Mapping[str, State], names: Iterable[str]
    ) -> dict[Key, str]:
        """Conditions that hold, with more in words. `states`: the newest ones, by dataset."""
        earliest = tx.now() - REPORTED_FOR_S
        conditions: dict[Key, str] = {}
        for name in names:
            if name not in states:
                continue
            for measure, point in self._jumps(tx, branch, states[name]).items():
                if datetime.fromisoformat(point["at"]).timestamp() >= earliest:
                    conditions[name, _CONDITION_OF[measure]] = _sentence(measure, point)
        return conditions

    def _jumps(self, tx: Tx, branch: str, state: State) -> Jumps:
        """Those of all generations since the last look. The first look is at the newest one."""
        name, newest = state.dataset, state.generation
        before = self.by_dataset.get(name)
        if before is not None and before.generation == newest:
            return before.jumps
        # Only a channel that reports jumps needs the history of datasets
        from controlplane.operations.inspect import datasets, trends

        history = datasets.measured_generations(tx, branch, name, trends.GENERATIONS)
        measured = trends.of_generations(history)
        lasting = _jumps_after(measured, newest - 1)
        self.by_dataset[name] = SeenGeneration(newest, lasting)
        if before is None:
            return lasting
        return _jumps_after(measured, before.generation)


def _jumps_after(measured: Iterable[Trend], generation: int) -> Jumps:
    jumps = {trend["measure"]: last_jump(trend["points"], generation) for trend in measured}
    return {measure: point for measure, point in jumps.items() if point is not None}


def last_jump(points: Sequence[TrendPoint], generation: int) -> TrendPoint | None:
    """The first point of the last jump that goes on after this generation. `points`: oldest
    first."""
    first: TrendPoint | None = None
    for point in reversed(points):
        is_seen = point["generation"] <= generation
        if point["is_jump"] and not (is_seen and first is None):
            first = point
        elif first is not None or is_seen:
            break
    return first


def _sentence(measure: TrendMeasure, point: TrendPoint) -> str:
    """`rows of generation 12: 5, usual 100`."""
    amount, usual = _amount(measure, point["amount"]), _amount(measure, point["usual"] or 0.0)
    return f"{_WORDS[measure]} of generation {point['generation']}: {amount}, usual {usual}"


def _amount(measure: TrendMeasure, amount: float) -> str:
    return f"{amount:,.0f}" if measure == "rows" else duration(amount)


def events(branch: str, before: Iterable[Alert], news: News) -> list[Event]:
    """Events of new jumps. `before`: alerts at the last look."""
    present = {alert.key for alert in before}
    return [
        Event(JUMPED, alert.dataset, 1, _event_body(alert), branch=branch)
        for alert in news.changed
        if alert.condition in MEASURE_OF and alert.key not in present
    ]


def _event_body(alert: Alert) -> dict[str, str]:
    return {"measure": MEASURE_OF[alert.condition], "text": alert.text}
