"""Why nothing is computed: no process plans, or tasks wait and no driver is there. Times are the
database's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controlplane.core.model.answers import Standstill
from controlplane.core.model.drivers import Driver
from controlplane.core.model.leases import LOOP, Lease
from controlplane.core.model.namespaces import DEFAULT
from controlplane.operations.context import Context
from controlplane.operations.inspect import json_views
from controlplane.ports.store import Tx
from dataplane.contract.kinds import STARTED_FOR, Process

_PROCESSES: tuple[Process, ...] = ("driver", "worker")
PATIENCE_S = 120.0  # how long a due task may wait for its first driver
NOTHING = "Nothing is being computed"


def scheduler(ctx: Context) -> Lease | None:
    """The lease of the process that plans. All namespaces share the one of `default`."""
    with ctx.store.read(DEFAULT) as tx:
        return tx.leases.get(LOOP)


def of(tx: Tx, lease: Lease | None, drivers: Sequence[Driver]) -> Standstill | None:
    """None while something is computed, or could be at once. `lease`: of the scheduler. `drivers`:
    have not ended."""
    now = tx.now()
    if lease is None or lease.until <= now:
        # By `headgate run`
        is_run = any(attempt.lease_until > now for attempt in tx.queue.attempts().values())
        return None if is_run else _without_scheduler(lease)
    for missing in _PROCESSES:
        theirs = [driver for driver in drivers if driver.kind == missing]
        if any(not driver.reason for driver in theirs):
            continue
        since = tx.queue.waiting_since(STARTED_FOR[missing])
        if since is not None and now - since > PATIENCE_S:
            return _without_driver(missing, since, theirs)
    return None


def now(ctx: Context) -> Standstill | None:
    """The same, in a transaction of its own."""
    lease = scheduler(ctx)
    with ctx.read() as tx:
        return of(tx, lease, tx.drivers.running())


def _without_scheduler(lease: Lease | None) -> Standstill:
    return {
        "missing": "scheduler",
        "sentence": f"{NOTHING}: the scheduler {'is not' if lease is None else 'has not been'} running",
        "since": None if lease is None else json_views.instant(lease.until),
        "reason": None,
        "fix": "Start the service",
        "command": "headgate serve",
    }


def _without_driver(missing: Process, since: float, drivers: Iterable[Driver]) -> Standstill:
    """`drivers`: the requested ones that have not started."""
    reason = next((driver.reason for driver in drivers if driver.reason), None)
    return {
        "missing": missing,
        "sentence": f"{NOTHING}: tasks have been waiting for a {missing}",
        "since": json_views.instant(since),
        "reason": reason,
        "fix": "See why no driver starts",
        "command": "headgate status",
    }
