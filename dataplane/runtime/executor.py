"""From a claim to the results of its tasks, on a Spark session, without HTTP."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import TypeVar, cast

from pyspark.sql import SparkSession

from dataplane.connectors.registry import reader
from dataplane.connectors.source_reader import SourceWork
from dataplane.contract.claims import (
    AnalyseClaim,
    CheckClaim,
    Claim,
    DriverClaim,
    IndexClaim,
    InferClaim,
    PackClaim,
    ParseClaim,
    SourceClaim,
    TaskSpec,
    TransformClaim,
    TransformTask,
    WorkerClaim,
)
from dataplane.contract.identity import EMPTY, Content
from dataplane.contract.jobs import connector_of, is_batched
from dataplane.contract.results import CheckAnswer, FollowingResult, Output, TaskError, TaskResult
from dataplane.fragments.attempt import Cancelled, Explain, Failed, task_label
from dataplane.fragments.spark.answering import answer_each, explain_reading
from dataplane.fragments.spark.checks import check
from dataplane.fragments.spark.hashing import measured_outcomes
from dataplane.fragments.spark.pack_writer import pack_one, proven
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.fragments.task_results import output_of, task_result
from dataplane.fragments.written import MeasuredFragment, Partitioned, Stored
from dataplane.spark.isolation import HadoopSettings, ProcessState, reset_catalogue
from dataplane.spark.spark_errors import explain
from dataplane.spark.spark_session import cancel_group, is_alive
from dataplane.storage.lake import Lake
from dataplane.storage.refused_places import Places
from dataplane.task_failures import TaskFailure, error_of
from dataplane.transform.analyse import analyse_python, analyse_sql
from dataplane.transform.fold_tasks import run, with_run
from dataplane.transform.following import FollowingProgress, claim_after, with_followers
from dataplane.transform.index import KeyContents, index
from dataplane.transform.keyed_outputs import is_by_key, with_own_keys
from dataplane.transform.python_transform import python_batches, python_one
from dataplane.transform.sql_transform import explain_sql, sql_batches, sql_one

Task = TypeVar("Task", bound=TaskSpec)
C = TypeVar("C", bound=DriverClaim)
PARALLEL = 4  # single jobs of one attempt at a time

Outcomes = dict[str, Stored | TaskError]  # by label


class Executor:
    """Runs claims over a lake. Several threads may run claims at the same time."""

    def __init__(self, spark: SparkSession, lake: Lake, scratch: Path | None = None) -> None:
        self._spark, self.lake = spark, lake
        self._scratch = scratch or Path(tempfile.mkdtemp(prefix="headgate-executor-"))
        # kept: a new Python thread is a new JVM thread
        self._jobs = ThreadPoolExecutor(PARALLEL, "job")
        self._threads = ThreadPoolExecutor(PARALLEL, "look")
        self._running: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._surroundings, self._settings = ProcessState.present(), HadoopSettings.present(spark)

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

    def _with_attempt(
        self, claim: C, work: Callable[[SparkAttempt[C]], list[TaskResult]]
    ) -> list[TaskResult]:
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
        self._threads.shutdown(wait=False, cancel_futures=True)

    @contextmanager
    def attempt(self, claim: C) -> Iterator[SparkAttempt[C]]:
        """Work on a claim within the block; after the last one nothing is left of what ran."""
        scratch = self._scratch / f"attempt-{next(self._numbers)}"
        cancelled = threading.Event()
        with self._lock:
            self._running[claim["attempt"]] = cancelled
        try:
            yield SparkAttempt(claim, self.lake, scratch, self._threads, cancelled, self._spark)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
            with self._lock:
                del self._running[claim["attempt"]]
                if not self._running:
                    self._clear()
                    self._surroundings.restore()

    def _clear(self) -> None:
        """Removes from the JVM all that ran; if the JVM has ended, there is nothing, and the
        results are reported."""
        try:
            reset_catalogue(self._spark)
            self._settings.restore(self._spark)
        except Exception:
            if is_alive(self._spark):
                raise

    def _parse(self, attempt: SparkAttempt[ParseClaim]) -> list[TaskResult]:
        return self._followed(attempt, _parsed(attempt))

    def _transform(self, attempt: SparkAttempt[TransformClaim]) -> list[TaskResult]:
        if "fold" in attempt.claim["job"]:
            return [self._run(attempt, task) for task in attempt.claim["tasks"]]
        return self._followed(attempt, self._transformed(attempt))

    def _followed(
        self,
        attempt: SparkAttempt[ParseClaim] | SparkAttempt[TransformClaim],
        results: list[TaskResult],
        so_far: FollowingProgress | None = None,
    ) -> list[TaskResult]:
        """The results of an attempt, with those of its followers."""
        claim = attempt.claim
        followers = claim["job"].get("followers")
        if not followers:
            return results
        progress = so_far or FollowingProgress({task["task"] for task in claim["tasks"]})
        if so_far is None and not progress.add(results):
            return results
        then: dict[str, list[FollowingResult]] = {}
        for follower in followers:
            if progress.is_late or not progress.fits(results):
                break
            next_claim, heads = claim_after(claim, follower, results, progress.done)
            if not heads:
                continue
            next_attempt = replace(cast("SparkAttempt[TransformClaim]", attempt), claim=next_claim)
            computed = self._transformed(next_attempt)
            if not progress.add(computed):
                break
            computed = self._followed(next_attempt, computed, progress)
            for head, after in zip(heads, with_followers(next_claim, computed), strict=True):
                then.setdefault(head, []).extend(after)
        return [{**r, "then": then[r["task"]]} if then.get(r["task"]) else r for r in results]

    def _transformed(self, attempt: SparkAttempt[TransformClaim]) -> list[TaskResult]:
        tasks, job = attempt.claim["tasks"], attempt.claim["job"]
        if is_batched(job) and len(tasks) > 1:
            is_sql = job["language"] == "sql"
            outcomes = sql_batches(attempt) if is_sql else python_batches(attempt)
        else:
            outcomes = self._transformed_singly(attempt)
        measured = measured_outcomes(attempt, outcomes)
        return [_stored(t, outcomes[task_label(t)], measured) for t in tasks]

    def _transformed_singly(self, attempt: SparkAttempt[TransformClaim]) -> Outcomes:
        tasks, job = attempt.claim["tasks"], attempt.claim["job"]
        if job["language"] == "python":
            outcomes = self._singly(attempt, tasks, partial(python_one, attempt), explain)
        else:
            explain_error = partial(explain_sql, attempt)
            outcomes = self._singly(attempt, tasks, partial(sql_one, attempt), explain_error)
        is_keyed = "key" in job and is_by_key(job)
        return with_own_keys(attempt, outcomes) if is_keyed else outcomes

    def _pack(self, attempt: SparkAttempt[PackClaim]) -> list[TaskResult]:
        tasks = attempt.claim["tasks"]
        measured = measured_outcomes(
            attempt, self._singly(attempt, tasks, partial(pack_one, attempt), explain)
        )
        return [task_result(t, proven(t, measured[task_label(t)])) for t in tasks]

    def _run(self, attempt: SparkAttempt[TransformClaim], task: TransformTask) -> TaskResult:
        """A task of a fold, and those after it."""
        is_sql = attempt.claim["job"]["language"] == "sql"
        work = partial(sql_one if is_sql else python_one, attempt)
        explain_error: Explain = partial(explain_sql, attempt) if is_sql else explain
        steps = run(
            attempt,
            task,
            lambda t: _run_one(attempt, t, work, explain_error),
            partial(measured_outcomes, attempt),
        )
        head, *then = [task_result(spec, outcome) for spec, outcome in steps]
        return with_run(attempt.claim["job"], head, task, then)

    def _singly(
        self,
        attempt: SparkAttempt[DriverClaim],
        tasks: Sequence[Task],
        work: Callable[[Task], Stored | TaskError],
        explain_error: Explain,
    ) -> Outcomes:
        """Each task as a job of its own, some at a time."""

        def outcome_of(task: Task) -> Stored | TaskError:
            return _run_one(attempt, task, work, explain_error)

        if len(tasks) == 1:
            return {task_label(tasks[0]): outcome_of(tasks[0])}
        return dict(zip(map(task_label, tasks), self._jobs.map(outcome_of, tasks), strict=True))


def _not_mine(claim: WorkerClaim) -> ValueError:
    """mypy names the kind of a driver that `_run_claim` has forgotten."""
    return ValueError(f"not the work of a driver: {claim['kind']}")


def _refused(claim: Claim) -> dict[str, TaskResult]:
    """Results of tasks with source objects that may not be read: a listing may be older than an
    allow list."""
    if claim["kind"] not in ("parse", "infer"):
        return {}
    places, refused = Places.of(os.environ, claim["lake"]), dict[str, TaskResult]()
    for task in claim["tasks"]:
        try:
            places.check_objects(task["objects"])
        except TaskFailure as e:
            refused[task["task"]] = task_result(task, error_of(e))
    return refused


def _parsed(attempt: SparkAttempt[ParseClaim]) -> list[TaskResult]:
    return _with_reader(attempt, lambda work: work.parse(attempt))


def _inferred(attempt: SparkAttempt[InferClaim]) -> list[TaskResult]:
    return _with_reader(attempt, lambda work: work.infer(attempt))


def _with_reader(
    attempt: SparkAttempt[SourceClaim], perform: Callable[[SourceWork], list[TaskResult]]
) -> list[TaskResult]:
    """The work of the job's connector. A package that it lacks is the outcome of all tasks."""
    try:
        work = reader(connector_of(attempt.claim["job"]))
    except Exception as e:  # noqa: BLE001  # the outcome of all tasks
        error = explain_reading(attempt, e)
        return [task_result(task, error) for task in attempt.claim["tasks"]]
    return perform(work)


