"""Fragments measured as their files are: sizes, contents, profiles.

Few rows of simple types are hashed in memory, by Arrow. Contents of others were observed while they
were written, or are hashed by a function of the caller's: with Spark, or not at all. One of some
fragments whose contents were observed is read back all the same, by chance.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import repeat
from typing import TypeAlias

import pyarrow as pa

from dataplane.contract.claims import DriverClaim
from dataplane.contract.identity import EMPTY, Content
from dataplane.contract.jobs import EventTimeRule
from dataplane.contract.profiles import (
    Mode,
    Profile,
    Sample,
    fitting,
    merged,
    merged_sample,
    no_sample,
    nothing,
)
from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import Schema
from dataplane.contract.source_objects import listed_at_ms
from dataplane.fragments.arrow import raw_batches
from dataplane.fragments.attempt import Attempt, task_label
from dataplane.fragments.content_local import content, is_simple
from dataplane.fragments.dictionaries import check_pages
from dataplane.fragments.distinct import merged_by_name, of_tables
from dataplane.fragments.event_times import event_times
from dataplane.fragments.file_profiles import is_readable, profiles_of_files
from dataplane.fragments.sampling import samples_of_tables
from dataplane.fragments.statistics import profiled_entry, read_footer
from dataplane.fragments.written import MeasuredFile, MeasuredFragment, Written, by_schema
from dataplane.storage.lake import Lake
from dataplane.task_failures import TaskFailure

SMALL_BYTES = 4 << 20  # of files, up to which a second task costs more than it saves
# Up to which a job of Spark takes longer to begin than they take without (some 0.2 s)
FEW_VALUES = 250_000
FEW_BYTES = 64 << 20  # of rows in memory
READ_BACK = "HEADGATE_READ_BACK"
READ_BACK_RATE = 100


@dataclass(frozen=True, slots=True)
class MeasuredRows:
    """The results of the pass over a fragment's rows."""

    content: Content
    sample: Sample = field(default_factory=no_sample)
    distinct: Mapping[str, str] = field(default_factory=dict)  # sketches by column


NO_ROWS = MeasuredRows(EMPTY)

# The contents, samples and sketches of files of one schema, by label; the last argument: with
# samples and sketches.
HashRows: TypeAlias = Callable[
    [Schema, Mapping[str, Sequence[MeasuredFile]], bool], dict[str, MeasuredRows]
]


def is_small(entries: Iterable[FileEntry]) -> bool:
    """Whether one task reads these files sooner than several do."""
    return sum(entry["size"] for entry in entries) <= SMALL_BYTES


def measure(
    attempt: Attempt[DriverClaim], written: Mapping[str, Written], hash_rows: HashRows
) -> dict[str, MeasuredFragment]:
    """Files, contents and profiles by label, from one pass per schema over the files as written.

    `hash_rows` reads the rows that are not hashed in memory. Raises if the rows read back differ
    from those written; files without rows are deleted.
    """
    mode = _profile_mode(attempt.claim)
    entries = _entries(attempt, written, with_counts=mode != "off")
    rows: dict[str, MeasuredRows] = {}
    for schema, labels in by_schema(written):
        files = {label: entries[label] for label in labels if entries[label]}
        observed = {
            label: content
            for label, of_label in files.items()
            if (content := written[label].observed) is not None
            and content.rows == sum(file.entry["rows"] for file in of_label)
        }
        rows |= _rows(attempt, schema, files, observed, hash_rows, with_sample=mode == "full")
    fragments = {
        label: _fragment(label, w, entries[label], rows.get(label, NO_ROWS), mode)
        for label, w in written.items()
    }
    return fragments if mode == "off" else _reportable(fragments)


def _reportable(fragments: Mapping[str, MeasuredFragment]) -> dict[str, MeasuredFragment]:
    """With profiles that one report can carry."""
    profiles = fitting([fragment.profile or nothing() for fragment in fragments.values()])
    return {
        label: replace(fragment, profile=profile)
        for (label, fragment), profile in zip(fragments.items(), profiles, strict=True)
    }


def _profile_mode(claim: DriverClaim) -> Mode:
    """Packs hold rows of fragments that have profiles."""
    return claim["job"].get("profile", "full") if claim["kind"] in ("parse", "transform") else "off"


