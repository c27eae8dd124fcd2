"""From a claim to the results of its tasks, on a Spark session, without HTTP."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial, reduce
from pathlib import Path
from typing import TypeVar, cast

from pyspark.sql import SparkSession

from dataplane.connectors.files.checked_numbers import searched_types
from dataplane.connectors.files.folder_types import with_folders
from dataplane.connectors.files.infer import infer
from dataplane.connectors.files.json_numbers import check_numbers, checked_paths
from dataplane.connectors.files.options import encoding_of
from dataplane.connectors.files.parse import parse, parse_checking_numbers, times_of_day
from dataplane.connectors.files.times_of_day import clock_columns, may_have
from dataplane.connectors.files.verify import DOUBTFUL_NUMBERS, are_unchanged, misread
from dataplane.connectors.parse_objects import parse_objects, reading_of, schema_of
from dataplane.connectors.registry import SourceReader
from dataplane.contract.claims import (
    AnalyseClaim,
    CheckClaim,
    Claim,
    DriverClaim,
    IndexClaim,
    InferClaim,
    ObjectsTask,
    PackClaim,
    ParseClaim,
    ParseTask,
    SourceClaim,
    TaskSpec,
    TransformClaim,
    TransformTask,
    WorkerClaim,
)
from dataplane.contract.identity import EMPTY, Content
from dataplane.contract.jobs import ParseJob
from dataplane.contract.profiles import as_text
from dataplane.contract.results import QUARANTINED, CheckAnswer, Output, SchemaAnswer, TaskError, TaskResult
from dataplane.contract.schemas import Schema, select_columns
from dataplane.errors import TaskFailure, error_of
from dataplane.fragments.attempt import Cancelled, Explain, Failed, task_label
from dataplane.fragments.spark.checks import check
from dataplane.fragments.spark.compaction import pack_one, proven
from dataplane.fragments.spark.expectations import TAKEN_OUT
from dataplane.fragments.spark.hashing import measure_with_spark
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.fragments.written import Fragment, Partitioned, Stored, Written
from dataplane.spark.errors import ErrorSource, explain
from dataplane.spark.isolation import ProcessState, Settings, reset_catalogue
from dataplane.spark.session import cancel_group, is_alive
from dataplane.storage.lake import Lake
from dataplane.storage.refused_places import Places
from dataplane.storage.source_stores import Moved
from dataplane.transform.analyse import analyse_python, analyse_sql
from dataplane.transform.fold import run, with_run
from dataplane.transform.index import Held, index
from dataplane.transform.keyed import foreign_keys, is_by_key
from dataplane.transform.python import python_one
from dataplane.transform.sql import explain_sql, sql_batches, sql_one

Task = TypeVar("Task", bound=TaskSpec)
C = TypeVar("C", bound=DriverClaim)
PARALLEL = 4  # single jobs of one attempt at a time
VOID = "void"

Outcomes = dict[str, Stored | TaskError]  # by label
Read = Callable[[SparkAttempt[ParseClaim], Sequence[ParseTask]], dict[str, Written | TaskError]]


class Executor:
    """Runs claims over a lake. Several threads may run claims at the same time."""

    def __init__(self, spark: SparkSession, lake: Lake, scratch: Path | None = None) -> None:
        self._spark, self.lake = spark, lake
        self._scratch = scratch or Path(tempfile.mkdtemp(prefix="headgate-executor-"))
        self._jobs = ThreadPoolExecutor(PARALLEL, "job")  # kept: a new Python thread is a new JVM thread
        self._looks = ThreadPoolExecutor(PARALLEL, "look")
        self._running: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._surroundings, self._settings = ProcessState.present(), Settings.present(spark)

    def run(self, claim: Claim) -> list[TaskResult]:
        """One result per task, in the claim's order. Raises Cancelled once the attempt is."""
        refused = _refused(claim)
        if not refused:
            return self._run_claim(claim)
        allowed = [task for task in claim["tasks"] if task["task"] not in refused]
        done = self._run_claim(cast("Claim", {**claim, "tasks": allowed})) if allowed else []
        results = refused | {result["task"]: result for result in done}
        return [results[task["task"]] for task in claim["tasks"]]

    def _run_claim(self, claim: Claim) -> list[TaskResult]:
        if claim["kind"] == "parse":
            return self._with_attempt(claim, self._parse)
        if claim["kind"] == "index":
            return self._with_attempt(claim, _indexed)
        if claim["kind"] == "transform":
            return self._with_attempt(claim, self._transform)
        if claim["kind"] == "pack":
            return self._with_attempt(claim, self._pack)
        if claim["kind"] == "infer":
            return self._with_attempt(claim, _inferred)
        if claim["kind"] == "analyse":
            return self._with_attempt(claim, _analysed)
        if claim["kind"] == "check":
            return self._with_attempt(claim, _checked)
        raise _not_mine(claim)

    def _with_attempt(self, claim: C, work: Callable[[SparkAttempt[C]], list[TaskResult]]) -> list[TaskResult]:
        with self.attempt(claim) as attempt:
            return work(attempt)

    def cancel(self, attempt: str) -> None:
        """Stop an attempt if it runs here. Its files stay."""
        with self._lock:
            cancelled = self._running.get(attempt)
        if cancelled:
            cancelled.set()
            cancel_group(self._spark, attempt)

    def close(self) -> None:
        self._jobs.shutdown(wait=False, cancel_futures=True)
        self._looks.shutdown(wait=False, cancel_futures=True)

    @contextmanager
    def attempt(self, claim: C) -> Iterator[SparkAttempt[C]]:
        """Work on a claim within the block; after the last one nothing is left of what ran."""
        scratch = self._scratch / f"attempt-{next(self._numbers)}"
        cancelled = threading.Event()
        with self._lock:
            self._running[claim["attempt"]] = cancelled
        try:
            yield SparkAttempt(claim, self.lake, scratch, self._looks, cancelled, self._spark)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
            with self._lock:
                del self._running[claim["attempt"]]
                if not self._running:
                    self._clear()
                    self._surroundings.restore()

    def _clear(self) -> None:
        """Removes from the JVM all that ran; if the JVM has ended, there is nothing, and the results are reported."""
        try:
            reset_catalogue(self._spark)
            self._settings.restore(self._spark)
        except Exception:
            if is_alive(self._spark):
                raise

    # fragments

    def _parse(self, attempt: SparkAttempt[ParseClaim]) -> list[TaskResult]:
        if "connector" in attempt.claim["job"]:
            return _parsed(attempt)
        began = datetime.now(UTC)
        tasks = attempt.claim["tasks"]
        read = self._read_files(attempt, tasks, parse)
        again = [t for t in tasks if _needs_checks(attempt.claim["job"], t, read)]
        if again:
            self._delete(read.outcomes[task_label(t)] for t in again)
            read = read.updated(self._read_files(attempt, again, parse_checking_numbers))
        measured, looks = read.measured, read.looks
        looks |= _lossy(attempt, [label for label, look in looks.items() if look == DOUBTFUL_NUMBERS], measured)
        fine = {
            label: fragment
            for label, fragment in measured.items()
            if isinstance(fragment, Fragment) and looks[label] is None
        }
        looks |= _misdated(attempt, fine, began)
        self._delete(outcome for label, outcome in read.outcomes.items() if looks[label] is not None)
        return [_with_types(attempt, t, _result(t, looks[task_label(t)] or measured[task_label(t)])) for t in tasks]

    def _read_files(self, attempt: SparkAttempt[ParseClaim], tasks: Sequence[ParseTask], read: Read) -> _FilesRead:
        outcomes = read(attempt, tasks)
        looks = {task_label(t): self._looks.submit(_look, attempt, t) for t in tasks}
        measured = _measured(attempt, outcomes)
        return _FilesRead(outcomes, measured, {label: look.result() for label, look in looks.items()})

    def _delete(self, outcomes: Iterable[Written | TaskError]) -> None:
        """The files of these, which are no results."""
        for outcome in outcomes:
            if isinstance(outcome, Written):
                for written in filter(None, (outcome, outcome.taken_out)):
                    self.lake.delete(written.files)

    def _transform(self, attempt: SparkAttempt[TransformClaim]) -> list[TaskResult]:
        tasks, job = attempt.claim["tasks"], attempt.claim["job"]
        if "fold" in job:
            return [self._run(attempt, task) for task in tasks]
        if job["language"] == "python":
            outcomes = self._singly(attempt, tasks, partial(python_one, attempt), explain)
        elif (job["batch_sql"] or job.get("together")) and len(tasks) > 1:
            outcomes = sql_batches(attempt)
        else:
            outcomes = self._singly(attempt, tasks, partial(sql_one, attempt), partial(explain_sql, attempt))
        if "key" in job and is_by_key(job):
            outcomes = _kept_keys(attempt, outcomes)
        measured = _measured(attempt, outcomes)
        return [_stored(t, outcomes[task_label(t)], measured) for t in tasks]

    def _pack(self, attempt: SparkAttempt[PackClaim]) -> list[TaskResult]:
        tasks = attempt.claim["tasks"]
        measured = _measured(attempt, self._singly(attempt, tasks, partial(pack_one, attempt), explain))
        return [_result(t, proven(t, measured[task_label(t)])) for t in tasks]

    def _run(self, attempt: SparkAttempt[TransformClaim], task: TransformTask) -> TaskResult:
        """A task of a fold, and those after it."""
        is_sql = attempt.claim["job"]["language"] == "sql"
        work = partial(sql_one if is_sql else python_one, attempt)
        explain_error: Explain = partial(explain_sql, attempt) if is_sql else explain
        steps = run(attempt, task, lambda t: _run_one(attempt, t, work, explain_error), partial(_measured, attempt))
        head, *then = [_result(spec, outcome) for spec, outcome in steps]
        return with_run(attempt.claim["job"], head, task, then)

    def _singly(
        self,
        attempt: SparkAttempt[DriverClaim],
        tasks: Sequence[Task],
        work: Callable[[Task], Stored | TaskError],
        explain_error: Explain,
    ) -> Outcomes:
        """Each task as a job of its own, some at a time."""

        def one(task: Task) -> Stored | TaskError:
            return _run_one(attempt, task, work, explain_error)

        if len(tasks) == 1:
            return {task_label(tasks[0]): one(tasks[0])}
        return dict(zip(map(task_label, tasks), self._jobs.map(one, tasks), strict=True))


