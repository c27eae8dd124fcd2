"""How a run stands that a service works on. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controlplane.core.model.answers import DatasetStatus, RunProgress, TargetStatus
from controlplane.core.model.drivers import spark_starting_s
from controlplane.operations.context import Context
from controlplane.operations.inspect import overview
from controlplane.ports.store import Tx

MOVING = ("stale", "building")  # states that the loop has yet to do something about


def progress(
    ctx: Context, branch: str, flows: Sequence[str], since: int | None = None
) -> RunProgress:
    """Work done for these dataflows and their upstream after an event, and their present state; for
    all if none is named. `since` is the newest event by default. Raises NotFound for a dataflow
    that is not declared."""
    with ctx.read() as tx:
        newest = tx.events.last()
        start = newest if since is None else since
        under_way = sum(tx.queue.backlog().values())
        began = _began(tx, branch, start)
        now = tx.now()
        spark = [driver for driver in tx.drivers.running() if driver.kind == "driver"]
    summary = overview.summary(ctx, branch, flows, start, is_shared=True)
    return {
        **summary,
        "since": start,
        "settled": not is_moving([*summary["datasets"], *summary["targets"]]),
        "under_way": under_way,
        "spark_starting_s": spark_starting_s(spark, now) if under_way else None,
        "spark_started": began is not None and any(driver.at >= began for driver in spark),
    }


def is_moving(things: Iterable[DatasetStatus | TargetStatus]) -> bool:
    return any(thing["state"] in MOVING for thing in things)


def _began(tx: Tx, branch: str, since: int) -> float | None:
    """The time of the first event after `since`; None if there is none."""
    first = tx.events.newer(branch, since, 1)
    return first[0].at if first else None
