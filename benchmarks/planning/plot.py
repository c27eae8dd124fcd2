"""Line charts on logarithmic scales as SVG, by hand. Does not belong here: what is shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import TypeAlias

WIDTH, HEIGHT = 800, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 240, 40, 50
COLORS = ("#1f6feb", "#d1495b", "#2e8b57", "#8250df", "#b35900", "#57606a")
DASHES = ("", "7 4", "2 3")
Points: TypeAlias = Mapping[float, float]


@dataclass(frozen=True, slots=True)
class Line:
    """`color` and `dashes` are places in COLORS and DASHES."""

    name: str
    points: Points
    color: int = 0
    dashes: int = 0


@dataclass(frozen=True, slots=True)
class _Axis:
    """Powers of ten from `low` to `high`, drawn from `start` to `end`."""

    low: int
    high: int
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (log10(value) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def chart(title: str, x_name: str, y_name: str, lines: Sequence[Line]) -> str:
    """All values are above zero."""
    xs = _axis((x for line in lines for x in line.points), LEFT, WIDTH - RIGHT)
    ys = _axis((y for line in lines for y in line.points.values()), HEIGHT - BOTTOM, TOP)
    middle = HEIGHT / 2
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14" font-weight="bold">{escape(title)}</text>',
        *_grid(xs, ys),
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_name)}</text>',
        f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">{escape(y_name)}</text>',
    ]
    for number, line in enumerate(lines):
        parts += _line(line, number, xs, ys)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _axis(values: Iterable[float], start: float, end: float) -> _Axis:
    powers = [log10(value) for value in values]
    low, high = floor(min(powers)), ceil(max(powers))
    return _Axis(low, max(high, low + 1), start, end)


def _grid(xs: _Axis, ys: _Axis) -> Iterator[str]:
    for x in xs.ticks():
        yield f'<path d="M{xs.at(x)} {ys.start}V{ys.end}" stroke="#ddd"/>'
        yield f'<text x="{xs.at(x)}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{x:,.0f}</text>'
    for y in ys.ticks():
        yield f'<path d="M{xs.start} {ys.at(y)}H{xs.end}" stroke="#ddd"/>'
        yield f'<text x="{LEFT - 6}" y="{ys.at(y) + 4}" text-anchor="end">{_seconds(y)}</text>'


def _seconds(value: float) -> str:
    return f"{value:,.0f} s" if value >= 1 else f"{value * 1000:g} ms"


def _line(line: Line, number: int, xs: _Axis, ys: _Axis) -> Iterator[str]:
    places = [(xs.at(x), ys.at(y)) for x, y in sorted(line.points.items())]
    path = "M" + "L".join(f"{x} {y}" for x, y in places)
    color, dashes = (
        COLORS[line.color],
        f' stroke-dasharray="{DASHES[line.dashes]}"' if line.dashes else "",
    )
    yield f'<path d="{path}" fill="none" stroke="{color}" stroke-width="2"{dashes}/>'
    yield from (f'<circle cx="{x}" cy="{y}" r="3" fill="{color}"/>' for x, y in places)
    legend = TOP + 18 * number
    yield f'<path d="M{WIDTH - RIGHT + 12} {legend}h24" stroke="{color}" stroke-width="2"{dashes}/>'
    yield f'<text x="{WIDTH - RIGHT + 42}" y="{legend + 4}">{escape(line.name)}</text>'
