"""The `parse` kind of work: source files into fragments, as many as possible in one Spark job.

Tasks with the same columns are one job; in it, files with the same columns in the same order are
one scan.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from dataplane.connectors.files.checked_numbers import CheckedNumbers
from dataplane.connectors.files.exact import NANOS_AS_LONG, TOO_FINE, exact, read_type
from dataplane.connectors.files.folder_columns import PLACE, FolderColumns
from dataplane.connectors.files.folder_types import unfit
from dataplane.connectors.files.footers import FORMATS, footer_types
from dataplane.connectors.files.loading import PATH, loaded, loaded_labelled
from dataplane.connectors.files.numbers import NOT_HELD, NUMBER_NOT_HELD
from dataplane.connectors.files.reader_options import CORRUPT, RECORD_TEXT, has_header, reader
from dataplane.connectors.files.source_bytes import one_of, open_source, reported_path
from dataplane.connectors.files.times_of_day import as_texts, clock_columns, error, first_times
from dataplane.contract.claims import ParseClaim, ParseTask
from dataplane.contract.jobs import ParseJob, SourceJob
from dataplane.contract.joins import join
from dataplane.contract.results import FILE, LABEL, Metrics, TaskError
from dataplane.contract.schemas import (
    NO_COLUMNS,
    Field,
    Schema,
    Type,
    canonical_schema,
    column_names,
    field_of,
    field_types,
    struct_of,
)
from dataplane.contract.source_objects import SourceObject, is_folder_column
from dataplane.contract.types import NANOS, FileType, TypeRefusal, fit, held, in_words, refusal
from dataplane.fragments.attempt import isolate, task_label
from dataplane.fragments.content import quoted
from dataplane.fragments.file_links import OBJECT
from dataplane.fragments.spark.row_conditions import (
    nothing_written,
    record_text,
    sorted_out,
    write_kept,
    write_sorted_out,
)
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.fragments.spark.writing import keep_files_open
from dataplane.fragments.written import Written
from dataplane.spark.spark_errors import ErrorSource, explain
from dataplane.spark.spark_schemas import type_of_column
from dataplane.spark.spark_session import reading_session
from dataplane.storage.source_stores import BUFFER_BYTES
from dataplane.task_failures import TaskFailure, error_of

LIST_CHARACTERS = 1000  # of a list of JSON that are kept with each of its elements
_LIST = r"\A\s*\["
_RESERVED = "__headgate"  # names of columns that readers add begin so
_MISFIT = "__headgate_misfit"  # the fault of the folders of a row's file
_FILE_NAME, _MODIFIED = "__headgate_file", "__headgate_modified"  # of the file of a row
_METADATA = {"name": ("_source_name", "string"), "modified": ("_source_modified", "timestamp")}


@dataclass(frozen=True, slots=True)
class Scan:
    """Files that one reader reads together, with the labels of their tasks: all hold these columns
    in this order.

    `types` are those of the files, of columns that are read under another type than the dataset's.
    """

    columns: tuple[str, ...]
    types: Mapping[str, FileType]
    objects: Sequence[tuple[str, SourceObject]]
    folders: FolderColumns

    @property
    def has_nanos(self) -> bool:
        return any(name in json.dumps(self.types) for name in NANOS)


def parse(
    attempt: SparkAttempt[ParseClaim], tasks: Sequence[ParseTask]
) -> dict[str, Written | TaskError]:
    """A fragment or an error for each task, by label. The caller searches the bytes of the files
    for numbers that their inferred type does not hold."""
    return _parsed(attempt, tasks, CheckedNumbers.beside_search)


def parse_checking_numbers(
    attempt: SparkAttempt[ParseClaim], tasks: Sequence[ParseTask]
) -> dict[str, Written | TaskError]:
    """A fragment or an error for each task, by label. Each text of an inferred number is
    checked."""
    return _parsed(attempt, tasks, CheckedNumbers.of)


def _parsed(
    attempt: SparkAttempt[ParseClaim],
    tasks: Sequence[ParseTask],
    numbers_of: Callable[[ParseJob, ParseTask], CheckedNumbers],
) -> dict[str, Written | TaskError]:
    outcomes: dict[str, Written | TaskError] = {}
    for some in alike(tasks):
        batch = _Batch(attempt, some[0], numbers_of(attempt.claim["job"], some[0]))
        refused = reserved_columns(some) | batch.misplaced(some)
        refused |= batch.refused([t for t in some if task_label(t) not in refused])
        readable = [t for t in some if task_label(t) not in refused]
        outcomes |= refused
        outcomes |= isolate(attempt, readable, batch.run, batch.explain) if readable else {}
    return outcomes


def reserved_columns(tasks: Sequence[ParseTask]) -> dict[str, TaskError]:
    """Errors of tasks with a column that would be taken for one of the reader's, by label."""
    failures = {task_label(task): _reserved_column(task) for task in tasks}
    return {label: error_of(failure) for label, failure in failures.items() if failure}


