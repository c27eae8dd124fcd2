"""Pictures as numbers for templates: the graph, and cells of partitions. SVG attributes and classes
only, so that the content security policy needs no exception for styles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

from controlplane.ui.graph_layout import Placed, Sizes, Spot, place

BOXES = 300  # more are not drawn: a page of them takes seconds to paint
# Pixels of a name's letter; beside it, with a state's mark and without
LETTER, BESIDE_NAME = (8.2, {True: 44, False: 20})
RICH = Sizes(column=222, row=84, lane=24, margin=16, width=176, height=62)
PLAIN = Sizes(column=166, row=54, lane=24, margin=16, width=134, height=38)
# The most telling lines are drawn last, on top
MODE_ORDER = ("all", "by", "previous", "each", "copy")
BAR_MARGIN = 12
BADGE_MARGIN, BADGE_LETTER = 8, 6.2  # pixels
TIP = 7  # pixels that an arrow's tip takes


@dataclass(frozen=True, slots=True)
class PartitionShares:
    """Shares of a dataset's partitions, in 0 to 1: done, failed, to do."""

    done: float = 1.0
    todo: float = 0.0
    bad: float = 0.0


@dataclass(frozen=True, slots=True)
class Box:
    """The texts of a node. `sub`: its second line. `badge`: over its corner; `faint`: of no concern
    now."""

    name: str
    kind: str
    state: str
    sub: str
    share: PartitionShares = PartitionShares()
    badge: str = ""
    faint: bool = False


@dataclass(frozen=True, slots=True)
class GraphLink:
    """`target` reads `source`, in this way. `is_lit`: something came along it."""

    source: str
    target: str
    mode: str
    reason: str = ""
    is_lit: bool = False


@dataclass(frozen=True, slots=True)
class DrawnBox:
    """A box at its upper left corner. `bar`: kind, left and width of each of its parts."""

    box: Box
    x: float
    y: float
    short: str
    bar: tuple[tuple[str, float, float], ...]
    is_chosen: bool

    @property
    def badge_width(self) -> float:
        return round(BADGE_MARGIN * 2 + BADGE_LETTER * len(self.box.badge), 1)


