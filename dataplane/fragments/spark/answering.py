"""Results of tasks that write no fragments: an answer, or the error that a task came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast

from dataplane.contract.claims import DriverClaim, SourceClaim, TaskSpec
from dataplane.contract.results import SchemaAnswer, TaskError, TaskResult
from dataplane.fragments.attempt import Attempt, Explain, Failed
from dataplane.spark.spark_errors import ErrorSource, explain

Task = TypeVar("Task", bound=TaskSpec)


def answer_each(
    attempt: Attempt[DriverClaim],
    tasks: Sequence[Task],
    work: Callable[[Task], SchemaAnswer],
    explain_error: Explain,
) -> list[TaskResult]:
    """An answer for each task, or the error that it came to."""
    results: list[TaskResult] = []
    for task in tasks:
        base = {"task": task["task"], "epoch": task["epoch"]}
        try:
            outcome: Mapping[str, object] = {"state": "done", "result": work(task)}
        except Exception as e:  # noqa: BLE001  # any failure is the outcome of this task
            attempt.check()
            outcome = {
                "state": "failed",
                "error": e.error if isinstance(e, Failed) else explain_error(e),
            }
        results.append(cast("TaskResult", {**base, **outcome}))
    return results


def explain_reading(attempt: Attempt[SourceClaim], error: BaseException) -> TaskError:
    """The error of reading source objects."""
    return explain(error, ErrorSource(reads="sources", renamed=attempt.renamed))