def _run_one(
    attempt: SparkAttempt[DriverClaim],
    task: Task,
    work: Callable[[Task], Stored | TaskError],
    explain_error: Explain,
) -> Stored | TaskError:
    """One task as a job of its own."""
    try:
        attempt.enter()
        return work(task)
    except Cancelled:
        raise
    except Failed as e:
        return e.error
    except Exception as e:  # noqa: BLE001  # any failure is the outcome of this task
        attempt.check()
        return explain_error(e)


def _stored(
    task: TaskSpec,
    outcome: Stored | TaskError,
    measured: Mapping[str, MeasuredFragment | TaskError],
) -> TaskResult:
    if not isinstance(outcome, Partitioned):
        return task_result(task, measured[task_label(task)])
    outputs: dict[str, Output] = {}
    for label, key in outcome.keys.items():
        fragment = measured[label]
        if not isinstance(fragment, MeasuredFragment):
            return task_result(task, fragment)
        outputs[key] = output_of(fragment)
    files = [file for output in outputs.values() for file in output["files"]]
    content = reduce(
        Content.plus, (Content(*output["content"]) for output in outputs.values()), EMPTY
    )
    base: TaskResult = {
        "task": task["task"],
        "epoch": task["epoch"],
        "state": "done",
        "schema": outcome.schema,
    }
    return {
        **base,
        "content": list(content),
        "files": files,
        "outputs": outputs,
        "metrics": outcome.metrics,
    }


