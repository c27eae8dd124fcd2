"""Runs of a fold: a task, and those after it, each of which reads what the one before it gave.

The key of a task follows from the content that came out before it, and is needed only when it is reported. So contents
are looked at together at the end, unless one of them may end the run. Does not belong here: computing one task.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from dataplane.contract.claims import TaskSpec
from dataplane.contract.identity import Content, next_key
from dataplane.contract.results import TaskError, TaskResult
from dataplane.contract.schemas import Json
from dataplane.fragments.attempt import Attempt, task_label
from dataplane.fragments.writing import Fragment, Stored, Written

Compute: TypeAlias = Callable[[TaskSpec], Stored | TaskError]
Measure: TypeAlias = Callable[[Mapping[str, Stored | TaskError]], Mapping[str, Fragment | TaskError]]
Step: TypeAlias = tuple[TaskSpec, Fragment | TaskError]


def run(attempt: Attempt, task: TaskSpec, compute: Compute, measure: Measure) -> Iterator[Step]:
    """The task's outcome, and those of the tasks after it as far as each has a fragment; one that fails is left to be
    asked for by itself."""
    specs: list[TaskSpec] = []
    found: dict[str, Fragment | TaskError] = {}
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
            found |= measure(waiting)
            if not _goes_on(found[label], spec):
                break
    found |= measure({label: one for label, one in waiting.items() if label not in found})
    yield from _unbroken((spec, found[task_label(spec)]) for spec in specs)


def _specs(attempt: Attempt, task: TaskSpec, written: Mapping[str, Stored | TaskError]) -> Iterator[TaskSpec]:
    """One after the other; each but the first reads the files of what was written last."""
    yield task
    name, before = attempt.job["fold"]["name"], task
    for one in task.get("then", ()):
        last = written[task_label(before)]
        assert isinstance(last, Written)
        files = sorted(last.files)
        label = hashlib.sha256(f"{task['task']} {one['partition']}".encode()).hexdigest()  # its key is not known yet
        spec = {**one, "task": label, "epoch": task["epoch"], "slots": {**one["slots"], name: files}}
        before = cast("TaskSpec", spec)
        yield before


def _goes_on(found: Fragment | TaskError, spec: TaskSpec) -> bool:
    return isinstance(found, Fragment) and list(found.content) != spec["was"]


def _unbroken(steps: Iterator[Step]) -> Iterator[Step]:
    first = next(steps)
    yield first
    before = first[1]
    for spec, found in steps:
        if not isinstance(before, Fragment) or not isinstance(found, Fragment):
            return
        yield spec, found
        before = found


def with_run(job: Json, result: TaskResult, task: TaskSpec, then: Sequence[TaskResult]) -> TaskResult:
    """A task's result with those of the tasks after it, under their own keys."""
    keyed, before = [], result
    for asked, found in zip(task.get("then", ()), then, strict=False):
        key = next_key(job, asked, Content(*before["content"]))
        keyed.append({**found, "task": key.hex(), "partition": asked["partition"]})
        before = found
    return {**result, "then": keyed} if keyed else result
