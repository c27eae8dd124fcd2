"""Fragments: writing rows below an attempt's prefix, and measuring them as they were written.

Does not belong here: where rows come from, statistics of files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from dataplane.contract.identity import EMPTY, Content
from dataplane.contract.results import LABEL, FileEntry
from dataplane.contract.schemas import Json, Schema, canonical_schema
from dataplane.errors import TaskFailure
from dataplane.fragments.attempt import Attempt
from dataplane.fragments.content import content_of, content_query, physical, unsupported
from dataplane.fragments.content_local import content, is_simple
from dataplane.fragments.reading import labelled_rows
from dataplane.fragments.statistics import file_entry
from dataplane.spark.session import WRITING, reading_session
from dataplane.storage.job_folders import fragment_folder

SMALL_BYTES = 4 << 20  # of files, up to which a second task costs more than it saves
FEW_VALUES = 250_000  # up to which a job of Spark takes longer to begin than they take without (some 0.2 s)


@dataclass(frozen=True, slots=True)
class Written:
    """A task's fragment as it was stored: its files, with their sizes, if it has any row. Canonical schema."""

    schema: Schema
    files: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, Json] = field(default_factory=dict)
    taken_out: Written | None = None  # the second fragment of the task


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A task's stored fragments, one for each key that its rows have; by label."""

    schema: Schema
    keys: Mapping[str, str]
    written: Mapping[str, Written]
    metrics: Mapping[str, Json] = field(default_factory=dict)


Stored: TypeAlias = Written | Partitioned


@dataclass(frozen=True, slots=True)
class Fragment:
    """A fragment as its files are: measured, not remembered."""

    schema: Schema
    files: tuple[FileEntry, ...]
    content: Content
    metrics: Mapping[str, Json]
    taken_out: Fragment | None = None


# --- writing ------------------------------------------------------------------------------------


def storable(df: DataFrame, *, case_sensitive: bool, labelled: bool = False) -> DataFrame:
    """`df` with columns that files can hold: untyped NULLs become texts. TaskFailure for what cannot be stored.

    `labelled`: the last column is the label, and ours.
    """
    schema = df.schema.jsonValue()
    own, label = (schema["fields"][:-1], schema["fields"][-1:]) if labelled else (schema["fields"], [])
    _check_names([f["name"] for f in own], case_sensitive=case_sensitive)
    typed = _without_void({**schema, "fields": own})
    for column in typed["fields"]:
        if "__COLLATIONS" in column["metadata"]:
            raise TaskFailure("UNSUPPORTED_OUTPUT_TYPE", f"column {column['name']!r} has a collation: cast it")
        if bad := unsupported(column["type"]):
            raise TaskFailure("UNSUPPORTED_OUTPUT_TYPE", f"column {column['name']!r} has type {bad}: cast it")
    whole = {**typed, "fields": [*typed["fields"], *label]}
    return df if whole == schema else df.to(StructType.fromJson(whole))


def _check_names(names: Sequence[str], *, case_sensitive: bool) -> None:
    if not names:
        raise TaskFailure("NO_COLUMNS", "the result has no columns")
    seen: set[str] = set()
    for name in names:
        known = name if case_sensitive else name.lower()
        if known in seen:
            raise TaskFailure("COLUMN_ALREADY_EXISTS", f"the result has two columns named {name!r}")
        seen.add(known)
    if LABEL in seen:
        raise TaskFailure("RESERVED_COLUMN", f"a column may not be named {LABEL!r}")


def _without_void(kind: Json) -> Json:
    if not isinstance(kind, Mapping):
        return "string" if kind == "void" else kind
    fields = {"fields": [{**f, "type": _without_void(f["type"])} for f in kind["fields"]]} if "fields" in kind else {}
    return {
        **kind,
        **fields,
        **{k: _without_void(kind[k]) for k in ("elementType", "keyType", "valueType") if k in kind},
    }


def write_one(attempt: Attempt, df: DataFrame, label: str) -> Written:
    """One task's rows."""
    schema = canonical_schema(df.schema.jsonValue())
    job = attempt.staging()
    found = _stored(attempt, job, fragment_folder(job, label), df)
    return Written(schema, found.get(label, {}))


def write_many(attempt: Attempt, df: DataFrame, labels: Sequence[str]) -> dict[str, Written]:
    """The rows of several tasks, told apart by the column `_fragment`, as one job without a shuffle."""
    found = write_labelled(attempt, df)
    if strangers := found.keys() - set(labels):
        raise AssertionError(f"rows of no task: {sorted(strangers)[:3]}")
    schema = canonical_schema(df.drop(LABEL).schema.jsonValue())
    return {label: found.get(label) or Written(schema) for label in labels}


