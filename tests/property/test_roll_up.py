"""Roll-ups of random slices: what every dataset holds is what the log says, no message is read again,
and what runs because of a roll-up is counted."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from controlplane.core import tree
from controlplane.core.model.addresses import Generation
from controlplane.core.model.branches import MAIN
from controlplane.core.model.roll_ups import is_span
from controlplane.operations.desired import controls, rollback
from controlplane.operations.upkeep import fsck, roll_up
from controlplane.operations.upkeep.repair import repair
from tests.property.memory_store.store import MEMORY
from tests.property.rolling import DEV, FEWEST, RollWorld
from tests.slices import sliced


def world_at(home: Path, seed: int, exact: int = 1_000, url: str = MEMORY) -> RollWorld:
    world = RollWorld(home, random.Random(seed), exact, url)
    world.apply()
    return world


def slices_of_an_hour(world: RollWorld) -> None:
    """The hour is over at the end."""
    for _ in range(12):
        world.add(5)
        world.list_and_run()
    world.add(70)
    world.list_and_run()


def rolled(home: Path, url: str = MEMORY) -> RollWorld:
    """An hour of slices, rolled up."""
    world = world_at(home, 1, url=url)
    world.engine.is_whole = True
    slices_of_an_hour(world)
    assert world.roll_up()
    world.run()
    return world


@pytest.mark.parametrize("seed", sliced(range(60), of=15))
def test_random_logs_and_roll_ups(tmp_path: Path, seed: int) -> None:
    world = world_at(tmp_path, seed, exact=1 if seed % 2 else 1_000)
    world.play()
    assert world.read_spans() == []
    assert not fsck.fsck(world.store, world.ctx.namespace)
    if world.rolled_up:
        assert any(map(is_span, world.keys("named")))


def test_a_roll_up_runs_nothing(tmp_path: Path) -> None:
    world = world_at(tmp_path, 1)
    world.engine.is_whole = True
    slices_of_an_hour(world)
    slices, done = len(world.keys("orders")), list(world.engine.done)
    rolled_up = world.roll_up()
    world.run()
    world.check()
    ran = {work.dataset for work in world.engine.done[len(done) :]}
    assert ran <= {"a.times"}  # slices with equal rows: their files cannot be named twice
    spans = [key for key in world.keys("orders") if is_span(key)]
    assert len(world.keys("orders")) == slices - rolled_up + len(spans)
    assert world.keys("named") == world.keys("times") == world.keys("orders")
    assert roll_up.roll_up(world.store, world.ctx.namespace, FEWEST) == 0


def test_the_next_slice_goes_on_behind_a_span(tmp_path: Path) -> None:
    world = rolled(tmp_path)
    done = len(world.engine.done)
    world.engine.log[0] += [world.engine.now]
    world.list_and_run()
    world.check()
    read = [work.partition for work in world.engine.done[done:] if work.dataset == "a.orders"]
    assert read == [world.keys("orders")[-1]]
    assert read[0] == f"{len(world.engine.slices):012}"


def test_an_edit_and_its_revert_read_no_message_again(tmp_path: Path) -> None:
    world = world_at(tmp_path, 2)
    for _ in range(12):
        world.add(5)
        world.list_and_run()
    world.apply(plus=1)
    world.add(70)
    world.list_and_run()
    assert world.roll_up()
    world.run()
    world.check()
    done = len(world.engine.done)
    world.apply()
    world.run()
    world.check()
    # What came since the edit is computed; slices from before it are united
    assert len([w for w in world.engine.done[done:] if w.dataset == "a.named"]) <= 1
    assert world.read_spans() == []


def test_another_way_of_reading_reads_spans_and_back_reads_nothing(tmp_path: Path) -> None:
    world = rolled(tmp_path, f"sqlite:///{tmp_path}/metadata.db")
    world.apply(bad="fail")
    world.run()
    world.check()
    spans = {work.partition for work in world.read_spans()}
    assert spans == {key for key in world.keys("orders") if is_span(key)} != set()
    done = len(world.engine.done)
    world.apply()
    world.run()
    world.check()
    assert len(world.engine.done) == done


def test_a_branch_from_before_a_roll_up_computes_nothing_again(tmp_path: Path) -> None:
    world = world_at(tmp_path, 3)
    world.create_branch(plus=10)
    slices_of_an_hour(world)
    done = len(world.engine.done)
    assert world.roll_up()
    world.run()
    world.check()
    assert {work.dataset for work in world.engine.done[done:]} <= {"a.times"}
    assert any(map(is_span, world.keys("named", DEV)))


def test_lost_files_of_a_span_are_made_again(tmp_path: Path) -> None:
    world = rolled(tmp_path)
    with world.store.read() as tx:
        entries = tree.scan(tx.nodes, world.state("orders").root)
        span = next(entry for entry in entries if is_span(entry.key))
        [fragment] = tx.traces.fragments([span.fragment]).values()
    world.lake.delete_prefix(fragment.files[0]["path"].rpartition("/")[0])
    # The fragment of a slice, and that of its span
    assert repair(world.store, world.ctx.namespace, world.lake).fragments == 2
    world.run()
    world.check()
    assert len(world.read_spans()) == 1
    files = fsck.fsck(world.store, world.ctx.namespace, world.lake)
    assert {finding.code for finding in files} == {"fragment-not-stored"}  # in old generations


def test_slices_that_were_read_for_late_rows_are_united(tmp_path: Path) -> None:
    world = RollWorld(tmp_path, random.Random(8))
    world.flows_applied = ("a",)
    world.apply(late="drop")
    slices_of_an_hour(world)
    assert world.roll_up() == 0, "late rows are looked for in each slice"
    world.apply()
    world.list_and_run()
    assert world.roll_up()
    world.run()
    world.check()
    assert world.read_spans() == []
    assert any(map(is_span, world.keys("orders")))


def test_a_rollback_to_slices_and_back(tmp_path: Path) -> None:
    world = rolled(tmp_path)
    generation = world.state("orders").generation - 1
    rollback.rollback(world.ctx, MAIN, "a.orders", Generation(generation))
    world.run()
    assert not any(map(is_span, world.keys("orders")))
    done = len(world.engine.done)
    controls.resume(world.ctx, MAIN, "a.orders")
    world.list_and_run()
    world.check()
    assert any(map(is_span, world.keys("orders")))
    assert len(world.engine.done) == done


def test_slices_stay_apart_until_every_dataset_has_them(tmp_path: Path) -> None:
    world = world_at(tmp_path, 4)
    for _ in range(12):
        world.add(5)
        world.list_and_run()
    controls.pause(world.ctx, MAIN, "a.named")
    world.add(70)
    world.apply(plus=1)
    world.list_and_run()
    assert world.roll_up() == 0
    controls.resume(world.ctx, MAIN, "a.named")
    world.run()
    assert world.roll_up()


def test_a_slice_that_comes_during_a_roll_up_stays(tmp_path: Path) -> None:
    world = world_at(tmp_path, 5)
    world.engine.is_whole = True
    slices_of_an_hour(world)
    last = len(world.engine.slices)
    assert world.roll_up(world.list_more) > FEWEST
    assert len(world.engine.slices) > last
    world.run()
    world.check()


def test_an_edit_that_comes_during_a_roll_up_is_asked(tmp_path: Path) -> None:
    world = world_at(tmp_path, 6)
    slices_of_an_hour(world)
    assert world.roll_up(lambda: world.apply(plus=1)) == 0
    world.run()
    assert world.roll_up()


def test_two_roll_ups_at_once_are_one(tmp_path: Path) -> None:
    world = world_at(tmp_path, 7)
    slices_of_an_hour(world)
    assert world.roll_up(world.roll_up) == 0
    assert world.rolled_up
    world.run()
    world.check()