def _not_mine(claim: WorkerClaim) -> ValueError:
    """mypy names the kind of a driver that `_run_claim` has forgotten."""
    return ValueError(f"not the work of a driver: {claim['kind']}")


def _refused(claim: Claim) -> dict[str, TaskResult]:
    """Results of tasks with source objects that may not be read: a listing may be older than an allow list."""
    if claim["kind"] not in ("parse", "infer"):
        return {}
    places, refused = Places.of(os.environ, claim["lake"]), dict[str, TaskResult]()
    for task in claim["tasks"]:
        try:
            places.check_objects(task["objects"])
        except TaskFailure as e:
            refused[task["task"]] = _result(task, error_of(e))
    return refused


def _parsed(attempt: SparkAttempt[ParseClaim]) -> list[TaskResult]:
    """Objects of a connector other than `files`."""
    try:
        with reading_of(attempt) as source:
            return _parsed_from(attempt, source)
    except Cancelled:
        raise
    except Exception as e:  # noqa: BLE001  # a source that cannot be opened is the outcome of all tasks
        attempt.check()
        error = e.error if isinstance(e, Failed) else _explain_reading(attempt, e)
        return [_result(t, error) for t in attempt.claim["tasks"]]


def _parsed_from(attempt: SparkAttempt[ParseClaim], source: SourceReader) -> list[TaskResult]:
    """Parse each task's objects. A task whose objects changed after their listing is void: it gives no fragment."""
    outcomes, void = parse_objects(attempt, source)
    measured = _measured(attempt, outcomes)
    results = []
    for task in attempt.claim["tasks"]:
        is_void, outcome = task["task"] in void, outcomes.get(task_label(task))
        if is_void and isinstance(outcome, Written):
            for written in filter(None, (outcome, outcome.taken_out)):
                attempt.lake.delete(written.files)
        results.append(_typed(attempt, source, task, _result(task, VOID if is_void else measured[task_label(task)])))
    return results


