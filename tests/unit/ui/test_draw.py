"""Numbers for pictures of graphs: texts, sizes, bars, ways back."""

from __future__ import annotations

import pytest

from controlplane.ui import draw


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (9_999, "9,999"),
        (336_776, "337 k"),
        (1_417_000, "1.4 M"),
        (23e6, "23 M"),
        (1.5e9, "1.5 B"),
    ],
)
def test_counts_as_people_say_them(number: float, text: str) -> None:
    assert draw.human(number) == text


def test_a_bar_is_as_long_as_its_shares() -> None:
    boxes = [draw.Box("a.b", "sql", "stale", "", share=draw.PartitionShares(0.5, 0.25, 0.25))]
    (box,) = draw.graph(boxes, []).boxes
    assert box.bar == (("done", 12, 76.0), ("todo", 88.0, 38.0), ("bad", 126.0, 38.0))


def test_a_box_whose_partitions_are_all_done_has_no_bar() -> None:
    (box,) = draw.graph([draw.Box("a.b", "sql", "up_to_date", "")], []).boxes
    assert box.bar == ()


@pytest.mark.parametrize(
    ("length", "width", "text"), [(5, 176, "x" * 5), (22, 224, "x" * 22), (40, 240, "x" * 22 + "…")]
)
def test_boxes_are_as_wide_as_the_longest_name_up_to_a_bound(
    length: int, width: int, text: str
) -> None:
    boxes = [
        draw.Box("flow." + "x" * length, "sql", "stale", ""),
        draw.Box("flow.y", "sql", "", ""),
    ]
    drawing = draw.graph(boxes, [], sizes=draw.fitting_sizes(boxes))
    assert int(drawing.sizes.width) == width
    assert text in [box.short for box in drawing.boxes]


def test_a_box_has_room_for_its_second_line_beside_the_kind() -> None:
    boxes = [draw.Box("flow.x", "read", "stale", "12 parts · 337 k rows")]
    assert draw.fitting_sizes(boxes).width > draw.RICH.width
    many = boxes * (draw.COMPACT_FROM + 1)
    assert draw.fitting_sizes(many).width == draw.COMPACT.width


def test_many_boxes_are_low() -> None:
    boxes = [draw.Box(f"a.b{i}", "sql", "stale", "") for i in range(draw.COMPACT_FROM + 1)]
    assert draw.graph(boxes, [], sizes=draw.fitting_sizes(boxes)).is_compact
    assert not draw.graph(boxes[1:], [], sizes=draw.fitting_sizes(boxes[1:])).is_compact


def test_a_way_back_is_drawn_from_right_to_left() -> None:
    boxes = [draw.Box(name, "group", "stale", "") for name in ("a", "b")]
    links = [draw.GraphLink("a", "b", "all"), draw.GraphLink("b", "a", "all")]
    drawing = draw.graph(boxes, links)
    left, right = (box.x for box in drawing.boxes)
    assert left < right
    tips = {drawn.link.source: drawn.tip.partition("l")[2] for drawn in drawing.links}
    assert tips == {"a": "-8 -4.5v9z", "b": "8 -4.5v9z"}


def test_no_edge_is_turned_where_there_is_no_cycle() -> None:
    boxes = [draw.Box(name, "sql", "stale", "") for name in ("a.one", "a.both", "a.two")]
    links = [draw.GraphLink(source, "a.both", "all") for source in ("a.one", "a.two")]
    drawing = draw.graph(boxes, links)
    columns = {drawn.box.name: drawn.x for drawn in drawing.boxes}
    assert columns["a.one"] == columns["a.two"] < columns["a.both"]


def test_the_outline_of_a_state_has_each_of_its_boxes() -> None:
    states = ("stale", "failed", "stale")
    boxes = [draw.Box(f"a.b{i}", "sql", state, "") for i, state in enumerate(states)]
    outlines = draw.graph(boxes, []).outlines
    assert {state: outline.count("M") for state, outline in outlines.items()} == {
        "stale": 2,
        "failed": 1,
    }