# --- work without fragments ---------------------------------------------------------------------


def _indexed(attempt: SparkAttempt[IndexClaim]) -> list[TaskResult]:
    held = index(attempt)
    return [_index_result(t, held[task_label(t)]) for t in attempt.claim["tasks"]]


def _index_result(task: TaskSpec, outcome: KeyContents | TaskError) -> TaskResult:
    if not isinstance(outcome, KeyContents):
        return task_result(task, outcome)
    return {"task": task["task"], "epoch": task["epoch"], "state": "done", "result": outcome.result}


def _analysed(attempt: SparkAttempt[AnalyseClaim]) -> list[TaskResult]:
    tasks = attempt.claim["tasks"]
    if attempt.claim["job"]["language"] == "sql":
        return answer_each(
            attempt, tasks, lambda _: analyse_sql(attempt), partial(explain_sql, attempt)
        )
    return answer_each(attempt, tasks, lambda _: analyse_python(attempt), explain)


def _checked(attempt: SparkAttempt[CheckClaim]) -> list[TaskResult]:
    answers = check(attempt)
    return [_answered(task, answers[task_label(task)]) for task in attempt.claim["tasks"]]


def _answered(task: TaskSpec, answer: CheckAnswer | TaskError) -> TaskResult:
    outcome = (
        {"state": "failed", "error": answer}
        if "condition" in answer
        else {"state": "done", "result": answer}
    )
    return cast("TaskResult", {"task": task["task"], "epoch": task["epoch"], **outcome})
