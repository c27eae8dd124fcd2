"""Fragments: writing rows below an attempt's prefix, and measuring them as they were written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession

from dataplane.contract.claims import DriverClaim
from dataplane.contract.identity import EMPTY, Content
from dataplane.contract.profiles import (
    ColumnCounts,
    Mode,
    Profile,
    Sample,
    fitting,
    merged,
    merged_sample,
    no_sample,
    nothing,
)
from dataplane.contract.results import LABEL, FileEntry, Metrics
from dataplane.contract.schemas import Field, Schema, Type, struct_of
from dataplane.errors import TaskFailure
from dataplane.fragments.attempt import Attempt
from dataplane.fragments.content import content_of, content_query, physical, profile_query, unsupported
from dataplane.fragments.content_local import Words, content, is_simple
from dataplane.fragments.distinct import Counting, Dictionaries, merged_by_name, of_tables, sketch_of
from dataplane.fragments.reading import labelled_rows
from dataplane.fragments.sampling import Drawing, samples_of_tables
from dataplane.fragments.statistics import profiled_entry
from dataplane.spark.schemas import schema_of, spark_type
from dataplane.spark.schemas import written as schema_written
from dataplane.spark.session import WRITING, reading_session
from dataplane.storage.job_folders import fragment_folder

SMALL_BYTES = 4 << 20  # of files, up to which a second task costs more than it saves
FEW_VALUES = 250_000  # up to which a job of Spark takes longer to begin than they take without (some 0.2 s)


@dataclass(frozen=True, slots=True)
class Written:
    """A task's fragment as it was stored: its files, with their sizes, if it has any row. Canonical schema."""

    schema: Schema
    files: Mapping[str, int] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=Metrics)
    taken_out: Written | None = None  # the second fragment of the task


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A task's stored fragments, one for each key that its rows have; by label."""

    schema: Schema
    keys: Mapping[str, str]
    written: Mapping[str, Written]
    metrics: Metrics = field(default_factory=Metrics)


Stored: TypeAlias = Written | Partitioned


@dataclass(frozen=True, slots=True)
class Fragment:
    """A fragment as its files are: measured, not remembered."""

    schema: Schema
    files: tuple[FileEntry, ...]
    content: Content
    metrics: Metrics
    taken_out: Fragment | None = None
    profile: Profile | None = None  # None: none was requested


# --- writing ------------------------------------------------------------------------------------


def storable(df: DataFrame, *, case_sensitive: bool, labelled: bool = False) -> DataFrame:
    """`df` with columns that files can hold: untyped NULLs become texts. TaskFailure for a column that cannot be
    stored.

    `labelled`: the last column is the label, and ours.
    """
    schema = schema_written(df)
    own, label = (schema["fields"][:-1], schema["fields"][-1:]) if labelled else (schema["fields"], [])
    _check_names([f["name"] for f in own], case_sensitive=case_sensitive)
    typed = [_typed(column) for column in own]
    for column in typed:
        if "__COLLATIONS" in column["metadata"]:
            raise TaskFailure("UNSUPPORTED_OUTPUT_TYPE", f"column {column['name']} has a collation: cast it")
        if bad := unsupported(column["type"]):
            raise TaskFailure("UNSUPPORTED_OUTPUT_TYPE", f"column {column['name']} has type {bad}: cast it")
    target = struct_of([*typed, *label])
    return df if target == schema else df.to(spark_type(target))


def _check_names(names: Sequence[str], *, case_sensitive: bool) -> None:
    if not names:
        raise TaskFailure("NO_COLUMNS", "the result has no columns")
    names_before: set[str] = set()
    for name in names:
        compared = name if case_sensitive else name.lower()
        if compared in names_before:
            raise TaskFailure("COLUMN_ALREADY_EXISTS", f"the result has two columns named {name!r}")
        names_before.add(compared)
    if LABEL in names_before:
        raise TaskFailure("RESERVED_COLUMN", f"a column may not be named {LABEL!r}")


