"""A process that kills itself, without a word, at one step of an operation on branches:
`tests.store.test_kills`.

A step is a statement of a transaction that writes, its commit, or the moment right after that. Does
not belong here: what has to be true afterwards.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import event

from controlplane.core.errors import HeadgateError
from controlplane.core.model.addresses import Generation, Moment
from controlplane.core.model.branches import MAIN
from controlplane.operations.context import Context
from controlplane.operations.desired import branches, controls, merging, revert, rollback
from controlplane.operations.failing_units import FailingUnits
from controlplane.operations.inspect import time_travel
from controlplane.operations.planning.apply_plan import PlanExecutor
from controlplane.operations.planning.planner import Planner
from controlplane.ports.store import Store
from controlplane.reconciler.branching import Branching
from controlplane.store import open_store

PASSES = 20
BARRIER_S = 60


def follow(ctx: Context) -> None:
    """Passes of the loop over main and its branches, without drivers, until they change nothing."""
    failing_units, planner = FailingUnits(), Planner(ctx.store, window=20_000)
    main = PlanExecutor(ctx.store, planner, ctx.namespace, MAIN)
    beside = Branching(
        ctx.store, ctx.namespace, planner, failing_units, window=20_000, since_trace=0
    )
    for _ in range(PASSES):
        if not main.settle().changed + beside.settle().changed:
            return
    raise AssertionError("no rest")


def first(ctx: Context) -> Moment:
    """When the last dataset had its first rows."""
    with ctx.store.read(ctx.namespace) as tx:
        return Moment.of(time_travel.state_of(tx, MAIN, "shop.sums", Generation(1)).at)


OPERATIONS: Mapping[str, Callable[[Context], object]] = {
    "merge": lambda ctx: merging.merge_branch(ctx, "dev"),
    "merge again": lambda ctx: merging.merge_branch(ctx, "dev"),
    "merge into a branch": lambda ctx: merging.merge_branch(ctx, "dev", "safe"),
    "merge of another": lambda ctx: merging.merge_branch(ctx, "try"),
    "merge back": lambda ctx: merging.merge_branch(ctx, "safe", "dev"),
    "rollback": lambda ctx: rollback.rollback(ctx, MAIN, "shop.doubled", Generation(1)),
    "rollback of a dataflow": lambda ctx: rollback.rollback(
        ctx, MAIN, "shop", first(ctx), force=True
    ),
    "rollback in a branch": lambda ctx: rollback.rollback(ctx, "dev", "shop.other", Generation(1)),
    "resume": lambda ctx: controls.resume(ctx, MAIN, "shop"),
    "revert": lambda ctx: revert.revert(ctx, MAIN, "shop", 1),
    "create": lambda ctx: branches.create(ctx, "child", source="dev", pinned=True),
    "update": lambda ctx: branches.update(ctx, "old"),
    "delete": lambda ctx: branches.delete(ctx, "dev"),
    "follow": follow,
}


def perform(url: str, now: float, operation: str, at: int, told: Any) -> None:
    """The operation, on a database of its own; killed at step `at`, or at none if it has fewer. 0:
    killed at its first commit, and `told` hears which step that is."""
    store = open_store(url, lambda: now)
    dies(store, at, told)
    OPERATIONS[operation](Context(store, lake="memory:lake"))


def compete(url: str, now: float, operation: str, barrier: Any, told: Any) -> None:
    """The operation at the same moment as others; how it ended goes to `told`."""
    store = open_store(url, lambda: now)
    told.put((operation, outcome(Context(store, lake="memory:lake"), operation, barrier)))


def outcome(ctx: Context, operation: str, barrier: Any) -> str:
    """The code of the error that somebody is told, if any."""
    barrier.wait(BARRIER_S)
    try:
        OPERATIONS[operation](ctx)
    except HeadgateError as error:
        return error.code
    except Exception as error:  # noqa: BLE001  # what nobody was to be told
        return repr(error)
    return "done"


def dies(store: Store, at: int, told: Any) -> None:
    engine, steps = store._engines.writer, [0]  # type: ignore[attr-defined]

    def step(*_: object) -> None:
        steps[0] += 1
        if steps[0] == at:
            os.kill(os.getpid(), signal.SIGKILL)

    def commit(*_: object) -> None:
        step()
        if not at:
            told.put(steps[0])
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(engine, "before_cursor_execute", step)
    event.listen(engine, "commit", commit)
    event.listen(engine.pool, "checkin", step)  # it is committed