def _typed(attempt: SparkAttempt[ParseClaim], source: SourceReader, task: ParseTask, result: TaskResult) -> TaskResult:
    """A failed result with the types that its objects have: that these are others may be why."""
    if result["state"] != "failed" or result["error"]["kind"] != "user":
        return result
    try:
        return {**result, "result": {"schema": source.schema(task["objects"])}}
    except Exception:  # noqa: BLE001  # so nothing is known of them
        attempt.check()
        return result


def _run_one(
    attempt: SparkAttempt[DriverClaim], task: Task, work: Callable[[Task], Stored | TaskError], explain_error: Explain
) -> Stored | TaskError:
    """One task as a job of its own."""
    try:
        attempt.enter()
        return work(task)
    except Cancelled:
        raise
    except Failed as e:
        return e.error
    except Exception as e:  # noqa: BLE001  # whatever goes wrong is the outcome of this task
        attempt.check()
        return explain_error(e)


def _explain_reading(attempt: SparkAttempt[SourceClaim], error: BaseException) -> TaskError:
    return explain(error, ErrorSource(reads="sources", renamed=attempt.renamed))


def _with_types(attempt: SparkAttempt[ParseClaim], task: ParseTask, result: TaskResult) -> TaskResult:
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
            {**result, "result": {"schema": schema}} if are_unchanged(attempt.claim["job"], task["objects"]) else result
        )
    except Exception:  # noqa: BLE001  # their types are unknown; the error is reported already
        attempt.check()
        return result


