"""A result of a query as a chart: which columns it shows, and its picture as numbers for SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias, get_args

from controlplane.core.model.answers.queries import QueryColumnAnswer
from controlplane.core.model.json_values import JsonValue
from controlplane.ui.query_values import TypeKind, number_in, type_kind

ChartKind: TypeAlias = Literal["bar", "line", "scatter"]
KINDS: Final[tuple[ChartKind, ...]] = get_args(ChartKind)
POINTS: Final = 2_000  # rows of a chart
MARKED = 300  # points that are drawn one by one, with their values; more are one line
WIDTH, HIGH, LEFT, RIGHT, TOP, FOOT = 900, 360, 84, 16, 12, 44  # pixels
NAMING: Final[tuple[TypeKind, ...]] = ("time", "text", "truth")
STEPS = (1, 2, 2.5, 5, 10)
GRID_LINES, LABELS, LONGEST = 5, 8, 16
LARGEST, SMALLEST_SPAN = 1e300, 1e-300  # beyond them, spans of floats are infinite or 0


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """A row: the text of its x, a number for it where x has numbers or times, and y."""

    label: str
    x: float | None
    y: float


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A bar's upper left corner and size, or the centre of a dot. `title`: its values."""

    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class ChartPicture:
    """`path`: of a line, and of points that are too many for `marks`. `grid`: height and label of
    lines; `labels`: place and text below them."""

    marks: tuple[ChartMark, ...]
    path: str
    bar_width: float
    grid: tuple[tuple[float, str], ...]
    labels: tuple[tuple[float, str], ...]


# --- columns --------------------------------------------------------------------------------------


def default_columns(columns: Sequence[QueryColumnAnswer]) -> tuple[int, int] | None:
    """x and y: a time, else what names a row, else the first column; the first other column of
    numbers. None where there is no such one."""
    kinds = [type_kind(column["type"]) for column in columns]
    x = next((kinds.index(kind) for kind in NAMING if kind in kinds), 0)
    numbers = [place for place, kind in enumerate(kinds) if kind == "number"]
    y = next((place for place in numbers if place != x), None)
    if y is None and numbers:
        y = numbers[0]
    return None if y is None else (x, y)


def default_kind(column: QueryColumnAnswer) -> ChartKind:
    """The usual chart for the type of x."""
    match type_kind(column["type"]):
        case "time":
            return "line"
        case "number":
            return "scatter"
        case _:
            return "bar"


def points_of(
    rows: Sequence[Sequence[JsonValue]], x: int, y: int, x_kind: TypeKind
) -> list[ChartPoint]:
    """In the order of the rows; those without a number in y are left out, as are numbers beyond
    LARGEST."""
    points = list[ChartPoint]()
    for row in rows:
        number = _drawable(number_in(row[y]))
        if number is not None:
            label = "null" if row[x] is None else str(row[x])
            points.append(point_of(label, x_kind, number))
    return points


def point_of(label: str, x_kind: TypeKind, y: float) -> ChartPoint:
    """`label`: the text of x, which has a number where its column has numbers or times."""
    return ChartPoint(label, _number_of(label, x_kind), y)


def _number_of(label: str, kind: TypeKind) -> float | None:
    if kind == "number":
        return _drawable(number_in(label))
    if kind != "time":
        return None
    try:
        time = datetime.fromisoformat(label)
    except ValueError:  # a time of day, or a year that Python does not have
        return None
    # A time without a zone is not one of this machine's zone, whose days may have 23 hours
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _drawable(number: float | None) -> float | None:
    return None if number is None or abs(number) > LARGEST else number


# --- the picture ----------------------------------------------------------------------------------


def picture(points: Sequence[ChartPoint], kind: ChartKind) -> ChartPicture:
    """The chart of at least one point."""
    low, high = min(point.y for point in points), max(point.y for point in points)
    if kind == "bar":
        low, high = min(low, 0.0), max(high, 0.0)
    grid = _grid(low, high)
    low, high = min(low, grid[0]), max(high, grid[-1])
    span = (high - low) or 1.0
    heights = [_height(point.y, low, span) for point in points]
    places = _places(points, kind)
    bar_width = round(max(0.5, (WIDTH - LEFT - RIGHT) / len(points) * 0.8), 2)
    base = _height(max(low, 0.0), low, span)
    is_marked = len(points) <= MARKED
    return ChartPicture(
        _marks(points, places, heights, kind, bar_width, base) if is_marked else (),
        "" if is_marked and kind != "line" else _path(places, heights, kind, base),
        bar_width,
        tuple((_height(number, low, span), f"{number:,.6g}") for number in grid),
        _labels(points, places),
    )


def _height(number: float, low: float, span: float) -> float:
    return round(HIGH - FOOT - (number - low) / span * (HIGH - TOP - FOOT), 1)


def _grid(low: float, high: float) -> list[float]:
    """Round numbers from below the lowest value to above the highest. Both are at most LARGEST."""
    rough = max((high - low) or abs(high) or 1.0, SMALLEST_SPAN) / GRID_LINES
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in STEPS if factor * unit >= rough * 0.999)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def _places(points: Sequence[ChartPoint], kind: ChartKind) -> list[float]:
    """From left to right: by numbers where all points have some and none is a bar, else by rows."""
    room = WIDTH - LEFT - RIGHT
    numbers = [point.x for point in points if point.x is not None]
    if kind == "bar" or len(numbers) < len(points):
        slot = room / len(points)
        return [round(LEFT + (place + 0.5) * slot, 1) for place in range(len(points))]
    low, span = min(numbers), (max(numbers) - min(numbers)) or 1.0
    return [round(LEFT + (number - low) / span * room, 1) for number in numbers]


def _marks(
    points: Sequence[ChartPoint],
    places: Sequence[float],
    heights: Sequence[float],
    kind: ChartKind,
    bar_width: float,
    base: float,
) -> tuple[ChartMark, ...]:
    marks = list[ChartMark]()
    for point, x, y in zip(points, places, heights, strict=True):
        title = f"{point.label[:200]}: {point.y:,.12g}"
        if kind == "bar":
            size = round(max(1.0, abs(base - y)), 1)
            marks.append(
                ChartMark(round(x - bar_width / 2, 1), min(y, base), bar_width, size, title)
            )
        else:
            marks.append(ChartMark(x, y, 0, 0, title))
    return tuple(marks)


def _path(places: Sequence[float], heights: Sequence[float], kind: ChartKind, base: float) -> str:
    """A line through the points, a stroke for each bar, or a dot for each point."""
    pairs = list(zip(places, heights, strict=True))
    if kind == "bar":
        return "".join(f"M{x} {base}V{y}" for x, y in pairs)
    if kind == "scatter":
        return "".join(f"M{x} {y}h0" for x, y in pairs)
    return "M" + "L".join(f"{x} {y}" for x, y in sorted(pairs, key=lambda pair: pair[0]))


def _labels(points: Sequence[ChartPoint], places: Sequence[float]) -> tuple[tuple[float, str], ...]:
    """Labels of some points, with room between them."""
    labels, last = list[tuple[float, str]](), -math.inf
    room = (WIDTH - LEFT - RIGHT) / LABELS
    for x, point in sorted(zip(places, points, strict=True), key=lambda pair: pair[0]):
        if x - last >= room:
            text = point.label
            labels.append((x, text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"))
            last = x
    return tuple(labels)
