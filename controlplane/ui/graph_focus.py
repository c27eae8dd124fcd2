"""The part of a graph that a page draws: of many boxes those that need a look, and groups of boxes
as one. Pure functions.

Example: of 300 datasets of which two failed, the two with their inputs and readers are drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from controlplane.core.model.answers.components import ComponentEntry
from controlplane.ui import draw

FOCUS_FROM: Final = 40  # boxes; of more, those that need a look are drawn at first
UP, DOWN = 2, 2  # steps around a chosen dataset
NEEDY: Final = frozenset({"failed", "blocked", "waiting", "building", "stale"})
LONGEST_WORDS: Final = 200  # characters
MOST_OPEN: Final = 50  # groups
Focus: TypeAlias = Literal["all", "search", "chosen", "problems", "worst"]


def _prefix(component: ComponentEntry) -> str:
    name = component["name"].rpartition(".")[2]
    return name.partition("_")[0] if "_" in name else ""


GROUPS: Final[Mapping[str, Callable[[ComponentEntry], str]]] = {
    "tag": lambda component: next(iter(component["tags"]), ""),
    "prefix": _prefix,
    "owner": lambda component: component["owner"],
}


@dataclass(frozen=True, slots=True)
class GraphRequest:
    """The graph of an address. `chosen`: a dataset. `words`: a part of names. `by`: what groups
    are made by, a key of `GROUPS`; `opened`: groups that are drawn as their members. `is_all`: no
    focus."""

    chosen: str = ""
    words: str = ""
    by: str = ""
    opened: frozenset[str] = frozenset()
    is_all: bool = False


@dataclass(frozen=True, slots=True)
class GraphParts:
    """Boxes and links to draw. `total`: boxes before the choice; `focus`: how it was made."""

    boxes: Sequence[draw.Box]
    links: Sequence[draw.GraphLink]
    total: int
    focus: Focus


def chosen_parts(
    boxes: Sequence[draw.Box],
    links: Sequence[draw.GraphLink],
    request: GraphRequest,
    recent: Collection[str],
    worst_first: Sequence[str],
) -> GraphParts:
    """At most `draw.BOXES` boxes. `recent`: datasets that changed last. `worst_first`: states."""
    ranked = sorted(boxes, key=lambda box: worst_first.index(box.state))
    core, focus = _core(ranked, links, request, recent)
    names = {box.name: None for box in ranked if box.name in core}
    if focus != "all":
        near = _with_neighbours(names, links)
        names |= {box.name: None for box in ranked if box.name in near}
    drawn = set(list(names)[: draw.BOXES])
    if focus == "all" and len(drawn) < len(boxes):
        focus = "worst"
    drawn_boxes = [box for box in boxes if box.name in drawn]
    return GraphParts(drawn_boxes, links, len(boxes), focus)


def _core(
    boxes: Sequence[draw.Box],
    links: Sequence[draw.GraphLink],
    request: GraphRequest,
    recent: Collection[str],
) -> tuple[Collection[str], Focus]:
    """Names that are always drawn, and why. `boxes`: worst first."""
    every = {box.name for box in boxes}
    if request.words:
        words = request.words.lower()
        return {name for name in every if words in name.lower()}, "search"
    if request.is_all or len(boxes) <= FOCUS_FROM:
        return every, "all"
    if request.chosen in every:
        return draw.neighbourhood(request.chosen, links, up=UP, down=DOWN), "chosen"
    if len(recent) > FOCUS_FROM:
        recent = ()
    needy = [box.name for box in boxes if box.state in NEEDY or box.badge or box.name in recent]
    if len(needy) > FOCUS_FROM:
        return needy[:FOCUS_FROM], "worst"
    return (needy, "problems") if needy else (every, "all")


def _with_neighbours(names: Collection[str], links: Iterable[draw.GraphLink]) -> set[str]:
    near: set[str] = set()
    for link in links:
        if link.source in names or link.target in names:
            near |= {link.source, link.target}
    return near


# --- groups ---------------------------------------------------------------------------------------


def grouped(
    boxes: Sequence[draw.Box],
    links: Sequence[draw.GraphLink],
    components: Iterable[ComponentEntry],
    request: GraphRequest,
    worst_first: Sequence[str],
) -> tuple[list[draw.Box], list[draw.GraphLink]]:
    """Each closed group of two datasets or more as one box. The group of the chosen dataset is
    open."""
    group_of = _closed_groups(boxes, components, request)
    members: dict[str, list[draw.Box]] = {}
    for box in boxes:
        members.setdefault(group_of.get(box.name, box.name), []).append(box)
    shown = [
        _group_box(name, among, worst_first) if name not in {b.name for b in among} else among[0]
        for name, among in members.items()
    ]
    return shown, _between(links, group_of)


def _closed_groups(
    boxes: Sequence[draw.Box], components: Iterable[ComponentEntry], request: GraphRequest
) -> dict[str, str]:
    """The name of its group by the name of a dataset; without those that stand alone, and without
    groups that have the name of a dataset."""
    if request.by not in GROUPS:
        return {}
    name_of, drawn = GROUPS[request.by], {box.name for box in boxes}
    by_name = {part["name"]: name_of(part) for part in components if part["name"] in drawn}
    opened = request.opened | {by_name.get(request.chosen, "")}
    sizes = Counter(by_name.values())
    return {
        name: group
        for name, group in by_name.items()
        if group and group not in opened and group not in drawn and sizes[group] > 1
    }


def _group_box(name: str, members: Sequence[draw.Box], worst_first: Sequence[str]) -> draw.Box:
    states = Counter(box.state for box in members)
    worst = min(states, key=worst_first.index)
    number = len(members)
    counts = [
        f"{states[state]} {state.replace('_', ' ')}" for state in worst_first if states[state]
    ]
    share = draw.PartitionShares(
        states["up_to_date"] / number,
        (number - states["up_to_date"] - states["failed"]) / number,
        states["failed"] / number,
    )
    return draw.Box(
        name,
        "group",
        worst,
        f"{number:,} datasets",
        share,
        faint=all(box.faint for box in members),
        reason=", ".join(counts),
        group=name,
    )


def _between(links: Iterable[draw.GraphLink], group_of: Mapping[str, str]) -> list[draw.GraphLink]:
    """The links between the drawn boxes: one link stands for all links of the same ends."""
    by_ends: dict[tuple[str, str], list[draw.GraphLink]] = {}
    for link in links:
        ends = group_of.get(link.source, link.source), group_of.get(link.target, link.target)
        if ends[0] != ends[1]:
            by_ends.setdefault(ends, []).append(link)
    return [_joined(ends, between) for ends, between in by_ends.items()]


def _joined(ends: tuple[str, str], between: Sequence[draw.GraphLink]) -> draw.GraphLink:
    first = between[0]
    if ends == (first.source, first.target):
        return first
    modes = {link.mode for link in between}
    is_lit = any(link.is_lit for link in between)
    mode = first.mode if len(modes) == 1 else draw.GROUP
    return replace(first, source=ends[0], target=ends[1], mode=mode, is_lit=is_lit)