def _typed(column: Field) -> Field:
    """With texts in place of untyped NULLs."""
    return {**column, "type": _without_void(column["type"])}


def _without_void(kind: Type) -> Type:
    if isinstance(kind, str):
        return "string" if kind == "void" else kind
    if kind["type"] == "struct":
        return {**kind, "fields": [_typed(member) for member in kind["fields"]]}
    if kind["type"] == "array":
        return {**kind, "elementType": _without_void(kind["elementType"])}
    if kind["type"] == "map":
        return {**kind, "keyType": _without_void(kind["keyType"]), "valueType": _without_void(kind["valueType"])}
    return kind


def write_one(attempt: Attempt[DriverClaim], df: DataFrame, label: str) -> Written:
    """One task's rows."""
    schema = schema_of(df)
    job = attempt.staging()
    files = _stored(attempt, job, fragment_folder(job, label), df)
    return Written(schema, files.get(label, {}))


def write_many(attempt: Attempt[DriverClaim], df: DataFrame, labels: Sequence[str]) -> dict[str, Written]:
    """The rows of several tasks, by their labels in the column `_fragment`, written as one job without a shuffle."""
    by_label = write_labelled(attempt, df)
    if strangers := by_label.keys() - set(labels):
        raise AssertionError(f"rows of no task: {sorted(strangers)[:3]}")
    schema = schema_of(df.drop(LABEL))
    return {label: by_label.get(label) or Written(schema) for label in labels}


def write_labelled(attempt: Attempt[DriverClaim], df: DataFrame) -> dict[str, Written]:
    """A fragment for each value of the column `_fragment`, which are texts that may stand in a path."""
    schema = schema_of(df.drop(LABEL))
    job = attempt.staging()
    by_label = _stored(attempt, job, job, df, LABEL)
    return {label: Written(schema, files) for label, files in by_label.items()}


def _stored(attempt: Attempt[DriverClaim], job: str, target: str, df: DataFrame, *by: str) -> dict[str, dict[str, int]]:
    """Files by label. Each job has a folder of its own, so that no other job's commit sweeps it away."""
    try:
        _configure(df.sparkSession)
        df.write.partitionBy(*by).mode(attempt.lake.begin(target)).parquet(attempt.lake.place(target))
        return attempt.lake.settle(job, attempt.prefix)
    except BaseException:
        attempt.lake.delete_folder(job)
        raise


def _configure(session: SparkSession) -> None:
    for key, value in {**WRITING, "parquet.page.write-checksum.enabled": "true"}.items():
        session.conf.set(key, value)


# --- measuring ----------------------------------------------------------------------------------


def measure(attempt: Attempt[DriverClaim], written: Mapping[str, Written]) -> dict[str, Fragment]:
    """Files, contents and profiles by label, from one pass per schema over the files as written.

    Raises if the rows read back differ from those written; files without rows are deleted.
    """
    mode = _profile_mode(attempt.claim)
    entries = _entries(attempt, written, with_counts=mode != "off")
    rows: dict[str, _Rows] = {}
    for schema, labels in by_schema(written):
        files = {label: entries[label] for label in labels if entries[label]}
        rows |= _rows(attempt, schema, files, with_sample=mode == "full")
    fragments = {
        label: _fragment(label, w, entries[label], rows.get(label, _NO_ROWS), mode) for label, w in written.items()
    }
    return fragments if mode == "off" else _reportable(fragments)


def _reportable(fragments: Mapping[str, Fragment]) -> dict[str, Fragment]:
    """With profiles that one report can carry."""
    profiles = fitting([fragment.profile or nothing() for fragment in fragments.values()])
    return {
        label: replace(fragment, profile=profile)
        for (label, fragment), profile in zip(fragments.items(), profiles, strict=True)
    }


