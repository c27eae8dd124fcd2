"""Who is told of work that several branches demand: each branch of its own tasks.

Tasks 1 and 2 are main's, task 3 is dev's, and task 4 both demand.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.model.branches import Branch
from controlplane.core.model.events import NO_BRANCH
from controlplane.lake.lake_objects import LocalObjects
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints, controls
from controlplane.operations.inspect import overview
from controlplane.operations.planning.apply_plan import PlanExecutor
from controlplane.operations.planning.planner import Planner
from controlplane.operations.planning.snapshot import desired
from controlplane.operations.work import claims, listings, reports
from dataplane.contract.claims import CONTRACT, Claim
from dataplane.contract.identity import EMPTY
from dataplane.contract.results import Metrics, TaskResult
from tests.store.examples import SCHEMA, d, error, stored_job, task
from tests.stores import new_store
from tests.unit.expectations.world import HEAD, World

DAILY = "flights.daily"
DEMANDED = {"main": (1, 2, 4), "dev": (3, 4)}


@pytest.fixture
def ctx() -> Context:
    ctx = Context(new_store())
    with ctx.store.begin() as tx:
        tx.queue.put_job(d(0), stored_job(shared={}))
        for branch, tasks in DEMANDED.items():
            tx.queue.enqueue(branch, DAILY, [task(n, spec={}) for n in tasks])
    return ctx


@pytest.fixture
def claim(ctx: Context) -> Claim:
    claim = claims.claim(ctx, "driver", CONTRACT, ["transform"])
    assert claim is not None
    assert len(claim["tasks"]) == 4
    return claim


def counts(ctx: Context, branch: str) -> dict[str, int]:
    with ctx.store.read() as tx:
        return tx.events.count(branch, 0)


def done(number: int, dropped: int = 0) -> TaskResult:
    of: TaskResult = {"task": d(number).hex(), "epoch": 1, "state": "done", "schema": SCHEMA}
    metrics: Metrics = (
        {"dropped_rows": dropped, "dropped": {"positive": dropped}} if dropped else {}
    )
    return {**of, "content": list(EMPTY), "files": [], "metrics": metrics}


def failed(number: int) -> TaskResult:
    return {
        "task": d(number).hex(),
        "epoch": 1,
        "state": "failed",
        "error": error("no such column"),
    }


def report(ctx: Context, claim: Claim, folder: Path, *results: TaskResult) -> None:
    reports.report(ctx, "driver", claim["attempt"], results, lake=LocalObjects(folder))


def test_a_claim(ctx: Context, claim: Claim) -> None:
    assert counts(ctx, "main") == {"task.claimed": 3}
    assert counts(ctx, "dev") == {"task.claimed": 2}
    assert counts(ctx, "other") == {}


def test_what_was_computed_and_left_out(ctx: Context, claim: Claim, tmp_path: Path) -> None:
    report(
        ctx,
        claim,
        tmp_path,
        done(1),
        done(2, dropped=10),
        done(3, dropped=200),
        done(4, dropped=3000),
    )
    assert counts(ctx, "main") == {"task.claimed": 3, "task.executed": 3, "rows.dropped": 3010}
    assert counts(ctx, "dev") == {"task.claimed": 2, "task.executed": 2, "rows.dropped": 3200}
    with ctx.store.read() as tx:
        [dropped] = [e for e in tx.events.newer("dev", 0) if e.kind == "rows.dropped"]
    assert dropped.body == {"checks": {"positive": 3200}}


def test_what_failed_and_what_goes_back(ctx: Context, claim: Claim, tmp_path: Path) -> None:
    report(ctx, claim, tmp_path, done(1), failed(3))
    assert counts(ctx, "main") == {"task.claimed": 3, "task.executed": 1, "task.retried": 2}
    assert counts(ctx, "dev") == {"task.claimed": 2, "task.failed": 1, "task.retried": 1}


def test_what_nobody_demands_any_more_is_told_in_no_branch(
    ctx: Context, claim: Claim, tmp_path: Path
) -> None:
    with ctx.store.begin() as tx:
        tx.queue.drop_demands("main", DAILY, [d(1), d(4)])
    report(ctx, claim, tmp_path, done(1), done(2), done(3), done(4))
    with ctx.store.read() as tx:
        executed = {e.branch: e.n for e in tx.events.newer(None, 0) if e.kind == "task.executed"}
    assert executed == {"main": 2, "dev": 2, NO_BRANCH: 1}


# --- a run from end to end


DOUBLED = """\
  doubled:
    transform: {{sql: 'SELECT k, {factor} * v AS v FROM orders'}}
"""


class TwoBranches(World):
    """Dev is a copy of main as it stood when that had come to rest."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.put("a.csv", (1, 60), (2, 200))
        self.apply(DOUBLED.format(factor=2))
        self.settle()
        with self.store.begin() as tx:
            tx.branches.create(Branch(name="dev", source="main", at=0.0, actor="ann"))
            self.last = tx.events.last()

    def run_in_dev(self, text: str) -> None:
        blueprints.apply(self.ctx, "dev", [blueprints.SentBlueprint("/shop.yaml", text, {})])
        controls.refresh(self.ctx, "dev", None)
        with self.store.begin() as tx:
            nodes = desired(tx, "dev")
            listings.dispatch(tx, "dev", listings.sources(nodes, nodes.order))
        executor = PlanExecutor(self.store, Planner(self.store, branch="dev"), "default", "dev")
        while executor.settle().changed or self.work():
            pass

    def kinds_told(self, branch: str) -> set[str]:
        """Of events since dev was made that belong to the branch itself."""
        with self.store.read() as tx:
            return {e.kind for e in tx.events.newer(None, self.last) if e.branch == branch}


def test_a_run_in_a_branch_counts_and_tells_nothing_in_another(tmp_path: Path) -> None:
    world = TwoBranches(tmp_path)
    world.put("b.csv", (3, 30))
    world.run_in_dev((HEAD + DOUBLED).format(home=tmp_path, factor=3))
    theirs = {
        "blueprint.applied",
        "operator.refresh",
        "task.claimed",
        "task.executed",
        "task.other",
    }
    assert world.kinds_told("dev") == theirs | {"dataset.committed"}
    assert world.kinds_told(NO_BRANCH) == {"listing.done"}
    assert world.kinds_told("main") == set()
    tasks = {
        branch: overview.summary(world.ctx, branch, ["shop"], world.last)["tasks"]
        for branch in ("main", "dev")
    }
    # `b` is read, and both files are tripled
    assert (tasks["main"]["executed"], tasks["dev"]["executed"]) == (0, 3)
    # A listing, and the new query's types
    assert (tasks["main"]["other"], tasks["dev"]["other"]) == (0, 2)
    with world.store.read() as tx:
        assert {change.branch for change in tx.audit.changes("main")} == {"main"}
        assert [change.action for change in tx.audit.changes("dev")] == ["refresh", "apply"]


def test_what_is_adopted_in_a_branch_is_told_there(tmp_path: Path) -> None:
    world = TwoBranches(tmp_path)
    world.run_in_dev((HEAD + DOUBLED).format(home=tmp_path, factor=3))
    with world.store.begin() as tx:
        world.last = tx.events.last()
    world.run_in_dev((HEAD + DOUBLED).format(home=tmp_path, factor=2))
    tasks = {
        branch: overview.summary(world.ctx, branch, ["shop"], world.last)["tasks"]
        for branch in ("main", "dev")
    }
    assert (tasks["main"]["adopted"], tasks["dev"]["adopted"]) == (0, 1)
    assert tasks["dev"]["executed"] == 0
