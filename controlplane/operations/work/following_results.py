"""Results of tasks that a driver went on to after a claimed one, each with key and trace of its
own: the next tasks of a fold, or those of followers.

The keys of those were never demanded: they follow from the results before them. So they are taken
in only where their keys prove to be right, and results that are known by then are left as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from controlplane.core.compile import ids
from controlplane.core.model.jobs import StoredJob, StoredTransformJob
from controlplane.core.model.tasks import Attempt, Task
from controlplane.ports.store import Tx
from dataplane.contract.claims import follower_key, next_key
from dataplane.contract.identity import Content
from dataplane.contract.jobs import Follower, FragmentJob
from dataplane.contract.results import FollowingResult, TaskResult

Run = list[TaskResult]
FIELDS = frozenset({"task", "dataset", "files", "content", "schema", "profile", "metrics"})


def proven(
    job: StoredJob | None, tasks: Mapping[bytes, Task], results: Sequence[TaskResult]
) -> dict[str, Run]:
    """The results after each of these whose keys are right, by the task (hex) that was claimed. A
    fold has those before the first wrong one."""
    heads = [r for r in results if r.get("then")]
    if job is None or not heads:
        return {}
    if "fold" in job:
        fold = cast("StoredTransformJob", job)
        return {r["task"]: list(_run(fold, tasks[bytes.fromhex(r["task"])], r)) for r in heads}
    followers = cast("FragmentJob", job).get("followers", [])
    return {r["task"]: _of_followers(followers, r) for r in heads}


def _run(job: StoredTransformJob, head: Task, result: TaskResult) -> Iterator[TaskResult]:
    before, spec = Content(*result["content"]), head.spec
    assert "slots" in spec
    for next_spec, next_result in zip(spec.get("then", ()), result["then"], strict=False):
        if next_result["task"] != next_key(job, next_spec["ids"], before).hex():
            return
        yield cast("TaskResult", {**next_result, "epoch": result["epoch"], "state": "done"})
        before = Content(*next_result["content"])


def _of_followers(followers: Sequence[Follower], head: TaskResult) -> Run:
    by_dataset = {r["dataset"]: r for r in head["then"] if "dataset" in r}

    def after(
        followers: Iterable[Follower], before: TaskResult | FollowingResult
    ) -> Iterator[TaskResult]:
        for follower in followers:
            result = by_dataset.get(follower["dataset"])
            key = follower_key(follower, Content(*before["content"]))
            if result is not None and result["task"] == key.hex():
                yield _of_follower(result, head)
                yield from after(follower["job"].get("followers", ()), result)

    return list(after(followers, head))


def _of_follower(result: FollowingResult, head: TaskResult) -> TaskResult:
    """With the fields that a follower's result has, and no other ones."""
    fields = {name: value for name, value in result.items() if name in FIELDS}
    return cast("TaskResult", {**fields, "epoch": head["epoch"], "state": "done"})


def remember(tx: Tx, runs_by_head: Mapping[str, Run]) -> None:
    """All keys of runs of a fold, so that the next plan finds them together."""
    tx.traces.put_memos(
        {
            ids.run_key(bytes.fromhex(head)): [r["task"] for r in run]
            for head, run in runs_by_head.items()
        }
    )


def new_results(tx: Tx, runs_by_head: Mapping[str, Run]) -> Run:
    """The results that were not known before, each once."""
    by_task = {r["task"]: r for run in runs_by_head.values() for r in run}
    hits = tx.traces.hits([bytes.fromhex(task) for task in by_task])
    stored = {key.hex() for key in hits} | runs_by_head.keys()
    return [r for task, r in by_task.items() if task not in stored]


def without_known(tx: Tx, attempt: Attempt, tasks: Sequence[Task]) -> list[Task]:
    """Tasks that have no result yet: a driver may have come to others since they were queued. Those
    are done."""
    traces = tx.traces.hits([t.key for t in tasks])
    if traces:
        tx.queue.finish(attempt.id, list(traces))
    return [t for t in tasks if t.key not in traces]