def _profile_mode(claim: DriverClaim) -> Mode:
    """Packs hold rows of fragments that have profiles."""
    return claim["job"].get("profile", "full") if claim["kind"] in ("parse", "transform") else "off"


@dataclass(frozen=True, slots=True)
class _File:
    entry: FileEntry
    columns: dict[str, ColumnCounts]
    dictionaries: Dictionaries


@dataclass(frozen=True, slots=True)
class _Rows:
    """The results of the pass over a fragment's rows."""

    content: Content
    sample: Sample = field(default_factory=no_sample)
    distinct: Mapping[str, str] = field(default_factory=dict)  # sketches by column


_NO_ROWS = _Rows(EMPTY)


def _fragment(label: str, written: Written, files: Sequence[_File], read: _Rows, mode: Mode) -> Fragment:
    rows = sum(file.entry["rows"] for file in files)
    if rows != read.content.rows:
        raise OSError(f"{rows} rows in the footers of fragment {label}, {read.content.rows} were read")
    profile = None if mode == "off" else _profile(files, read)
    entries = tuple(file.entry for file in files)
    return Fragment(written.schema, entries, read.content, written.metrics, profile=profile)


def _profile(files: Sequence[_File], read: _Rows) -> Profile:
    parts: list[Profile] = [{**nothing(), "rows": file.entry["rows"], "columns": file.columns} for file in files]
    counted = parts[0] if len(parts) == 1 else merged(parts)
    columns = dict(counted["columns"])
    for name, sketch in read.distinct.items():
        if name in columns:
            columns[name] = {**columns[name], "distinct": sketch}
    return {**counted, "columns": columns, "sample": read.sample}


def by_schema(written: Mapping[str, Written]) -> Iterator[tuple[Schema, list[str]]]:
    """Labels of fragments that have the same columns."""
    groups: dict[str, list[str]] = {}
    for label, fragment in written.items():
        groups.setdefault(str(fragment.schema), []).append(label)
    for labels in groups.values():
        yield written[labels[0]].schema, labels


def _entries(
    attempt: Attempt[DriverClaim], written: Mapping[str, Written], *, with_counts: bool
) -> dict[str, list[_File]]:
    files = [(label, path, size) for label, outcome in written.items() for path, size in sorted(outcome.files.items())]

    def look(file: tuple[str, str, int]) -> _File:
        label, path, size = file
        return _File(*profiled_entry(attempt.lake, path, size, written[label].schema, with_counts=with_counts))

    files_by_label: dict[str, list[_File]] = {label: [] for label in written}
    empty: list[str] = []
    for (label, path, _), written_file in zip(files, attempt.threads.map(look, files), strict=True):
        if written_file.entry["rows"]:
            files_by_label[label].append(written_file)
        else:
            empty.append(path)
    attempt.lake.delete(empty)
    return files_by_label


def _rows(
    attempt: Attempt[DriverClaim], schema: Schema, files: Mapping[str, Sequence[_File]], *, with_sample: bool
) -> dict[str, _Rows]:
    entries = [file.entry for of_label in files.values() for file in of_label]
    if not entries:
        return {}
    is_small = sum(entry["size"] for entry in entries) <= SMALL_BYTES
    has_few = sum(entry["rows"] for entry in entries) * len(schema["fields"]) <= FEW_VALUES
    if is_small and has_few and is_simple(schema):
        rows = _of_few_rows(attempt, schema, files, with_sample=with_sample)
        if rows is not None:
            return rows
    return _by_spark(attempt, schema, files, is_small=is_small, with_sample=with_sample)


