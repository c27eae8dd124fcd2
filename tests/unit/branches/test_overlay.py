"""A branch computes what was edited in it and what follows from that, and nothing else; main stays
as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from controlplane.core.model.revisions import Revision
from controlplane.operations.desired import blueprints, controls
from controlplane.operations.explore.catalogue import catalogue
from controlplane.operations.failing_units import FailingUnits
from controlplane.operations.inspect import json_views, overview
from controlplane.operations.planning.planner import Planner
from controlplane.ports.store import Store
from controlplane.reconciler.branching import Branching
from tests.unit.branches.world import BranchWorld
from tests.unit.expectations.world import HEAD

DOUBLED = "  doubled:\n    transform: {{sql: 'SELECT k, {factor} * v AS v FROM orders'}}\n"
SUMS = "  sums:\n    transform: {sql: 'SELECT k, sum(v) AS v FROM doubled GROUP BY k'}\n"
OTHER = "  other:\n    transform: {sql: 'SELECT k, v + 1 AS v FROM orders'}\n"
COPY = "  copy:\n    write: {connector: files, from: doubled, path: /out/copy, format: csv}\n"
REST = DOUBLED.format(factor=2) + SUMS + OTHER + COPY
EDITED = DOUBLED.format(factor=3) + SUMS + OTHER + COPY


@pytest.fixture
def world(tmp_path: Path) -> BranchWorld:
    """Main at rest, and dev made from it."""
    made = BranchWorld(tmp_path)
    made.put("a.csv", (1, 10), (2, 20))
    made.put("b.csv", (1, 30))
    made.apply(REST)
    made.settle()
    made.create()
    return made


def test_a_new_branch_has_nothing_to_do(world: BranchWorld) -> None:
    assert not world.ran()
    assert world.values("dev", "shop.doubled") == world.values("main", "shop.doubled")
    with world.store.read() as tx:
        assert tx.branches.own_datasets("dev") == frozenset()


def test_a_branch_without_edits_loads_nothing_of_main(tmp_path: Path) -> None:
    world = BranchWorld(tmp_path, url=f"sqlite:///{tmp_path}/metadata.db")
    world.put("a.csv", (1, 10))
    world.apply(REST)
    world.settle()
    world.once()
    before = world.store.statements
    world.once()
    without = world.store.statements - before
    world.create()
    world.once()
    before = world.store.statements
    world.once()
    # A snapshot, its marks, and whether anything is left over
    assert world.store.statements - before - without <= 5


def test_an_edit_computes_the_edited_dataset_and_what_reads_it(world: BranchWorld) -> None:
    before = world.generations("main")
    world.apply_in("dev", EDITED)
    assert world.ran() == {"analyse": 1, "transform": 3}  # two partitions, and one sum
    with world.store.read() as tx:
        assert tx.branches.own_datasets("dev") == {"shop.doubled", "shop.sums"}
    assert world.values("dev", "shop.sums") == [(1, 120), (2, 60)]
    assert world.values("main", "shop.sums") == [(1, 80), (2, 40)]
    assert world.generations("main") == before
    assert world.generations("dev")["shop.sums"] == before["shop.sums"] + 1


def test_a_late_file_reaches_main_and_the_branch(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    world.ran()
    world.put("c.csv", (3, 1))
    # other, and twice doubled and sums
    assert world.settle() == {"parse": 1, "transform": 5, "write": 1}
    assert world.values("dev", "shop.sums") == [(1, 120), (2, 60), (3, 3)]
    assert world.values("main", "shop.sums") == [(1, 80), (2, 40), (3, 2)]
    assert world.values("dev", "shop.other") == world.values("main", "shop.other")


def test_an_edit_that_is_reverted_is_mains_again(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    world.ran()
    world.apply_in("dev", REST)
    assert not world.ran()
    with world.store.read() as tx:
        assert tx.branches.own_datasets("dev") == frozenset()
    assert world.values("dev", "shop.sums") == world.values("main", "shop.sums")


def test_main_that_follows_the_edit_adopts_it(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    world.ran()
    world.apply(EDITED)
    assert world.ran() == {"write": 2}  # main's copy
    assert world.values("main", "shop.sums") == [(1, 120), (2, 60)]
    with world.store.read() as tx:
        assert tx.branches.own_datasets("dev") == frozenset()


def test_a_write_component_is_off(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    world.ran()
    decision = world.decided("dev", "shop.copy")
    assert (decision.status, decision.reason.partition(":")[0]) == (
        "paused",
        "write components are off in branches",
    )
    with world.store.read() as tx:
        assert tx.projections.targets("dev") == {}
        assert tx.queue.demands("dev", "shop.copy") == {}
    with world.ctx.read_plan("dev") as (plan, _):
        assert json_views.state_of(plan.decisions) == "up_to_date"


def test_a_new_dataflow_of_a_branch_lists_its_sources(world: BranchWorld) -> None:
    world.apply_in("dev", DOUBLED.format(factor=5), flow="more")
    world.ran()
    assert world.values("dev", "more.doubled") == [(1, 150), (1, 50), (2, 100)]
    with world.store.read() as tx:
        assert "more.doubled" not in tx.states.newest("main")


def test_what_is_forced_in_a_branch_is_its_own(world: BranchWorld) -> None:
    controls.refresh(world.ctx, "dev", "shop.doubled", force=True)
    assert world.ran() == {"transform": 2}  # equal rows: sums is adopted
    with world.store.read() as tx:
        assert "shop.doubled" in tx.branches.own_datasets("dev")


def test_work_of_a_branch_comes_after_that_of_main(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    world.put("c.csv", (3, 1))
    world.refresh()
    world.engine.step()
    world.once()
    world.engine.step()
    world.once()
    with world.store.read() as tx:
        of_dev = {task.priority for task in tx.queue.demands("dev", "shop.doubled").values()}
    assert of_dev
    assert max(of_dev) < -1000


def test_status_shows_both(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    world.ran()
    status = overview.status(world.ctx, "dev")
    rows = {d["name"]: d["rows"] for flow in status["dataflows"] for d in flow["datasets"]}
    assert rows == {"shop.orders": 3, "shop.doubled": 3, "shop.sums": 2, "shop.other": 3}
    states = {
        d["name"]: (d["state"], d["table"])
        for flow in status["dataflows"]
        for d in flow["datasets"]
    }
    assert states["shop.sums"] == ("up_to_date", None)
    own = {d["name"]: d["own"] for flow in status["dataflows"] for d in flow["datasets"]}
    assert own == {
        "shop.orders": False,
        "shop.doubled": True,
        "shop.sums": True,
        "shop.other": False,
    }
    catalogued = catalogue(world.ctx, "dev", "", {})["items"]
    found = {one["name"]: one["own"] for one in catalogued if one["kind"] != "write"}
    assert found == own


def test_a_plan_of_a_branch_is_of_its_own_work(world: BranchWorld) -> None:
    world.put("c.csv", (3, 1))
    world.refresh()
    while world.engine.step():
        pass
    assert overview.plan(world.ctx, "dev")["items"] == []
    text = HEAD.format(home=world.home) + EDITED
    edit = [blueprints.SentBlueprint("/shop.yaml", text, {})]
    planned = blueprints.apply(world.ctx, "dev", edit, dry_run=True)["plan"]["items"]
    stored = blueprints.apply(world.ctx, "dev", edit)["plan"]["items"]
    told = overview.plan(world.ctx, "dev")["items"]
    assert (
        {i["dataset"] for i in planned}
        == {i["dataset"] for i in stored}
        == {"shop.doubled", "shop.sums"}
    )
    assert {i["dataset"] for i in told} == {"shop.doubled", "shop.sums"}


def test_a_plan_of_a_branch_can_be_kept_and_carried_out(world: BranchWorld) -> None:
    world.apply_in("dev", EDITED)
    basis = overview.plan(world.ctx, "dev")["basis"]
    assert blueprints.carry_out(world.ctx, "dev", [], basis)["plan"]["items"]


class BrokenStore:
    """A store in whose transactions the texts of one branch cannot be read."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def read(self, namespace: str = "default") -> Iterator[Any]:
        with self._store.read(namespace) as tx:
            collaborators: Any = tx
            revisions = tx.blueprints.revisions

            def broken(branch: str, dataflows: Iterable[str] | None = None) -> dict[str, Revision]:
                if branch == "dev":
                    raise ValueError("damaged")
                return revisions(branch, dataflows)

            collaborators.blueprints.revisions = broken
            yield tx


def test_a_branch_that_cannot_be_planned_stops_neither_main_nor_another_one(
    world: BranchWorld,
) -> None:
    world.create("fine")
    world.apply_in("dev", EDITED)
    world.apply_in("fine", EDITED)
    planner = Planner(world.store)
    failing_units = FailingUnits()
    broken = cast("Store", BrokenStore(world.store))
    branching = Branching(broken, "default", planner, failing_units, window=10, since_trace=0)
    planner.plan()
    assert branching.settle().under_way  # of the other one
    assert failing_units.failures("branch:dev") == 1
    assert [d.status for d in branching.decisions("dev")] == ["failed"]