@dataclass(frozen=True, slots=True)
class _FilesRead:
    """By task label: the outcomes of reading, their contents, and the result of checking the files' bytes."""

    outcomes: dict[str, Written | TaskError]
    measured: dict[str, Fragment | TaskError]
    looks: dict[str, TaskError | str | None]

    def updated(self, later: _FilesRead) -> _FilesRead:
        outcomes, measured = self.outcomes | later.outcomes, self.measured | later.measured
        return _FilesRead(outcomes, measured, self.looks | later.looks)


def _needs_checks(job: ParseJob, task: ParseTask, read: _FilesRead) -> bool:
    """Whether a task's files are to be read once more with a check of each number: Spark may have taken one for
    another, or refused a text for which the check has words of its own, or another answer."""
    outcome, look = read.outcomes[task_label(task)], read.looks[task_label(task)]
    if not searched_types(job, task) or look not in (None, DOUBTFUL_NUMBERS):
        return False
    if not isinstance(outcome, Written):
        return outcome["kind"] == "user"
    has_dropped = job["on_bad_record"] == "drop" and outcome.metrics.get("dropped_rows", 0) > 0
    return has_dropped or look == DOUBTFUL_NUMBERS


def _look(attempt: SparkAttempt[ParseClaim], task: ParseTask) -> TaskError | str | None:
    """Check the files after the read: VOID if an object differs from its listing, an error if Spark has misread it."""
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
    attempt: SparkAttempt[ParseClaim], measured: Mapping[str, Fragment], began: datetime
) -> dict[str, TaskError]:
    """Errors of fragments that are of today because they were read today, by label."""
    job, doubtful = attempt.claim["job"], []
    for task in attempt.claim["tasks"]:
        if fragment := measured.get(task_label(task)):
            files = [*fragment.files, *(fragment.taken_out.files if fragment.taken_out else ())]
            if may_have(files, clock_columns(job["format"], job["options"], task["columns"]), began):
                doubtful.append(task)
    try:
        return times_of_day(attempt, doubtful)
    except Exception as e:  # noqa: BLE001  # the outcome of all of them
        attempt.check()
        fault: TaskError = {**_explain_reading(attempt, e), "kind": "infrastructure"}
        return {task_label(t): fault for t in doubtful}


