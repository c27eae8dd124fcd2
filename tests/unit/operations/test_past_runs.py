"""What a run is said to have done: a world that is computed by the in-memory engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.core.errors import NotFound
from controlplane.core.model.answers.work import PastRun
from controlplane.operations.inspect import causes, datasets, overview, tasks
from controlplane.operations.inspect import past_runs as runs
from tests.store.examples import past
from tests.unit.expectations.world import World

REST = """\
  doubled: {transform: {sql: 'SELECT k, 2 * v AS v FROM orders'}}
  total: {transform: {sql: 'SELECT sum(v) AS v FROM doubled'}}
  copied: {write: {connector: files, from: total, path: '%s/out', format: json}}
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.put("a.csv", (1, 10))
    world.put("b.csv", (2, 20))
    world.apply(REST % tmp_path)
    world.settle()
    return world


def listed(world: World) -> list[PastRun]:
    return runs.listing(world.ctx, "main", "shop", 20)["items"]


def test_a_first_run(world: World) -> None:
    [first] = listed(world)
    assert (first["id"], first["reason"], first["cause"]) == (
        "shop.rev1",
        "revision 1 of shop",
        "missing",
    )
    assert first["datasets"] == ["shop.orders", "shop.doubled", "shop.total", "shop.copied"]
    assert (first["tasks"]["executed"], first["tasks"]["failed"]) == (5, 0)


def test_a_late_file_reaches_what_reads_it(world: World) -> None:
    world.put("c.csv", (3, 30))
    world.settle()
    late, first = listed(world)
    assert (late["id"], late["reason"]) == ("shop.orders:2", "the source of shop.orders changed")
    assert late["datasets"] == ["shop.orders", "shop.doubled", "shop.total", "shop.copied"]
    assert (late["tasks"]["executed"], late["tasks"]["written"]) == (3, 1)
    assert first["tasks"]["executed"] == 5


def test_a_revert_adopts(world: World) -> None:
    world.apply((REST % world.home).replace("2 * v", "3 * v"))
    world.settle()
    world.apply(REST % world.home)
    world.settle()
    revert, edit, _ = listed(world)
    assert (edit["id"], edit["tasks"]["executed"], edit["tasks"]["adopted"]) == ("shop.rev2", 3, 0)
    assert (revert["id"], revert["tasks"]["executed"], revert["tasks"]["adopted"]) == (
        "shop.rev3",
        0,
        3,
    )


def test_an_attempt_to_analyse_a_draft_is_part_of_no_run(world: World) -> None:
    before = listed(world)[0]
    drafted = replace(
        past("draft", dataset="shop.total", seconds=4.0, ended_at=world.now - 1.0), kind="analyse"
    )
    with world.store.begin() as tx:
        tx.past_attempts.put([replace(drafted, queued_at=1.0, started_at=2.0)])
    world.put("c.csv", (3, 30))
    world.settle()
    late, first = listed(world)
    assert first == before
    assert late["began"] > first["began"]
    assert "draft" not in {
        a["attempt"] for a in runs.past_run(world.ctx, "main", late["id"])["attempts"]
    }


def test_one_run_with_its_steps(world: World) -> None:
    found = runs.past_run(world.ctx, "main", "shop.rev1")
    assert [step["dataset"] for step in found["steps"]] == found["datasets"]
    orders = found["steps"][0]
    assert (orders["generation"], orders["partitions"], orders["rows"]) == (1, 2, 2)
    assert orders["work"]
    assert (orders["work"]["tasks"], orders["work"]["rows"]) == (2, 2)
    assert {a["dataset"] for a in found["attempts"]} == set(found["datasets"])
    with pytest.raises(NotFound, match="headgate runs"):
        runs.past_run(world.ctx, "main", "shop.rev9")


def test_what_ended_failed_is_one_failure_however_often_it_was_tried(world: World) -> None:
    with world.store.read() as tx:
        before = tx.events.last()
    world.apply((REST % world.home).replace("sum(v)", "no_such_function(v)"))
    world.settle()
    failed = listed(world)[0]
    assert (failed["id"], failed["state"], failed["tasks"]["failed"]) == ("shop.rev2", "failed", 1)
    assert overview.summary(world.ctx, "main", ["shop"], before)["tasks"]["failed"] == 1
    world.apply(REST % world.home)
    world.settle()
    assert overview.summary(world.ctx, "main", ["shop"], before)["tasks"]["failed"] == 0


def test_times_stand_where_people_look(world: World) -> None:
    [generation] = datasets.history(world.ctx, "main", "shop.orders", before=None, limit=9)["items"]
    assert generation["work"]
    assert generation["work"]["tasks"] == 2
    [flow] = overview.status(world.ctx, "main", "shop", long=True)["dataflows"]
    times = {
        thing["name"]: thing["times"]["last"] for thing in (*flow["datasets"], *flow["targets"])
    }
    assert all(times.values())
    of_partition = causes.why(world.ctx, "main", "shop.orders", "a.csv")["work"]
    assert of_partition
    last, *_ = tasks.ended(world.ctx, "main", "shop.orders", 9)["items"]
    assert (last["outcome"], last["attempt"]) == ("done", of_partition["attempt"])


def test_slow_is_twice_the_median_and_ten_seconds_more(world: World) -> None:
    with world.store.begin() as tx:
        usual = [
            past(f"usual{n}", dataset="shop.total", seconds=4.0, ended_at=1.0) for n in range(4)
        ]
        tx.past_attempts.put(
            [*usual, past("slow", dataset="shop.total", seconds=30.0, ended_at=world.now)]
        )
    world.put("c.csv", (3, 30))
    world.settle()
    [flow] = overview.status(world.ctx, "main", "shop.total", long=True)["dataflows"]
    last = flow["datasets"][0]["times"]["last"]
    assert last
    assert last["slow"]
    assert "15.0 s a task; the median of its last" in last["slow"]
