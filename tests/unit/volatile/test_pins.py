"""A pin keeps what was computed although the code changed; what other code computes under it is
nobody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.errors import InvalidBlueprint
from tests.unit.expectations.world import World
from tests.unit.volatile.test_frozen import component

FIRST, SECOND = "SELECT k, v FROM orders", "SELECT k, v + 100 AS v FROM orders"


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.put("a.csv", (1, 10))
    world.put("b.csv", (2, 20))
    world.apply(component("plain", FIRST))
    world.settle()
    return world


def logic(world: World) -> str:
    return str(world.dataset("shop.plain")["logic"])


def pinned(sql: str, pin: str) -> str:
    return component("plain", sql, f"pin: '{pin}'")


def test_an_edit_under_a_pin_computes_nothing(world: World) -> None:
    pin = logic(world)
    world.apply(pinned(SECOND, pin) + component("next", "SELECT k, v FROM plain"))
    assert world.settle() == {"transform": 2, "analyse": 1}  # of what is new
    assert world.rows("shop.plain") == [(1, 10), (2, 20)]
    assert logic(world) == pin
    world.put("c.csv", (3, 30))
    assert world.settle()["transform"] == 2
    assert world.rows("shop.plain") == [(1, 10), (2, 20), (3, 130)]
    assert not world.settle()


def test_what_other_code_gave_under_a_pin_is_shared_with_nobody(world: World) -> None:
    world.apply(pinned(SECOND, logic(world)))
    world.put("c.csv", (3, 30))
    world.settle()
    world.apply(component("plain", FIRST), flow="store")
    assert world.settle()["transform"] == 1
    assert world.rows("store.plain") == [(1, 10), (2, 20), (3, 30)]
    world.apply(component("plain", SECOND), flow="other")
    assert world.settle()["transform"] == 3


def test_without_its_pin_each_code_has_its_own_results(world: World) -> None:
    pin = logic(world)
    world.apply(pinned(SECOND, pin))
    world.put("c.csv", (3, 30))
    world.settle()
    world.apply(component("plain", FIRST))
    assert world.settle() == {"transform": 1}  # what the other code gave is given up
    assert world.rows("shop.plain") == [(1, 10), (2, 20), (3, 30)]
    world.apply(component("plain", SECOND))
    assert world.settle()["transform"] == 3
    assert world.rows("shop.plain") == [(1, 110), (2, 120), (3, 130)]


def test_a_pin_to_the_logic_it_has_is_none(world: World) -> None:
    world.apply(pinned(FIRST, logic(world)))
    world.put("c.csv", (3, 30))
    world.settle()
    world.apply(component("plain", FIRST), flow="store")
    assert not world.settle()


def test_only_logic_that_the_component_has_had(world: World) -> None:
    world.apply(component("plain", FIRST) + component("other", "SELECT k FROM orders"))
    world.settle()
    other = str(world.dataset("shop.other")["logic"])
    for pin in ("0" * 64, other):
        with pytest.raises(InvalidBlueprint) as caught:
            world.apply(pinned(SECOND, pin))
        (problem,) = caught.value.problems
        assert (problem.code, problem.line) == ("unknown-pin", 11)
    assert world.rows("shop.plain") == [(1, 10), (2, 20)]


def test_code_with_other_columns_fails_under_a_pin(world: World) -> None:
    world.apply(pinned("SELECT k FROM orders", logic(world)))
    world.settle()
    assert world.decision("shop.plain").status == "up_to_date"
    world.put("c.csv", (3, 30))
    world.settle()
    found = world.decision("shop.plain")
    assert found.error is not None
    assert (found.status, found.error["condition"]) == ("failed", "pinned-schema")
    assert world.rows("shop.plain") == [(1, 10), (2, 20)]