def _lossy(
    attempt: SparkAttempt[ParseClaim], doubtful: Sequence[str], measured: Mapping[str, Fragment | TaskError]
) -> dict[str, TaskError | None]:
    """The outcome of tasks whose files have doubtful numbers, by label: an error where a number in JSON does not
    fit."""
    errors: dict[str, TaskError | None] = dict.fromkeys(doubtful)
    for task in attempt.claim["tasks"]:
        label = task_label(task)
        if label not in errors or not isinstance(measured[label], Fragment):
            continue
        try:
            errors[label] = check_numbers(attempt, task)
        except Exception as e:  # noqa: BLE001  # the outcome of this task
            attempt.check()
            errors[label] = _explain_reading(attempt, e)
    return errors


def _measured(
    attempt: SparkAttempt[DriverClaim], outcomes: Mapping[str, Stored | TaskError]
) -> dict[str, Fragment | TaskError]:
    """Contents of the written fragments. A fragment that cannot be read back is no result."""
    written = {label: w for label, w in outcomes.items() if isinstance(w, Written)}
    dealt = [outcome for outcome in outcomes.values() if isinstance(outcome, Partitioned)]
    written |= {label: w for partitioned in dealt for label, w in partitioned.written.items()}
    errors: dict[str, Fragment | TaskError] = {
        k: e for k, e in outcomes.items() if not isinstance(e, Written | Partitioned)
    }
    if not written:
        return errors
    try:
        attempt.enter()
        others = {label + TAKEN_OUT: w.taken_out for label, w in written.items() if w.taken_out}
        fragments = measure_with_spark(attempt, {**written, **others})
        return {**errors, **{k: replace(fragments[k], taken_out=fragments.get(k + TAKEN_OUT)) for k in written}}
    except Exception as e:  # noqa: BLE001  # the outcome of all of them
        attempt.check()
        error: TaskError = {**explain(e, ErrorSource(renamed=attempt.renamed)), "kind": "infrastructure"}
        return {**errors, **dict.fromkeys(written, error)}


def _stored(task: TaskSpec, outcome: Stored | TaskError, measured: Mapping[str, Fragment | TaskError]) -> TaskResult:
    if not isinstance(outcome, Partitioned):
        return _result(task, measured[task_label(task)])
    outputs: dict[str, Output] = {}
    for label, key in outcome.keys.items():
        fragment = measured[label]
        if not isinstance(fragment, Fragment):
            return _result(task, fragment)
        outputs[key] = _output(fragment)
    files = [file for output in outputs.values() for file in output["files"]]
    content = reduce(Content.plus, (Content(*output["content"]) for output in outputs.values()), EMPTY)
    base: TaskResult = {"task": task["task"], "epoch": task["epoch"], "state": "done", "schema": outcome.schema}
    return {**base, "content": list(content), "files": files, "outputs": outputs, "metrics": outcome.metrics}


def _kept_keys(attempt: SparkAttempt[TransformClaim], outcomes: Outcomes) -> Outcomes:
    """A task that gave rows of another key than its own has failed."""
    written = {label: w for label, w in outcomes.items() if isinstance(w, Written)}
    attempt.enter()
    wrong = foreign_keys(attempt, written)
    for label in wrong:
        attempt.lake.delete(written[label].files)
    return outcomes | wrong