@dataclass(frozen=True, slots=True)
class DrawnLink:
    """`path` and `tip` are texts of SVG paths."""

    link: GraphLink
    path: str
    tip: str
    is_lit: bool
    is_faint: bool


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture of a graph: boxes in reading order."""

    boxes: tuple[DrawnBox, ...]
    links: tuple[DrawnLink, ...]
    width: int
    height: int
    sizes: Sizes


def graph(
    boxes: Sequence[Box], links: Iterable[GraphLink], chosen: str | None = None, sizes: Sizes = RICH
) -> Drawing:
    """Links whose ends are not both among the boxes are left out."""
    by_name = {box.name: box for box in boxes}
    shown = [
        link
        for link in links
        if link.source in by_name and link.target in by_name and link.source != link.target
    ]
    placed = place(list(by_name), [(link.source, link.target) for link in shown], sizes)
    in_order = sorted(boxes, key=lambda box: placed.at[box.name])
    drawn = [_link(link, placed, chosen, by_name) for link in sorted(shown, key=_layer)]
    return Drawing(
        tuple(_box(box, placed.at[box.name], chosen, sizes) for box in in_order),
        tuple(drawn),
        width=round(placed.width),
        height=round(placed.height),
        sizes=sizes,
    )


def _layer(link: GraphLink) -> int:
    return MODE_ORDER.index(link.mode) if link.mode in MODE_ORDER else len(MODE_ORDER)


def _box(box: Box, at: Spot, chosen: str | None, sizes: Sizes) -> DrawnBox:
    x, y = at[0] - sizes.width / 2, at[1] - sizes.height / 2
    short = box.name.rpartition(".")[2]
    fits = int((sizes.width - BESIDE_NAME[sizes == RICH]) / LETTER)
    fitting = short if len(short) <= fits else f"{short[: fits - 1]}…"
    return DrawnBox(
        box,
        round(x, 1),
        round(y, 1),
        short=fitting,
        bar=_bar(box.share, sizes),
        is_chosen=box.name == chosen,
    )


def _bar(share: PartitionShares, sizes: Sizes) -> tuple[tuple[str, float, float], ...]:
    room, left = sizes.width - 2 * BAR_MARGIN, 0.0
    parts: list[tuple[str, float, float]] = []
    for kind, part in (("done", share.done), ("todo", share.todo), ("bad", share.bad)):
        if width := round(part * room, 1):
            parts.append((kind, round(BAR_MARGIN + left, 1), width))
        left += part * room
    return tuple(parts)


def _link(
    link: GraphLink, placed: Placed, chosen: str | None, boxes: Mapping[str, Box]
) -> DrawnLink:
    points = placed.routes[link.source, link.target]
    x, y = points[-1]
    is_faint = boxes[link.source].faint or boxes[link.target].faint
    is_lit = link.is_lit or chosen in (link.source, link.target)
    return DrawnLink(
        link, path(points), f"M{x:.1f} {y:.1f}l-8 -4.5v9z", is_lit=is_lit, is_faint=is_faint
    )


def path(points: Sequence[Spot]) -> str:
    """Sideways out of a node, sideways into the next: one cubic for each step that is not level."""
    (x, y), *rest = points
    out = [f"M{x:.1f} {y:.1f}"]
    for i, (right, height) in enumerate(rest):
        stop = right - TIP if i == len(rest) - 1 else right
        half = (stop - x) / 2
        is_level = abs(height - y) < 0.5
        curve = f"C{x + half:.1f} {y:.1f} {stop - half:.1f} {height:.1f} {stop:.1f} {height:.1f}"
        out.append(f"H{stop:.1f}" if is_level else curve)
        x, y = stop, height
    return "".join(out)


def neighbourhood(name: str, links: Iterable[GraphLink], *, up: int, down: int) -> set[str]:
    """The node, and those that lie so many steps before and after it."""
    every = list(links)
    above, below, names = {name}, {name}, {name}
    for _ in range(up):
        above = {link.source for link in every if link.target in above}
        names |= above
    for _ in range(down):
        below = {link.target for link in every if link.source in below}
        names |= below
    return names


def human(number: float) -> str:
    """A count as people say it: 337 k, 1.4 M."""
    for size, unit in ((1e9, "B"), (1e6, "M")):
        if number >= size:
            return f"{number / size:.{0 if number >= 10 * size else 1}f} {unit}"
    return f"{number / 1e3:.0f} k" if number >= 1e4 else f"{number:,.0f}"


# --- partitions as cells

DAY = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
DAYS_FROM = 21  # fewer days make no calendar
CELL, GAP, WIDE = 20, 3, 36
DAY_CELL, LEFT, TOP = 14, 34, 18
CALENDAR_YEARS = 3  # more make cells that are too small to see
STEPS = (0.2, 0.4, 0.6, 0.8)


@dataclass(frozen=True, slots=True)
class Cell:
    """A partition, or a run of neighbours (`count` > 1) from the key after `first` to `last`."""

    first: str
    last: str
    count: int
    rows: int
    differs: bool = False


@dataclass(frozen=True, slots=True)
class DrawnCell:
    """A square of one of five steps by rank of rows; step 0 has none."""

    cell: Cell
    x: int
    y: int
    step: int


@dataclass(frozen=True, slots=True)
class CellMap:
    """`labels`: x, y and text."""

    cells: tuple[DrawnCell, ...] = ()
    labels: tuple[tuple[int, int, str], ...] = ()
    width: int = 0
    height: int = 0
    size: int = CELL
    is_calendar: bool = field(default=False)

    @property
    def has_ranges(self) -> bool:
        return any(drawn.cell.count > 1 for drawn in self.cells)


def cells(all_cells: Sequence[Cell]) -> CellMap:
    """A calendar where each key is of one day; else squares in the order of keys."""
    days = _days(all_cells)
    steps = _steps(all_cells)
    if not are_days(all_cells):
        drawn = tuple(
            DrawnCell(cell, (i % WIDE) * (CELL + GAP), (i // WIDE) * (CELL + GAP), steps[i])
            for i, cell in enumerate(all_cells)
        )
        rows = (len(all_cells) + WIDE - 1) // WIDE
        return CellMap(drawn, (), min(WIDE, len(all_cells)) * (CELL + GAP), rows * (CELL + GAP))
    return _calendar(days, all_cells, steps)


def are_days(all_cells: Sequence[Cell]) -> bool:
    """Whether they make a calendar."""
    days = _days(all_cells)
    return len(days) >= DAYS_FROM and (max(days) - min(days)).days <= CALENDAR_YEARS * 366


def _days(all_cells: Sequence[Cell]) -> dict[date, int]:
    """Which cell is of which day; empty unless each is of another day."""
    days: dict[date, int] = {}
    for i, cell in enumerate(all_cells):
        match = DAY.search(cell.last)
        if match is None or cell.count != 1:
            return {}
        try:
            days[date(*map(int, match.groups()))] = i
        except ValueError:
            return {}
    return days if len(days) == len(all_cells) else {}


def _steps(all_cells: Sequence[Cell]) -> list[int]:
    """By rank, so that one huge partition does not hide how the others differ."""
    ranked = sorted(cell.rows for cell in all_cells)
    cuts = (
        [ranked[min(int(len(ranked) * part), len(ranked) - 1)] for part in STEPS] if ranked else []
    )
    if len(set(ranked)) == 1:
        return [3 if cell.rows else 0 for cell in all_cells]
    return [1 + sum(cell.rows > cut for cut in cuts) if cell.rows else 0 for cell in all_cells]


def _calendar(days: Mapping[date, int], all_cells: Sequence[Cell], steps: Sequence[int]) -> CellMap:
    """A column a week, a row a day of the week."""
    first, last = min(days), max(days)
    monday, step = first - timedelta(days=first.weekday()), DAY_CELL + GAP
    drawn: list[DrawnCell] = []
    labels = [
        (0, TOP + row * step + 11, text) for row, text in ((0, "Mon"), (2, "Wed"), (4, "Fri"))
    ]
    months: set[tuple[int, int]] = set()
    for day, i in sorted(days.items()):
        week, row = divmod((day - monday).days, 7)
        drawn.append(DrawnCell(all_cells[i], LEFT + week * step, TOP + row * step, steps[i]))
        if (day.year, day.month) not in months and day.day <= 7:
            months.add((day.year, day.month))
            text = f"{day:%b %Y}" if day.month == 1 else f"{day:%b}"
            labels.append((LEFT + week * step, 11, text))
    weeks = (last - monday).days // 7 + 1
    return CellMap(
        tuple(drawn), tuple(labels), LEFT + weeks * step, TOP + 7 * step, DAY_CELL, is_calendar=True
    )
