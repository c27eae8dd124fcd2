"""Partitions as cells of a picture: on an axis of time, or in the order of their keys. Numbers for
templates; SVG attributes and classes only."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Final, Literal, TypeAlias

from controlplane.core.model.answers.datasets import PartitionWork
from controlplane.ui import time_axis
from controlplane.ui.time_axis import Period

CELL, GAP, WIDE = 20, 3, 36
SMALL, LEFT, TOP = 14, 40, 18
STEPS: Final = 5  # of a colour
MONTH_NAMES: Final = tuple(f"{date(2026, month, 1):%b}" for month in range(1, 13))
Colour: TypeAlias = Literal["rows", "state", "age", "seconds"]
COLOURS: Final[tuple[Colour, ...]] = ("rows", "state", "age", "seconds")


@dataclass(frozen=True, slots=True)
class Cell:
    """A partition, or a run of neighbours (`count` > 1) from the key after `first` to `last`.

    `failed` and `to_do`: how many of its keys have such work. `is_missing`: the partition is
    requested and not committed yet. `at`: when it was written, in seconds since 1970; `seconds`: of
    its task. None where that is not known.
    """

    first: str
    last: str
    count: int
    rows: int
    differs: bool = False
    failed: int = 0
    to_do: int = 0
    is_missing: bool = False
    at: float | None = None
    seconds: float | None = None

    @property
    def state(self) -> str:
        return "failed" if self.failed else "to_do" if self.to_do else "done"


@dataclass(frozen=True, slots=True)
class DrawnCell:
    """A square. `look`: its class, one of five steps by rank, or a state. `period`: as text."""

    cell: Cell
    x: int
    y: int
    look: str
    period: str = ""


@dataclass(frozen=True, slots=True)
class CellMap:
    """`cells` may show one range of keys in several squares. `labels`: x, y and text. `listed`: the
    ranges, each once."""

    cells: tuple[DrawnCell, ...] = ()
    labels: tuple[tuple[int, int, str], ...] = ()
    width: int = 0
    height: int = 0
    size: int = CELL
    period: Period | None = None
    listed: tuple[Cell, ...] = ()

    @property
    def has_ranges(self) -> bool:
        return any(cell.count > 1 for cell in self.listed)


def with_work(
    all_cells: Sequence[Cell], keys: Mapping[PartitionWork, Sequence[str]], missing: Iterable[str]
) -> list[Cell]:
    """The cells with the number of their keys that have work, and a cell for each missing key.
    Keys are sorted."""
    counted = [_counted(cell, keys) for cell in all_cells]
    failed = frozenset(keys["failed"])
    for key in missing:
        is_failed = key in failed
        counted.append(Cell(key, key, 1, 0, failed=is_failed, to_do=not is_failed, is_missing=True))
    return sorted(counted, key=lambda cell: cell.last)


def _counted(cell: Cell, keys: Mapping[PartitionWork, Sequence[str]]) -> Cell:
    def number(work: PartitionWork) -> int:
        find = bisect_left if cell.count == 1 else bisect_right
        start = cell.last if cell.count == 1 else cell.first
        return bisect_right(keys[work], cell.last) - find(keys[work], start)

    return replace(cell, failed=number("failed"), to_do=number("to_do"))


def draw_cells(
    all_cells: Sequence[Cell],
    period: Period | None = None,
    *,
    is_exact: bool = True,
    colour: Colour = "rows",
) -> CellMap:
    """On an axis of this period; without one, squares in the order of keys. `is_exact`: all keys of
    a cell are in the period of its last key; else it reaches back to the cell before."""
    if period is None:
        return _squares(all_cells, _classes(all_cells, colour))
    return _axis(all_cells, colour, period, is_exact=is_exact)


def _squares(all_cells: Sequence[Cell], classes: Sequence[str]) -> CellMap:
    step = CELL + GAP
    drawn = tuple(
        DrawnCell(cell, (i % WIDE) * step, (i // WIDE) * step, classes[i])
        for i, cell in enumerate(all_cells)
    )
    rows = (len(all_cells) + WIDE - 1) // WIDE
    width = min(WIDE, len(all_cells)) * step
    return CellMap(drawn, (), width, rows * step, listed=tuple(all_cells))


def _without_hidden(all_cells: Sequence[Cell], period: Period) -> list[Cell]:
    """Without missing partitions of a period that has others; of several missing ones, the first
    is shown."""
    numbers = [time_axis.number_of(period, cell.last) for cell in all_cells]
    occupied = {n for n, cell in zip(numbers, all_cells, strict=True) if not cell.is_missing}
    shown: list[Cell] = []
    for number, cell in zip(numbers, all_cells, strict=True):
        if cell.is_missing and number in occupied:
            continue
        occupied.add(number)
        shown.append(cell)
    return shown


def _axis(all_cells: Sequence[Cell], colour: Colour, period: Period, *, is_exact: bool) -> CellMap:
    step = SMALL + GAP
    all_cells = _without_hidden(all_cells, period)
    classes = _classes(all_cells, colour)
    numbers = [time_axis.number_of(period, cell.last) for cell in all_cells]
    first_row, first_column = time_axis.row_of(period, numbers[0])
    top, left = (0, first_column) if period == "day" else (first_row, 0)
    drawn: list[DrawnCell] = []
    reached = numbers[0] - 1  # the last period with partitions
    for cell, number, look in zip(all_cells, numbers, classes, strict=True):
        if cell.is_missing:
            first = number
        else:
            first = number if is_exact else min(reached + 1, number)
            reached = number
        for shown in range(first, number + 1):
            row, column = time_axis.row_of(period, shown)
            x, y = LEFT + (column - left) * step, TOP + (row - top) * step
            words = time_axis.words_of(period, shown)
            drawn.append(DrawnCell(cell, x, y, look, words))
    return CellMap(
        tuple(drawn),
        tuple(_labels(period, numbers[0], numbers[-1], top, left)),
        width=max(cell.x for cell in drawn) + step,
        height=max(cell.y for cell in drawn) + step,
        size=SMALL,
        period=period,
        listed=tuple(all_cells),
    )


def _labels(
    period: Period, first: int, last: int, top: int, left: int
) -> list[tuple[int, int, str]]:
    """Names of rows at the left, and of columns above."""
    step = SMALL + GAP
    if period == "day":
        weekdays = [(0, TOP + row * step + 11, text) for row, text in _WEEKDAYS]
        return weekdays + _months_of_days(first, last, left)
    rows = range(top, time_axis.row_of(period, last)[0] + 1)
    every = 1 if period != "hour" else 7
    labels = [(0, TOP + (row - top) * step + 11, _row_name(period, row)) for row in rows[::every]]
    return labels + [(LEFT + column * step, 11, text) for column, text in _columns(period)]


_WEEKDAYS: Final = ((0, "Mon"), (2, "Wed"), (4, "Fri"))


def _row_name(period: Period, row: int) -> str:
    return f"{date.fromordinal(row):%b %d}" if period == "hour" else str(row)


def _columns(period: Period) -> list[tuple[int, str]]:
    if period == "hour":
        return [(hour, f"{hour:02}") for hour in range(0, time_axis.HOURS, 3)]
    if period == "month":
        return [(month, name[:1]) for month, name in enumerate(MONTH_NAMES)]
    starts = [(date(2026, month, 1).timetuple().tm_yday - 1) // 7 for month in range(1, 13)]
    return list(zip(starts, MONTH_NAMES, strict=True))


def _months_of_days(first: int, last: int, left: int) -> list[tuple[int, int, str]]:
    """A month stands above the first week that begins in it."""
    labels: list[tuple[int, int, str]] = []
    months: set[tuple[int, int]] = set()
    for number in range(first, last + 1):
        day = date.fromordinal(number)
        if (day.year, day.month) in months or day.day > 7:
            continue
        months.add((day.year, day.month))
        text = f"{day:%b %Y}" if day.month == 1 else f"{day:%b}"
        column = time_axis.row_of("day", number)[1] - left
        labels.append((LEFT + column * (SMALL + GAP), 11, text))
    return labels


# --- colours --------------------------------------------------------------------------------------


def _classes(all_cells: Sequence[Cell], colour: Colour) -> list[str]:
    """The class of each cell."""
    if colour == "state":
        return [f"w-{cell.state}" for cell in all_cells]
    measures: Mapping[str, Callable[[Cell], float | None]] = {
        "rows": lambda cell: cell.rows or None,
        "age": lambda cell: cell.at,
        "seconds": lambda cell: cell.seconds,
    }
    values = [measures[colour](cell) for cell in all_cells]
    steps = _steps([measured for measured in values if measured is not None])
    classes = [f"c{0 if measured is None else steps(measured)}" for measured in values]
    return [
        f"w-{cell.state}" if cell.is_missing else look
        for cell, look in zip(all_cells, classes, strict=True)
    ]


def _steps(values: Iterable[float]) -> Callable[[float], int]:
    """By rank, so that one huge partition does not hide how the others differ. Equal values have
    the rank in the middle of theirs."""
    ranked = sorted(values)

    def step(measured: float) -> int:
        rank = (bisect_left(ranked, measured) + bisect_right(ranked, measured)) / 2
        return 1 + int(STEPS * rank / len(ranked))

    return step
