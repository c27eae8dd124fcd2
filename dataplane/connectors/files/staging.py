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
import json
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

from dataplane.connectors.files import excel_bounds
from dataplane.connectors.files.source_bytes import are_unchanged, open_source, plain, reported_path
from dataplane.connectors.files.xml_rows import BadXml, write_xml_rows
from dataplane.contract.jobs import SourceJob
from dataplane.contract.results import TaskError, TaskResult
from dataplane.contract.source_objects import SourceObject
from dataplane.contract.staged_formats import (
    STAGED,
    ExcelOptions,
    FixedOptions,
    StagedOptions,
    XmlOptions,
    staged_options,
)
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
PROCESS = "dataplane.connectors.files.excel_process"


def staged(
    attempt: SparkAttempt[Claim], work: Callable[[SparkAttempt[Claim]], list[TaskResult]]
) -> list[TaskResult]:
    """The results of work over the files as Spark can read them: of most formats as they are."""
    job = attempt.claim["job"]
    if job["format"] not in STAGED:
        return work(attempt)
    _check_place(attempt)
    stage = _Stage(attempt.scratch / "staged", job)
    tasks = cast("Sequence[ObjectsTask]", attempt.claim["tasks"])
    try:
        outcomes = list(attempt.threads.map(stage.outcome, tasks))
        ready = [outcome for outcome in outcomes if not isinstance(outcome, _Refused)]
        claim = {**attempt.claim, "job": stage.job, "tasks": ready}
        results = work(dataclasses.replace(attempt, claim=claim)) if ready else []  # type: ignore[arg-type]
    finally:
        shutil.rmtree(stage.folder, ignore_errors=True)
    left = iter(results)
    return [
        task_result(task, outcome.outcome)
        if isinstance(outcome, _Refused)
        else stage.reported(next(left))
        for task, outcome in zip(tasks, outcomes, strict=True)
    ]


def _check_place(attempt: SparkAttempt[Claim]) -> None:
    if not str(attempt.spark.sparkContext.master).startswith("local"):
        kind = attempt.claim["job"]["format"]
        message = f"files of format {kind} are not read by executors elsewhere"
        raise TaskFailure("not-supported", f"{message}: set spark.master to local[*]")


@dataclasses.dataclass(frozen=True, slots=True)
class _Refused:
    """A task without files to read: its error, or VOID."""

    outcome: TaskError | str


