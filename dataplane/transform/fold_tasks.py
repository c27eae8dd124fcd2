"""Runs of a fold: a task, and those after it, each of which reads the result of the one before it.

The key of a task follows from the content that came out before it, and is needed only when it is
reported. So contents are looked at together at the end, unless one of them may end the run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from dataplane.contract.claims import TransformClaim, TransformTask, next_key
from dataplane.contract.identity import Content
from dataplane.contract.jobs import Logic
from dataplane.contract.results import FollowingResult, TaskError, TaskResult
from dataplane.fragments.attempt import Attempt, task_label
from dataplane.fragments.written import MeasuredFragment, Stored, Written

Compute: TypeAlias = Callable[[TransformTask], Stored | TaskError]
Measure: TypeAlias = Callable[
    [Mapping[str, Stored | TaskError]], Mapping[str, MeasuredFragment | TaskError]
]
Step: TypeAlias = tuple[TransformTask, MeasuredFragment | TaskError]


def run(
    attempt: Attempt[TransformClaim], task: TransformTask, compute: Compute, measure: Measure
) -> Iterator[Step]:
    """The task's outcome, and those of the tasks after it as far as each has a fragment; one that
    fails is left to a claim of its own."""
    specs: list[TransformTask] = []
    outcomes: dict[str, MeasuredFragment | TaskError] = {}
    waiting: dict[str, Stored | TaskError] = {}
    for spec in _specs(attempt, task, waiting):
        label, outcome = task_label(spec), compute(spec)
        if specs and not isinstance(outcome, Written):
            break
        specs.append(spec)
        waiting[label] = outcome
        if not isinstance(outcome, Written):
            break
        if spec.get("was") is not None:
            outcomes |= measure(waiting)
            if not _goes_on(outcomes[label], spec):
                break
    outcomes |= measure(
        {label: stored for label, stored in waiting.items() if label not in outcomes}
    )
    yield from _unbroken((spec, outcomes[task_label(spec)]) for spec in specs)


def _specs(
    attempt: Attempt[TransformClaim], task: TransformTask, written: Mapping[str, Stored | TaskError]
) -> Iterator[TransformTask]:
    """The tasks, one after the other; each but the first reads the files of the one written
    last."""
    yield task
    name, before = attempt.claim["job"]["fold"]["name"], task
    for following in task.get("then", ()):
        last = written[task_label(before)]
        assert isinstance(last, Written)
        files = sorted(last.files)
        label = hashlib.sha256(
            f"{task['task']} {following['partition']}".encode()
        ).hexdigest()  # its key is not known yet
        spec = {
            **following,
            "task": label,
            "epoch": task["epoch"],
            "slots": {**following["slots"], name: files},
        }
        before = cast("TransformTask", spec)
        yield before


def _goes_on(outcome: MeasuredFragment | TaskError, spec: TransformTask) -> bool:
    return isinstance(outcome, MeasuredFragment) and list(outcome.content) != spec["was"]


def _unbroken(steps: Iterator[Step]) -> Iterator[Step]:
    first = next(steps)
    yield first
    before = first[1]
    for spec, outcome in steps:
        if not isinstance(before, MeasuredFragment) or not isinstance(outcome, MeasuredFragment):
            return
        yield spec, outcome
        before = outcome


def with_run(
    job: Logic, result: TaskResult, task: TransformTask, then: Sequence[TaskResult]
) -> TaskResult:
    """A task's result with those of the tasks after it, under their own keys."""
    keyed: list[FollowingResult] = []
    before = result
    for following, following_result in zip(task.get("then", ()), then, strict=False):
        key = next_key(job, following["ids"], Content(*before["content"]))
        keyed.append(
            cast(
                "FollowingResult",
                {**following_result, "task": key.hex(), "partition": following["partition"]},
            )
        )
        before = following_result
    return {**result, "then": keyed} if keyed else result
