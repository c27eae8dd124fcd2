"""The work of drivers on source files: fragments and schemas, with the checks of bytes that Spark
does not make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias

from dataplane.connectors.files.checked_numbers import searched_types
from dataplane.connectors.files.file_parsing import parse, parse_checking_numbers, times_of_day
from dataplane.connectors.files.folder_types import with_folders
from dataplane.connectors.files.infer import infer
from dataplane.connectors.files.json_numbers import check_numbers, checked_paths
from dataplane.connectors.files.linking import link_files
from dataplane.connectors.files.reader_options import encoding_of
from dataplane.connectors.files.source_bytes import DOUBTFUL_NUMBERS, are_unchanged, misread
from dataplane.connectors.files.staging import staged
from dataplane.connectors.files.times_of_day import clock_columns, may_have
from dataplane.connectors.source_reader import SourceWork
from dataplane.contract.claims import InferClaim, ParseClaim, ParseTask
from dataplane.contract.jobs import ParseJob
from dataplane.contract.results import TaskError, TaskResult
from dataplane.contract.schemas import select_columns
from dataplane.fragments.attempt import task_label
from dataplane.fragments.spark.answering import answer_each, explain_reading
from dataplane.fragments.spark.hashing import measured_outcomes
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.fragments.task_results import VOID, delete_written, task_result
from dataplane.fragments.written import MeasuredFragment, Written
from dataplane.storage.source_stores import Moved
from dataplane.task_failures import TaskFailure, error_of

ReadTasks: TypeAlias = Callable[
    [SparkAttempt[ParseClaim], Sequence[ParseTask]], dict[str, Written | TaskError]
]


def parse_files(attempt: SparkAttempt[ParseClaim]) -> list[TaskResult]:
    """A result for each task. A task whose files changed after their listing is void: it gives no
    fragment."""
    began = datetime.now(UTC)
    tasks = attempt.claim["tasks"]
    read = _linked(attempt, tasks)
    others = [task for task in tasks if task_label(task) not in read.outcomes]
    read = read.updated(_read(attempt, others, parse)) if others else read
    again = [t for t in tasks if _needs_checks(attempt.claim["job"], t, read)]
    if again:
        delete_written(attempt.lake, (read.outcomes[task_label(t)] for t in again))
        read = read.updated(_read(attempt, again, parse_checking_numbers))
    measured, checks = read.measured, read.checks
    checks |= _lossy(
        attempt, [label for label, look in checks.items() if look == DOUBTFUL_NUMBERS], measured
    )
    fine = {
        label: fragment
        for label, fragment in measured.items()
        if isinstance(fragment, MeasuredFragment) and checks[label] is None
    }
    checks |= _misdated(attempt, fine, began)
    delete_written(
        attempt.lake, [o for label, o in read.outcomes.items() if checks[label] is not None]
    )
    return [
        _with_types(attempt, t, task_result(t, checks[task_label(t)] or measured[task_label(t)]))
        for t in tasks
    ]


def _linked(attempt: SparkAttempt[ParseClaim], tasks: Sequence[ParseTask]) -> _FilesRead:
    """The tasks whose files were taken as they are, and whose rows could be measured. A damaged
    file is left to the reader, which explains the fault."""
    outcomes = link_files(attempt, tasks)
    if not outcomes:
        return _FilesRead({}, {}, {})
    linked = [task for task in tasks if task_label(task) in outcomes]
    read = _read(attempt, linked, lambda *_: dict(outcomes))
    if all(isinstance(fragment, MeasuredFragment) for fragment in read.measured.values()):
        return read
    delete_written(attempt.lake, outcomes.values())
    return _FilesRead({}, {}, {})


def _read(
    attempt: SparkAttempt[ParseClaim], tasks: Sequence[ParseTask], read: ReadTasks
) -> _FilesRead:
    outcomes = read(attempt, tasks)
    checks = {task_label(t): attempt.threads.submit(_look, attempt, t) for t in tasks}
    measured = measured_outcomes(attempt, outcomes)
    return _FilesRead(outcomes, measured, {label: look.result() for label, look in checks.items()})


def _with_types(
    attempt: SparkAttempt[ParseClaim], task: ParseTask, result: TaskResult
) -> TaskResult:
    """A failed result with the types that its files have: that these are others may be why."""
    if (
        result["state"] != "failed"
        or result["error"]["kind"] != "user"
        or attempt.claim["job"]["on_bad_record"] != "fail"
    ):
        return result
    try:
        under = select_columns(task["columns"], task.get("inferred", ()))
        schema = with_folders(infer(attempt, task, under), task["objects"], task["columns"])
        return (
            {**result, "result": {"schema": schema}}
            if are_unchanged(attempt.claim["job"], task["objects"])
            else result
        )
    except Exception:  # noqa: BLE001  # their types are unknown; the error is reported already
        attempt.check()
        return result


@dataclass(frozen=True, slots=True)
class _FilesRead:
    """By task label: the outcomes of reading, their contents, and the result of checking the files'
    bytes."""

    outcomes: dict[str, Written | TaskError]
    measured: dict[str, MeasuredFragment | TaskError]
    checks: dict[str, TaskError | str | None]

    def updated(self, later: _FilesRead) -> _FilesRead:
        outcomes, measured = self.outcomes | later.outcomes, self.measured | later.measured
        return _FilesRead(outcomes, measured, self.checks | later.checks)


def _needs_checks(job: ParseJob, task: ParseTask, read: _FilesRead) -> bool:
    """Whether a task's files are to be read once more with a check of each number: Spark may have
    taken one for another, or refused a text for which the check has words of its own, or another
    answer."""
    outcome, look = read.outcomes[task_label(task)], read.checks[task_label(task)]
    if not searched_types(job, task) or look not in (None, DOUBTFUL_NUMBERS):
        return False
    if not isinstance(outcome, Written):
        return outcome["kind"] == "user"
    has_dropped = job["on_bad_record"] != "fail" and outcome.metrics.get("dropped_rows", 0) > 0
    return has_dropped or look == DOUBTFUL_NUMBERS


def _look(attempt: SparkAttempt[ParseClaim], task: ParseTask) -> TaskError | str | None:
    """Check the files after the read: VOID if an object differs from its listing, an error if Spark
    has misread it."""
    try:
        return _looked_at(attempt.claim["job"], task)
    except Moved:
        return VOID
    except TaskFailure as e:
        return error_of(e)


def _looked_at(job: ParseJob, task: ParseTask) -> TaskError | str | None:
    if not are_unchanged(job, task["objects"]):
        return VOID
    encoding = encoding_of(job["format"], job["options"])
    if encoding is None:
        return None
    number_types = searched_types(job, task) or {"double" for _ in checked_paths(job, task)}
    doubt: str | None = None
    for source in task["objects"]:
        look = misread(job, source, encoding, number_types=number_types)
        if isinstance(look, dict):
            return look
        doubt = look or doubt
    return doubt


def _misdated(
    attempt: SparkAttempt[ParseClaim], measured: Mapping[str, MeasuredFragment], began: datetime
) -> dict[str, TaskError]:
    """Errors of fragments that are of today because they were read today, by label."""
    job, doubtful = attempt.claim["job"], []
    for task in attempt.claim["tasks"]:
        if fragment := measured.get(task_label(task)):
            files = [*fragment.files, *(fragment.taken_out.files if fragment.taken_out else ())]
            if may_have(
                files, clock_columns(job["format"], job["options"], task["columns"]), began
            ):
                doubtful.append(task)
    try:
        return times_of_day(attempt, doubtful)
    except Exception as e:  # noqa: BLE001  # the outcome of all of them
        attempt.check()
        fault: TaskError = {**explain_reading(attempt, e), "kind": "infrastructure"}
        return {task_label(t): fault for t in doubtful}


def _lossy(
    attempt: SparkAttempt[ParseClaim],
    doubtful: Sequence[str],
    measured: Mapping[str, MeasuredFragment | TaskError],
) -> dict[str, TaskError | None]:
    """The outcome of tasks whose files have doubtful numbers, by label: an error where a number in
    JSON does not fit."""
    errors: dict[str, TaskError | None] = dict.fromkeys(doubtful)
    for task in attempt.claim["tasks"]:
        label = task_label(task)
        if label not in errors or not isinstance(measured[label], MeasuredFragment):
            continue
        try:
            errors[label] = check_numbers(attempt, task)
        except Exception as e:  # noqa: BLE001  # the outcome of this task
            attempt.check()
            errors[label] = explain_reading(attempt, e)
    return errors


def infer_files(attempt: SparkAttempt[InferClaim]) -> list[TaskResult]:
    """A schema for each task. If files changed meanwhile, their schema or error is void: it is not
    about the listed files."""
    results = answer_each(
        attempt,
        attempt.claim["tasks"],
        lambda task: {"schema": with_folders(infer(attempt, task), task["objects"])},
        partial(explain_reading, attempt),
    )
    return [
        result if are_unchanged(attempt.claim["job"], task["objects"]) else task_result(task, VOID)
        for task, result in zip(attempt.claim["tasks"], results, strict=True)
    ]


WORK = SourceWork(partial(staged, work=parse_files), partial(staged, work=infer_files))
