"""What ends a hold, what sees it, and what a crash in a rollback leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import event

from controlplane.core.errors import BranchProtected
from controlplane.core.model.addresses import Generation, Moment
from controlplane.operations.desired import (
    blueprints,
    branches,
    controls,
    merging,
    revert,
    rollback,
)
from controlplane.operations.inspect import (
    causes,
    data_age,
    datasets,
    overview,
    past_runs,
    time_travel,
)
from tests.unit.branches.world import BranchWorld
from tests.unit.rollback.test_rollback import DOUBLED, FIRST, REST, SUMS, THIRD, status
from tests.unit.rollback.test_rollback import world as world

EDITED = REST.replace("SELECT k, 2 *", "SELECT k, 3 *")


def holds(world: BranchWorld, branch: str = "main") -> set[str]:
    with world.store.read() as tx:
        return set(tx.states.holds(branch))


# --- edits ----------------------------------------------------------------------------------------


def test_an_edit_of_the_component_ends_its_hold(world: BranchWorld) -> None:
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(1))
    world.apply(REST + "  more:\n    transform: {sql: 'SELECT 1 AS one FROM sums'}\n")
    assert holds(world) == {"shop.doubled"}
    world.apply(EDITED)
    assert holds(world) == set()
    world.ran()
    assert world.values("main", "shop.doubled") == [(1, 30), (2, 60), (3, 90)]


def test_an_edit_upstream_does_not_end_a_hold(world: BranchWorld) -> None:
    rollback.rollback(world.ctx, "main", "shop.sums", Generation(1))
    world.apply(EDITED)
    world.ran()
    assert holds(world) == {"shop.sums"}
    assert world.values("main", "shop.sums") == FIRST
    assert world.values("main", "shop.doubled") == [(1, 30), (2, 60), (3, 90)]


def test_rows_of_other_code_are_read_as_long_as_they_are_held(world: BranchWorld) -> None:
    world.apply(EDITED)
    world.ran()
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(3))
    assert not world.ran()
    assert world.values("main", "shop.sums") == THIRD
    controls.resume(world.ctx, "main", "shop.doubled")
    assert not world.ran()
    assert world.values("main", "shop.sums") == [(1, 30), (2, 60), (3, 90)]


def test_a_deleted_dataflow_is_held_no_more(world: BranchWorld) -> None:
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(1))
    blueprints.delete(world.ctx, "main", "shop")
    assert holds(world) == set()


def test_an_edit_is_reverted_and_its_data_is_adopted(world: BranchWorld) -> None:
    before = revision(world)
    world.apply(EDITED)
    world.ran()
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(1))
    planned = revert.revert(world.ctx, "main", "shop", before, dry_run=True)
    assert planned["plan"]["certain"] == 0
    assert revision(world) == before + 1
    assert revert.revert(world.ctx, "main", "shop", before)["revisions"] == {"shop": before + 2}
    assert not world.ran()
    assert (holds(world), world.values("main", "shop.sums")) == (set(), THIRD)
    with world.store.read() as tx:
        (change,) = [c for c in tx.audit.changes("main") if c.action == "revert"]
    assert (change.target, change.before, change.after) == ("shop", before + 1, before + 2)


def test_a_deletion_is_reverted(world: BranchWorld) -> None:
    before = revision(world)
    blueprints.delete(world.ctx, "main", "shop")
    world.ran()
    revert.revert(world.ctx, "main", "shop", before)
    assert not world.ran()
    assert status(world) == dict.fromkeys(status(world), "up_to_date")


def revision(world: BranchWorld, branch: str = "main") -> int:
    return blueprints.dataflow(world.ctx, branch, "shop")["revision"]


def test_a_branch_reverts_to_what_main_had(world: BranchWorld) -> None:
    before = revision(world)
    world.apply(EDITED)
    world.ran()
    world.create()
    world.apply_in("dev", REST + SUMS.replace("sums:", "again:"))
    revert.revert(world.ctx, "dev", "shop", before)
    assert not world.ran()
    assert world.values("dev", "shop.sums") == THIRD
    assert world.values("main", "shop.sums") == [(1, 30), (2, 60), (3, 90)]


# --- branches -------------------------------------------------------------------------------------


def test_a_hold_in_a_branch_is_its_own(world: BranchWorld) -> None:
    world.create()
    before = world.generations("main")
    rollback.rollback(world.ctx, "dev", "shop.doubled", Generation(1))
    assert not world.ran()
    assert (holds(world), holds(world, "dev")) == (set(), {"shop.doubled"})
    assert status(world, "dev")["shop.doubled"] == "held"
    assert world.values("dev", "shop.sums") == FIRST
    assert (world.generations("main"), world.values("main", "shop.sums")) == (before, THIRD)
    controls.resume(world.ctx, "dev", "shop")
    assert not world.ran()
    with world.store.read() as tx:
        assert tx.branches.own_datasets("dev") == frozenset()
    assert world.values("dev", "shop.sums") == THIRD


def test_a_hold_in_main_is_seen_where_its_dataset_is_shared(world: BranchWorld) -> None:
    world.create()
    world.create("try")
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(1))
    world.apply_in("try", EDITED)
    world.ran()
    assert status(world, "dev")["shop.doubled"] == "held"
    assert world.values("dev", "shop.sums") == FIRST
    assert status(world, "try")["shop.doubled"] == "up_to_date"
    assert world.values("try", "shop.sums") == [(1, 30), (2, 60), (3, 90)]
    told = controls.resume(world.ctx, "dev", "shop.doubled")
    assert told == {"target": "shop.doubled", "paused": False, "still_held": ["shop.doubled"]}
    merging.merge_branch(world.ctx, "try")  # an edit of main's component
    assert holds(world) == set()


def test_a_branch_reads_a_hold_of_main_beside_its_edits(world: BranchWorld) -> None:
    world.apply(EDITED)
    world.ran()
    world.create()
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(1))  # of other code
    world.apply_in("dev", EDITED.replace("sum(v)", "sum(v) + 1"))
    world.ran()
    assert world.values("dev", "shop.sums") == [(1, 21)]
    controls.resume(world.ctx, "main", "shop.doubled")
    world.ran()
    assert world.values("dev", "shop.sums") == [(1, 31), (2, 61), (3, 91)]


def test_a_protected_branch_is_not_rolled_back(world: BranchWorld) -> None:
    branches.create(world.ctx, "safe", protected=True)
    with pytest.raises(BranchProtected):
        rollback.rollback(world.ctx, "safe", "shop.doubled", Generation(1))


# --- how it is told -------------------------------------------------------------------------------


def test_who_holds_it_since_when_and_why_is_told(world: BranchWorld) -> None:
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(1), reason="bad prices")
    world.ran()
    sentence = "held at generation 1 by local since 1970-01-"
    (flow,) = overview.status(world.ctx, "main")["dataflows"]
    told = {d["name"]: d for d in flow["datasets"]}["shop.doubled"]
    hold = told["hold"]
    assert (hold["branch"], hold["generation"], hold["actor"], hold["reason"]) == (
        "main",
        1,
        "local",
        "bad prices",
    )
    assert sentence in (told["reason"] or "")
    plan = overview.plan(world.ctx, "main")
    assert (plan["items"], [one["dataset"] for one in plan["held"]]) == ([], ["shop.doubled"])
    assert datasets.dataset(world.ctx, "main", "shop.doubled")["hold"] == hold  # type: ignore[typeddict-item]


def test_why_it_is_as_it_is(world: BranchWorld) -> None:
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(1), reason="bad prices")
    world.ran()
    told = causes.why(world.ctx, "main", "shop.doubled")
    assert told["sentence"].startswith("local rolled shop.doubled back at 1970-01-")
    below = causes.why(world.ctx, "main", "shop.sums")
    assert below["sentence"] == told["sentence"]
    assert below["held_up"] is not None
    assert below["held_up"]["sentence"].startswith(
        "shop.doubled is held at generation 1 by local since"
    )
    assert below["held_up"]["fix"] == "headgate resume shop.doubled"
    assert (
        past_runs.listing(world.ctx, "main", None, 1)["items"][0]["reason"]
        == "shop.doubled was rolled back"
    )
    controls.resume(world.ctx, "main", "shop.doubled")
    world.ran()
    assert (
        causes.why(world.ctx, "main", "shop.sums")["sentence"] == "the hold of shop.doubled ended"
    )


def test_a_source_says_why_after_its_hold_as_well(world: BranchWorld) -> None:
    rollback.rollback(world.ctx, "main", "shop.orders", Generation(2))
    assert [
        s["dataset"] for s in causes.why(world.ctx, "main", "shop.both", "a.csv")["sources"]
    ] == ["shop.orders"]
    for name in ("b.csv", "c.csv"):
        (world.home / "orders" / name).unlink()
    controls.refresh(world.ctx, "main", None, accept_deletes=True)
    world.dispatch()
    world.work()
    controls.resume(world.ctx, "main", "shop.orders")
    found = causes.why(world.ctx, "main", "shop.orders")
    assert (found["state"], found["sentence"]) == ("stale", "the hold of shop.orders ended")
    world.ran()
    assert world.values("main", "shop.sums") == FIRST
    assert (
        causes.why(world.ctx, "main", "shop.orders")["sentence"]
        == "the hold of shop.orders ended and orders/b.csv is gone"
    )


def test_a_rollback_of_a_dataflow_is_one_run(world: BranchWorld) -> None:
    world.apply(EDITED)
    world.ran()
    with world.store.read() as tx:
        to = Moment.of(time_travel.state_of(tx, "main", "shop.both", Generation(3)).at)
    rollback.rollback(world.ctx, "main", "shop", to)
    controls.resume(world.ctx, "main", "shop.sums")
    controls.resume(world.ctx, "main", "shop.both")
    world.ran()
    found = past_runs.listing(world.ctx, "main", None, 99)["items"]
    assert len({run["id"] for run in found}) == len(found)
    (run,) = [run for run in found if run["reason"].endswith(" was rolled back")]
    assert len(run["datasets"]) == 5


def test_what_its_checks_found_is_found_in_the_rows_still(world: BranchWorld) -> None:
    checked = DOUBLED.format(factor=2).replace(
        "'}\n", "'}\n    expect: [{name: low, check: v < 30, on_fail: warn}]\n"
    )
    world.apply(checked + SUMS)
    world.put("a.csv", (1, 11))
    world.settle()
    world.put("a.csv", (1, 12), (1, 13))
    world.settle()
    found = world.checks("shop.doubled", 4)["items"]
    assert found
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(4))
    assert world.checks("shop.doubled")["items"] == found


def test_old_rows_are_as_old_as_they_were(world: BranchWorld) -> None:
    with world.store.read() as tx:
        first = time_travel.state_of(tx, "main", "shop.doubled", Generation(2))
    rollback.rollback(world.ctx, "main", "shop.doubled", Generation(2))
    with world.store.read() as tx:
        states = tx.states.newest("main", ["shop.doubled"])
        assert data_age.LastChanges().times(tx, "main", states) == {"shop.doubled": first.at}


# --- crashes --------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process ends here."""


