"""Who asks for a listing is served by one that begins after that; and looks leave nothing
behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.errors import Fenced
from controlplane.operations.desired import controls
from controlplane.operations.planning.snapshot import desired
from controlplane.operations.upkeep.collect import collect
from controlplane.operations.work import claims, listings, reports, rescue
from dataplane.contract.claims import CONTRACT, ListClaim
from dataplane.contract.results import TaskResult
from dataplane.listing.files import list_files
from dataplane.listing.version_cache import Versions
from tests.property.engine import user_error
from tests.unit.expectations.world import BRANCH, World

LISTING = "shop.orders#listing"


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.put("a.csv", (1, 10))
    world.apply("")
    world.settle()
    return world


def claim(world: World) -> ListClaim | None:
    found = claims.claim(world.ctx, "worker", CONTRACT, ["list"])
    assert found is None or found["kind"] == "list"
    return found


def look(world: World) -> tuple[ListClaim, list[TaskResult]]:
    """A worker takes the listing that is asked for, and looks."""
    taken = claim(world)
    assert taken is not None
    [task] = taken["tasks"]
    found = list_files(taken["job"], Versions())
    return taken, [{"task": task["task"], "epoch": task["epoch"], "state": "done", "result": found}]


def report(world: World, taken: ListClaim, results: list[TaskResult]) -> None:
    reports.report(world.ctx, "worker", taken["attempt"], results, lake=world.lake)


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
        [attempt] = tx.queue.attempts().values()
    rescue.adopt(world.ctx, attempt, world.lake, reason="its driver ended")
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
        controls.refresh(world.ctx, BRANCH, None)
        rest(world)
    collect(world.store, "default")
    with world.store.read() as tx:
        assert len(tx.queue.demands(BRANCH, LISTING)) == 1  # the newest


PLUS = "  plus: {transform: {sql: 'SELECT k, v + 1 AS v FROM orders'}}\n"


def states(world: World) -> list[str]:
    return [world.decision(f"shop.{name}").status for name in ("orders", "plus")]


def test_nothing_is_up_to_date_until_what_was_asked_for_was_looked_at(world: World) -> None:
    """So `wait` after `refresh` does not return before."""
    world.apply(PLUS)
    world.settle()
    assert states(world) == ["up_to_date", "up_to_date"]
    world.refresh()
    assert states(world) == ["stale", "stale"]
    taken, found = look(world)
    world.refresh()
    report(world, taken, found)
    # It may have looked before the second one was asked for
    assert states(world) == ["stale", "stale"]
    world.dispatch()
    report(world, *look(world))
    assert states(world) == ["up_to_date", "up_to_date"]


def test_looks_that_nobody_asked_for_change_nothing(world: World) -> None:
    with world.store.begin() as tx:
        nodes = desired(tx, BRANCH)
        listings.request(tx, listings.sources(nodes, nodes.order))
    assert world.decision().status == "up_to_date"


def test_who_waits_is_told_that_looking_failed(world: World) -> None:
    world.refresh()
    taken, [found] = look(world)
    error = user_error("no such bucket")
    report(
        world,
        taken,
        [{"task": found["task"], "epoch": found["epoch"], "state": "failed", "error": error}],
    )
    assert world.decision().status == "failed"
    world.refresh()
    assert world.decision().status == "stale"
    report(world, *look(world))
    assert world.decision().status == "up_to_date"


def test_who_confirms_a_loss_waits_for_what_is_left(world: World) -> None:
    for n in range(listings.GUARDED_FROM):
        world.put(f"{n}.csv", (n, n))
    world.settle()
    for n in range(1, listings.GUARDED_FROM):
        (world.home / "orders" / f"{n}.csv").unlink()
    world.settle()
    assert world.decision().status == "waiting"
    controls.refresh(world.ctx, BRANCH, None, accept_deletes=True)
    assert world.decision().status == "stale"
    world.settle()
    assert (world.decision().status, len(world.rows())) == ("up_to_date", 2)