def _reserved_column(task: ParseTask) -> TaskFailure | None:
    """Columns of the dataset, and those of the files that the dataset lacks."""
    names = set(column_names(task["columns"]))
    for source in task["objects"]:
        names.update(source["columns"] or ())
    reserved = sorted(name for name in names if name.lower().startswith(_RESERVED))
    if not reserved:
        return None
    message = f"{one_of(task['objects'])} has the column {reserved[0]!r}"
    hint = f"names that begin with {_RESERVED} are reserved: rename it"
    return TaskFailure("RESERVED_COLUMN", f"{message}: {hint}")


def times_of_day(
    attempt: SparkAttempt[ParseClaim], tasks: Sequence[ParseTask]
) -> dict[str, TaskError]:
    """Errors of tasks whose files have times without a day, by label. Reads the files once more."""
    errors: dict[str, TaskError] = {}
    for some in alike(tasks):
        batch = _Batch(
            attempt, some[0], CheckedNumbers.beside_search(attempt.claim["job"], some[0])
        )
        errors |= batch.times_of_day(some)
    return errors


def as_expected(
    attempt: SparkAttempt[ParseClaim],
    rows: DataFrame,
    labels: Sequence[str],
    result: Schema,
    lacking: Schema,
    bad_records: DataFrame | None = None,
) -> dict[str, Written]:
    """The fragments of labelled rows, of which those are left out that are not as they are expected
    to be. `bad_records`: as in `write_sorted_out`."""
    expect = attempt.claim["job"].get("expect")
    if not expect:
        return write_kept(attempt, rows, labels)
    expected = sorted_out(
        rows.withColumns({f["name"]: _absent(f) for f in lacking["fields"]}), expect
    )
    own = expected.select(*(F.col(quoted(f["name"])) for f in result["fields"]), LABEL)
    return write_sorted_out(attempt, own, labels, bad_records)


def alike(tasks: Sequence[ParseTask]) -> Iterator[list[ParseTask]]:
    """Tasks whose fragments have the same columns."""
    groups: dict[str, list[ParseTask]] = {}
    for task in tasks:
        groups.setdefault(
            json.dumps([task["columns"], task.get("lacking"), task.get("inferred")]), []
        ).append(task)
    yield from groups.values()


