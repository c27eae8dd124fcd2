"""Runs of a fold: one claimed task, and tasks after it that its driver went on to, each with key
and trace of its own.

The keys of those were never demanded: they follow from the results before them. So they are taken
in only where their keys prove to be right, and results that are known by then are left as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from controlplane.core.compile import ids
from controlplane.core.model.jobs import StoredTransformJob
from controlplane.core.model.tasks import Attempt, Task
from controlplane.ports.store import Tx
from dataplane.contract.claims import next_key
from dataplane.contract.identity import Content
from dataplane.contract.results import TaskResult

Run = list[TaskResult]


def proven(
    job: StoredTransformJob, tasks: Mapping[bytes, Task], results: Sequence[TaskResult]
) -> dict[str, Run]:
    """What came after each of these results, up to the first whose key is wrong; by the task (hex)
    that was claimed."""
    return {
        r["task"]: list(_proven(job, tasks[bytes.fromhex(r["task"])], r))
        for r in results
        if r.get("then")
    }


def _proven(job: StoredTransformJob, head: Task, result: TaskResult) -> Iterator[TaskResult]:
    before, spec = Content(*result["content"]), head.spec
    assert "slots" in spec
    for next_spec, next_result in zip(spec.get("then", ()), result["then"], strict=False):
        if next_result["task"] != next_key(job, next_spec["ids"], before).hex():
            return
        yield cast("TaskResult", {**next_result, "epoch": result["epoch"], "state": "done"})
        before = Content(*next_result["content"])


def taken_in(tx: Tx, runs_by_head: Mapping[str, Run]) -> Run:
    """The results that were not known before. All keys are remembered, so that the next plan finds
    them together."""
    keys = {
        head: [bytes.fromhex(task_result["task"]) for task_result in run]
        for head, run in runs_by_head.items()
    }
    tx.traces.put_memos(
        {ids.run_key(bytes.fromhex(head)): [key.hex() for key in of] for head, of in keys.items()}
    )
    stored = {
        key.hex() for key in tx.traces.hits([key for of in keys.values() for key in of])
    } | runs_by_head.keys()
    new = {
        task_result["task"]: task_result
        for run in runs_by_head.values()
        for task_result in run
        if task_result["task"] not in stored
    }
    return list(new.values())


def without_known(tx: Tx, attempt: Attempt, tasks: Sequence[Task]) -> list[Task]:
    """Tasks that no run came to since they were queued; the others are done."""
    traces = tx.traces.hits([t.key for t in tasks])
    if traces:
        tx.queue.finish(attempt.id, list(traces))
    return [t for t in tasks if t.key not in traces]
