"""Results of tasks, from the fragments or errors that they came to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias, cast

from dataplane.contract.claims import TaskSpec
from dataplane.contract.profiles import as_text
from dataplane.contract.results import QUARANTINED, Output, TaskError, TaskResult
from dataplane.fragments.written import MeasuredFragment, Stored, Written
from dataplane.storage.lake import Lake

VOID: Literal["void"] = "void"  # a source object differs from its listing
TaskOutcome: TypeAlias = MeasuredFragment | TaskError | str  # a text is a state without an answer


def task_result(task: TaskSpec, outcome: TaskOutcome) -> TaskResult:
    base = {"task": task["task"], "epoch": task["epoch"]}
    if isinstance(outcome, str):
        return cast("TaskResult", {**base, "state": outcome})
    if not isinstance(outcome, MeasuredFragment):
        return cast("TaskResult", {**base, "state": "failed", "error": outcome})
    second = {QUARANTINED: output_of(outcome.taken_out)} if outcome.taken_out else {}
    return cast(
        "TaskResult",
        {**base, "state": "done", **output_of(outcome), **second, "metrics": outcome.metrics},
    )


def output_of(fragment: MeasuredFragment) -> Output:
    output: Output = {
        "files": list(fragment.files),
        "content": list(fragment.content),
        "schema": fragment.schema,
    }
    return output if fragment.profile is None else {**output, "profile": as_text(fragment.profile)}


def delete_written(lake: Lake, outcomes: Iterable[Stored | TaskError]) -> None:
    """The files of fragments that are no results."""
    for outcome in outcomes:
        if isinstance(outcome, Written):
            for written in filter(None, (outcome, outcome.taken_out)):
                lake.delete(written.files)