class _Batch:
    """Work on tasks whose own columns are `schema`; rows are dropped by columns that they lack,
    too."""

    def __init__(
        self, attempt: SparkAttempt[ParseClaim], task: ParseTask, numbers: CheckedNumbers
    ) -> None:
        self._attempt = attempt
        self._schema, self._lacking = (
            canonical_schema(task["columns"]),
            task.get("lacking") or NO_COLUMNS,
        )
        self._format, self._options = (
            attempt.claim["job"]["format"],
            attempt.claim["job"]["options"],
        )
        self._result = _with_metadata(self._schema, attempt.claim["job"]["metadata"])
        self._numbers = numbers
        self._inferred = task.get("inferred", ())
        # In files that have some of others than the dataset's, by URI
        self._types: dict[str, dict[str, FileType]] = {}

    def explain(self, error: BaseException) -> TaskError:
        record = explain(error, ErrorSource(reads="sources", renamed=self._attempt.renamed))
        if record["condition"] != "USER_RAISED_EXCEPTION":
            return record
        words = {TOO_FINE: "time-too-fine", NOT_HELD: NUMBER_NOT_HELD}
        condition = next(
            (own for word, own in words.items() if word in record["message"]), record["condition"]
        )
        return {**record, "condition": condition}

    def refused(self, tasks: Sequence[ParseTask]) -> dict[str, TaskError]:
        """Errors of tasks whose files have types that the dataset's do not hold: Spark would
        misread some of them without a word."""
        if self._format not in FORMATS:
            return {}
        outcomes = self._attempt.threads.map(self._looked_at, tasks)
        return {
            task_label(task): error for task, error in zip(tasks, outcomes, strict=True) if error
        }

    def _looked_at(self, task: ParseTask) -> TaskError | None:
        try:
            for source in task["objects"]:
                types = other_types(self._attempt.claim["job"], source, self._schema)
                if types:
                    self._types[source["uri"]] = types
        except Exception as e:  # noqa: BLE001  # any fault of a file is its task's outcome
            return self.explain(e)
        return None

    def misplaced(self, tasks: Sequence[ParseTask]) -> dict[str, TaskError]:
        """Errors of tasks with a file in a folder whose value its column cannot have."""
        if self._drops:
            return {}
        failures = {
            task_label(t): next(filter(None, map(self._unfit, t["objects"])), None) for t in tasks
        }
        return {label: self.explain(failure) for label, failure in failures.items() if failure}

    def _unfit(self, source: SourceObject) -> TaskFailure | None:
        """A value of the file's folders that its column cannot have."""
        return unfit(source, reported_path(source), field_types(self._schema), self._inferred)

    def run(self, tasks: Sequence[ParseTask]) -> dict[str, Written]:
        """All these tasks as one job."""
        attempt, labels = self._attempt, [task_label(t) for t in tasks]
        attempt.enter()
        session = reading_session(attempt.spark, attempt.claim["job"]["timezone"])
        for name, value in NANOS_AS_LONG.items():
            session.conf.set(name, value)
        scans = self._scans(session, tasks)
        keep_files_open(session, len(self._result["fields"]))
        if not scans or not self._result["fields"]:
            return {label: nothing_written(attempt, self._result) for label in labels}
        read = [self._load(session, scan) for scan in scans]
        rows = reduce(
            DataFrame.unionAll,
            [self._shaped(df, scan) for df, scan in zip(read, scans, strict=True)],
        )
        bad_records = None
        if self._quarantines:
            bad = [self._bad_records(df, scan) for df, scan in zip(read, scans, strict=True)]
            bad_records = reduce(DataFrame.unionAll, bad)
        written = as_expected(attempt, rows, labels, self._result, self._lacking, bad_records)
        is_counted = self._quarantines or not self._drops
        return written if is_counted else with_dropped(written, read)

    def times_of_day(self, tasks: Sequence[ParseTask]) -> dict[str, TaskError]:
        attempt = self._attempt
        attempt.enter()
        session = reading_session(attempt.spark, attempt.claim["job"]["timezone"])
        errors: dict[str, TaskError] = {}
        for scan in self._scans(session, tasks):
            columns = [
                c
                for c in clock_columns(self._format, self._options, self._schema)
                if c in scan.columns
            ]
            if not columns:
                continue
            source = reader(session, self._format, self._options).option("mode", "PERMISSIVE")
            texts = as_texts(self._typed(scan))
            rows = loaded_labelled(attempt, session, source, scan.objects, texts, numbered=False)
            for label, *times in first_times(rows, columns, LABEL).collect():
                for column, value in zip(columns, times, strict=True):
                    if value is not None:
                        errors.setdefault(
                            label,
                            error(
                                one_of([o for of, o in scan.objects if of == label]), column, value
                            ),
                        )
        return errors

    @property
    def _drops(self) -> bool:
        """Whether bad records are marked and left out, and are no errors."""
        is_text = self._format in ("csv", "json")
        return is_text and self._attempt.claim["job"]["on_bad_record"] != "fail"

    @property
    def _quarantines(self) -> bool:
        return self._attempt.claim["job"]["on_bad_record"] == "quarantine"

    # what is read together

    def _scans(self, session: SparkSession, tasks: Sequence[ParseTask]) -> list[Scan]:
        groups: dict[tuple[tuple[str, ...], str], list[tuple[str, SourceObject]]] = {}
        for task in tasks:
            for source in task["objects"]:
                types = json.dumps(self._types_in(source), sort_keys=True)
                group = groups.setdefault((self._columns_in(session, source), types), [])
                group.append((task_label(task), source))
        return [self._scan(columns, objects) for (columns, _), objects in groups.items()]

    def _scan(self, columns: tuple[str, ...], objects: Sequence[tuple[str, SourceObject]]) -> Scan:
        sources = [source for _, source in objects]
        return Scan(
            columns, self._types_in(sources[0]), objects, FolderColumns.of(sources, self._format)
        )

    def _types_in(self, source: SourceObject) -> Mapping[str, FileType]:
        return self._types.get(source["uri"], {})

    def _columns_in(self, session: SparkSession, source: SourceObject) -> tuple[str, ...]:
        """The columns to give the reader for one file: those of CSV have places, all others
        names."""
        names, own = column_names(self._schema), source["columns"]
        if self._format != "csv" and own is None:
            return names
        if self._format in ("text", "binary"):
            return tuple(name for name in names if name in (own or ()))
        folder_names = {
            key for key, _ in source.get("folders", ()) if is_folder_column(source, key)
        }
        names = tuple(name for name in names if name not in folder_names)
        if self._format != "csv":
            return names
        if not has_header("csv", self._options):
            return names if own is None else names[: len(own)]
        return tuple(own) if own is not None else self._asks_spark(session, source)

    def _asks_spark(self, session: SparkSession, source: SourceObject) -> tuple[str, ...]:
        """The header as Spark reads it, one file at a time: only for headers that the listing could
        not determine."""
        return tuple(
            loaded(self._attempt, session, reader(session, "csv", self._options), [source]).columns
        )

    # how it is read

    def _load(self, session: SparkSession, scan: Scan) -> DataFrame:
        """The rows of a scan as they are in its files, with the label and, where metadata or values
        of folders are needed, the facts of the file."""
        metadata = self._attempt.claim["job"]["metadata"]
        is_reported = bool(metadata or scan.folders.names or self._quarantines)
        source = reader(session, self._format, self._options)
        if self._drops:
            source = source.option("mode", "PERMISSIVE")
        schema = None if self._format == "binary" else self._typed(scan)
        rows = loaded_labelled(
            self._attempt,
            session,
            source,
            scan.objects,
            schema,
            numbered=is_reported,
            located=scan.has_nanos,
        )
        if self._quarantines:
            rows = rows.withColumn(RECORD_TEXT, _record_of(scan.columns, self._format))
        rows = self._numbers.read(rows, scan.columns, CORRUPT if self._drops else None)
        self._attempt.rename(_path_of_label(scan.objects))
        if not is_reported:
            return rows
        rows = rows.join(F.broadcast(self._objects(session, scan)), OBJECT)
        return (
            rows.withColumn(CORRUPT, F.coalesce(F.col(_MISFIT), F.col(CORRUPT)))
            if self._drops
            else rows
        )

    def _objects(self, session: SparkSession, scan: Scan) -> DataFrame:
        """One row for each file of a scan, by number: path, misfit, metadata, values of folders."""
        folders, facts = scan.folders, []
        for number, (_, source) in enumerate(scan.objects):
            failure = self._unfit(source) if self._drops else None
            common = (
                number,
                reported_path(source),
                failure and failure.message,
                source["name"],
                source["modified_ms"],
            )
            facts.append((*common, *folders.row(source)))
        kinds = (
            f"{OBJECT} INT, {PLACE} STRING, {_MISFIT} STRING, "
            f"{_FILE_NAME} STRING, {_MODIFIED} BIGINT"
        )
        rows = session.createDataFrame(facts, kinds + folders.kinds)
        columns = {"name": F.col(_FILE_NAME), "modified": F.timestamp_millis(_MODIFIED)}
        metadata = self._attempt.claim["job"]["metadata"]
        return rows.withColumns({_METADATA[key][0]: columns[key] for key in metadata})

    def _typed(self, scan: Scan) -> Schema:
        """The schema of a scan's files. Columns that are not needed are texts: each value fits
        them."""
        kinds = {f["name"]: _read_under(f, scan.types) for f in self._schema["fields"]}
        extra = {CORRUPT: "string"} if self._drops else {}
        texts = self._numbers.kinds
        columns = {
            n: "string" if n in texts else kinds.get(n, "string") for n in scan.columns
        } | extra
        return canonical_schema(struct_of(field_of(n, t) for n, t in columns.items()))

    def _shaped(self, rows: DataFrame, scan: Scan) -> DataFrame:
        """The columns of the fragments, and the label; malformed rows left out if they are to be
        dropped."""
        sound = rows.filter(F.col(CORRUPT).isNull()) if self._drops else rows
        return sound.select(*(self._column(f, scan) for f in self._result["fields"]), LABEL)

    def _bad_records(self, rows: DataFrame, scan: Scan) -> DataFrame:
        """Rows of bad records: the values that could be read, the label, the text, the name of
        the file."""
        own = [self._column(f, scan) for f in self._result["fields"]]
        bad = rows.filter(F.col(CORRUPT).isNotNull())
        record = record_text(F.col(RECORD_TEXT))
        return bad.select(*own, LABEL, record, F.col(_FILE_NAME).alias(FILE))

    def _column(self, column: Field, scan: Scan) -> Column:
        folders, own = scan.folders, self._own(column, scan)
        return folders.value(column, own) if column["name"] in folders.names else own

    def _own(self, column: Field, scan: Scan) -> Column:
        own = F.col(quoted(column["name"]))
        if column["name"] in scan.types:
            refuse = _refusing(column["name"])
            return exact(own, scan.types[column["name"]], column["type"], refuse).alias(
                column["name"]
            )
        metadata = [_METADATA[key][0] for key in self._attempt.claim["job"]["metadata"]]
        if column["name"] in (*scan.columns, *metadata):
            return own
        return _absent(column)


