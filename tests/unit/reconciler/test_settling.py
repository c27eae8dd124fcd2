"""A run does not end before all that was found is planned, whenever it is found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest

from controlplane.operations.failing_units import FailingUnits
from controlplane.operations.inspect import causes, overview
from controlplane.operations.planning.apply_plan import Pass
from controlplane.reconciler.fleet import Fleet
from controlplane.reconciler.loop import Progress, Reconciler
from controlplane.reconciler.wake import WakeCounter
from tests.hostile.test_kills import Children
from tests.stores import damage_node
from tests.unit.branches.tables import PublishedWorld
from tests.unit.expectations.world import BRANCH
from tests.unit.reconciler.nowhere import Nowhere
from tests.unit.reconciler.test_streams import Place

PASSES = 10
CURE = "corrupt-node: run `headgate fsck`, and restore the database from a backup"
TOTALS = "  totals: {transform: {sql: 'SELECT k, sum(v) AS v FROM orders GROUP BY k'}}\n"


@dataclass
class Ends:
    """Once there is work for a driver; or after some passes, in which a run would have ended by
    itself."""

    looks: int = 0
    under_way: int = 0

    def is_set(self) -> bool:
        self.looks += 1
        return self.looks > PASSES or self.under_way > 0

    def observe(self, progress: Progress) -> None:
        self.under_way = progress.under_way


def test_what_is_found_after_a_pass_has_planned_is_planned_by_one_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, ends = Place(), Ends()
    fleet, flows = Fleet(place.ctx, place.lake, place.pool), frozenset({"stream"})
    place.loop = Reconciler(
        place.ctx.store, fleet, Nowhere(), WakeCounter(), flows=flows, on_progress=ends.observe
    )
    settling, passes = place.loop._settling, []
    plan = settling.settle

    def and_then_found() -> Pass:
        passes.append(plan())
        if len(passes) == 2:
            place.finds(place.listing(), "1")
            place.loop.wake.notify()
        return passes[-1]

    monkeypatch.setattr(settling, "settle", and_then_found)
    place.loop.settle(ends)
    assert [p.under_way > 0 for p in passes] == [False, False, True]


def test_a_run_over_a_damaged_tree_ends_with_the_reason_and_what_to_do(tmp_path: Path) -> None:
    world = after_damage_to("shop.orders", tmp_path)
    done = overview.summary(world.ctx, BRANCH, ["shop", "other"], 0)
    assert done["state"] == "failed"
    errors = {error["dataset"]: error["message"] for error in done["errors"]}
    assert CURE in errors["shop.orders"]
    explained = causes.why(world.ctx, BRANCH, "shop.orders")
    assert CURE in str(explained["error"])
    assert CURE in explained["reason"]


def test_a_run_adopts_what_another_dataflow_computed_in_place_of_a_damaged_tree(
    tmp_path: Path,
) -> None:
    world = after_damage_to("shop.totals", tmp_path)
    done = overview.summary(world.ctx, BRANCH, ["shop", "other"], 0)
    assert (done["state"], done["errors"]) == ("up_to_date", [])


def after_damage_to(dataset: str, home: Path) -> PublishedWorld:
    """The root of a dataset is damaged, a file arrives, and a run makes two dataflows of equal
    logic."""
    world, steps = PublishedWorld(home), count()
    world.put("a.csv", (1, 10))
    world.apply(TOTALS)
    world.rest()
    with world.store.read() as tx:
        root = tx.states.newest(BRANCH)[dataset].root
    damage_node(world.store, root)
    world.put("b.csv", (2, 20))
    world.apply(TOTALS, "other")
    failing_units = FailingUnits(lambda: 5.0 * next(steps))
    world.ctx = replace(world.ctx, failing_units=failing_units)
    fleet = Fleet(world.ctx, world.lake, Children(world.engine), failing_units)
    world.loop = Reconciler(
        world.store, fleet, world.logs, WakeCounter(), flows=frozenset({"shop", "other"})
    )
    world.rest()
    return world