def _fragment(
    label: str, written: Written, files: Sequence[MeasuredFile], read: MeasuredRows, mode: Mode
) -> MeasuredFragment:
    rows = sum(file.entry["rows"] for file in files)
    if rows != read.content.rows:
        raise OSError(
            f"{rows} rows in the footers of fragment {label}, {read.content.rows} were read"
        )
    profile = None if mode == "off" else _profile(files, read)
    entries = tuple(file.entry for file in files)
    return MeasuredFragment(written.schema, entries, read.content, written.metrics, profile=profile)


def _profile(files: Sequence[MeasuredFile], read: MeasuredRows) -> Profile:
    parts: list[Profile] = [
        {**nothing(), "rows": file.entry["rows"], "columns": file.columns} for file in files
    ]
    counted = parts[0] if len(parts) == 1 else merged(parts)
    columns = dict(counted["columns"])
    for name, sketch in read.distinct.items():
        if name in columns:
            columns[name] = {**columns[name], "distinct": sketch}
    return {**counted, "columns": columns, "sample": read.sample}


def _entries(
    attempt: Attempt[DriverClaim], written: Mapping[str, Written], *, with_counts: bool
) -> dict[str, list[MeasuredFile]]:
    files = [
        (label, path, size)
        for label, outcome in written.items()
        for path, size in sorted(outcome.files.items())
    ]

    times = _Times.of(attempt)

    def look(file: tuple[str, str, int]) -> MeasuredFile:
        label, path, size = file
        schema = written[label].schema
        file_profile = profiled_entry(attempt.lake, path, size, schema, with_counts=with_counts)
        described, columns, dictionaries = file_profile
        return MeasuredFile(times.added(label, described, schema), columns, dictionaries)

    files_by_label: dict[str, list[MeasuredFile]] = {label: [] for label in written}
    empty: list[str] = []
    for (label, path, _), written_file in zip(files, attempt.threads.map(look, files), strict=True):
        if written_file.entry["rows"]:
            files_by_label[label].append(written_file)
        else:
            empty.append(path)
    attempt.lake.delete(empty)
    return files_by_label


@dataclass(frozen=True, slots=True)
class _Times:
    """Adds event times to the files of slices. `listed_ms` by label."""

    lake: Lake
    rule: EventTimeRule | None = None
    listed_ms: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(attempt: Attempt[DriverClaim]) -> _Times:
        claim = attempt.claim
        if claim["kind"] != "parse" or "event_time" not in claim["job"]:
            return _Times(attempt.lake)
        listed_ms = {task_label(task): listed_at_ms(task["objects"]) for task in claim["tasks"]}
        return _Times(attempt.lake, claim["job"]["event_time"], listed_ms)

    def added(self, label: str, file: FileEntry, schema: Schema) -> FileEntry:
        if self.rule is None or label not in self.listed_ms or not file["rows"]:
            return file
        times = event_times(self.lake, file, schema, self.rule, self.listed_ms[label])
        return file if times is None else {**file, "times": times}


def _rows(
    attempt: Attempt[DriverClaim],
    schema: Schema,
    files: Mapping[str, Sequence[MeasuredFile]],
    observed: Mapping[str, Content],
    hash_rows: HashRows,
    *,
    with_sample: bool,
) -> dict[str, MeasuredRows]:
    """`observed` are contents of the rows that were written, as many as the footers say."""
    entries = [file.entry for of_label in files.values() for file in of_label]
    if not entries:
        return {}
    has_few = sum(entry["rows"] for entry in entries) * len(schema["fields"]) <= FEW_VALUES
    if is_small(entries) and has_few and is_simple(schema):
        rows = rows_in_memory(attempt, schema, files, with_sample=with_sample)
        if rows is not None:
            return rows
    if with_sample and not is_readable(schema, entries):
        return _agreeing(hash_rows(schema, files, True), observed)
    rows = _contents(attempt, schema, files, observed, hash_rows, is_decoded=with_sample)
    if not with_sample:
        return rows
    profiles = profiles_of_files(attempt, schema, files)
    return {
        label: MeasuredRows(rows[label].content, *profile) for label, profile in profiles.items()
    }


