"""The record of a finished attempt: its duration, its output, the outcome of its tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from controlplane.core.model.events import NO_BRANCH
from controlplane.core.model.past_attempts import Outcome, PastAttempt
from controlplane.core.model.tasks import Attempt, By
from dataplane.contract.results import Measures, Output, TaskResult, WriteAnswer, output_results


@dataclass(frozen=True, slots=True)
class CameTo:
    """The outcome of an attempt: the outcome of each task, and the results that were taken in."""

    by: By
    outcomes: Mapping[bytes, Outcome]
    results: Sequence[TaskResult]
    error: str | None


def of(
    attempt: Attempt, came_to: CameTo, measures: Measures, branches: Collection[str], now: float
) -> list[PastAttempt]:
    """One for each of the branches; of no branch, where none still demands its tasks."""
    counts = Counter(came_to.outcomes.values())
    rows, size = _written(attempt, came_to.results)
    return [
        PastAttempt(
            id=attempt.id,
            branch=branch,
            kind=attempt.kind,
            dataset=attempt.dataset,
            partition=attempt.partition,
            driver=attempt.driver,
            queued_at=attempt.queued_at,
            started_at=attempt.at,
            ended_at=now,
            seconds=_seconds(attempt, came_to, measures, now),
            outcome=_outcome(counts),
            tasks=len(attempt.tasks),
            done=counts["done"],
            failed=counts["failed"],
            rows=rows,
            bytes_written=size,
            bytes_read=measures.get("bytes_read"),
            spark_jobs=measures.get("spark_jobs"),
            spark_stages=measures.get("spark_stages"),
            spark_ui=measures.get("spark_ui"),
            event_log=measures.get("event_log"),
            error=came_to.error,
        )
        for branch in sorted(branches) or [NO_BRANCH]
    ]


def _outcome(counts: Mapping[Outcome, int]) -> Outcome:
    if counts["failed"]:
        return "failed"
    return "retried" if counts["retried"] else "done"


def _seconds(attempt: Attempt, came_to: CameTo, measures: Measures, now: float) -> float | None:
    """The duration that the driver reports. A driver of an earlier version reports none: then it is
    the time from claim to report. None for an attempt that ended without a report, as it may have
    been gone for long."""
    reported = measures.get("seconds")
    if reported is not None:
        return reported
    return now - attempt.at if came_to.by == "executed" else None


def _written(attempt: Attempt, results: Sequence[TaskResult]) -> tuple[int, int]:
    """Rows and bytes that were written."""
    if attempt.kind == "write":
        answers = [
            cast("WriteAnswer", task_result["result"])
            for task_result in results
            if task_result.get("result")
        ]
        return sum(a.get("rows", 0) for a in answers), sum(a.get("bytes", 0) for a in answers)
    files = [
        file
        for task_result in results
        for output in _outputs(task_result)
        for file in output["files"]
    ]
    return sum(file["rows"] for file in files), sum(file["size"] for file in files)


def _outputs(result: TaskResult) -> list[TaskResult | Output]:
    return list(output_results(result).values()) if "files" in result else []