class _Stage:
    """The files of one job as CSV in a folder. `job` reads them."""

    def __init__(self, folder: Path, job: SourceJob) -> None:
        self.folder, self._job = folder, job
        self.job = {**job, "format": "csv", "options": self._dialect()}
        self._numbers = itertools.count()  # several tasks may read one file
        self._paths: dict[str, str] = {}  # of CSV files: the places of the files behind them
        folder.mkdir(parents=True)

    def _dialect(self) -> dict[str, str]:
        is_plain = self._job["format"] == "xlsx"
        header = str(self._job["options"].get("header", "false")).lower() if is_plain else "true"
        return {**DIALECT, "header": header}

    def outcome(self, task: ObjectsTask) -> ObjectsTask | _Refused:
        """The task with its files as CSV."""
        try:
            options = _options(self._job)
            return {**task, "objects": [self._object(o, options) for o in task["objects"]]}
        except Moved:
            return _Refused(VOID)
        except Exception as e:  # noqa: BLE001  # whatever is wrong with a file is its task's outcome
            return _Refused(error_of(e))

    def _object(self, source: SourceObject, options: StagedOptions) -> SourceObject:
        place = reported_path(source)
        target = self.folder / f"{next(self._numbers)}.csv"
        try:
            self._write(source, options, target)
        except (Moved, TaskFailure):
            raise
        except BadXml as e:
            failure = TaskFailure(
                "MALFORMED_FILE", f"{place}: line {e.line}: {e}", file=place, line=e.line
            )
            raise self._fault(source, failure) from e
        except (ValueError, OSError, EOFError, zlib.error, zipfile.BadZipFile) as e:
            failure = TaskFailure("MALFORMED_FILE", f"{place}: not readable: {e}", file=place)
            raise self._fault(source, failure) from e
        if not are_unchanged(self._job, [source]):
            raise Moved(place)
        self._paths[str(target)] = place
        return _as_listed(source, target)

    def _fault(self, source: SourceObject, failure: TaskFailure) -> TaskFailure:
        """The failure of a file, if it still is the one that was listed."""
        return failure if are_unchanged(self._job, [source]) else Moved(reported_path(source))

    def _write(self, source: SourceObject, options: StagedOptions, target: Path) -> None:
        match options:
            case ExcelOptions():
                self._write_sheet(source, target)
            case FixedOptions():
                with self._opened(source) as file:
                    _write_fixed(file, options, target)
            case XmlOptions():
                write_xml_rows(partial(self._opened, source), target, options.row_tag, MOST_BYTES)

    @contextmanager
    def _opened(self, source: SourceObject) -> Iterator[BinaryIO]:
        with open_source(self._job, source) as file:
            yield plain(file, reported_path(source))

    def _write_sheet(self, source: SourceObject, target: Path) -> None:
        copy = target.with_suffix(".xlsx")
        with open_source(self._job, source) as file, copy.open("wb") as output:
            shutil.copyfileobj(file, output, 1 << 20)
        _check_workbook(copy)
        options = json.dumps(dict(self._job["options"]))
        command = [sys.executable, "-m", PROCESS, str(copy), str(target), options]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        copy.unlink()
        _check_end(done, reported_path(source))

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


def _as_listed(source: SourceObject, target: Path) -> SourceObject:
    """The CSV file in place of the object that was listed: with its name, time and folders."""
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    own = {"uri": target.as_uri(), "size": target.stat().st_size, "version": f"sha256:{digest}"}
    return cast("SourceObject", {**source, **own})


def _options(job: SourceJob) -> StagedOptions:
    try:
        return staged_options(job["format"], job["options"])
    except ValueError as e:
        raise TaskFailure("bad-options", str(e)) from e


# --- Excel ----------------------------------------------------------------------------------------


def _check_workbook(path: Path) -> None:
    """ValueError for a file that is no workbook of Excel, or says itself that it is too large. The
    process that reads it is bounded, whatever the file says."""
    with path.open("rb") as file:
        if not file.read(4).startswith(b"PK"):
            raise ValueError(
                "it is no .xlsx file (older .xls files and encrypted ones are not read)"
            )
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    if len(members) > excel_bounds.MOST_MEMBERS:
        raise ValueError(f"it has more than {excel_bounds.MOST_MEMBERS} parts")
    if sum(member.file_size for member in members) > excel_bounds.UNPACKED_BYTES:
        raise ValueError(f"it takes more than {excel_bounds.UNPACKED_BYTES >> 20} MiB unpacked")


def _check_end(done: subprocess.CompletedProcess[str], path: str) -> None:
    if not done.returncode:
        return
    if "ModuleNotFoundError" in done.stderr:
        message = "files of format xlsx need: pip install 'headgate[excel]'"
        raise TaskFailure("missing-package", message, "infrastructure")
    if done.returncode > 0 and not any(text in done.stderr for text in _TOO_MUCH):
        raise ValueError((done.stderr.strip().splitlines() or ["no workbook of Excel"])[-1][:500])
    memory, disk = excel_bounds.MEMORY_BYTES >> 20, excel_bounds.DISK_BYTES >> 20
    message = f"{path}: the sheet needs more than {memory} MiB of memory, {disk} MiB as CSV, or {excel_bounds.CPU_S} s"
    raise TaskFailure("file-too-large", f"{message}: give a `range`, or save it as CSV", file=path)


# Of errors in the process: of memory, of the size of a file
_TOO_MUCH = ("MemoryError", "capacity overflow", "File too large")


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
