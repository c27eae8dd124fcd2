"""How a plan says that inputs are kept, and what it says that a late partition costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.core.model.answers.plans import LatePartition, PlanModes
from controlplane.core.rights import TokenScope, principal_of
from controlplane.operations.context import Context
from controlplane.operations.inspect import overview
from tests.store.examples import past
from tests.unit.expectations.world import BRANCH, World

REST = """\
  dear: {transform: {sql: 'SELECT k, v FROM orders WHERE v > 0'}}
  sums:
    transform: {sql: 'SELECT k, sum(v) AS v FROM dear GROUP BY k', partition_by: [k]}
  total: {transform: {sql: 'SELECT sum(v) AS v FROM dear'}}
  sorted: {transform: {sql: 'SELECT k, v FROM dear ORDER BY v'}}
  met: {transform: {sql: 'SELECT d.k, t.v FROM dear d CROSS JOIN total t'}}
  copy: {write: {connector: files, from: sums, path: /tmp/none, format: csv}}
"""
FOLD = """\
  running:
    transform:
      sql: SELECT max(k) AS k, sum(v) + coalesce((SELECT max(v) FROM self), 0) AS v FROM orders
      inputs: {self: previous, orders: each}
      schema: "k BIGINT, v BIGINT"
"""
FILES = 20
PLAN_STATEMENTS = 8  # as many as before plans had modes


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    for number in range(FILES):
        world.put(f"{number:02}.csv", (number % 4, number + 1), (4 + number % 2, 1))
    yield world
    world.store.close()


def modes(ctx: Context) -> PlanModes:
    return overview.plan(ctx, BRANCH, modes=True)["modes"]


def late(world: World) -> LatePartition:
    [partition] = modes(world.ctx)["late"]
    return partition


def test_each_input_is_kept_in_one_way(world: World) -> None:
    world.apply(REST)
    kept = {(i["component"], i["input"]): i for i in modes(world.ctx)["inputs"]}
    assert {name: one["kept_as"] for name, one in kept.items()} == {
        ("shop.dear", "orders"): "each",
        ("shop.sums", "dear"): "by",
        ("shop.total", "dear"): "parts",
        ("shop.sorted", "dear"): "all",
        ("shop.met", "dear"): "each",
        ("shop.met", "total"): "all",
    }
    assert kept["shop.sums", "dear"]["key"] == ["k"]
    assert "ORDER BY" in kept["shop.sorted", "dear"]["reason"]


def test_a_late_partition_costs_what_it_then_takes(world: World) -> None:
    world.apply(REST)
    world.settle()
    foretold = late(world)
    world.put("00.csv", (0, 50), (4, 2))
    assert sum(world.settle().values()) == foretold["tasks"]
    # orders, dear, two keys of sums and of its copy, total, sorted, all of met
    assert foretold["partitions"] == 1 + 1 + 2 + 2 + 1 + 1 + FILES


def test_what_is_not_known_is_named_and_in_no_figure(world: World) -> None:
    world.apply(REST)
    partition = late(world)
    assert (partition["seconds"], partition["uncounted"]) == (
        None,
        ["shop.copy", "shop.met", "shop.sums"],
    )
    world.settle()
    attempts = [past(f"t{n}", dataset="shop.total", seconds=4.0, done=1) for n in range(99)]
    with world.store.begin() as tx:
        tx.past_attempts.put([replace(a, ended_at=world.now + 1) for a in attempts])
    partition = late(world)
    assert (partition["uncounted"], partition["untimed"]) == ([], [])
    assert partition["seconds"] == 2 * 4.0, "a part and a merge; other tasks take no time here"


def test_a_fold_redoes_half_of_its_partitions_on_an_average(world: World) -> None:
    world.apply(FOLD)
    assert late(world)["uncounted"] == ["shop.running"]
    world.settle()
    assert late(world)["partitions"] == 1 + (FILES + 1) // 2 + 1


def test_only_datasets_that_the_token_sees_are_counted(world: World) -> None:
    world.apply(REST)
    world.settle()
    scope = TokenScope(datasets=("shop.orders", "shop.dear"))
    narrow = Context(world.store, lake="memory:lake", principal=principal_of(("view",), scope, {}))
    seen = modes(narrow)
    assert {i["component"] for i in seen["inputs"]} <= {"shop.dear"}
    assert all(p["partitions"] <= 2 for p in seen["late"])


def test_a_plan_without_modes_makes_no_statement_for_them(world: World) -> None:
    world.apply(REST)
    world.settle()
    before = world.store.statements
    assert "modes" not in overview.plan(world.ctx, BRANCH)
    assert world.store.statements - before == PLAN_STATEMENTS


def test_a_reader_that_the_token_does_not_see_is_not_named(world: World) -> None:
    hidden = "  hidden: {freshness: 1h, transform: {sql: 'SELECT k FROM orders'}}\n"
    world.apply(f"      refresh: on_demand\n{hidden}")
    scope = TokenScope(datasets=("shop.orders",))
    narrow = Context(world.store, lake="memory:lake", principal=principal_of(("view",), scope, {}))
    plans = [overview.plan(ctx, BRANCH, ["shop"]) for ctx in (world.ctx, narrow)]
    assert [plan["sources"][0]["pulled"] for plan in plans] == [
        "listed every 1 h, for the freshness of shop.hidden",
        "listed every 1 h, for the freshness of a dataset downstream",
    ]
