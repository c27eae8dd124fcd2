"""Why a dataset is as it is, long after it came to be so."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.model.retention import Expired
from controlplane.operations.inspect import causes
from dataplane.contract.schemas import Json
from tests.unit.expectations.world import BRANCH, World

MANY = """\
  many:
    transform: {{sql: 'SELECT sum(v) AS s FROM orders WHERE v > {least}'}}
"""
FOREVER = 20  # changes of which nobody sees anything: more states than are looked at in one go by a plan


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A transform that has been edited; since then nothing has come that it looks at."""
    world = World(tmp_path)
    world.put("a.csv", (1, 60), (2, 200))
    world.apply(MANY.format(least=100))
    world.settle()
    world.apply(MANY.format(least=50))
    world.settle()
    return world


def why(world: World, target: str = "shop.many") -> Json:
    """With the causes that are told of the dataset itself."""
    found = causes.why(world.ctx, BRANCH, target)
    return {**found, "because": [b for b in found["because"] if b["dataset"] == target]}


def nothing_new(world: World, times: int) -> None:
    for number in range(times):
        world.put(f"{number}.csv", (number, 3))
        world.settle()


@pytest.mark.parametrize("times", [1, FOREVER])
def test_it_is_told_what_led_to_the_generation_and_not_to_a_state_after_it(world: World, times: int) -> None:
    before = why(world)
    nothing_new(world, times)
    after = why(world)
    assert (after["generation"], after["cause"]) == (before["generation"], before["cause"]) == (2, "logic")
    assert after["because"] == before["because"]


def test_what_was_before_all_that_is_kept_is_not_made_up(world: World) -> None:
    nothing_new(world, FOREVER)
    with world.store.begin() as tx:
        newest = tx.states(BRANCH)["shop.many"].seq
        tx.drop_states([Expired(BRANCH, "shop.many", newest - 5, 3, world.now)])
    assert not why(world)["because"]
