"""The picture of a graph as numbers for templates. SVG attributes and classes only, so that the
content security policy needs no exception for styles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.ui.graph_layout import Placed, Sizes, Spot, place

BOXES = 300  # more are not drawn: a page of them takes seconds to paint
# Pixels of a name's letter; beside it, with a state's mark and without
LETTER, BESIDE_NAME = (8.2, {True: 44, False: 20})
SUB_LETTER, BESIDE_SUB = (6.2, 66)  # of its second line, and of the kind at its right
RICH = Sizes(column=222, row=84, lane=24, margin=16, width=176, height=62)
COMPACT = Sizes(column=214, row=44, lane=16, margin=16, width=176, height=32)
PLAIN = Sizes(column=166, row=54, lane=24, margin=16, width=134, height=38)
WIDEST = 240  # pixels of a box
COMPACT_FROM = 60  # boxes; more have a name and a state only
GROUP = "group"  # the mode of a link that stands for several
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
    now. `reason`: why its state is as it is. `group`: the group of datasets that it stands for."""

    name: str
    kind: str
    state: str
    sub: str
    share: PartitionShares = PartitionShares()
    badge: str = ""
    faint: bool = False
    reason: str = ""
    group: str = ""


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

    @property
    def is_compact(self) -> bool:
        return self.sizes.height == COMPACT.height

    @property
    def outlines(self) -> Mapping[str, str]:
        """By state, the path of all boxes in it: the map beside a large picture."""
        paths: dict[str, str] = {}
        width, height = round(self.sizes.width), round(self.sizes.height)
        for drawn in self.boxes:
            corner = f"M{drawn.x:.0f} {drawn.y:.0f}"
            outline = f"{corner}h{width}v{height}h-{width}z"
            paths[drawn.box.state] = paths.get(drawn.box.state, "") + outline
        return paths


def fitting_sizes(boxes: Sequence[Box]) -> Sizes:
    """As wide as the longest texts need, up to `WIDEST`. Many boxes are low: of their texts, they
    have the name only."""
    sizes = RICH if len(boxes) <= COMPACT_FROM else COMPACT
    longest = max((len(_short(box)) for box in boxes), default=0)
    needed = longest * LETTER + BESIDE_NAME[True]
    if sizes is RICH:
        longest_sub = max((len(box.sub) for box in boxes), default=0)
        needed = max(needed, longest_sub * SUB_LETTER + BESIDE_SUB)
    width = min(max(needed, sizes.width), WIDEST)
    return replace(sizes, width=width, column=width + sizes.column - sizes.width)


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
    backwards = _backwards(list(by_name), shown)
    edges = {(link.source, link.target) for link in shown}
    forwards = {edge[::-1] if edge in backwards else edge for edge in edges}
    placed = place(list(by_name), forwards, sizes)
    in_order = sorted(boxes, key=lambda box: placed.at[box.name])
    drawn = [_link(link, placed, chosen, by_name) for link in sorted(shown, key=_layer)]
    return Drawing(
        tuple(_box(box, placed.at[box.name], chosen, sizes) for box in in_order),
        tuple(drawn),
        width=round(placed.width),
        height=round(placed.height),
        sizes=sizes,
    )


def _backwards(names: Sequence[str], links: Iterable[GraphLink]) -> set[tuple[str, str]]:
    """The edges that close a cycle, as groups of datasets may have: a depth-first search finds a
    way back along them. They are placed the other way round."""
    below: dict[str, list[str]] = {name: [] for name in names}
    for link in links:
        below[link.source].append(link.target)
    backwards: set[tuple[str, str]] = set()
    open_names, closed = set[str](), set[str]()
    for start in names:
        if start in closed:
            continue
        trail = [(start, iter(below[start]))]
        open_names.add(start)
        while trail:
            name, targets = trail[-1]
            target = next(targets, None)
            if target is None:
                trail.pop()
                open_names.discard(name)
                closed.add(name)
            elif target in open_names:
                backwards.add((name, target))
            elif target not in closed:
                open_names.add(target)
                trail.append((target, iter(below[target])))
    return backwards


def _short(box: Box) -> str:
    return box.group or box.name.rpartition(".")[2]


def _layer(link: GraphLink) -> int:
    return MODE_ORDER.index(link.mode) if link.mode in MODE_ORDER else len(MODE_ORDER)


def _box(box: Box, at: Spot, chosen: str | None, sizes: Sizes) -> DrawnBox:
    x, y = at[0] - sizes.width / 2, at[1] - sizes.height / 2
    short = _short(box)
    has_mark = sizes.height != PLAIN.height
    fits = int((sizes.width - BESIDE_NAME[has_mark]) / LETTER)
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
    if share.done >= 1:
        return ()  # nothing of it is left to do, which its colour says
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
    is_backwards = (link.source, link.target) not in placed.routes
    ends = (link.target, link.source) if is_backwards else (link.source, link.target)
    points = placed.routes[ends][:: -1 if is_backwards else 1]
    x, y = points[-1]
    back = -1 if is_backwards else 1
    tip = f"M{x:.1f} {y:.1f}l{-8 * back} -4.5v9z"
    is_faint = boxes[link.source].faint or boxes[link.target].faint
    is_lit = link.is_lit or chosen in (link.source, link.target)
    return DrawnLink(link, path(points), tip, is_lit=is_lit, is_faint=is_faint)


def path(points: Sequence[Spot]) -> str:
    """Sideways out of a node, sideways into the next: one cubic for each step that is not level."""
    (x, y), *rest = points
    out = [f"M{x:.1f} {y:.1f}"]
    for i, (right, height) in enumerate(rest):
        tip = TIP if right >= x else -TIP
        stop = right - tip if i == len(rest) - 1 else right
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
