"""What is noted of work and of wishes: the tasks that a dataset asks for, what the driver of an attempt said, and who
changed what. Changes nothing.

Does not belong here: what is to be made of it (`look`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from controlplane.core.compile.nodes import Node
from controlplane.core.errors import LogGone, NotFound
from controlplane.core.model.answers import AuditAnswer, AuditEntry, TaskEntry, TasksAnswer
from controlplane.core.model.json_values import JsonValue
from controlplane.core.model.revisions import Change
from controlplane.core.model.tasks import Task
from controlplane.core.redaction import redacted
from controlplane.operations.context import Context
from controlplane.operations.inspect import views
from controlplane.operations.planning.snapshot import desired
from controlplane.ports.store import Tx


def tasks(ctx: Context, branch: str, dataset: str, *, after: int, limit: int) -> TasksAnswer:
    """The tasks that a dataset asks for at present, in order of partitions; `next` is the `after` of the next page."""
    with ctx.store.read(ctx.namespace) as tx:
        node = desired(tx, branch, namespace=ctx.namespace).nodes.get(dataset)
        if node is None:
            raise NotFound(f"there is no dataset {dataset} in branch {branch}")
        demanded = sorted(tx.demands(branch, dataset).values(), key=lambda t: (t.partition, t.key))
    page = demanded[after : after + limit]
    end = after + len(page)
    items = [_task(t, node) for t in page]
    return {"items": items, "total": len(demanded), "next": str(end) if end < len(demanded) else None}


def _task(task: Task, node: Node) -> TaskEntry:
    return {
        "task": task.key.hex(),
        "kind": task.kind,
        "partition": task.partition,
        "state": task.state,
        "attempt": task.attempt,
        "failures": task.failures,
        "not_before": views.when(task.not_before) if task.not_before else None,
        "bytes": task.size_bytes,
        "priority": task.priority,
        "resources": task.size,
        "error": views.error(task.error, node),
    }


def log(ctx: Context, attempt: str, lines: int, of: Callable[[str, int], str]) -> str:
    """The last lines of the driver or worker that has, or had, an attempt; about other attempts of its own as well.

    `of` asks the pool (`DriverPool.log`). Raises NotFound, LogGone, PoolUnavailable.
    """
    with ctx.store.read(ctx.namespace) as tx:
        driver = _driver_of(tx, attempt)
    return redacted(of(driver, lines))


def _driver_of(tx: Tx, attempt: str) -> str:
    if live := tx.attempts([attempt]).get(attempt):
        return live.driver
    claim = tx.claim_of(attempt)
    if claim is None:
        raise NotFound(f"there is no attempt {attempt}, or it is too long ago")
    if "driver" not in claim.body:
        raise LogGone(f"it was not noted which driver had attempt {attempt}")
    return str(claim.body["driver"])


def audit(ctx: Context, branch: str, limit: int) -> AuditAnswer:
    """Changes of what is wanted in a branch or installation-wide, the last ones first: who, when, before and after."""
    with ctx.store.read(ctx.namespace) as tx:
        return {"items": [_change(change) for change in tx.changes(branch, limit)], "next": None}


def _change(change: Change) -> AuditEntry:
    return {
        "at": views.instant(change.at),
        "actor": change.actor,
        "request_id": change.request_id,
        "branch": change.branch,
        "action": change.action,
        "target": change.target,
        "before": cast("JsonValue", change.before),
        "after": cast("JsonValue", change.after),
    }
