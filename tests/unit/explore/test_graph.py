"""The graph as it is told: edges with modes, how each stands, what is near, and what it costs to
ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.core.errors import NotFound
from controlplane.core.model.answers.explore import GraphAnswer
from controlplane.operations.explore.graph import graph
from tests.unit.expectations.world import World

REST = """\
    expect: [{check: v < 100, on_fail: quarantine}]
  doubled:
    owner: ann
    tags: [money, daily]
    transform: {sql: 'SELECT k, 2 * v AS v FROM orders'}
  wrong: {tags: [money], transform: {sql: 'SELECT no_such_function(v) AS v FROM doubled'}}
  total: {transform: {sql: 'SELECT sum(v) AS v FROM doubled'}}
  copied: {write: {connector: files, from: total, path: '%s/out', format: json}}
"""
OTHER = """\
  mine: {transform: {sql: 'SELECT k FROM shop.total CROSS JOIN orders'}}
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    world.put("a.csv", (1, 10))
    world.put("b.csv", (2, 20), (3, 300))
    world.apply(REST % tmp_path)
    world.apply(OTHER, "other")
    world.settle()
    yield world
    world.store.close()


def names(found: GraphAnswer) -> list[str]:
    return [node["name"] for node in found["nodes"]]


def edges(found: GraphAnswer) -> set[tuple[str, str, str]]:
    return {
        (e["from"].removeprefix("shop."), e["to"].removeprefix("shop."), e["mode"])
        for e in found["edges"]
    }


def test_a_dataflow_with_its_edges_and_its_neighbours(world: World) -> None:
    found = graph(world.ctx, "main", "shop")
    assert edges(found) == {
        ("orders", "orders__quarantine", "quarantine"),
        ("orders", "doubled", "each"),
        ("doubled", "wrong", "all"),
        ("doubled", "total", "all"),
        ("total", "copied", "copy"),
        ("total", "other.mine", "each"),
    }
    assert all(edge["reason"] for edge in found["edges"])
    kinds = {node["name"].removeprefix("shop."): node["kind"] for node in found["nodes"]}
    assert (kinds["orders__quarantine"], kinds["copied"]) == ("quarantine", "write")
    assert [node["name"] for node in found["nodes"] if node["outside"]] == ["other.mine"]
    doubled = next(node for node in found["nodes"] if node["name"] == "shop.doubled")
    assert (doubled["tags"], doubled["owner"], doubled["partitions"], doubled["rows"]) == (
        ["money", "daily"],
        "ann",
        2,
        2,
    )


def test_shares_are_of_partitions(world: World) -> None:
    share = {node["name"]: node["share"] for node in graph(world.ctx, "main", "shop")["nodes"]}
    assert share["shop.orders"] == {"done": 2, "to_do": 0, "failed": 0}
    assert share["shop.wrong"] == {"done": 0, "to_do": 0, "failed": 1}
    assert share["shop.copied"] == {"done": 1, "to_do": 0, "failed": 0}
    copied = next(
        node for node in graph(world.ctx, "main", "shop")["nodes"] if node["name"] == "shop.copied"
    )
    assert (copied["state"], copied["generation"], copied["partitions"], copied["rows"]) == (
        "up_to_date",
        1,
        1,
        1,
    )
    world.put("c.csv", (4, 40))
    world.refresh()
    while world.work():  # lists only: nothing is planned in between
        pass
    share = {node["name"]: node["share"] for node in graph(world.ctx, "main", "shop")["nodes"]}
    assert share["shop.orders"]["to_do"] == 1


def test_the_state_is_that_of_the_dataflow_alone(world: World) -> None:
    assert graph(world.ctx, "main", "shop")["state"] == "failed"
    assert graph(world.ctx, "main", "other")["state"] != "failed"


def test_what_is_near_a_dataset(world: World) -> None:
    assert names(graph(world.ctx, "main", around="shop.total", up=1, down=0)) == [
        "shop.doubled",
        "shop.total",
    ]
    both = graph(world.ctx, "main", around="shop.doubled", up=1, down=1)
    assert set(names(both)) == {"shop.orders", "shop.doubled", "shop.total", "shop.wrong"}
    own = graph(world.ctx, "main", "shop", around="shop.total", up=0, down=9)
    assert set(names(own)) == {"shop.total", "shop.copied"}


def test_of_too_many_the_nearest_and_the_worst_are_told(world: World) -> None:
    found = graph(world.ctx, "main", "shop", most=2)
    assert "shop.wrong" in names(found)
    assert (found["total"], found["more"]) == (7, 5)
    near = graph(world.ctx, "main", around="shop.orders", down=9, most=2)
    assert "shop.orders" in names(near)


def test_groups_stand_for_their_members(world: World) -> None:
    flows = graph(world.ctx, "main", collapse="flow")
    assert {g["name"]: (g["members"], g["state"]) for g in flows["groups"]}["shop"] == (6, "failed")
    assert flows["group_edges"] == [{"from": "shop", "to": "other", "count": 1}]
    assert flows["nodes"] == []
    tags = graph(world.ctx, "main", "shop", collapse="tag")
    assert {g["name"]: g["members"] for g in tags["groups"]} == {"": 5, "money": 2}


def test_the_structure_changes_with_edges_and_not_with_states(world: World) -> None:
    before = graph(world.ctx, "main", "shop")
    world.put("c.csv", (4, 40))
    world.refresh()
    assert graph(world.ctx, "main", "shop")["structure"] == before["structure"]
    world.apply((REST % world.home).replace("FROM doubled'}}\n  total", "FROM orders'}}\n  total"))
    assert graph(world.ctx, "main", "shop")["structure"] != before["structure"]


def test_what_is_not_declared_is_not_found(world: World) -> None:
    with pytest.raises(NotFound, match="no dataflow nothing"):
        graph(world.ctx, "main", "nothing")
    with pytest.raises(NotFound, match=r"no dataset shop\.nothing"):
        graph(world.ctx, "main", around="shop.nothing")


def test_a_graph_takes_as_many_statements_at_any_size(tmp_path: Path) -> None:
    """Write components, which are compiled in no time; the first look also plans."""
    first: list[int] = []
    second: list[int] = []
    for count in (10, 1_000):
        home = tmp_path / str(count)
        home.mkdir()
        world = World(home)
        copy = "  c{n:04}: {{write: {{connector: files, from: orders, path: '{home}/out/{n}', format: json}}}}\n"
        world.apply("".join(copy.format(n=n, home=home) for n in range(count)))
        for took in (first, second):
            before = world.store.statements
            assert graph(world.ctx, "main", most=5_000)["total"] == count + 1
            took.append(world.store.statements - before)
        world.store.close()
    assert first[0] == first[1] <= 16
    assert second[0] == second[1] <= 4
