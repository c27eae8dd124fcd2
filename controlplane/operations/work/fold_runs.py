"""Runs of a fold: one claimed task, and tasks after it that its driver went on to, each with key and trace of its own.

Nobody asked for those by their keys: what they are follows from what came out before them. So they are taken in only
where their keys prove to be right, and what is known by then is left as it is. Does not belong here: which tasks a run
may go on to (plan.transform.fold).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from controlplane.core.compile import ids
from controlplane.core.model.tasks import Attempt, Task
from controlplane.ports.store import Tx
from dataplane.contract.identity import Content, next_key
from dataplane.contract.results import TaskResult
from dataplane.contract.schemas import Json

Run = list[TaskResult]


def proven(job: Json, tasks: Mapping[bytes, Task], results: Sequence[TaskResult]) -> dict[str, Run]:
    """What came after each of these results, up to the first whose key is wrong; by the task (hex) that was claimed."""
    return {r["task"]: list(_proven(job, tasks[bytes.fromhex(r["task"])], r)) for r in results if r.get("then")}


def _proven(job: Json, head: Task, result: TaskResult) -> Iterator[TaskResult]:
    before = Content(*result["content"])
    for asked, found in zip(head.spec.get("then", ()), result["then"], strict=False):
        if found["task"] != next_key(job, asked, before).hex():
            return
        yield cast("TaskResult", {**found, "epoch": result["epoch"], "state": "done"})
        before = Content(*found["content"])


def taken_in(tx: Tx, found: Mapping[str, Run]) -> Run:
    """Those that nobody had computed; and all keys are remembered, so that the next plan finds them together."""
    keys = {head: [bytes.fromhex(one["task"]) for one in run] for head, run in found.items()}
    tx.put_memos({ids.run_key(bytes.fromhex(head)): [key.hex() for key in of] for head, of in keys.items()})
    known = {key.hex() for key in tx.traces([key for of in keys.values() for key in of])} | found.keys()
    new = {one["task"]: one for run in found.values() for one in run if one["task"] not in known}
    return list(new.values())


def without_known(tx: Tx, attempt: Attempt, tasks: Sequence[Task]) -> list[Task]:
    """Tasks that no run came to since they were queued; the others are done."""
    known = tx.traces([t.key for t in tasks])
    if known:
        tx.finish(attempt.id, list(known))
    return [t for t in tasks if t.key not in known]
