"""Pictures of random graphs: what a reader relies on."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from controlplane.ui import draw
from controlplane.ui.graph_layout import Edge, Sizes, _monotone, place

SIZES = Sizes()


@st.composite
def graphs(draw_: st.DrawFn) -> tuple[list[str], list[Edge]]:
    """Names in no order, and edges from earlier to later names."""
    count = draw_(st.integers(0, 30))
    names = [f"n{i:02}" for i in range(count)]
    if count < 2:
        return names, []
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(
        lambda p: p[0] < p[1]
    )
    edges = [(names[a], names[b]) for a, b in draw_(st.lists(pairs, max_size=60))]
    return draw_(st.permutations(names)), edges


@given(graphs())
def test_boxes_do_not_overlap_and_are_inside(graph: tuple[list[str], list[Edge]]) -> None:
    names, edges = graph
    placed = place(names, edges, SIZES)
    assert set(placed.at) == set(names)
    for i, a in enumerate(names):
        x, y = placed.at[a]
        assert SIZES.width / 2 <= x <= placed.width - SIZES.width / 2
        assert SIZES.height / 2 <= y <= placed.height - SIZES.height / 2
        for b in names[:i]:
            dx, dy = abs(placed.at[b][0] - x), abs(placed.at[b][1] - y)
            assert dx >= SIZES.width - 1e-6 or dy >= SIZES.height - 1e-6, (a, b)


@given(graphs())
def test_every_edge_is_there_once_and_goes_from_left_to_right(
    graph: tuple[list[str], list[Edge]],
) -> None:
    names, edges = graph
    placed = place(names, edges, SIZES)
    assert set(placed.routes) == set(edges)
    for (a, b), points in placed.routes.items():
        assert points[0] == (placed.at[a][0] + SIZES.width / 2, placed.at[a][1])
        assert points[-1] == (placed.at[b][0] - SIZES.width / 2, placed.at[b][1])
        assert all(before[0] < after[0] for before, after in pairwise(points))


@given(graphs(), st.randoms())
def test_the_same_graph_gives_the_same_picture(
    graph: tuple[list[str], list[Edge]], random: object
) -> None:
    """Whatever the order is that its edges come in, and however often each does."""
    names, edges = graph
    again = [*edges, *edges]
    random.shuffle(again)  # type: ignore[attr-defined]
    assert place(names, edges, SIZES) == place(names, again, SIZES)


@given(graphs())
def test_boxes_come_in_reading_order_and_each_link_once(
    graph: tuple[list[str], list[Edge]],
) -> None:
    names, edges = graph
    links = [draw.GraphLink(a, b, "all") for a, b in set(edges)]
    boxes = [draw.Box(name, "sql", "up_to_date", "") for name in names]
    drawn = draw.graph(boxes, [*links, draw.GraphLink("elsewhere", "n00", "each")], "n00")
    assert sorted((one.link.source, one.link.target) for one in drawn.links) == sorted(set(edges))
    places = [(box.x, box.y) for box in drawn.boxes]
    assert places == sorted(places)
    assert all(one.is_lit == ("n00" in (one.link.source, one.link.target)) for one in drawn.links)


@given(st.lists(st.tuples(st.integers(-99, 99), st.integers(1, 4)), max_size=20))
def test_heights_keep_the_order_and_the_centre_of_gravity(wished: list[tuple[int, int]]) -> None:
    found = _monotone(wished)
    assert all(a <= b for a, b in pairwise(found))
    weights = [weight for _, weight in wished]
    before = sum(value * weight for value, weight in wished)
    assert (
        abs(before - sum(value * weight for value, weight in zip(found, weights, strict=True)))
        < 1e-6
    )


@given(graphs(), st.integers(0, 3), st.integers(0, 3))
def test_a_neighbourhood_is_what_so_many_steps_reach(
    graph: tuple[list[str], list[Edge]], up: int, down: int
) -> None:
    _, edges = graph
    links = [draw.GraphLink(a, b, "all") for a, b in edges]
    found = draw.neighbourhood("n00", links, up=up, down=down)
    before, after = {"n00"}, {"n00"}
    for _ in range(up):
        before |= {a for a, b in edges if b in before}
    for _ in range(down):
        after |= {b for a, b in edges if a in after}
    assert found == before | after
