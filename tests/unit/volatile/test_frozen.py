"""Results that may come out otherwise each time: frozen by partition, one component's own, made
anew when a period ends or an operator says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.errors import InvalidBlueprint
from controlplane.core.model.branches import Branch
from controlplane.core.model.states import PartialState
from controlplane.core.plan import FEWEST, Compute
from controlplane.operations.desired import controls
from controlplane.operations.inspect import causes
from controlplane.operations.planning.snapshot import plan_now
from tests.property.engine import MERGED
from tests.unit.expectations.world import BRANCH, World

DAY = 86_400.0
CHANCE = "SELECT k, random() AS v FROM orders"
CLOCK = "SELECT k, unix_timestamp() AS v FROM orders"


def component(name: str, sql: str, more: str = "") -> str:
    return f"  {name}:\n    transform: {{sql: '{sql}'}}\n" + (f"    {more}\n" if more else "")


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.put("a.csv", (1, 10))
    world.put("b.csv", (2, 20))
    return world


def values(world: World, dataset: str) -> dict[int, int]:
    return dict(world.rows(dataset))


def cause(world: World, dataset: str) -> tuple[str, str]:
    with world.ctx.read_plan(BRANCH) as (plan, _):
        item = next(i for i in plan.items if i.dataset == dataset)
    return item.cause, item.reason


# --- frozen ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sql", [CHANCE, CLOCK])
def test_results_are_frozen_by_partition(world: World, sql: str) -> None:
    world.apply(component("drawn", sql))
    world.settle()
    before = values(world, "shop.drawn")
    world.now += 3 * DAY
    assert not world.settle()
    world.put("c.csv", (3, 30))
    assert world.settle()["transform"] == 1
    assert values(world, "shop.drawn").items() > before.items()


def test_they_are_shared_with_no_other_component_or_dataflow(world: World) -> None:
    world.apply(
        component("drawn", CHANCE)
        + component("other", CHANCE)
        + component("plain", "SELECT k FROM orders")
    )
    assert world.settle()["transform"] == 6
    world.apply(
        component("drawn", CHANCE) + component("plain", "SELECT k FROM orders"), flow="store"
    )
    assert world.settle()["transform"] == 2
    drawn = [values(world, name) for name in ("shop.drawn", "shop.other", "store.drawn")]
    assert len({tuple(d.items()) for d in drawn}) == 3


def test_a_file_that_comes_back_has_the_value_that_it_had(world: World) -> None:
    world.apply(component("drawn", CHANCE))
    world.settle()
    before = values(world, "shop.drawn")
    (world.home / "orders" / "b.csv").unlink()
    world.settle()
    world.put("b.csv", (2, 20))
    assert "transform" not in world.settle()
    assert values(world, "shop.drawn") == before


def test_a_branch_inherits_what_is_frozen(world: World) -> None:
    world.apply(component("drawn", CHANCE, "volatile: daily"))
    world.settle()
    controls.refresh(world.ctx, BRANCH, "shop.drawn", force=True)
    world.settle()
    with world.store.begin() as tx:
        tx.branches.create(Branch(name="dev", source="main", at=0.0, actor="ann"))
    with world.store.read() as tx:
        plan, _ = plan_now(tx, "dev", None)
    assert not plan.items


# --- periods --------------------------------------------------------------------------------------


def test_a_day_turns_by_itself(world: World) -> None:
    world.apply(component("drawn", CHANCE, "volatile: daily") + component("frozen", CHANCE))
    world.settle()
    before, frozen = values(world, "shop.drawn"), values(world, "shop.frozen")
    world.now += DAY
    assert cause(world, "shop.drawn") == ("period", "volatile: the day turned")
    assert world.once().under_way == 2  # the loop has noticed: nobody told it
    assert world.settle() == {"transform": 2}
    assert values(world, "shop.drawn").keys() == before.keys()
    assert not set(values(world, "shop.drawn").values()) & set(before.values())
    assert values(world, "shop.frozen") == frozen
    assert causes.why(world.ctx, BRANCH, "shop.drawn")["cause"] == "period"
    assert not world.settle()


def test_hours_and_days_are_those_of_the_dataflow(world: World) -> None:
    text = component("day", CHANCE, "volatile: daily") + component(
        "hour", CHANCE, "volatile: hourly"
    )
    world.apply(text + "timezone: Asia/Kolkata\n")
    world.now = 10 * DAY + 18 * 3600.0  # half an hour before midnight there
    world.settle()
    world.now = 10 * DAY + 18 * 3600.0 + 1000.0
    assert not world.settle()
    world.now = 10 * DAY + 18 * 3600.0 + 1800.0
    assert cause(world, "shop.hour") == ("period", "volatile: the hour turned")
    assert cause(world, "shop.day") == ("period", "volatile: the day turned")
    assert world.settle() == {"transform": 4}
    world.now += 3600.0
    assert world.settle() == {"transform": 2}


def test_declaring_it_makes_any_result_one_component_s_own(world: World) -> None:
    plain = "SELECT k, v FROM orders"
    world.apply(component("mine", plain, "volatile: true") + component("yours", plain))
    assert world.settle()["transform"] == 4
    world.now += DAY
    assert not world.settle()


def test_what_follows_stops_where_rows_are_equal(world: World) -> None:
    daily = component("same", "SELECT k, v FROM orders", "volatile: daily")
    world.apply(daily + component("next", "SELECT k FROM same"))
    world.settle()
    world.now += DAY
    assert world.settle() == {"transform": 2}


@pytest.mark.parametrize("daily", ["volatile: daily", ""])
def test_a_diamond_never_mixes_two_draws(world: World, daily: str) -> None:
    text = component("drawn", CHANCE, daily)
    text += component("left", "SELECT k, v AS l FROM drawn") + component(
        "right", "SELECT k, v AS r FROM drawn"
    )
    world.apply(text + component("both", "SELECT l.k, l, r FROM left l JOIN right r ON l.k = r.k"))
    world.settle()
    controls.pause(world.ctx, BRANCH, "shop.right")
    world.now += DAY
    if not daily:
        controls.refresh(world.ctx, BRANCH, "shop.drawn", force=True)
    assert world.settle() == {"transform": 4}
    assert all(left == right for _, left, right in world.rows("shop.both"))
    controls.resume(world.ctx, BRANCH, "shop.right")
    world.settle()
    assert {left for _, left, _ in world.rows("shop.both")} == set(
        values(world, "shop.drawn").values()
    )


def test_a_half_built_dataset_begins_again_when_the_day_turns(world: World) -> None:
    world.apply(component("drawn", CLOCK, "volatile: daily"))
    world.settle()
    with world.store.begin() as tx:
        s = tx.states.newest(BRANCH)["shop.drawn"]
        tx.states.put_building(
            PartialState(BRANCH, s.dataset, s.lineage, s.inputs, s.root, s.schema, s.cut)
        )
    world.now = 20 * DAY
    assert world.settle() == {"transform": 2}
    assert min(values(world, "shop.drawn").values()) >= 20 * DAY


@pytest.mark.parametrize(
    "text", [component("a", CHANCE, "volatile: hourly"), component("a", CLOCK)]
)
def test_zones_that_only_spark_knows_have_no_days(world: World, text: str) -> None:
    world.apply(component("a", CHANCE, "volatile: true") + "timezone: Moon/Base\n")
    with pytest.raises(InvalidBlueprint) as caught:
        world.apply(text + "timezone: Moon/Base\n")
    assert [p.code for p in caught.value.problems] == ["invalid-value"]


# --- the time of the plan -------------------------------------------------------------------------


def test_the_clock_is_that_of_the_plan(world: World) -> None:
    world.apply(component("drawn", CLOCK, "volatile: daily"))
    world.settle()
    world.now = 20 * DAY - 1.0
    world.once()  # plans, and asks for the work
    world.now = 20 * DAY - 0.5
    world.work()
    world.once()
    assert set(values(world, "shop.drawn").values()) == {20 * DAY - 1}
    world.now = 20 * DAY
    world.settle()
    assert min(values(world, "shop.drawn").values()) >= 20 * DAY


def test_work_that_runs_after_midnight_keeps_the_time_of_its_plan(world: World) -> None:
    world.apply(component("drawn", CLOCK))
    world.now = 20 * DAY - 1.0
    world.refresh()
    world.work()
    for _ in range(10):
        if world.once().under_way and isinstance(world.decision("shop.drawn").step, Compute):
            break
        world.work()
    planned = int(world.now)
    world.now = 21 * DAY
    world.work()
    world.settle()
    assert set(values(world, "shop.drawn").values()) == {planned}


# --- forced ---------------------------------------------------------------------------------------


def test_what_is_forced_is_computed_again(world: World) -> None:
    world.apply(
        component("plain", "SELECT k, v FROM orders") + component("next", "SELECT k FROM plain")
    )
    world.settle()
    told = controls.refresh(world.ctx, BRANCH, "shop.plain", force=True)
    assert told["forced"] == ["shop.plain"]
    assert cause(world, "shop.plain") == ("forced", "forced by an operator")
    assert world.settle() == {"transform": 2}  # and nothing of what reads it: the rows are equal
    assert not world.settle()
    controls.refresh(world.ctx, BRANCH, "shop", force=True)
    assert world.settle() == {"parse": 2, "transform": 4}


def test_what_is_forced_is_not_merged_from_parts_that_were_there(tmp_path: Path) -> None:
    world = World(tmp_path)
    for key in range(FEWEST):
        world.put(f"{key}.csv", (key, key))
    world.apply(component("total", "SELECT sum(v) AS v FROM orders"))
    assert world.settle()["transform"] == FEWEST + 1
    world.engine.done.clear()
    controls.refresh(world.ctx, BRANCH, "shop.total", force=True)
    assert world.settle() == {"transform": 1}
    assert [w.key for w in world.engine.done if w.key == MERGED] == []
    assert world.rows("shop.total") == [(sum(range(FEWEST)),)]


def test_forced_results_are_nobody_else_s(world: World) -> None:
    plain = component("plain", "SELECT k, v FROM orders")
    world.apply(plain)
    world.settle()
    controls.refresh(world.ctx, BRANCH, "shop.plain", force=True)
    world.settle()
    world.put("c.csv", (3, 30))
    assert world.settle() == {"parse": 1, "transform": 1}
    world.apply(plain, flow="store")
    assert world.settle() == {"transform": 1}  # the first two were there before it was forced


def test_two_branches_that_are_forced_share_nothing(world: World) -> None:
    with world.store.begin() as tx:
        numbers = [
            tx.blueprints.force(branch, ["shop.plain"]) for branch in (BRANCH, "dev", BRANCH)
        ]
    assert numbers == sorted(set(numbers))
    with world.store.read() as tx:
        assert tx.blueprints.forces("dev") == {"shop.plain": numbers[1]}