def _of_few_rows(
    attempt: Attempt[DriverClaim], schema: Schema, files: Mapping[str, Sequence[_File]], *, with_sample: bool
) -> dict[str, _Rows] | None:
    """The contents, samples and sketches of files read into memory; None if only Spark can hash one of them."""

    def look(entry: FileEntry) -> tuple[pa.Table, Content | None]:
        table = _table(attempt, entry)
        return table, content(schema, table)

    labels = [label for label, of_label in files.items() for _ in of_label]
    every = [file.entry for of_label in files.values() for file in of_label]
    looks = list(attempt.threads.map(look, every))
    contents = [own for _, own in looks if own is not None]
    if len(contents) < len(every):
        return None
    tables = [table for table, _ in looks]
    samples = samples_of_tables(schema, tables, every[0]["path"]) if with_sample else repeat(no_sample())
    sketches = of_tables(schema, tables) if with_sample else repeat({})
    rows = dict.fromkeys(files, _NO_ROWS)
    for label, own, sample, sketch in zip(labels, contents, samples, sketches, strict=False):  # some have no end
        before = rows[label]
        if before.content.rows:
            sample = merged_sample([before.sample, sample])
            sketch = merged_by_name(before.distinct, sketch)
        rows[label] = _Rows(before.content.plus(own), sample, sketch)
    return rows


def _table(attempt: Attempt[DriverClaim], entry: FileEntry) -> pa.Table:
    source = attempt.lake.open(entry["path"], entry["size"])
    with pyarrow.parquet.ParquetFile(source, page_checksum_verification=True) as file:
        return file.read(use_threads=False)


def _by_spark(
    attempt: Attempt[DriverClaim],
    schema: Schema,
    files: Mapping[str, Sequence[_File]],
    *,
    is_small: bool,
    with_sample: bool,
) -> dict[str, _Rows]:
    """`is_small`: one Spark task does it all, so that nothing is shuffled."""
    session = reading_session(attempt.spark)
    session.conf.set("spark.sql.parquet.ignoreVariantAnnotation", "true")
    labelled = [(file.entry["path"], label) for label, of_label in files.items() for file in of_label]
    rows = labelled_rows(attempt, session, labelled, physical(schema))
    (rows.coalesce(1) if is_small else rows).createTempView("written")
    if not with_sample:
        counts = session.sql(content_query(schema, "written")).collect()
        return {row[0]: _Rows(content_of(*row[1:])) for row in counts}
    every = [file for of_label in files.values() for file in of_label]
    total = sum(file.entry["rows"] for file in every)
    drawing = Drawing.of(schema, total, len(files))
    counting = Counting.of(schema, [file.dictionaries for file in every], total, len(files))
    query = profile_query(schema, "written", drawing.marks, counting.columns(), counting.aggregates())
    rows_by_label = dict.fromkeys(files, _NO_ROWS)
    for label, count, low1, high1, low2, high2, drawn, *values in session.sql(query).collect():
        sums = content_of(count, low1, high1, low2, high2)
        rows_by_label[label] = _Rows(sums, drawing.sample(count, drawn), counting.sketches(values))
    for label, by_name in _stored_distinct(attempt, counting, files).items():
        rows_by_label[label] = replace(rows_by_label[label], distinct={**rows_by_label[label].distinct, **by_name})
    return rows_by_label


def _stored_distinct(
    attempt: Attempt[DriverClaim], counting: Counting, files: Mapping[str, Sequence[_File]]
) -> dict[str, dict[str, str]]:
    """By label and column: sketches of the values in the dictionaries of files."""

    def look(written: _File) -> dict[str, Words]:
        source = attempt.lake.open(written.entry["path"], written.entry["size"])
        with pa.OSFile(source) if isinstance(source, str) else pa.PythonFile(source, "r") as file:
            return counting.stored_in(file, written.dictionaries)

    every = attempt.threads.map(look, [stored for of_label in files.values() for stored in of_label])
    sketches_by_label: dict[str, dict[str, str]] = {}
    for label, of_label in files.items():
        looks = [next(every) for _ in of_label]
        sketches_by_label[label] = {name: sketch_of([stored[name] for stored in looks]) for name in counting.stored}
    return sketches_by_label
