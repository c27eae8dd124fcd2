"""The `parse` kind of work for connectors other than `files`: source objects into fragments, many in one Spark job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dataplane.connectors.files.casting import cast
from dataplane.connectors.files.options import CORRUPT
from dataplane.connectors.files.parse import NO_COLUMNS, alike, as_expected, with_dropped
from dataplane.connectors.registry import OfUsersCode, SourceReader, reader
from dataplane.contract.claims import InferClaim, ObjectsTask, ParseClaim, ParseTask, SourceClaim
from dataplane.contract.results import LABEL, TaskError
from dataplane.contract.schemas import Schema, canonical_schema
from dataplane.errors import TaskFailure
from dataplane.fragments.attempt import isolate, task_label
from dataplane.fragments.spark.expectations import nothing_written
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.fragments.written import Written
from dataplane.spark.connector_jars import provide
from dataplane.spark.errors import ErrorSource, explain
from dataplane.spark.jars import NoJars
from dataplane.spark.schemas import spark_type
from dataplane.spark.session import reading_session


@contextmanager
def reading_of(attempt: SparkAttempt[SourceClaim]) -> Iterator[SourceReader]:
    attempt.enter()
    connector = attempt.claim["job"]["connector"]
    try:
        provide(attempt.spark, connector)
    except NoJars as e:
        raise TaskFailure(e.condition, str(e), "infrastructure") from e
    session = reading_session(attempt.spark, attempt.claim["job"]["timezone"])
    with reader(connector)(session, attempt.claim["job"]) as source:
        yield source


def schema_of(attempt: SparkAttempt[InferClaim], task: ObjectsTask) -> Schema:
    """The `infer` kind of work."""
    with reading_of(attempt) as source:
        return source.schema(task["objects"])


def parse_objects(
    attempt: SparkAttempt[ParseClaim], source: SourceReader
) -> tuple[dict[str, Written | TaskError], frozenset[str]]:
    """A fragment or an error for each task, by label; and the tasks of which an object differs from its listing."""
    tasks = attempt.claim["tasks"]
    void = _void(source, tasks)
    outcomes: dict[str, Written | TaskError] = {}
    for some in alike([t for t in tasks if t["task"] not in void]):
        outcomes |= _together(attempt, source, some)
    return outcomes, void | _void(source, [t for t in tasks if t["task"] not in void])


def _void(source: SourceReader, tasks: Sequence[ParseTask]) -> frozenset[str]:
    changed = source.changed([listed for task in tasks for listed in task["objects"]])
    return frozenset(t["task"] for t in tasks if any(listed["name"] in changed for listed in t["objects"]))


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
        sound = rows.filter(F.col(CORRUPT).isNull()) if drops else rows
        typed = sound.select(*_typed(sound, columns), LABEL)
        written = as_expected(attempt, typed, labels, columns, lacking)
        return with_dropped(written, [rows]) if drops else written

    return isolate(attempt, tasks, run, lambda e: told(source, e))


def told(source: SourceReader, error: BaseException) -> TaskError:
    files = source.files if isinstance(source, OfUsersCode) else {}
    error_record = explain(error, ErrorSource(files=files, reads="sources"))
    return {**error_record, "kind": "infrastructure"} if source.may_pass(error_record) else error_record


def _typed(rows: DataFrame, columns: Schema) -> Iterator[Column]:
    """Columns as the dataset has them; that one is not there, Spark says."""
    types = {f.name: f.dataType for f in rows.schema}
    for field in spark_type(columns):
        yield cast(field.name, types.get(field.name, field.dataType), field.dataType)
