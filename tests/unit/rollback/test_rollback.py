"""Datasets that were rolled back have the rows of an earlier generation, and stay so until somebody
lets them go on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from controlplane.core import tree
from controlplane.core.errors import AppendOnly, CutsDisagree, GenerationGone, NotFound, NotReadable
from controlplane.core.model.addresses import Generation, Moment, Point, moment_of
from controlplane.core.model.retention import Expired
from controlplane.operations.desired import controls, rollback
from controlplane.operations.inspect import time_travel
from controlplane.operations.upkeep.collect import DAY_S, collect
from tests.store.examples import task, unfinished
from tests.unit.branches.world import BranchWorld

DOUBLED = "  doubled:\n    transform: {{sql: 'SELECT k, {factor} * v AS v FROM orders'}}\n"
SUMS = "  sums:\n    transform: {sql: 'SELECT k, sum(v) AS v FROM doubled GROUP BY k'}\n"
OTHER = "  other:\n    transform: {sql: 'SELECT k, v + 1 AS v FROM orders'}\n"
BOTH = "  both:\n    transform: {sql: 'SELECT d.k, d.v + o.v AS v FROM doubled d JOIN other o ON d.k = o.k'}\n"
REST = DOUBLED.format(factor=2) + SUMS + OTHER + BOTH
SHORT = "defaults: {retention: {generations: 1, days: 1}}\n"
FIRST, SECOND, THIRD = [(1, 20)], [(1, 20), (2, 40)], [(1, 20), (2, 40), (3, 60)]


@pytest.fixture
def world(tmp_path: Path) -> BranchWorld:
    """Three generations of each dataset."""
    made = BranchWorld(tmp_path)
    made.apply(REST)
    for name, row in (("a.csv", (1, 10)), ("b.csv", (2, 20)), ("c.csv", (3, 30))):
        made.put(name, row)
        made.refresh()
        made.ran()
    return made


def at_generation(
    world: BranchWorld, dataset: str, generation: int, branch: str = "main"
) -> Moment:
    with world.store.read() as tx:
        return Moment.of(time_travel.state_of(tx, branch, dataset, Generation(generation)).at)


def status(world: BranchWorld, branch: str = "main") -> dict[str, str]:
    with world.ctx.read_plan(branch) as (plan, _):
        return {d.dataset: d.status for d in plan.decisions}


def test_a_dataset_that_only_adds_partitions_is_not_rolled_back(world: BranchWorld) -> None:
    world.apply(REST.replace("  doubled:\n", "  doubled:\n    append_only: true\n"))
    before = world.generations("main")
    moment = at_generation(world, "shop.doubled", before["shop.doubled"])
    for target, to in (("shop.doubled", Generation(1)), ("shop", moment)):
        with pytest.raises(AppendOnly, match="doubled is append_only"):
            rollback.rollback(world.ctx, "main", target, to, reason="")
    assert world.generations("main") == before


def test_the_old_rows_are_a_new_generation(world: BranchWorld) -> None:
    before = world.generations("main")["shop.doubled"]
    told = rollback.rollback(
        world.ctx, "main", "shop.doubled", Generation(before - 2), reason="bad prices"
    )
    assert world.values("main", "shop.doubled") == FIRST
    assert world.generations("main")["shop.doubled"] == before + 1
    (entry,) = told["held"]
    assert (
        entry["dataset"],
        entry["before"],
        entry["generation"],
        entry["back_to"],
        entry["rows"],
    ) == (
        "shop.doubled",
        before,
        before + 1,
        before - 2,
        1,
    )
    with world.store.read() as tx:
        state = tx.states.newest("main")["shop.doubled"]
        hold = tx.states.holds("main")["shop.doubled"]
    assert (state.cause, hold.seq, hold.actor, hold.reason) == (
        "rollback",
        state.seq,
        "local",
        "bad prices",
    )


def test_what_reads_it_follows_without_a_task(world: BranchWorld) -> None:
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(1))
    assert not world.ran()
    assert world.values("main", "shop.sums") == FIRST
    # With what its other input was made of then
    assert world.values("main", "shop.both") == [(1, 31)]
    assert status(world)["shop.sums"] == status(world)["shop.both"] == "up_to_date"
    assert world.values("main", "shop.other") == [(1, 11), (2, 21), (3, 31)]


def test_what_reads_it_by_another_dataset_follows_as_a_whole(world: BranchWorld) -> None:
    deep = "  deep:\n    transform: {sql: 'SELECT s.k, s.v + o.v AS v FROM sums s JOIN other o ON s.k = o.k'}\n"
    world.apply(REST + deep)
    world.settle()
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(1))
    world.settle()
    assert world.values("main", "shop.deep") == [(1, 31)]
    controls.resume(world.ctx, "main", "shop.doubled")
    world.settle()
    assert world.values("main", "shop.deep") == [(1, 31), (2, 61), (3, 91)]


def test_what_finds_no_state_that_agrees_waits(world: BranchWorld) -> None:
    with world.store.begin() as tx:
        newest = tx.states.newest("main")["shop.other"]
        tx.upkeep.drop_states(
            [Expired("main", "shop.other", newest.seq, newest.generation, world.now)]
        )
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(1))
    assert not world.ran()
    both = world.decided("main", "shop.both")
    assert (both.status, both.reason.partition(", ")[2]) == (
        "waiting",
        "since shop.doubled is held",
    )
    assert world.values("main", "shop.both") == [(1, 31), (2, 61), (3, 91)]
    controls.resume(world.ctx, "main", "shop.doubled")
    assert not world.ran()
    assert status(world)["shop.both"] == "up_to_date"


def test_nothing_of_it_is_dispatched_and_its_inputs_go_on(world: BranchWorld) -> None:
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(1))
    world.ran()
    world.put("d.csv", (4, 40))
    assert world.settle() == {"parse": 1, "transform": 1}  # orders, and other
    assert world.values("main", "shop.doubled") == FIRST
    assert status(world)["shop.doubled"] == "held"
    assert world.values("main", "shop.both") == [(1, 31)]


def test_a_resume_computes_what_came_meanwhile_and_nothing_else(world: BranchWorld) -> None:
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(1))
    world.ran()
    told = controls.resume(world.ctx, "main", "shop")
    assert told == {"target": "shop", "paused": False, "released": ["shop.doubled"]}
    assert not world.ran()
    assert world.values("main", "shop.doubled") == world.values("main", "shop.sums") == THIRD
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(1))
    world.put("d.csv", (4, 40))
    world.settle()
    controls.resume(world.ctx, "main", "shop.doubled")
    assert world.ran() == {"transform": 6}  # one partition of doubled, the sums, and all of both
    assert status(world) == dict.fromkeys(status(world), "up_to_date")
    assert controls.resume(world.ctx, "main", "shop.doubled") == {
        "target": "shop.doubled",
        "paused": False,
    }


def test_a_source_can_be_held(world: BranchWorld) -> None:
    rollback.rollback(world.ctx, "main", "shop.orders", Generation(2))
    world.put("d.csv", (4, 40))
    assert not world.settle()
    assert world.values("main", "shop.doubled") == SECOND
    assert world.values("main", "shop.both") == [(1, 31), (2, 61)]
    controls.resume(world.ctx, "main", "shop.orders")
    assert world.ran()["parse"] == 1
    assert len(world.values("main", "shop.both")) == 4


def test_a_dataflow_goes_back_to_a_time_as_a_whole(world: BranchWorld) -> None:
    to = at_generation(world, "shop.both", 2)
    told = rollback.rollback(world.ctx, "main", "shop", to)
    held = [entry["dataset"] for entry in told["held"]]
    assert held == ["shop.orders", "shop.doubled", "shop.other", "shop.both", "shop.sums"]
    world.put("d.csv", (4, 40))
    assert not world.settle()
    assert set(status(world).values()) == {"held"}
    assert world.values("main", "shop.sums") == SECOND
    assert world.values("main", "shop.both") == [(1, 31), (2, 61)]


def test_datasets_that_had_no_data_yet_are_left_out(world: BranchWorld) -> None:
    to = at_generation(world, "shop.both", 3)
    world.apply(REST + "  late:\n    transform: {sql: 'SELECT k FROM sums'}\n")
    world.settle()
    assert rollback.rollback(world.ctx, "main", "shop", to)["left_out"] == ["shop.late"]
    assert status(world)["shop.late"] == "up_to_date"
    with pytest.raises(NotFound, match=r"no dataset of dataflow shop had data at"):
        rollback.rollback(world.ctx, "main", "shop", Moment(0))


def test_a_time_in_the_middle_of_a_run_is_refused_with_the_last_one_before_it(
    world: BranchWorld,
) -> None:
    to = at_generation(world, "shop.orders", 3)  # both came later
    different = "shop.orders and shop.both reflected different states of shop.orders then"
    with pytest.raises(CutsDisagree, match=re.escape(different)) as e:
        rollback.rollback(world.ctx, "main", "shop", to)
    with world.store.read() as tx:
        assert tx.states.holds("main") == {}
    assert e.value.agreed is not None
    rollback.rollback(world.ctx, "main", "shop", moment_of(e.value.agreed))
    assert world.values("main", "shop.sums") == SECOND
    rollback.rollback(world.ctx, "main", "shop", to, force=True)
    assert len(world.values("main", "shop.orders")) == 3
    assert len(world.values("main", "shop.doubled")) == 3  # it came with orders
    assert world.values("main", "shop.sums") == SECOND


def test_a_second_rollback_moves_the_hold(world: BranchWorld) -> None:
    first = world.generations("main")["shop.doubled"]
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(1))
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(first + 1))  # which is 1
    with world.store.read() as tx:
        assert tx.states.holds("main")["shop.doubled"].generation == 1
    assert world.generations("main")["shop.doubled"] == first + 1  # the same rows
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(2))
    assert world.values("main", "shop.doubled") == SECOND
    assert world.generations("main")["shop.doubled"] == first + 2


def test_what_is_collected_is_gone(world: BranchWorld) -> None:
    world.apply(REST + SHORT)
    for n in range(9):
        world.put("a.csv", (1, 100 + n))
        world.settle()
    world.now += 2 * DAY_S
    collect(world.store, "default")
    with pytest.raises(
        GenerationGone,
        match=r"generation 1 of dataset shop.doubled is not kept any more; the oldest",
    ):
        rollback.rollback(world.ctx, "main", "shop.doubled", Generation(1))
    with pytest.raises(GenerationGone, match=" is not kept any more"):
        rollback.rollback(world.ctx, "main", "shop", Moment.of(1_000_500.0))


def test_a_hold_is_kept_however_old_it_is(world: BranchWorld) -> None:
    world.apply(REST + SHORT)
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(1))
    for n in range(9):
        world.put("c.csv", (3, 100 + n))
        world.settle()
        world.now += 40 * DAY_S
    assert collect(world.store, "default").states
    assert world.values("main", "shop.doubled") == world.values("main", "shop.sums") == FIRST
    controls.resume(world.ctx, "main", "shop.doubled")
    world.ran()
    collect(world.store, "default")
    assert world.values("main", "shop.sums") == [(1, 20), (2, 40), (3, 216)]


def test_what_an_old_state_was_made_of_may_be_gone(world: BranchWorld) -> None:
    world.now += DAY_S
    assert collect(world.store, "default").nodes  # old listings
    rollback.rollback(world.ctx, "main", "shop.orders", Generation(1))
    world.ran()
    world.now += DAY_S
    collect(world.store, "default")
    controls.resume(world.ctx, "main", "shop.orders")
    assert not world.ran()
    assert world.values("main", "shop.sums") == THIRD


def test_lost_rows_are_refused(world: BranchWorld) -> None:
    with world.store.begin() as tx:
        state = time_travel.state_of(tx, "main", "shop.doubled", Generation(1))
        tx.traces.condemn([entry.fragment for entry in tree.scan(tx.nodes, state.root)])
    with pytest.raises(
        NotReadable, match=r"generation 1 of shop.doubled cannot be read any more: the files of 1 "
    ):
        rollback.rollback(world.ctx, "main", "shop.doubled", Generation(1))


@pytest.mark.parametrize(
    ("target", "to", "message"),
    [
        ("shop.gone", Generation(1), "there is no dataflow or dataset shop.gone"),
        ("shop", Generation(1), "shop is a dataflow, and a generation is one of a dataset"),
        (
            "shop.doubled",
            Generation(99),
            "dataset shop.doubled has no generation 99; its newest is 3",
        ),
        ("shop.doubled", Moment(0), "dataset shop.doubled had no data at 1970-01-01"),
    ],
)
def test_what_cannot_be_gone_back_to(
    world: BranchWorld, target: str, to: Point, message: str
) -> None:
    with pytest.raises(NotFound, match=message):
        rollback.rollback(world.ctx, "main", target, to)


@pytest.mark.parametrize("what", ["tasks", "run"])
def test_work_that_was_asked_for_meanwhile_is_dropped(world: BranchWorld, what: str) -> None:
    """By who planned before the rollback, and wrote after it."""
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(1))
    with world.store.begin() as tx:
        if what == "tasks":
            tx.queue.enqueue("main", "shop.doubled", [task(1)])
        else:
            tx.states.put_unfinished(unfinished("shop.doubled"))
    world.once()
    with world.store.read() as tx:
        assert tx.queue.demands("main", "shop.doubled") == {}
        assert tx.states.unfinished("main") == ({}, {})
    assert not world.once().changed


def under_way(world: BranchWorld) -> set[str]:
    with world.store.read() as tx:
        return set(tx.states.unfinished("main")[1])


def test_a_run_that_began_before_is_not_finished(world: BranchWorld) -> None:
    world.put("d.csv", (4, 40))
    world.refresh()
    world.once()
    while "shop.sums" not in under_way(world):
        assert world.engine.step()
        world.once()
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(1))
    assert world.ran() == {}
    assert world.values("main", "shop.sums") == FIRST
    assert world.generations("main")["shop.sums"] == 4  # it never had the fourth file


def test_rejected_rows_go_back_with_their_dataset(world: BranchWorld) -> None:
    rule = "    expect: [{name: low, check: v < 50, on_fail: quarantine}]\n"
    world.apply(REST.replace("'}\n  sums", f"'}}\n{rule}  sums"))
    world.settle()
    before = world.generations("main")["shop.doubled"]
    rejected = "shop.doubled__quarantine"
    old = world.values("main", rejected)
    world.put("d.csv", (4, 40))
    world.settle()
    assert world.values("main", rejected) != old != []
    told = rollback.rollback(world.ctx, "main", "shop.doubled", Generation(before))
    assert {entry["dataset"] for entry in told["held"]} == {"shop.doubled", rejected}
    world.ran()
    assert world.values("main", rejected) == old
    assert controls.resume(world.ctx, "main", "shop.doubled")["released"] == [
        "shop.doubled",
        rejected,
    ]
