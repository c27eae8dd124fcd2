"""The catalogue: words and chosen values together, and counts of what each choice would leave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.model.answers.explore import Catalogue, FacetName
from controlplane.operations.explore.catalogue import catalogue
from tests.unit.expectations.world import World
from tests.unit.explore.test_search import REST

MANY = 12


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("home")
    world = World(home)
    world.put("2013-01-01.csv", (1, 10))
    world.put("2013-02-01.csv", (2, 20))
    world.apply(REST % home)
    world.settle()
    yield world
    world.store.close()


def look(
    world: World, query: str = "", chosen: dict[FacetName, str] | None = None, **page: Any
) -> Catalogue:
    return catalogue(world.ctx, "main", query, chosen or {}, **page)


def names(found: Catalogue) -> list[str]:
    return [one["name"].removeprefix("shop.") for one in found["items"]]


def counts(found: Catalogue, name: FacetName) -> dict[str, int]:
    (facet,) = (one for one in found["facets"] if one["name"] == name)
    return {one["value"]: one["count"] for one in facet["values"]}


def test_all_are_there_without_a_word(world: World) -> None:
    found = look(world)
    assert names(found) == ["copied", "late_orders", "orders", "total", "wrong"]
    assert (found["total"], found["found"], found["next"]) == (5, 5, None)
    assert counts(found, "kind") == {"sql": 3, "read": 1, "write": 1}
    assert counts(found, "state")["failed"] == 1
    assert counts(found, "owner") == {"Ann": 1, "bob": 1}
    copy = found["items"][0]
    assert (copy["partitions"], copy["rows"]) == (None, None)
    assert (found["items"][2]["partitions"], found["items"][2]["rows"]) == (2, 2)


def test_words_and_chosen_values_narrow_it_together(world: World) -> None:
    assert names(look(world, "orders")) == ["orders", "late_orders"]
    assert names(look(world, "orders", {"kind": "sql"})) == ["late_orders"]
    assert names(look(world, "", {"tag": "gold"})) == ["total"], (
        "a chosen value is whole, and as it is written"
    )
    assert names(look(world, "", {"kind": "sql", "owner": "bob"})) == ["wrong"]
    none = look(world, "orders", {"owner": "nobody"})
    assert (none["found"], none["items"]) == (0, [])


def test_a_facet_counts_as_if_none_of_it_was_chosen(world: World) -> None:
    found = look(world, "", {"kind": "read"})
    assert counts(found, "kind") == {"sql": 3, "read": 1, "write": 1}
    assert counts(found, "owner") == {}, "no source has an owner"
    gone = look(world, "", {"owner": "nobody"})
    assert counts(gone, "owner") == {"Ann": 1, "bob": 1, "nobody": 0}, (
        "what is chosen can be left again"
    )


def test_hits_say_where_the_words_were_found(world: World) -> None:
    (hit,) = look(world, "warehouse col:late_minutes")["items"]
    assert {one["field"] for one in hit["matches"]} == {"description", "column"}
    keyed = look(world, "2013-02")
    assert {one["matches"][0]["text"] for one in keyed["items"]} == {"2013-02-01.csv"}


def test_pages_follow_on_each_other(world: World) -> None:
    first = look(world, limit=2)
    assert (len(first["items"]), first["next"]) == (2, 2)
    rest = look(world, skip=2, limit=10)
    assert names(first) + names(rest) == names(look(world))
    assert look(world, skip=99)["items"] == []


def test_more_components_cost_no_more_statements(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("a.csv", (1, 10))
    world.apply("")
    world.settle()

    def cost() -> int:
        look(world)
        before = world.store.statements
        assert look(world, "o")["total"] >= 1
        return world.store.statements - before

    few = cost()
    world.apply(
        "".join(
            f'  m{i}: {{transform: {{sql: "SELECT k, v + {i} AS v FROM orders"}}}}\n'
            for i in range(MANY)
        )
    )
    world.settle()
    assert cost() == few
    world.store.close()
