"""The tasks that an attempt did not do, with their errors: where each failed, and why. Changes
nothing."""

from __future__ import annotations

from typing import Final

from controlplane.core.model.answers.work import AttemptFault
from controlplane.core.model.past_attempts import PastAttempt
from controlplane.core.model.tasks import Task
from controlplane.operations.context import Context
from controlplane.operations.inspect import json_views
from controlplane.operations.planning.snapshot import desired
from controlplane.ports.store import Tx

FAULTS: Final = 10  # the first ones, in order of partitions
INPUTS: Final = 20  # of one task


def of_attempt(ctx: Context, attempt: str) -> list[AttemptFault]:
    """Empty where the attempt runs or did all of its tasks, and where they were tried again."""
    with ctx.read() as tx:
        past = tx.past_attempts.find([attempt]).get(attempt)
        if past is None or past.outcome == "done":
            return []
        node = desired(tx, past.branch, namespace=ctx.namespace).nodes.get(past.dataset)
        if node is None:
            return []
        tasks = _failed(tx, past)
    return [
        {
            "partition": task.partition,
            "inputs": _inputs(task),
            "error": json_views.error(task.error, node),
        }
        for task in tasks[:FAULTS]
    ]


def _failed(tx: Tx, past: PastAttempt) -> list[Task]:
    tasks = tx.queue.demands(past.branch, past.dataset).values()
    failed = [task for task in tasks if task.error is not None and _last(task) == past.id]
    return sorted(failed, key=lambda task: task.partition)


def _last(task: Task) -> str | None:
    """The attempt that the task's error came of."""
    return task.attempt if task.error is None else task.error.get("attempt", task.attempt)


def _inputs(task: Task) -> list[str]:
    """Source objects, or the inputs of a transform."""
    objects = task.spec.get("objects")
    if isinstance(objects, list):
        return [source["name"] for source in objects[:INPUTS]]
    slots = task.spec.get("slots")
    return sorted(slots)[:INPUTS] if isinstance(slots, dict) else []
