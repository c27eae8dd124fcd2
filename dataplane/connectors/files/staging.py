"""Files of formats that Spark does not read, or not exactly: rewritten as CSV into the scratch
folder of an attempt, and read as CSV files from there. Files that it cannot reach are copied before.

So columns are typed, inferred and refused by the rules of CSV. A file that is no longer the listed
one is noticed while it is rewritten.
"""

from __future__ import annotations

import csv
import io
import itertools
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from dataplane.connectors.files.bad_rows import BadRows
from dataplane.connectors.files.copies import CopyStage, is_copied
from dataplane.connectors.files.row_bounds import SOURCE_BYTES
from dataplane.connectors.files.row_process_runs import write_rows
from dataplane.connectors.files.source_bytes import are_unchanged, open_source, plain, reported_path
from dataplane.connectors.files.stages import Claim, Full, Stage, in_place_of, in_rounds
from dataplane.contract.jobs import SourceJob
from dataplane.contract.results import TaskResult
from dataplane.contract.source_objects import SourceObject
from dataplane.contract.staged_formats import (
    STAGED,
    FixedOptions,
    StagedOptions,
    staged_options,
)
from dataplane.fragments.attempt import Cancelled
from dataplane.listing.encodings import codec_of
from dataplane.storage.source_stores import Moved
from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    from dataplane.contract.claims import ObjectsTask
    from dataplane.fragments.spark.spark_attempt import SparkAttempt

MOST_BYTES = 2 << 30  # of a file as CSV
LINE_CHARACTERS = 4_000_000  # of a line of fixed width
DIALECT = {"quote": '"', "escape": '"', "multiLine": "true"}
CHUNK = 1 << 20


def staged(
    attempt: SparkAttempt[Claim], work: Callable[[SparkAttempt[Claim]], list[TaskResult]]
) -> list[TaskResult]:
    """The results of work over the files as Spark can read them: of most formats, and in most
    places, as they are."""
    rewritten = work
    if attempt.claim["job"]["format"] in STAGED:
        rewritten = partial(in_rounds, work=work, stage_of=_CsvStage)
    tasks = cast("Sequence[ObjectsTask]", attempt.claim["tasks"])
    objects = (source for task in tasks for source in task["objects"])
    if any(is_copied(source) for source in objects):
        return in_rounds(attempt, rewritten, CopyStage)
    return rewritten(attempt)


class _CsvStage(Stage):
    """The files of one job as CSV in a folder."""

    def __init__(
        self,
        folder: Path,
        job: SourceJob,
        tasks: Sequence[ObjectsTask],
        cancelled: threading.Event,
    ) -> None:
        super().__init__(folder, job, tasks, cancelled)
        self.job = cast("SourceJob", {**job, "format": "csv", "options": self._dialect()})
        self._numbers = itertools.count()  # several tasks may read one file

    def _dialect(self) -> dict[str, str]:
        return {**DIALECT, "header": str(self._has_header).lower()}

    @property
    def _has_header(self) -> bool:
        is_sheet = self.listed_job["format"] == "xlsx"
        return (
            not is_sheet or str(self.listed_job["options"].get("header", "false")).lower() == "true"
        )

    def staged(self, source: SourceObject) -> SourceObject:
        options = _options(self.listed_job)
        place = reported_path(source)
        target = self.folder / f"{next(self._numbers)}.csv"
        try:
            columns = self._write(source, options, target)
        except (Moved, TaskFailure, Full, Cancelled) as e:
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
        if not are_unchanged(self.listed_job, [source]):
            raise Moved(place)
        self.space.take(target.stat().st_size)
        self.note_place(target, place)
        # Columns of a file without a header have places: it may have fewer than the dataset
        own = None if self._has_header else [f"_c{i}" for i in range(columns)]
        return in_place_of(source, target, own)

    @staticmethod
    def _placed(failure: Exception, place: str) -> Exception:
        """A failure with the place of its file."""
        if not isinstance(failure, TaskFailure) or failure.condition != "file-too-large":
            return failure
        return TaskFailure(failure.condition, f"{place}: {failure.message}", file=place)

    def _fault(self, source: SourceObject, failure: TaskFailure) -> TaskFailure | Moved:
        """The failure of a file, if it still is the one that was listed."""
        return failure if are_unchanged(self.listed_job, [source]) else Moved(reported_path(source))

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
                    self.space.take(len(chunk))
                    if size > SOURCE_BYTES:
                        raise ValueError(f"it takes more than {SOURCE_BYTES >> 20} MiB unpacked")
                    output.write(chunk)
            job = self.listed_job
            return write_rows(job["format"], (copy, target), job["options"], self.cancelled)
        finally:
            copy.unlink(missing_ok=True)
            self.space.give_back(size)

    @contextmanager
    def _opened(self, source: SourceObject) -> Iterator[BinaryIO]:
        with open_source(self.listed_job, source) as file:
            is_archive = self.listed_job["format"] == "xlsx"
            yield file if is_archive else plain(file, reported_path(source))


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
