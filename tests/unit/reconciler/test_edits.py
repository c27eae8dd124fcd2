"""Edits of what is no part of a task's key reach tasks that are asked for already."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.core.model.scaling import PoolLimits, PoolShare
from controlplane.core.model.tasks import RAISED_FOR_S, SIZES
from controlplane.operations.desired import blueprints
from controlplane.operations.inspect import causes, overview
from controlplane.operations.work import claims
from controlplane.operations.work.recording import BACKOFF_S
from dataplane.contract.claims import CONTRACT
from tests.store.examples import past
from tests.unit.reconciler.test_reasons import SHOP, Place, driver

KILLED = ("ran out of memory: killed at its limit of 64Mi", "memory")


def sized(place: Place, size: str) -> None:
    text = f"{SHOP.format(folder=place.folder)}    resources: {size}\n"
    blueprints.apply(place.ctx, "main", [blueprints.SentBlueprint("/shop.yaml", text, {})])


def killed(place: Place, name: str, size: str) -> bool:
    """Whether a driver of a size got the task, which it ran out of memory with."""
    place.pool.drivers = (driver(name),)
    claim = claims.claim(place.ctx, name, CONTRACT, ["parse"], sizes=[size])  # type: ignore[list-item]  # one of them
    place.pool.drivers = (driver(name, *KILLED),)
    place.loop.tick()
    return claim is not None


def test_a_task_that_ran_out_of_memory_goes_to_a_larger_driver_after_an_edit(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    sized(place, "small")
    place.listed()
    assert killed(place, "first", "small")
    sized(place, "large")
    place.loop.tick()
    with place.ctx.store.read() as tx:
        (task,) = tx.queue.demands("main", "shop.orders").values()
        assert tx.queue.backlog(["small"]) == {}
    assert (task.state, task.size) == ("queued", "large")
    assert not place.loop.tick().changed, "asked once"


def test_later_tasks_of_a_dataset_that_ran_out_of_memory_go_to_larger_drivers(
    tmp_path: Path,
) -> None:
    """For a week. `why` says so."""
    place = Place(tmp_path)
    place.listed()
    for name in ("first", "second"):
        assert killed(place, name, "standard")
        place.now += max(BACKOFF_S)
    (tmp_path / "1.csv").write_text("id\n1\n2\n")
    place.listed()
    with place.ctx.store.read() as tx:
        assert {task.size for task in tx.queue.demands("main", "shop.orders").values()} == {"large"}
    sentence = causes.why(place.ctx, "main", "shop.orders")["resources"]
    assert sentence.startswith("its tasks count as large, as one ran out of memory twice")
    place.now += RAISED_FOR_S
    (tmp_path / "1.csv").write_text("id\n1\n2\n3\n")
    place.listed()
    with place.ctx.store.read() as tx:
        tasks = tx.queue.demands("main", "shop.orders").values()
    assert {task.size for task in tasks} == {"standard"}
    assert "resources" not in causes.why(place.ctx, "main", "shop.orders")


def test_why_says_how_many_slow_tasks_a_driver_gets(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for n in range(2, 9):
        (tmp_path / f"{n}.csv").write_text(f"id\n{n}\n")
    place.listed()
    slow = replace(past("slow"), dataset="shop.orders", kind="parse", seconds=12.0, done=1)
    with place.ctx.store.begin() as tx:
        tx.past_attempts.put([slow])
    answer = causes.why(place.ctx, "main", "shop.orders")
    assert answer["resources"] == "a driver gets up to 6 of its tasks at a time, as they take long"


def test_a_dataflow_keeps_a_driver_warm_until_it_is_edited(tmp_path: Path) -> None:
    place = Place(tmp_path)
    plain = SHOP.format(folder=tmp_path)
    warm, cold = (
        plain.replace("components:", f"drivers: {{keep: {keep}}}\ncomponents:")
        for keep in ("warm", "cold")
    )
    sizes = []
    for text in (plain, warm, cold, warm):
        blueprints.apply(place.ctx, "main", [blueprints.SentBlueprint("/shop.yaml", text, {})])
        place.loop.tick()
        sizes.append(place.pool.scaled_to)
    assert sizes == [0, 1, 0, 1]


def test_a_fleet_is_scaled_by_one_look_at_what_waits(tmp_path: Path) -> None:
    """However many pools there are, with topics or without."""
    place = Place(tmp_path)
    place.listed()
    limits = PoolLimits(0, 1)
    place.pool.shares = tuple(PoolShare("driver", size, (size,), limits) for size in SIZES)
    store = place.ctx.store
    before = store.statements
    place.loop.fleet.scale()
    assert store.statements - before == 1


@pytest.mark.parametrize(
    ("drivers", "words"),
    [
        ("{keep: warm}", "one driver of each pool (standard, large) stays without work"),
        ("{keep: idle, idle: 10m}", "drivers stay 10 min 0 s without work"),
        ("{keep: cold}", "no driver stays without work"),
        ("{keep: idle}", None),
    ],
)
def test_a_plan_says_what_the_choice_of_drivers_costs(
    tmp_path: Path, drivers: str, words: str | None
) -> None:
    place = Place(tmp_path)
    orders = SHOP.format(folder=tmp_path)
    large = "  big: {transform: {sql: SELECT 1 AS one FROM orders}, resources: large}\n"
    text = orders.replace("components:", f"drivers: {drivers}\ncomponents:") + large
    blueprints.apply(place.ctx, "main", [blueprints.SentBlueprint("/shop.yaml", text, {})])
    shown = overview.plan(place.ctx, "main", None).get("drivers", [])
    assert [choice["dataflow"] for choice in shown] == ([] if words is None else ["shop"])
    assert all(choice["sentence"].startswith(words or "") for choice in shown)