def _result(task: TaskSpec, outcome: Fragment | TaskError | str) -> TaskResult:
    base = {"task": task["task"], "epoch": task["epoch"]}
    if isinstance(outcome, str):
        return cast("TaskResult", {**base, "state": outcome})
    if not isinstance(outcome, Fragment):
        return cast("TaskResult", {**base, "state": "failed", "error": outcome})
    second = {QUARANTINED: _output(outcome.taken_out)} if outcome.taken_out else {}
    return cast("TaskResult", {**base, "state": "done", **_output(outcome), **second, "metrics": outcome.metrics})


def _output(fragment: Fragment) -> Output:
    output: Output = {"files": list(fragment.files), "content": list(fragment.content), "schema": fragment.schema}
    return output if fragment.profile is None else {**output, "profile": as_text(fragment.profile)}


# --- work without fragments ---------------------------------------------------------------------


def _inferred(attempt: SparkAttempt[InferClaim]) -> list[TaskResult]:
    """Infer schemas. If files changed meanwhile, their schema or error is void: it is not about the listed files."""
    tasks = attempt.claim["tasks"]
    if "connector" in attempt.claim["job"]:
        return _without_files(
            attempt, tasks, _answering(partial(schema_of, attempt)), partial(_explain_reading, attempt)
        )
    results = _without_files(
        attempt, tasks, _answering(partial(_schema_of_files, attempt)), partial(_explain_reading, attempt)
    )
    return [
        result if are_unchanged(attempt.claim["job"], task["objects"]) else _result(task, VOID)
        for task, result in zip(tasks, results, strict=True)
    ]


def _schema_of_files(attempt: SparkAttempt[InferClaim], task: ObjectsTask) -> Schema:
    return with_folders(infer(attempt, task), task["objects"])


def _indexed(attempt: SparkAttempt[IndexClaim]) -> list[TaskResult]:
    held = index(attempt)
    return [_index_result(t, held[task_label(t)]) for t in attempt.claim["tasks"]]


def _index_result(task: TaskSpec, outcome: Held | TaskError) -> TaskResult:
    if not isinstance(outcome, Held):
        return _result(task, outcome)
    return {"task": task["task"], "epoch": task["epoch"], "state": "done", "result": outcome.result}


def _answering(work: Callable[[Task], Schema]) -> Callable[[Task], SchemaAnswer]:
    return lambda task: {"schema": work(task)}


def _analysed(attempt: SparkAttempt[AnalyseClaim]) -> list[TaskResult]:
    tasks = attempt.claim["tasks"]
    if attempt.claim["job"]["language"] == "sql":
        return _without_files(attempt, tasks, lambda _: analyse_sql(attempt), partial(explain_sql, attempt))
    return _without_files(attempt, tasks, lambda _: analyse_python(attempt), explain)


def _checked(attempt: SparkAttempt[CheckClaim]) -> list[TaskResult]:
    answers = check(attempt)
    return [_answered(task, answers[task_label(task)]) for task in attempt.claim["tasks"]]


def _answered(task: TaskSpec, answer: CheckAnswer | TaskError) -> TaskResult:
    outcome = {"state": "failed", "error": answer} if "condition" in answer else {"state": "done", "result": answer}
    return cast("TaskResult", {"task": task["task"], "epoch": task["epoch"], **outcome})


def _without_files(
    attempt: SparkAttempt[DriverClaim],
    tasks: Sequence[Task],
    work: Callable[[Task], SchemaAnswer],
    explain_error: Callable[[BaseException], TaskError],
) -> list[TaskResult]:
    """An answer for each task, or the error that it came to."""
    results: list[TaskResult] = []
    for task in tasks:
        base = {"task": task["task"], "epoch": task["epoch"]}
        try:
            outcome: Mapping[str, object] = {"state": "done", "result": work(task)}
        except Exception as e:  # noqa: BLE001  # whatever goes wrong is the outcome of this task
            attempt.check()
            outcome = {"state": "failed", "error": e.error if isinstance(e, Failed) else explain_error(e)}
        results.append(cast("TaskResult", {**base, **outcome}))
    return results
