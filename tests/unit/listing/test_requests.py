"""Who asks for a listing is served by one that begins after that; and looks leave nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.errors import Fenced
from controlplane.operations import operate, work
from controlplane.operations.collect import collect
from dataplane.contract import CONTRACT, Claim, TaskResult
from dataplane.listing import list_files
from dataplane.versions import Versions
from tests.unit.expectations.world import BRANCH, World

LISTING = "shop.orders#listing"


@pytest.fixture(params=["memory:", "sqlite"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    url = request.param if request.param == "memory:" else f"sqlite:///{tmp_path}/metadata.db"
    world = World(tmp_path, url=url)
    world.put("a.csv", (1, 10))
    world.apply("")
    world.settle()
    return world


def claim(world: World) -> Claim | None:
    return work.claim(world.ctx, "worker", CONTRACT, ["list"])


def look(world: World) -> tuple[Claim, list[TaskResult]]:
    """A worker takes the listing that is asked for, and looks."""
    taken = claim(world)
    assert taken is not None
    [task] = taken["tasks"]
    found = list_files(taken["job"], Versions())
    return taken, [{"task": task["task"], "epoch": task["epoch"], "state": "done", "result": found}]


def report(world: World, taken: Claim, results: list[TaskResult]) -> None:
    work.report(world.ctx, "worker", taken["attempt"], results, lake=world.lake)


def rest(world: World) -> None:
    """Nobody asks for anything."""
    while world.once().changed or world.work():
        """Go on."""


def test_what_comes_while_a_worker_looks_is_found_by_who_asks_then(world: World) -> None:
    world.refresh()
    taken, found = look(world)
    world.put("b.csv", (2, 20))
    for _ in range(3):
        world.refresh()
    assert claim(world) is None  # until the worker is back
    report(world, taken, found)
    rest(world)
    assert world.rows() == [(1, 10), (2, 20)]
    world.dispatch()
    assert claim(world) is None


def test_a_listing_that_nobody_has_begun_serves_all_who_ask(world: World) -> None:
    for _ in range(3):
        world.refresh()
    world.put("b.csv", (2, 20))
    report(world, *look(world))
    world.dispatch()
    assert claim(world) is None


def test_one_whose_worker_is_lost_is_made_up_for_once(world: World) -> None:
    world.refresh()
    taken, found = look(world)
    world.put("b.csv", (2, 20))
    world.refresh()
    with world.store.read() as tx:
        [attempt] = tx.attempts().values()
    work.adopt(world.ctx, attempt, world.lake, reason="its driver ended")
    world.dispatch()
    report(world, *look(world))
    rest(world)
    assert world.rows() == [(1, 10), (2, 20)]
    world.now += 100.0
    world.dispatch()
    assert claim(world) is None
    with pytest.raises(Fenced):
        report(world, taken, found)


def test_looks_that_are_over_are_collected(world: World) -> None:
    for _ in range(10):
        operate.refresh(world.ctx, BRANCH, None)
        rest(world)
    collect(world.store, "default")
    with world.store.read() as tx:
        assert len(tx.demands(BRANCH, LISTING)) == 1  # the newest
