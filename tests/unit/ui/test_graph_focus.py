"""Which boxes of a large graph are drawn, and which of them as a group."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

import pytest

from controlplane.core.model.answers.components import ComponentEntry
from controlplane.ui import draw, graph_focus
from controlplane.ui.graph_focus import Focus, GraphParts, GraphRequest
from controlplane.ui.views import WORST_FIRST

MANY = 100  # a chain of datasets


def chain(number: int, **states: str) -> tuple[list[draw.Box], list[draw.GraphLink]]:
    names = [f"a.n{i:04}" for i in range(number)]
    boxes = [draw.Box(n, "sql", states.get(n[2:], "up_to_date"), "") for n in names]
    links = [draw.GraphLink(a, b, "all") for a, b in pairwise(names)]
    return boxes, links


def chosen(request: GraphRequest, recent: Collection[str] = (), **states: str) -> GraphParts:
    boxes, links = chain(MANY, **states)
    return graph_focus.chosen_parts(boxes, links, request, recent, WORST_FIRST)


def numbers(parts: GraphParts) -> list[int]:
    return [int(box.name[3:]) for box in parts.boxes]


@pytest.mark.parametrize(
    ("request_", "recent", "focus", "drawn"),
    [
        (GraphRequest(), (), "problems", [9, 10, 11]),
        (GraphRequest(), ("a.n0050",), "problems", [9, 10, 11, 49, 50, 51]),
        (GraphRequest(chosen="a.n0030"), (), "chosen", [27, 28, 29, 30, 31, 32, 33]),
        (GraphRequest(words="N009"), (), "search", list(range(89, 100))),
        (GraphRequest(words="nothing"), (), "search", []),
        (GraphRequest(is_all=True), (), "all", list(range(MANY))),
    ],
)
def test_a_large_graph_begins_with_what_needs_a_look(
    request_: GraphRequest, recent: tuple[str, ...], focus: Focus, drawn: list[int]
) -> None:
    parts = chosen(request_, recent, n0010="failed")
    assert (parts.focus, numbers(parts), parts.total) == (focus, drawn, MANY)


def test_a_graph_without_problems_is_drawn_whole() -> None:
    assert chosen(GraphRequest()).focus == "all"
    assert chosen(GraphRequest(), [f"a.n{i:04}" for i in range(MANY)]).focus == "all"


def test_of_very_many_problems_the_worst_are_drawn() -> None:
    states = {f"n{i:04}": "stale" for i in range(0, MANY, 2)} | {"n0099": "failed"}
    parts = chosen(GraphRequest(), **states)
    assert parts.focus == "worst"
    assert {98, 99} <= set(numbers(parts))
    assert len(parts.boxes) < MANY


def test_never_more_boxes_than_a_page_can_paint() -> None:
    boxes, links = chain(1_000, n0999="failed")
    parts = graph_focus.chosen_parts(boxes, links, GraphRequest(is_all=True), (), WORST_FIRST)
    assert (len(parts.boxes), parts.total, parts.focus) == (draw.BOXES, 1_000, "worst")
    assert "a.n0999" in {box.name for box in parts.boxes}


# --- groups ---------------------------------------------------------------------------------------


def component(name: str, owner: str = "", tags: tuple[str, ...] = ()) -> ComponentEntry:
    return {"name": name, "kind": "sql", "description": "", "owner": owner, "tags": list(tags)}


COMPONENTS = [
    component("a.raw_x", "ada", ("money",)),
    component("a.raw_y", "ada"),
    component("a.mart_x", "bo", ("money", "daily")),
    component("a.mart_y", "bo"),
    component("a.alone"),
]
LINKS = [
    draw.GraphLink("a.raw_x", "a.mart_x", "each"),
    draw.GraphLink("a.raw_y", "a.mart_y", "all"),
    draw.GraphLink("a.mart_x", "a.raw_y", "all"),
    draw.GraphLink("a.raw_x", "a.raw_y", "all"),
]
STATES = ("up_to_date", "failed", "up_to_date", "stale", "up_to_date")


def grouped(request: GraphRequest) -> tuple[list[draw.Box], list[draw.GraphLink]]:
    boxes = [
        draw.Box(c["name"], c["kind"], state, "")
        for c, state in zip(COMPONENTS, STATES, strict=True)
    ]
    return graph_focus.grouped(boxes, LINKS, COMPONENTS, request, WORST_FIRST)


def test_a_closed_group_says_how_many_are_in_which_state() -> None:
    boxes, links = grouped(GraphRequest(by="prefix"))
    assert [(box.name, box.state, box.sub, box.reason) for box in boxes] == [
        ("raw", "failed", "2 datasets", "1 failed, 1 up to date"),
        ("mart", "stale", "2 datasets", "1 stale, 1 up to date"),
        ("a.alone", "up_to_date", "", ""),
    ]
    assert boxes[0].share == draw.PartitionShares(0.5, 0, 0.5)
    assert [(link.source, link.target, link.mode) for link in links] == [
        ("raw", "mart", "group"),
        ("mart", "raw", "all"),
    ]
    assert len(draw.graph(boxes, links).links) == 2, "a cycle of groups can be drawn"


@pytest.mark.parametrize(
    "request_",
    [
        GraphRequest(by="prefix", opened=frozenset({"raw"})),
        GraphRequest(by="prefix", chosen="a.raw_y"),
    ],
)
def test_an_open_group_shows_its_members(request_: GraphRequest) -> None:
    boxes, _ = grouped(request_)
    assert [box.name for box in boxes] == ["a.raw_x", "a.raw_y", "mart", "a.alone"]


def test_a_tag_with_the_name_of_a_dataset_hides_no_dataset() -> None:
    tagged = [component(name, tags=("a.raw_x",)) for name in ("a.raw_x", "a.raw_y")]
    boxes = [draw.Box(part["name"], "sql", "stale", "") for part in tagged]
    shown, _ = graph_focus.grouped(boxes, [], tagged, GraphRequest(by="tag"), WORST_FIRST)
    assert shown == boxes


def test_a_group_has_its_full_name() -> None:
    tagged = [component(name, tags=("team.core",)) for name in ("a.x", "a.y")]
    boxes = [draw.Box(part["name"], "sql", "stale", "") for part in tagged]
    shown, _ = graph_focus.grouped(boxes, [], tagged, GraphRequest(by="tag"), WORST_FIRST)
    assert [box.short for box in draw.graph(shown, []).boxes] == ["team.core"]


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("tag", ["money", "a.raw_y", "a.mart_y", "a.alone"]),
        ("owner", ["ada", "bo", "a.alone"]),
        ("other", [c["name"] for c in COMPONENTS]),
    ],
)
def test_groups_are_made_by_tag_and_by_owner(by: str, names: list[str]) -> None:
    boxes, _ = grouped(GraphRequest(by=by))
    assert [box.name for box in boxes] == names
