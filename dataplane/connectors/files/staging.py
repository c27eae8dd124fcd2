"""Files of formats that Spark does not read, or not exactly: rewritten as CSV into the scratch
folder of an attempt, and read as CSV files from there.

So columns are typed, inferred and refused by the rules of CSV. A file that is no longer the listed
one is noticed while it is rewritten.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import itertools
import shutil
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

from dataplane.connectors.files.bad_rows import BadRows
from dataplane.connectors.files.row_bounds import SOURCE_BYTES
from dataplane.connectors.files.row_process_runs import write_rows
from dataplane.connectors.files.source_bytes import are_unchanged, open_source, plain, reported_path
from dataplane.contract.jobs import SourceJob
from dataplane.contract.results import TaskError, TaskResult
from dataplane.contract.source_objects import SourceObject
from dataplane.contract.staged_formats import (
    STAGED,
    FixedOptions,
    StagedOptions,
    staged_options,
)
from dataplane.fragments.attempt import Cancelled
from dataplane.fragments.task_results import VOID, task_result
from dataplane.listing.encodings import codec_of
from dataplane.storage.source_stores import Moved
from dataplane.task_failures import TaskFailure, error_of

if TYPE_CHECKING:
    from dataplane.contract.claims import InferClaim, ObjectsTask, ParseClaim
    from dataplane.fragments.spark.spark_attempt import SparkAttempt

Claim = TypeVar("Claim", "ParseClaim", "InferClaim")
MOST_BYTES = 2 << 30  # of a file as CSV
LINE_CHARACTERS = 4_000_000  # of a line of fixed width
DIALECT = {"quote": '"', "escape": '"', "multiLine": "true"}
SPACE_BYTES = 8 << 30  # of all files of a round, as copies and as CSV
CHUNK = 1 << 20


def staged(
    attempt: SparkAttempt[Claim], work: Callable[[SparkAttempt[Claim]], list[TaskResult]]
) -> list[TaskResult]:
    """The results of work over the files as Spark can read them: of most formats as they are.

    Tasks whose files find no space beside those of others follow in another round.
    """
    if attempt.claim["job"]["format"] not in STAGED:
        return work(attempt)
    _check_place(attempt)
    tasks = cast("Sequence[ObjectsTask]", attempt.claim["tasks"])
    results: dict[str, TaskResult] = {}
    rounds = [tasks]
    while rounds:
        some = rounds.pop()
        results |= _round(attempt, some, work)
        waiting = [task for task in some if task["task"] not in results]
        half = len(waiting) // 2 if len(waiting) == len(some) else 0
        rounds += filter(None, (waiting[half:], waiting[:half]))
    return [results[task["task"]] for task in tasks]


def _round(
    attempt: SparkAttempt[Claim],
    tasks: Sequence[ObjectsTask],
    work: Callable[[SparkAttempt[Claim]], list[TaskResult]],
) -> dict[str, TaskResult]:
    """Results of the tasks whose files find space together; of a single task in any case."""
    attempt.scratch.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="staged-", dir=attempt.scratch))
    stage = _Stage(folder, attempt.claim["job"], attempt.cancelled)
    try:
        outcomes = list(attempt.threads.map(stage.outcome, tasks))
        ready = [o for o in outcomes if not isinstance(o, _Refused | _Postponed)]
        claim = {**attempt.claim, "job": stage.job, "tasks": ready}
        read = work(dataclasses.replace(attempt, claim=claim)) if ready else []  # type: ignore[arg-type]
    finally:
        shutil.rmtree(stage.folder, ignore_errors=True)
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
    message = f"{place} and the files read with it take more than {SPACE_BYTES >> 20} MiB as CSV"
    return TaskFailure("file-too-large", f"{message}: read fewer in one partition", file=place)


def _check_place(attempt: SparkAttempt[Claim]) -> None:
    if not str(attempt.spark.sparkContext.master).startswith("local"):
        kind = attempt.claim["job"]["format"]
        message = f"files of format {kind} are not read by executors elsewhere"
        raise TaskFailure("not-supported", f"{message}: set spark.master to local[*]")


@dataclasses.dataclass(frozen=True, slots=True)
class _Refused:
    """A task without files to read: its error, or VOID."""

    outcome: TaskError | str


class _Postponed:
    """A task whose files found no space beside those of others."""


class _Full(Exception):
    """The files of a round would take more than they may."""


class _Space:
    """Bytes that the files of a round may take together."""

    def __init__(self) -> None:
        self._left, self._lock = SPACE_BYTES, threading.Lock()

    def take(self, size: int) -> None:
        with self._lock:
            self._left -= size
            if self._left < 0:
                raise _Full

    def give_back(self, size: int) -> None:
        with self._lock:
            self._left += size


class _Stage:
    """The files of one job as CSV in a folder. `job` reads them."""

    def __init__(self, folder: Path, job: SourceJob, cancelled: threading.Event) -> None:
        self.folder, self._job, self._cancelled = folder, job, cancelled
        self.job = {**job, "format": "csv", "options": self._dialect()}
        self._space = _Space()
        self._numbers = itertools.count()  # several tasks may read one file
        self._paths: dict[str, str] = {}  # of CSV files: the places of the files behind them

    def _dialect(self) -> dict[str, str]:
        return {**DIALECT, "header": str(self._has_header).lower()}

    @property
    def _has_header(self) -> bool:
        is_sheet = self._job["format"] == "xlsx"
        return not is_sheet or str(self._job["options"].get("header", "false")).lower() == "true"

    def outcome(self, task: ObjectsTask) -> ObjectsTask | _Refused | _Postponed:
        """The task with its files as CSV."""
        try:
            options = _options(self._job)
            return {**task, "objects": [self._object(o, options) for o in task["objects"]]}
        except Cancelled:
            raise
        except _Full:
            return _Postponed()
        except Moved:
            return _Refused(VOID)
        except Exception as e:  # noqa: BLE001  # whatever is wrong with a file is its task's outcome
            return _Refused(error_of(e))

    def _object(self, source: SourceObject, options: StagedOptions) -> SourceObject:
        place = reported_path(source)
        target = self.folder / f"{next(self._numbers)}.csv"
        try:
            columns = self._write(source, options, target)
        except (Moved, TaskFailure, _Full, Cancelled) as e:
            target.unlink(missing_ok=True)
            raise self._placed(e, place) from e
        except BadRows as e:
            where = f"{place}: line {e.line}" if e.line else place
            text = f"{where}: {e}"
            failure = TaskFailure(e.condition, text, file=place, line=e.line)
            raise self._fault(source, failure) from e
        except (ValueError, OSError, EOFError, zlib.error) as e:
            failure = TaskFailure("MALFORMED_FILE", f"{place}: not readable: {e}", file=place)
            raise self._fault(source, failure) from e
        if not are_unchanged(self._job, [source]):
            raise Moved(place)
        self._space.take(target.stat().st_size)
        self._paths[str(target)] = place
        # Columns of a file without a header have places: it may have fewer than the dataset
        own = None if self._has_header else [f"_c{i}" for i in range(columns)]
        return _as_listed(source, target, own)

    @staticmethod
    def _placed(failure: Exception, place: str) -> Exception:
        """A failure with the place of its file."""
        if not isinstance(failure, TaskFailure) or failure.condition != "file-too-large":
            return failure
        return TaskFailure(failure.condition, f"{place}: {failure.message}", file=place)

    def _fault(self, source: SourceObject, failure: TaskFailure) -> TaskFailure | Moved:
        """The failure of a file, if it still is the one that was listed."""
        return failure if are_unchanged(self._job, [source]) else Moved(reported_path(source))

    def _write(self, source: SourceObject, options: StagedOptions, target: Path) -> int:
        """The number of columns."""
        if isinstance(options, FixedOptions):
            with self._opened(source) as file:
                _write_fixed(file, options, target)
            return len(options.columns)
        copy, size = target.with_suffix(".source"), 0
        try:
            with self._opened(source) as file, copy.open("wb") as output:
                while chunk := file.read(CHUNK):
                    size += len(chunk)
                    self._space.take(len(chunk))
                    if size > SOURCE_BYTES:
                        raise ValueError(f"it takes more than {SOURCE_BYTES >> 20} MiB unpacked")
                    output.write(chunk)
            job = self._job
            return write_rows(job["format"], (copy, target), job["options"], self._cancelled)
        finally:
            copy.unlink(missing_ok=True)
            self._space.give_back(size)

    @contextmanager
    def _opened(self, source: SourceObject) -> Iterator[BinaryIO]:
        with open_source(self._job, source) as file:
            is_archive = self._job["format"] == "xlsx"
            yield file if is_archive else plain(file, reported_path(source))

    def reported(self, report: TaskResult) -> TaskResult:
        """A result with the places of files as users know them."""
        if report["state"] != "failed":
            return report
        return {**report, "error": cast("TaskError", self._renamed(report["error"]))}

    def _renamed(self, error: TaskError) -> Mapping[str, object]:
        texts = dict[str, object](error)
        for name, text in error.items():
            if isinstance(text, str):
                for path, place in self._paths.items():
                    text = text.replace(path, place)
                texts[name] = text
        return texts


def _as_listed(source: SourceObject, target: Path, columns: Sequence[str] | None) -> SourceObject:
    """The CSV file in place of the object that was listed: with its name, time and folders."""
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    own = {"uri": target.as_uri(), "size": target.stat().st_size, "version": f"sha256:{digest}"}
    if columns is not None:
        return cast("SourceObject", {**source, **own, "columns": columns})
    return cast("SourceObject", {**source, **own})


def _options(job: SourceJob) -> StagedOptions:
    try:
        return staged_options(job["format"], job["options"])
    except ValueError as e:
        raise TaskFailure("bad-options", str(e)) from e


# --- fixed width ----------------------------------------------------------------------------------


def _write_fixed(file: BinaryIO, options: FixedOptions, target: Path) -> None:
    """Lines as rows. One that is too short has a cell too many, so that it is a malformed
    record."""
    columns = options.columns
    end = max(column.end for column in columns)
    with target.open("w", encoding="utf-8", newline="") as output:
        writer = csv.writer(output, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow([column.name for column in columns])
        for line in _lines(file, options.encoding):
            if len(line) < end:
                writer.writerow([*[""] * len(columns), line])
            else:
                writer.writerow([line[c.start : c.end].strip(" ") for c in columns])
            if output.tell() > MOST_BYTES:
                raise ValueError(f"its rows take more than {MOST_BYTES >> 20} MiB")


def _lines(file: BinaryIO, encoding: str) -> Iterator[str]:
    """Lines that are not blank, without their ends."""
    try:
        text = io.TextIOWrapper(file, codec_of(encoding, b""), "strict", newline=None)
    except LookupError as e:
        raise TaskFailure("bad-options", f"there is no encoding {encoding!r}") from e
    number = characters = 0
    try:
        while line := text.readline(LINE_CHARACTERS):
            number, characters = number + 1, characters + len(line)
            if len(line) >= LINE_CHARACTERS or characters > MOST_BYTES:
                raise ValueError(f"line {number} is too long, or there are too many lines")
            if line.strip():
                yield line.rstrip("\n")
    finally:
        text.detach()