def _record_of(columns: Sequence[str], format: str) -> Column:
    """The text of a record. Spark gives that of a malformed one. Others are bad by a number that is
    not held, or by a folder: of these it is the values as JSON.

    If a list of JSON has a bad element, Spark repeats the text of the list for each element."""
    values = F.to_json(F.struct(*(F.col(quoted(name)) for name in columns)))
    text = F.col(CORRUPT)
    if format == "json":
        start = F.substring(text, 1, LIST_CHARACTERS)
        text = F.when(start.rlike(_LIST), start).otherwise(text)
    return F.coalesce(text, values)


def _path_of_label(objects: Sequence[tuple[str, SourceObject]]) -> Callable[[str], str]:
    """Puts the path of a task's files in place of its label."""
    of: dict[str, list[SourceObject]] = {}
    for label, source in objects:
        of.setdefault(label, []).append(source)

    def renamed(text: str) -> str:
        return re.sub(
            rf"(?<![/\w]){LABEL}=([0-9a-f]{{32}})",
            lambda m: one_of(of[m[1]]) if m[1] in of else m[0],
            text,
        )

    return renamed


def other_types(job: SourceJob, source: SourceObject, schema: Schema) -> dict[str, FileType]:
    """The types that a file has of columns which are read under another type than that of `schema`.
    TaskFailure for one whose values that may not hold."""
    path = reported_path(source)
    with open_source(job, source, BUFFER_BYTES) as file:
        types = footer_types(file, path, job["format"])
    others = dict[str, FileType]()
    for column in schema["fields"]:
        name, kind = column["name"], column["type"]
        if name not in types:
            continue
        if place := refusal(name, types[name], kind):
            raise TaskFailure("schema-retyped", f"{path}: {_unfit(place)}", file=path)
        if read_type(types[name], kind) != kind:
            others[name] = types[name]
    return others


