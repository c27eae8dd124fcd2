"""What is paused, and what takes a pause back."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.operations.desired import controls
from controlplane.operations.inspect import overview
from tests.unit.expectations.world import BRANCH, World

MORE = """\
  more:
    transform: {sql: 'SELECT v + 1 AS w FROM orders'}
  fixed:
    paused: true
    transform: {sql: 'SELECT v + 2 AS w FROM orders'}
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.apply(MORE)
    return world


def paused(world: World) -> set[str]:
    (flow,) = overview.status(world.ctx, BRANCH)["dataflows"]
    return {d["name"] for d in flow["datasets"] if d["state"] == "paused"}


def test_a_dataflow_that_is_resumed_takes_its_datasets_with_it(world: World) -> None:
    for target in ("shop.more", "shop", "shop.orders"):
        controls.pause(world.ctx, BRANCH, target)
    assert paused(world) == {"shop.orders", "shop.more", "shop.fixed"}
    told = controls.resume(world.ctx, BRANCH, "shop")
    assert paused(world) == {"shop.fixed"}
    by = ["paused: true in the blueprint"]
    assert told == {"target": "shop", "paused": False, "still_paused": ["shop.fixed"], "by": by}


def test_what_stays_paused_is_told(world: World) -> None:
    controls.pause(world.ctx, BRANCH, "shop")
    controls.pause(world.ctx, BRANCH, "shop.more")
    told = controls.resume(world.ctx, BRANCH, "shop.more")
    assert told == {
        "target": "shop.more",
        "paused": True,
        "still_paused": ["shop.more"],
        "by": ["shop"],
    }
    assert "shop.more" in paused(world)
    controls.resume(world.ctx, BRANCH, "shop")
    assert controls.resume(world.ctx, BRANCH, "shop.more") == {
        "target": "shop.more",
        "paused": False,
    }
    assert paused(world) == {"shop.fixed"}
