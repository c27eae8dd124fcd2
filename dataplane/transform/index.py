"""The `index` kind of work: the contents of a partition's rows by output key, many partitions as
one Spark job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dataplane.contract.claims import FilesTask, IndexClaim
from dataplane.contract.identity import Content
from dataplane.contract.keys import column_key
from dataplane.contract.results import IndexAnswer, TaskError
from dataplane.contract.schemas import Json
from dataplane.fragments.attempt import isolate, task_label
from dataplane.fragments.content import content_of, content_query, physical
from dataplane.fragments.measuring import SMALL_BYTES
from dataplane.fragments.spark.reading import labelled_rows
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.fragments.spark.spark_key_columns import key_texts
from dataplane.spark.spark_errors import ErrorSource, explain
from dataplane.spark.spark_session import reading_session


@dataclass(frozen=True, slots=True)
class KeyContents:
    """The contents of one partition's rows by their key."""

    keys: dict[str, Content] = field(default_factory=dict)

    @property
    def result(self) -> IndexAnswer:
        return {"keys": {key: list(content) for key, content in self.keys.items()}}


def index(attempt: SparkAttempt[IndexClaim]) -> Mapping[str, KeyContents | TaskError]:
    """By label."""
    tasks = attempt.claim["tasks"]
    return isolate(
        attempt, tasks, lambda some: _index(attempt, some), lambda e: _explain(attempt, e)
    )


def _explain(attempt: SparkAttempt[IndexClaim], error: BaseException) -> TaskError:
    return explain(error, ErrorSource(renamed=attempt.renamed))


def _index(attempt: SparkAttempt[IndexClaim], tasks: Sequence[FilesTask]) -> dict[str, KeyContents]:
    attempt.enter()
    held = {task_label(t): KeyContents() for t in tasks}
    names = [part["name"] for part in attempt.claim["job"]["key"]]
    for label, *row in _rows(attempt, tasks):
        texts, sums = row[: len(names)], row[len(names) :]
        held[label].keys[column_key(names, texts)] = content_of(*sums)
    return held


def _rows(
    attempt: SparkAttempt[IndexClaim], tasks: Sequence[FilesTask]
) -> Sequence[Sequence[Json]]:
    job = attempt.claim["job"]
    files = [(path, task_label(task)) for task in tasks for path in task["slots"][""]]
    if not files:
        return []
    session = reading_session(attempt.spark, job["timezone"])
    session.conf.set("spark.sql.parquet.ignoreVariantAnnotation", "true")
    rows = labelled_rows(attempt, session, files, physical(job["schema"]))
    is_small = attempt.lake.size_bytes((path for path, _ in files), SMALL_BYTES) <= SMALL_BYTES
    (rows.coalesce(1) if is_small else rows).createTempView("parts")
    return session.sql(
        content_query(job["schema"], "parts", key_texts(job["schema"], job["key"]))
    ).collect()