def _unfit(place: TypeRefusal) -> str:
    """The message for a column that does not fit: both types, and the remedy."""
    have, want, wide = in_words(place.file), in_words(place.dataset), held(place.file)
    message = f"column {place.name} is {have} in the file, and {want} in the dataset, which may not hold its values"
    if wide is None:
        return f"{message}; no type of a dataset holds {have}: write the file with another type"
    holder = join(place.dataset, wide, is_text=False)
    if fit(place.file, holder) != "refused":
        return f"{message}. Declare it as {in_words(holder)} in `schema:`, or correct the file"
    alone = f"or declare it as {in_words(wide)} in `schema:` if all files have that type"
    return f"{message}. No type holds both: correct the file, {alone}"


def _read_under(column: Field, types: Mapping[str, FileType]) -> Type:
    name, kind = column["name"], column["type"]
    return read_type(types[name], kind) if name in types else kind


def _refusing(column: str) -> Callable[[Column, Column], Column]:
    """An error that names the file and the value, for a time that no microsecond is."""

    def refuse(micros: Column, nanos: Column) -> Column:
        value = F.concat(
            F.date_format(micros, "yyyy-MM-dd HH:mm:ss.SSSSSS"),
            F.lpad(nanos.cast("string"), 3, "0"),
        )
        advice = f", {TOO_FINE}: round it before the file is written"
        path = F.regexp_replace(F.col(PATH), "^file:/+", "/")
        return F.raise_error(F.concat(path, F.lit(f": column {column} has "), value, F.lit(advice)))

    return refuse


