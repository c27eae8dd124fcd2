"""The work of drivers for connectors whose objects Spark reads as rows: many objects in one Spark
job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dataplane.connectors.files.casting import cast
from dataplane.connectors.files.file_parsing import alike, as_expected, with_dropped
from dataplane.connectors.files.linking import link_files
from dataplane.connectors.files.reader_options import CORRUPT, RECORD_TEXT
from dataplane.connectors.source_reader import OfUsersCode, OpenSource, SourceReader, SourceWork
from dataplane.contract.claims import InferClaim, ObjectsTask, ParseClaim, ParseTask, SourceClaim
from dataplane.contract.jobs import connector_of
from dataplane.contract.results import LABEL, SchemaAnswer, TaskError, TaskResult
from dataplane.contract.schemas import NO_COLUMNS, Schema, canonical_schema
from dataplane.fragments.attempt import Cancelled, Failed, isolate, task_label
from dataplane.fragments.spark.answering import answer_each, explain_reading
from dataplane.fragments.spark.hashing import measured_outcomes
from dataplane.fragments.spark.row_conditions import nothing_written, record_text
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.fragments.task_results import VOID, delete_written, task_result
from dataplane.fragments.written import MeasuredFragment, Written
from dataplane.spark.connector_jars import provide
from dataplane.spark.jars import NoJars
from dataplane.spark.spark_errors import ErrorSource, explain
from dataplane.spark.spark_schemas import spark_type
from dataplane.spark.spark_session import reading_session
from dataplane.task_failures import TaskFailure


def work_on(open_source: OpenSource) -> SourceWork:
    """The work on objects of a source that `open_source` opens for an attempt."""
    return SourceWork(partial(_parsed, open_source), partial(_inferred, open_source))


@contextmanager
def _reading_of(
    open_source: OpenSource, attempt: SparkAttempt[SourceClaim]
) -> Iterator[SourceReader]:
    attempt.enter()
    job = attempt.claim["job"]
    try:
        provide(attempt.spark, connector_of(job))
    except NoJars as e:
        raise TaskFailure(e.condition, str(e), "infrastructure") from e
    with open_source(reading_session(attempt.spark, job["timezone"]), job) as source:
        yield source


def _inferred(open_source: OpenSource, attempt: SparkAttempt[InferClaim]) -> list[TaskResult]:
    def answer(task: ObjectsTask) -> SchemaAnswer:
        with _reading_of(open_source, attempt) as source:
            return {"schema": source.schema(task["objects"])}

    return answer_each(attempt, attempt.claim["tasks"], answer, partial(explain_reading, attempt))


def _parsed(open_source: OpenSource, attempt: SparkAttempt[ParseClaim]) -> list[TaskResult]:
    try:
        with _reading_of(open_source, attempt) as source:
            return _parsed_from(attempt, source)
    except Cancelled:
        raise
    except Exception as e:  # noqa: BLE001  # a source that cannot be opened is the outcome of all tasks
        attempt.check()
        error = e.error if isinstance(e, Failed) else explain_reading(attempt, e)
        return [task_result(t, error) for t in attempt.claim["tasks"]]


def _parsed_from(attempt: SparkAttempt[ParseClaim], source: SourceReader) -> list[TaskResult]:
    """Parse each task's objects. A task whose objects changed after their listing is void: it gives
    no fragment."""
    tasks = attempt.claim["tasks"]
    void = _void(source, tasks)
    unchanged = [t for t in tasks if t["task"] not in void]
    links, measured = _linked(attempt, unchanged)
    to_read = [t for t in unchanged if task_label(t) not in links]
    outcomes = _outcomes_of(attempt, source, to_read)
    void |= _void(source, unchanged)
    measured |= measured_outcomes(attempt, outcomes)
    outcomes |= links
    results = []
    for task in tasks:
        is_void, outcome = task["task"] in void, outcomes.get(task_label(task))
        if is_void and outcome is not None:
            delete_written(attempt.lake, [outcome])
        result = task_result(task, VOID if is_void else measured[task_label(task)])
        results.append(_with_types(attempt, source, task, result))
    return results


def _with_types(
    attempt: SparkAttempt[ParseClaim], source: SourceReader, task: ParseTask, result: TaskResult
) -> TaskResult:
    """A failed result with the types that its objects have: that these are others may be why."""
    if result["state"] != "failed" or result["error"]["kind"] != "user":
        return result
    try:
        return {**result, "result": {"schema": source.schema(task["objects"])}}
    except Exception:  # noqa: BLE001  # so nothing is known of them
        attempt.check()
        return result


def _linked(
    attempt: SparkAttempt[ParseClaim], tasks: Sequence[ParseTask]
) -> tuple[dict[str, Written], dict[str, MeasuredFragment | TaskError]]:
    """Fragments of files that were taken as they are, and their contents, by label. Where one
    cannot be measured there are none: a damaged file is left to the reader, which explains the
    fault."""
    links = link_files(attempt, tasks)
    measured = measured_outcomes(attempt, links)
    if all(isinstance(fragment, MeasuredFragment) for fragment in measured.values()):
        return links, measured
    delete_written(attempt.lake, links.values())
    return {}, {}


def _outcomes_of(
    attempt: SparkAttempt[ParseClaim], source: SourceReader, tasks: Sequence[ParseTask]
) -> dict[str, Written | TaskError]:
    """A fragment or an error for each task, by label."""
    outcomes: dict[str, Written | TaskError] = {}
    for tasks_of_schema in alike(tasks):
        outcomes |= _together(attempt, source, tasks_of_schema)
    return outcomes


def _void(source: SourceReader, tasks: Sequence[ParseTask]) -> frozenset[str]:
    changed = source.changed([listed for task in tasks for listed in task["objects"]])
    return frozenset(
        t["task"] for t in tasks if any(listed["name"] in changed for listed in t["objects"])
    )


def _together(
    attempt: SparkAttempt[ParseClaim], source: SourceReader, tasks: Sequence[ParseTask]
) -> dict[str, Written | TaskError]:
    columns = canonical_schema(tasks[0]["columns"])
    lacking = tasks[0].get("lacking") or NO_COLUMNS

    def run(some: Sequence[ParseTask]) -> dict[str, Written]:
        attempt.enter()
        labels = [task_label(t) for t in some]
        objects = [(task_label(t), listed) for t in some for listed in t["objects"]]
        if not objects or not columns["fields"]:
            return {label: nothing_written(attempt, columns) for label in labels}
        rows = source.rows(objects)
        drops = CORRUPT in rows.columns
        quarantines = attempt.claim["job"]["on_bad_record"] == "quarantine"
        sound = rows.filter(F.col(CORRUPT).isNull()) if drops else rows
        typed = sound.select(*_typed(sound, columns), LABEL)
        bad_records = _bad_records(rows, columns) if quarantines else None
        written = as_expected(attempt, typed, labels, columns, lacking, bad_records)
        return with_dropped(written, [rows]) if drops and not quarantines else written

    return isolate(attempt, tasks, run, lambda e: _explain(source, e))


def _bad_records(rows: DataFrame, columns: Schema) -> DataFrame:
    """Rows of bad records: the values that could be read, the label, the text."""
    bad = rows.filter(F.col(CORRUPT).isNotNull())
    return bad.select(*_typed(bad, columns), LABEL, record_text(F.col(RECORD_TEXT)))


def _explain(source: SourceReader, error: BaseException) -> TaskError:
    files = source.files if isinstance(source, OfUsersCode) else {}
    error_record = explain(error, ErrorSource(files=files, reads="sources"))
    return (
        {**error_record, "kind": "infrastructure"}
        if source.may_pass(error_record)
        else error_record
    )


def _typed(rows: DataFrame, columns: Schema) -> Iterator[Column]:
    """Columns as the dataset has them; that one is not there, Spark says."""
    types = {f.name: f.dataType for f in rows.schema}
    for field in spark_type(columns):
        yield cast(field.name, types.get(field.name, field.dataType), field.dataType)