def write_labelled(attempt: Attempt, df: DataFrame) -> dict[str, Written]:
    """A fragment for each value of the column `_fragment`, which are texts that may stand in a path."""
    schema = canonical_schema(df.drop(LABEL).schema.jsonValue())
    job = attempt.staging()
    found = _stored(attempt, job, job, df, LABEL)
    return {label: Written(schema, files) for label, files in found.items()}


def _stored(attempt: Attempt, job: str, target: str, df: DataFrame, *by: str) -> dict[str, dict[str, int]]:
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


def measure(attempt: Attempt, written: Mapping[str, Written]) -> dict[str, Fragment]:
    """Files and contents by label, from one pass per schema over the files as written.

    Raises if what is read back is not what was written; files without rows are deleted.
    """
    entries = _entries(attempt, written)
    contents = dict.fromkeys(written, EMPTY)
    for schema, labels in by_schema(written):
        contents.update(_contents(attempt, schema, {label: entries[label] for label in labels if entries[label]}))
    for label, found in entries.items():
        rows = sum(e["rows"] for e in found)
        if rows != contents[label].rows:
            raise OSError(f"{rows} rows in the footers of fragment {label}, {contents[label].rows} were read")
    return {k: Fragment(w.schema, tuple(entries[k]), contents[k], w.metrics) for k, w in written.items()}


def by_schema(written: Mapping[str, Written]) -> Iterator[tuple[Schema, list[str]]]:
    """Labels of fragments that have the same columns."""
    groups: dict[str, list[str]] = {}
    for label, one in written.items():
        groups.setdefault(str(one.schema), []).append(label)
    for labels in groups.values():
        yield written[labels[0]].schema, labels


def _entries(attempt: Attempt, written: Mapping[str, Written]) -> dict[str, list[FileEntry]]:
    files = [(label, path, size) for label, one in written.items() for path, size in sorted(one.files.items())]
    entries = attempt.threads.map(lambda f: file_entry(attempt.lake, f[1], f[2], written[f[0]].schema), files)
    result: dict[str, list[FileEntry]] = {label: [] for label in written}
    empty: list[str] = []
    for (label, path, _), entry in zip(files, entries, strict=True):
        if entry["rows"]:
            result[label].append(entry)
        else:
            empty.append(path)
    attempt.lake.delete(empty)
    return result


def _contents(attempt: Attempt, schema: Schema, files: Mapping[str, Sequence[FileEntry]]) -> dict[str, Content]:
    entries = [entry for of_label in files.values() for entry in of_label]
    if not entries:
        return {}
    is_small = sum(entry["size"] for entry in entries) <= SMALL_BYTES
    has_few = sum(entry["rows"] for entry in entries) * len(schema["fields"]) <= FEW_VALUES
    found = _of_few_rows(attempt, schema, files) if is_small and has_few and is_simple(schema) else None
    return _by_spark(attempt, schema, files, is_small=is_small) if found is None else found


def _of_few_rows(
    attempt: Attempt, schema: Schema, files: Mapping[str, Sequence[FileEntry]]
) -> dict[str, Content] | None:
    """None if it takes Spark to tell."""
    every = [(label, entry) for label, entries in files.items() for entry in entries]
    found = dict.fromkeys(files, EMPTY)
    contents = attempt.threads.map(lambda one: content(schema, _table(attempt, one[1])), every)
    for (label, _), one in zip(every, contents, strict=True):
        if one is None:
            return None
        found[label] = found[label].plus(one)
    return found


def _table(attempt: Attempt, entry: FileEntry) -> pa.Table:
    source = attempt.lake.open(entry["path"], entry["size"])
    with pyarrow.parquet.ParquetFile(source, page_checksum_verification=True) as file:
        return file.read(use_threads=False)


def _by_spark(
    attempt: Attempt, schema: Schema, files: Mapping[str, Sequence[FileEntry]], *, is_small: bool
) -> dict[str, Content]:
    """`is_small`: one Spark task does it all, so that nothing is shuffled."""
    session = reading_session(attempt.spark)
    session.conf.set("spark.sql.parquet.ignoreVariantAnnotation", "true")
    labelled = [(entry["path"], label) for label, entries in files.items() for entry in entries]
    rows = labelled_rows(attempt, session, labelled, physical(schema))
    (rows.coalesce(1) if is_small else rows).createTempView("written")
    found = session.sql(content_query(schema, "written")).collect()
    return {row[0]: content_of(*row[1:]) for row in found}
