"""Trends of a dataset over its generations: rows, run time, cost and the time between commits, with
marks where a value jumps. Pure.

A value jumps if it lies further from the median m of the values before it than both
- 3.5 * MAD / 0.6745, where MAD is the median distance of these values from m: the modified z-score
  of B. Iglewicz and D. Hoaglin, How to Detect and Handle Outliers, 1993;
- 10 % of m, so that a value that never moved may move a little.

For example, after 100, 101, 99, 100, 102 rows, m is 100, MAD is 1, and 111 rows are a jump. Fewer
than five values are no history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Final

from controlplane.core.model.answers.datasets import (
    MeasuredGeneration,
    Trend,
    TrendMeasure,
    TrendPoint,
)

GENERATIONS: Final = 30  # the newest ones, of which trends are shown and jumps reported
FEWEST: Final = 5  # values that are a history
SCORE: Final = 3.5
CONSISTENCY: Final = 0.6745  # MAD of a normal distribution, in standard deviations
LEAST_SHARE: Final = 0.1


def of_generations(newest_first: Sequence[MeasuredGeneration]) -> list[Trend]:
    """A trend for each measure that two generations or more have, the oldest generation first."""
    generations = list(reversed(newest_first))
    trends: list[Trend] = []
    for measure, amount_of in MEASURES.items():
        points = _points(generations, [amount_of(generation) for generation in generations])
        if len(points) > 1:
            trends.append({"measure": measure, "points": points})
    if len(generations) > 2:
        trends.append(
            {"measure": "interval", "points": _points(generations[1:], _intervals(generations))}
        )
    return trends


def _points(
    generations: Sequence[MeasuredGeneration], amounts: Sequence[float | None]
) -> list[TrendPoint]:
    """A generation without a value has no point."""
    before: list[float] = []
    points: list[TrendPoint] = []
    for generation, amount in zip(generations, amounts, strict=True):
        if amount is None:
            continue
        point: TrendPoint = {
            "generation": generation["generation"],
            "at": generation["at"],
            "amount": round(amount, 3),
            "usual": round(median(before), 3) if len(before) >= FEWEST else None,
            "is_jump": is_jump(before, amount),
        }
        points.append(point)
        before.append(amount)
    return points


def is_jump(before: Sequence[float], amount: float) -> bool:
    if len(before) < FEWEST:
        return False
    middle = median(before)
    deviation = median(abs(earlier - middle) for earlier in before)
    return abs(amount - middle) > max(SCORE * deviation / CONSISTENCY, LEAST_SHARE * abs(middle))


def _rows(generation: MeasuredGeneration) -> float | None:
    return generation["rows"]


def _run_time(generation: MeasuredGeneration) -> float | None:
    return None if generation["work"] is None else generation["work"]["seconds"]


def _cost(generation: MeasuredGeneration) -> float | None:
    return None if generation["work"] is None else generation["work"]["work_s"]


def _intervals(generations: Sequence[MeasuredGeneration]) -> list[float]:
    """Seconds from each commit to the next one."""
    times = [datetime.fromisoformat(generation["at"]) for generation in generations]
    return [(later - earlier).total_seconds() for earlier, later in pairwise(times)]


MEASURES: Final[Mapping[TrendMeasure, Callable[[MeasuredGeneration], float | None]]] = {
    "rows": _rows,
    "run_time": _run_time,
    "cost": _cost,
}
