"""Files in the scratch folder of an attempt that stand for listed ones which Spark cannot read: in
rounds that have space for them."""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from dataplane.connectors.files.source_bytes import reported_path
from dataplane.contract.jobs import SourceJob
from dataplane.contract.results import TaskError, TaskResult
from dataplane.contract.source_objects import SourceObject
from dataplane.fragments.attempt import Cancelled
from dataplane.fragments.task_results import VOID, task_result
from dataplane.storage.source_stores import Moved
from dataplane.task_failures import TaskFailure, error_of

if TYPE_CHECKING:
    from dataplane.contract.claims import InferClaim, ObjectsTask, ParseClaim
    from dataplane.fragments.spark.spark_attempt import SparkAttempt

Claim = TypeVar("Claim", "ParseClaim", "InferClaim")
SPACE_BYTES = 8 << 30  # of all files of a round


class Full(Exception):
    """The files of a round would take more than they may."""


class _Postponed:
    """A task whose files found no space beside those of others."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Refused:
    """A task without files to read: its error, or VOID."""

    outcome: TaskError | str


class _Space:
    """Bytes that the files of a round may take together."""

    def __init__(self) -> None:
        self._left, self._lock = SPACE_BYTES, threading.Lock()

    def take(self, size: int) -> None:
        with self._lock:
            self._left -= size
            if self._left < 0:
                raise Full

    def give_back(self, size: int) -> None:
        with self._lock:
            self._left += size


class Stage(ABC):
    """The files of some tasks of one job in a folder. `job` reads them."""

    job: SourceJob

    def __init__(
        self,
        folder: Path,
        job: SourceJob,
        tasks: Sequence[ObjectsTask],
        cancelled: threading.Event,
    ) -> None:
        self.folder, self.listed_job, self.tasks = folder, job, tasks
        self.space = _Space()
        self.cancelled = cancelled
        self._places: dict[str, str] = {}  # by path: the places of the files behind them

    @abstractmethod
    def staged(self, source: SourceObject) -> SourceObject:
        """The file in place of a listed one. Full, Moved, or TaskFailure."""

    def check(self) -> None:
        """Cancelled once the attempt is."""
        if self.cancelled.is_set():
            raise Cancelled("files were made ready")

    def outcome(self, task: ObjectsTask) -> ObjectsTask | _Refused | _Postponed:
        """The task with files that can be read."""
        try:
            return {**task, "objects": [self.staged(source) for source in task["objects"]]}
        except Cancelled:
            raise
        except Full:
            return _Postponed()
        except Moved:
            return _Refused(VOID)
        except Exception as e:  # noqa: BLE001  # any fault of a file is its task's outcome
            return _Refused(error_of(e))

    def note_place(self, path: Path, place: str) -> None:
        """Errors name `place` where they would name `path`."""
        self._places[str(path)] = place

    def reported(self, report: TaskResult) -> TaskResult:
        """A result with the places of files as users know them."""
        if report["state"] != "failed":
            return report
        return {**report, "error": cast("TaskError", self._renamed(report["error"]))}

    def _renamed(self, error: TaskError) -> Mapping[str, object]:
        texts = dict[str, object](error)
        for name, text in error.items():
            if isinstance(text, str):
                for path, place in self._places.items():
                    text = text.replace(path, place)
                texts[name] = text
        return texts


def in_place_of(
    source: SourceObject, path: Path, columns: Sequence[str] | None = None
) -> SourceObject:
    """A file in place of the object that was listed: with its name, time and folders; with these
    columns, unless None."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    own: dict[str, object] = {
        "uri": path.as_uri(),
        "size": path.stat().st_size,
        "version": f"sha256:{digest}",
    }
    if columns is not None:
        own["columns"] = columns
    return cast("SourceObject", {**source, **own})


def in_rounds(
    attempt: SparkAttempt[Claim],
    work: Callable[[SparkAttempt[Claim]], list[TaskResult]],
    stage_of: type[Stage],
) -> list[TaskResult]:
    """The results of work over the files of a stage. Tasks whose files find no space beside those
    of others follow in another round."""
    check_executors(attempt)
    tasks = cast("Sequence[ObjectsTask]", attempt.claim["tasks"])
    results: dict[str, TaskResult] = {}
    rounds = [tasks]
    while rounds:
        some = rounds.pop()
        results |= _round(attempt, some, work, stage_of)
        waiting = [task for task in some if task["task"] not in results]
        half = len(waiting) // 2 if len(waiting) == len(some) else 0
        rounds += filter(None, (waiting[half:], waiting[:half]))
    return [results[task["task"]] for task in tasks]


def check_executors(attempt: SparkAttempt[Claim]) -> None:
    if not str(attempt.spark.sparkContext.master).startswith("local"):
        kind = attempt.claim["job"]["format"]
        message = f"files of format {kind}, of servers or in archives, are not read by executors elsewhere"
        raise TaskFailure("not-supported", f"{message}: set spark.master to local[*]")


def _round(
    attempt: SparkAttempt[Claim],
    tasks: Sequence[ObjectsTask],
    work: Callable[[SparkAttempt[Claim]], list[TaskResult]],
    stage_of: type[Stage],
) -> dict[str, TaskResult]:
    """Results of the tasks whose files find space together; of a single task in any case."""
    attempt.scratch.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="staged-", dir=attempt.scratch))
    stage = stage_of(folder, attempt.claim["job"], tasks, attempt.cancelled)
    try:
        outcomes = list(attempt.threads.map(stage.outcome, tasks))
        ready = [o for o in outcomes if not isinstance(o, _Refused | _Postponed)]
        claim = {**attempt.claim, "job": stage.job, "tasks": ready}
        read = work(dataclasses.replace(attempt, claim=claim)) if ready else []  # type: ignore[arg-type]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    left = iter(read)
    results: dict[str, TaskResult] = {}
    for task, outcome in zip(tasks, outcomes, strict=True):
        if isinstance(outcome, _Postponed) and len(tasks) == 1:
            outcome = _Refused(error_of(_too_large(task)))
        if isinstance(outcome, _Refused):
            results[task["task"]] = task_result(task, outcome.outcome)
        elif not isinstance(outcome, _Postponed):
            results[task["task"]] = stage.reported(next(left))
    return results


def _too_large(task: ObjectsTask) -> TaskFailure:
    place = reported_path(task["objects"][0])
    message = (
        f"{place} and the files read with it take more than {SPACE_BYTES >> 20} MiB of scratch"
    )
    return TaskFailure("file-too-large", f"{message}: read fewer in one partition", file=place)
