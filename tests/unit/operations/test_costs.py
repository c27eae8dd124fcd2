"""What a plan is thought to take, by what tasks of its datasets took."""

from __future__ import annotations

from pathlib import Path

from controlplane.core.model.past_attempts import Cost
from controlplane.core.plan import Item, Keys
from controlplane.core.plan.work_keys import listed
from controlplane.operations.desired import controls
from controlplane.operations.inspect import overview
from controlplane.operations.planning import costs
from tests.store.examples import past
from tests.unit.expectations.world import BRANCH, World

TASK = Cost(seconds_p10=1.0, seconds=2.0, seconds_p90=5.0, rows=10.0, bytes=100.0, attempts=3)


def item(dataset: str, tasks: int) -> Item:
    return Item(dataset, "compute", "logic", certain=True, tasks=tasks, keys=Keys())


def test_tasks_take_what_their_dataset_took_and_the_rest_is_unknown() -> None:
    items = [item("a.b", 12), item("a.c", 1), item("a.d", 0), item("a.e", 1)]
    items.append(Item("a.b", "adopt", "logic", certain=True, tasks=0, keys=listed(["1", "2", "3"])))
    found = [costs.of_item(one, {"a.b": TASK, "a.e": TASK}) for one in items]
    assert found[0] == {
        "seconds": {"low": 12.0, "median": 24.0, "high": 60.0},
        "bytes": 1200,
        "rows": 120,
        "adopted": 0,
        "unknown": [],
    }
    assert found[2] is None
    assert costs.total(found) == {
        "seconds": {"low": 13.0, "median": 26.0, "high": 65.0},
        "bytes": 1300,
        "rows": 130,
        "adopted": 3,
        "unknown": ["a.c"],
    }


def test_of_work_without_a_past_no_time_is_told() -> None:
    assert costs.total([costs.of_item(item("a.b", 2), {})])["seconds"] is None


REST = """\
  doubled: {transform: {sql: 'SELECT k, 2 * v AS v FROM orders'}}
  total: {transform: {sql: 'SELECT sum(v) AS v FROM doubled'}}
"""


def test_a_task_takes_as_much_longer_as_it_has_more_rows_to_read(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("a.csv", (1, 10))
    world.apply(REST)
    world.settle()
    for number in range(3):  # they are committed; what reads them has not begun
        world.put(f"b{number}.csv", (number, 1))
    controls.pause(world.ctx, BRANCH, "shop.total")
    world.settle()
    with world.store.begin() as tx:
        tx.past_attempts.put(
            [past(f"t{n}", dataset="shop.total", seconds=4.0, ended_at=world.now) for n in range(9)]
        )
    controls.resume(world.ctx, BRANCH, "shop.total")
    plan = overview.plan(world.ctx, BRANCH)
    [item] = plan["items"]
    assert item["dataset"] == "shop.total"
    cost = item["cost"]
    assert cost is not None
    assert cost["seconds"] == {"low": 2.0, "median": 8.0, "high": 8.0}
    world.store.close()


def test_a_task_with_fewer_rows_may_take_as_long_as_before(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number in range(4):
        world.put(f"b{number}.csv", (number, 1))
    world.apply(REST)
    world.settle()
    controls.pause(world.ctx, BRANCH, "shop.total")
    for number in range(3):
        (tmp_path / "orders" / f"b{number}.csv").unlink()
    world.settle()
    with world.store.begin() as tx:
        tx.past_attempts.put(
            [past(f"t{n}", dataset="shop.total", seconds=4.0, ended_at=world.now) for n in range(9)]
        )
    controls.resume(world.ctx, BRANCH, "shop.total")
    [item] = overview.plan(world.ctx, BRANCH)["items"]
    cost = item["cost"]
    assert cost is not None
    assert cost["seconds"] == {"low": 0.5, "median": 0.5, "high": 2.0}
    world.store.close()


def test_what_an_edit_back_adopts_is_counted(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("a.csv", (1, 10))
    world.put("b.csv", (1, 10))
    world.apply(REST)
    world.settle()
    world.apply(REST.replace("2 * v", "3 * v"))
    world.settle()
    world.apply(REST)
    assert overview.plan(world.ctx, BRANCH)["cost"]["adopted"] >= 2
    world.store.close()
