"""A run that a service works on: when it has come to rest, and what counts as its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.core.errors import NotFound
from controlplane.core.model.answers import RunBegun, RunProgress
from controlplane.core.model.driver_ends import STARTING
from controlplane.operations.desired import controls, run_start
from controlplane.operations.desired.blueprints import SentBlueprint
from controlplane.operations.inspect import run_progress
from controlplane.operations.projections import publish
from tests.store.examples import driver
from tests.unit.expectations.world import BRANCH, HEAD, World
from tests.unit.reconciler.nowhere import Nowhere

WRONG = "  wrong: {transform: {sql: 'SELECT no_such_function(v) AS v FROM orders'}}\n"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    world.put("a.csv", (1, 10), (2, -1))
    yield world
    world.store.close()


def begin(world: World, rest: str = "", flow: str = "shop") -> RunBegun:
    text = (HEAD.format(home=world.home) + rest).replace("dataflow: shop", f"dataflow: {flow}")
    return run_start.begin(world.ctx, BRANCH, [SentBlueprint(f"/{flow}.yaml", text, {})])


def work(world: World) -> None:
    """As a service does, until nothing is left to do."""
    while world.once().changed or world.work():
        world.now += 100.0
    with world.store.read() as tx:
        states = list(tx.states.newest(BRANCH).values())
    for state in states:
        publish.publish(world.store, "default", state, Nowhere())


def progress(world: World, unfinished: RunBegun) -> RunProgress:
    return run_progress.progress(
        world.ctx, BRANCH, list(unfinished["revisions"]), unfinished["since"]
    )


def test_a_run_has_settled_once_its_listings_tasks_and_tables_are_there(world: World) -> None:
    unfinished = begin(world)
    found = progress(world, unfinished)
    assert (found["state"], found["settled"], found["spark_started"]) == ("stale", False, False)
    world.once()
    assert progress(world, unfinished)["under_way"] == 1
    work(world)
    found = progress(world, unfinished)
    assert (found["state"], found["settled"], found["under_way"]) == ("up_to_date", True, 0)
    assert found["tasks"]["executed"] == 1


def test_every_run_lists_anew(world: World) -> None:
    first = begin(world)
    work(world)
    again = begin(world)
    assert again["revisions"] == first["revisions"]
    assert not progress(world, again)["settled"]
    work(world)
    found = progress(world, again)
    assert (found["settled"], found["tasks"]["executed"]) == (True, 0)


def test_what_a_service_does_for_others_does_not_count(world: World) -> None:
    mine = begin(world, "  few: {transform: {sql: 'SELECT v FROM orders WHERE v > 0'}}\n")
    begin(world, WRONG, "other")
    work(world)
    found = progress(world, mine)
    assert (found["state"], found["tasks"]["failed"], found["errors"]) == ("up_to_date", 0, [])
    whole = run_progress.progress(world.ctx, BRANCH, [], mine["since"])
    assert (whole["state"], whole["tasks"]["failed"], whole["settled"]) == ("failed", 1, True)


def test_what_had_failed_before_is_named_and_only_that_is_tried_again(world: World) -> None:
    first = begin(world, WRONG)
    work(world)
    assert first["failed"] == {}
    assert progress(world, first)["state"] == "failed"
    again = begin(world, WRONG)
    work(world)
    assert progress(world, again)["settled"]
    (keys,) = again["failed"].values()
    named = frozenset(map(bytes.fromhex, keys))
    assert controls.retry(world.ctx, BRANCH, "shop", among=frozenset([b"x" * 32]))["retried"] == 0
    assert controls.retry(world.ctx, BRANCH, "shop", among=named)["retried"] == 1
    assert not progress(world, again)["settled"]


def test_a_driver_that_began_since_is_told(world: World) -> None:
    with world.store.begin() as tx:
        tx.drivers.put(driver("before", at=world.now - 1.0))
    unfinished = begin(world)
    assert not progress(world, unfinished)["spark_started"]
    with world.store.begin() as tx:
        tx.drivers.put(driver("since", at=world.now + 1.0))
    assert progress(world, unfinished)["spark_started"]


def test_a_start_of_spark_for_a_run_is_told_with_its_duration(world: World) -> None:
    unfinished = begin(world)
    work(world)
    starting = driver("d", at=world.now - 95.0, reason=STARTING)
    with world.store.begin() as tx:
        tx.drivers.put(starting)
    assert progress(world, unfinished)["spark_starting_s"] is None  # nothing waits for it
    world.put("b.csv", (3, 30))
    unfinished = begin(world)
    world.once()
    assert progress(world, unfinished)["spark_starting_s"] == pytest.approx(95.0)
    with world.store.begin() as tx:
        tx.drivers.put(replace(starting, reason=""))
    assert progress(world, unfinished)["spark_starting_s"] is None


def test_a_dataflow_that_is_not_there_has_no_run(world: World) -> None:
    with pytest.raises(NotFound, match="no dataflow nothing"):
        run_progress.progress(world.ctx, BRANCH, ["nothing"])
