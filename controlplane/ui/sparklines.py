"""A line of a few values in the height of a text line, as SVG places. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 150
HEIGHT: Final = 34
MARGIN: Final = 4


@dataclass(frozen=True, slots=True)
class SparkDot:
    """`index`: of the value that it stands for."""

    x: float
    y: float
    index: int


@dataclass(frozen=True, slots=True)
class Sparkline:
    """A path through all values, and dots at those that are marked."""

    path: str
    marks: list[SparkDot]


def sparkline(values: Sequence[float], marked: Sequence[bool]) -> Sparkline | None:
    """From the least value to the greatest. None where there are fewer than two."""
    if len(values) < 2:
        return None
    low, high = min(values), max(values)
    step = (WIDTH - 2 * MARGIN) / (len(values) - 1)
    dots: list[SparkDot] = []
    for index, height in enumerate(values):
        share = (height - low) / ((high - low) or 1.0)
        y = HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN)
        dots.append(SparkDot(round(MARGIN + index * step, 1), round(y, 1), index))
    path = "M" + " L".join(f"{dot.x} {dot.y}" for dot in dots)
    return Sparkline(path, [dot for dot in dots if marked[dot.index]])
