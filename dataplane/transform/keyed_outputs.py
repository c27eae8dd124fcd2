"""Outputs whose partitions are keys of columns: a task that reads the rows of one key may give only
such rows; one that reads everything gives a fragment for each key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyspark.sql.functions as F
from pyspark.sql import DataFrame

from dataplane.contract.claims import TransformClaim, TransformTask
from dataplane.contract.jobs import Logic
from dataplane.contract.keys import KeyPart, column_key
from dataplane.contract.results import LABEL, TaskError
from dataplane.contract.schemas import Schema, select_columns
from dataplane.fragments.attempt import task_label
from dataplane.fragments.spark.reading import labelled_rows
from dataplane.fragments.spark.row_conditions import write_dealt, write_kept, write_one_kept
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.fragments.spark.spark_key_columns import exact, key_texts, spelled, with_key_labels
from dataplane.fragments.written import Partitioned, Stored, Written, by_schema
from dataplane.spark.spark_errors import explain
from dataplane.spark.spark_schemas import schema_of
from dataplane.spark.spark_session import reading_session, under
from dataplane.task_failures import TaskFailure


def store(attempt: SparkAttempt[TransformClaim], rows: DataFrame, task: TransformTask) -> Stored:
    """A task's result where it belongs."""
    is_one = "key" not in attempt.claim["job"] or is_by_key(attempt.claim["job"])
    return write_one_kept(attempt, rows, task_label(task)) if is_one else _deal(attempt, rows, task)


def is_by_key(job: Logic) -> bool:
    """A task reads the rows of one key."""
    return any(input_job["mode"] == "by" for input_job in job["inputs"].values())


def store_together(
    attempt: SparkAttempt[TransformClaim], rows: DataFrame, tasks: Sequence[TransformTask]
) -> dict[str, Written]:
    """The results of several tasks by key, by the keys of their rows. A row that belongs to no task
    fails the job."""
    schema = schema_of(rows)
    labels = {task["partition"]: task_label(task) for task in tasks}
    # The user's code may have set another zone for its own columns
    zone = {"spark.sql.session.timeZone": attempt.claim["job"]["spark"]["timezone"]}
    with under(rows.sparkSession, zone):
        labelled = with_key_labels(rows, schema, _parts(attempt, schema), labels)
    # One file for each key. By size alone, one core would write all of them
    spread = min(attempt.spark.sparkContext.defaultParallelism, len(tasks))
    return write_kept(attempt, labelled.repartition(spread, LABEL), list(labels.values()))


def _deal(
    attempt: SparkAttempt[TransformClaim], rows: DataFrame, task: TransformTask
) -> Partitioned:
    schema = schema_of(rows)
    texts = key_texts(schema, _parts(attempt, schema))
    with exact(rows.sparkSession):
        label = F.expr(
            f"left(sha2(concat('{task['task']}', to_json(array({', '.join(texts)}))), 256), 32)"
        )
        distinguished = rows.withColumn(LABEL, label).repartition(LABEL)  # one file for each key
    written, metrics = write_dealt(attempt, distinguished)
    return Partitioned(schema, dict(_keys(attempt, schema, written)), written, metrics)


def _parts(attempt: SparkAttempt[TransformClaim], schema: Schema) -> list[KeyPart]:
    return spelled(
        schema,
        attempt.claim["job"]["key"],
        case_sensitive=attempt.claim["job"]["spark"]["case_sensitive"],
    )


def with_own_keys(
    attempt: SparkAttempt[TransformClaim], outcomes: Mapping[str, Stored | TaskError]
) -> dict[str, Stored | TaskError]:
    """Outcomes by label of tasks that ran singly; one that gave rows of another key than its own has
    failed."""
    written = {label: w for label, w in outcomes.items() if isinstance(w, Written)}
    attempt.enter()
    foreign = _foreign_keys(attempt, written)
    for label in foreign:
        attempt.lake.delete(written[label].files)
    return {**outcomes, **foreign}


def _foreign_keys(
    attempt: SparkAttempt[TransformClaim], written: Mapping[str, Written]
) -> dict[str, TaskError]:
    own = {task_label(t): t["partition"] for t in attempt.claim["tasks"]}
    errors: dict[str, TaskError] = {}
    for schema, labels in by_schema(written):
        try:
            for label, key in _keys(attempt, schema, {label: written[label] for label in labels}):
                if key != own[label]:
                    errors[label] = explain(_stray(own[label], key))
        except TaskFailure as e:
            errors |= dict.fromkeys(labels, explain(e))
    return errors


def _stray(own: str, key: str) -> TaskFailure:
    message = f"the task of partition {own} gave rows of {key}: a transform by key must keep the key of what it reads"
    return TaskFailure("KEY_MISMATCH", message)


def _keys(
    attempt: SparkAttempt[TransformClaim], schema: Schema, written: Mapping[str, Written]
) -> Iterator[tuple[str, str]]:
    """The keys of the rows that were written, with their labels."""
    parts = _parts(attempt, schema)
    texts = key_texts(schema, parts)
    files = [(path, label) for label, outcome in written.items() for path in outcome.files]
    if not files:
        return
    session = reading_session(attempt.spark, attempt.claim["job"]["spark"]["timezone"])
    columns = {part["column"] for part in parts}
    labelled = labelled_rows(attempt, session, files, select_columns(schema, columns))
    rows = labelled.selectExpr(LABEL, *texts).distinct().collect()
    names = [part["name"] for part in parts]
    yield from ((row[0], column_key(names, list(row[1:]))) for row in rows)