def _absent(column: Field) -> Column:
    return F.lit(None).cast(type_of_column(column)).alias(column["name"])


def _with_metadata(schema: Schema, metadata: Sequence[str]) -> Schema:
    extra = [field_of(n, t) for key, (n, t) in _METADATA.items() if key in metadata]
    return canonical_schema(struct_of([*schema["fields"], *extra]))


def with_dropped(written: Mapping[str, Written], read: Sequence[DataFrame]) -> dict[str, Written]:
    """Count malformed rows by label. Spark refuses to read their column alone, so a second one is
    named."""
    counted: dict[str, int] = {}
    for rows in read:
        others = [c for c in rows.columns if c not in (CORRUPT, LABEL)]
        marked = rows.select(LABEL, CORRUPT, *(F.col(quoted(c)) for c in others))
        bad = marked.filter(F.col(CORRUPT).isNotNull()).groupBy(LABEL)
        for label, *counts in bad.agg(
            F.count(CORRUPT), *(F.count(F.col(quoted(c))) for c in others)
        ).collect():
            counted[label] = counted.get(label, 0) + counts[0]
    return {k: replace(w, metrics=_plus(w.metrics, counted.get(k, 0))) for k, w in written.items()}


def _plus(metrics: Metrics, malformed: int) -> Metrics:
    return {**metrics, "dropped_rows": metrics.get("dropped_rows", 0) + malformed}