def test_a_crash_leaves_all_of_a_rollback_or_nothing(tmp_path: Path) -> None:
    """Before each of its statements: the transaction is not committed, and the next process finds
    no trace of it."""
    world = BranchWorld(tmp_path, url=f"sqlite:///{tmp_path}/metadata.db")
    world.apply(DOUBLED.format(factor=2))
    for name in ("a.csv", "b.csv"):
        world.put(name, (1, 10))
        world.refresh()
        world.ran()
    with world.store.read() as tx:
        to = Moment.of(time_travel.state_of(tx, "main", "shop.doubled", Generation(1)).at)
    before, sent = everything(world), 0
    engine = world.store._engines.writer  # type: ignore[attr-defined]
    while True:
        left = [sent]

        def kill(*_: object, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Killed

        event.listen(engine, "before_cursor_execute", kill)
        try:
            rollback.rollback(world.ctx, "main", "shop", to)
        except Killed:
            sent += 1
        else:
            break
        finally:
            event.remove(engine, "before_cursor_execute", kill)
        assert everything(world) == before
    assert sent > 30
    assert holds(world) == {"shop.orders", "shop.doubled"}
    assert world.values("main", "shop.orders") == [(1, 10)]
    assert world.values("main", "shop.doubled") == [(1, 20)]


def everything(world: BranchWorld) -> tuple[object, ...]:
    with world.store.read() as tx:
        return (
            tx.states.newest("main"),
            tx.states.holds("main"),
            tx.audit.changes("main"),
            tx.events.last(),
            tx.states.marked("main", 0),
        )