def _contents(
    attempt: Attempt[DriverClaim],
    schema: Schema,
    files: Mapping[str, Sequence[MeasuredFile]],
    observed: Mapping[str, Content],
    hash_rows: HashRows,
    *,
    is_decoded: bool,
) -> dict[str, MeasuredRows]:
    """`is_decoded`: all pages are read elsewhere."""
    unread = {label for label in observed if not is_read_back(attempt.claim["attempt"], label)}
    others = {label: of_label for label, of_label in files.items() if label not in unread}
    rows = _agreeing(hash_rows(schema, others, False), observed) if others else {}
    if not is_decoded:
        written = [file for label in unread for file in files[label]]
        list(attempt.threads.map(partial(_check_file, attempt.lake), written))
    return rows | {label: MeasuredRows(observed[label]) for label in unread}


def _agreeing(
    rows: dict[str, MeasuredRows], observed: Mapping[str, Content]
) -> dict[str, MeasuredRows]:
    """OSError where the rows of files are not those that their writer took."""
    for label, read in rows.items():
        if read.content != observed.get(label, read.content):
            raise OSError(f"fragment {label} has other rows than were written")
    return rows


def _check_file(lake: Lake, file: MeasuredFile) -> None:
    path, size = file.entry["path"], file.entry["size"]
    footer = read_footer(lake, path, size)
    source = lake.open(path, size)
    with pa.OSFile(source) if isinstance(source, str) else pa.PythonFile(source, "r") as opened:
        check_pages(opened, footer)


def is_read_back(attempt: str, label: str) -> bool:
    """Whether a fragment is one of those that are read back: the same ones in each run."""
    number = int.from_bytes(sha256(f"{attempt}/{label}".encode()).digest()[:8])
    return number % _read_back_rate() == 0


def _read_back_rate() -> int:
    text = os.environ.get(READ_BACK) or str(READ_BACK_RATE)
    if not (text.isascii() and text.isdigit() and int(text[:20]) > 0):
        message = f"{READ_BACK} is a number from 1 up, not {text[:40]!r}: one of so many fragments is read back"
        raise TaskFailure("read-back-invalid", message, "infrastructure")
    return int(text[:20])


def rows_in_memory(
    attempt: Attempt[DriverClaim],
    schema: Schema,
    files: Mapping[str, Sequence[MeasuredFile]],
    *,
    with_sample: bool,
) -> dict[str, MeasuredRows] | None:
    """The contents, samples and sketches of files read into memory; None if only Spark can hash one
    of them, or they are more than FEW_BYTES there."""
    memory = _RowsInMemory()

    def look(entry: FileEntry) -> tuple[pa.Table, Content] | None:
        table = memory.table(attempt.lake, entry)
        own = None if table is None else content(schema, table)
        return None if table is None or own is None else (table, own)

    labels = [label for label, of_label in files.items() for _ in of_label]
    every = [file.entry for of_label in files.values() for file in of_label]
    read = [rows for rows in attempt.threads.map(look, every) if rows is not None]
    if len(read) < len(every):
        return None
    tables = [table for table, _ in read]
    contents = [own for _, own in read]
    samples = (
        samples_of_tables(schema, tables, every[0]["path"]) if with_sample else repeat(no_sample())
    )
    sketches = of_tables(schema, tables) if with_sample else repeat({})
    rows = dict.fromkeys(files, NO_ROWS)
    # Some have no end
    for label, own, sample, sketch in zip(labels, contents, samples, sketches, strict=False):
        before = rows[label]
        if before.content.rows:
            sample = merged_sample([before.sample, sample])
            sketch = merged_by_name(before.distinct, sketch)
        rows[label] = MeasuredRows(before.content.plus(own), sample, sketch)
    return rows


class _RowsInMemory:
    """The bytes of rows that are held at once, from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left = FEW_BYTES

    def table(self, lake: Lake, entry: FileEntry) -> pa.Table | None:
        """The rows of a file; None where there is no room for them. TaskFailure for a file that is
        not as it was written."""
        batches: list[pa.RecordBatch] = []
        for batch in raw_batches(lake.open(entry["path"], entry["size"])):
            if not self._has_room(batch.nbytes):
                return None
            batches.append(batch)
        return pa.Table.from_batches(batches)

    def _has_room(self, size: int) -> bool:
        with self._lock:
            self._left -= size
            return self._left >= 0
