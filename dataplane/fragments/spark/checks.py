"""The `check` kind of work: how many of some rows fail an expectation, with an example or two."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dataplane.contract.claims import CheckClaim, FilesTask
from dataplane.contract.results import LABEL, CheckAnswer, TaskError
from dataplane.contract.schemas import Schema
from dataplane.fragments.attempt import isolate, task_label
from dataplane.fragments.content import quoted
from dataplane.fragments.spark.input_frames import read_files, read_labelled
from dataplane.fragments.spark.row_conditions import condition, explain_check
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.spark.spark_session import query_session

LONGEST = 500  # characters of an example
_NULLS = {"ignoreNullFields": "false"}


def check(attempt: SparkAttempt[CheckClaim]) -> dict[str, CheckAnswer | TaskError]:
    """`{rows, failing, examples}`, or an error, for each task, by label."""
    tasks, work = attempt.claim["tasks"], _unique if attempt.claim["job"]["unique"] else _conditions
    return isolate(attempt, tasks, lambda some: work(attempt, some), lambda e: _explain(attempt, e))


def _explain(attempt: SparkAttempt[CheckClaim], error: BaseException) -> TaskError:
    return explain_check(attempt.claim["job"], error, attempt.renamed)


# --- conditions on rows ---------------------------------------------------------------------------


def _conditions(
    attempt: SparkAttempt[CheckClaim], tasks: Sequence[FilesTask]
) -> dict[str, CheckAnswer]:
    """All these tasks as one job, and a second one over those with rows to show."""
    attempt.enter()
    rows = _rows(attempt, tasks, attempt.claim["job"]["schema"])
    failing = ~condition(rows, attempt.claim["job"])
    counted = rows.groupBy(LABEL).agg(F.count(F.lit(1)), F.count_if(failing)).collect()
    bad = {label for label, _, count in counted if count}
    shown = _examples(attempt, [t for t in tasks if task_label(t) in bad]) if bad else {}
    nothing = {task_label(t): _answer(0, 0, ()) for t in tasks}
    return nothing | {label: _answer(n, count, shown.get(label, ())) for label, n, count in counted}


def _examples(
    attempt: SparkAttempt[CheckClaim], tasks: Sequence[FilesTask]
) -> dict[str, Sequence[str]]:
    rows = _rows(attempt, tasks, attempt.claim["job"]["shown"])
    text = F.to_json(F.struct(F.col("*")), _NULLS).alias("row")
    failing = rows.filter(~condition(rows, attempt.claim["job"])).select(F.col(LABEL), text)
    examples = failing.groupBy(LABEL).agg(F.min("row"), F.max("row")).collect()
    return {label: [_without_label(row, label) for row in both] for label, *both in examples}


def _without_label(row: str, label: str) -> str:
    suffix = f',"{LABEL}":"{label}"}}'
    return row.removesuffix(suffix) + "}" if row.endswith(suffix) else row


def _rows(
    attempt: SparkAttempt[CheckClaim], tasks: Sequence[FilesTask], schema: Schema
) -> DataFrame:
    session = query_session(attempt.spark, attempt.claim["job"]["spark"])
    files = [(path, task_label(t)) for t in tasks for path in t["slots"][""]]
    return read_labelled(attempt, session, files, schema)


# --- the dataset as a whole -----------------------------------------------------------------------


def _unique(
    attempt: SparkAttempt[CheckClaim], tasks: Sequence[FilesTask]
) -> dict[str, CheckAnswer]:
    """Rows beyond the first with the same values; as in SQL, a row with a NULL among them is like
    no other."""
    attempt.enter()
    job, names = attempt.claim["job"], attempt.claim["job"]["unique"]
    rows = read_files(
        attempt, query_session(attempt.spark, job["spark"]), job["shared"][""], job["schema"]
    )
    keys = rows.select(*(F.col(quoted(name)).alias(f"k{i}") for i, name in enumerate(names)))
    columns = [F.col(f"k{i}") for i in range(len(names))]
    groups = keys.groupBy(*columns).agg(F.count(F.lit(1)).alias("n"))
    repeats = F.lit(True)
    for column in columns:
        repeats = repeats & column.isNotNull()
    repeats = repeats & (F.col("n") > 1)
    text = F.when(
        repeats,
        F.to_json(F.struct(*(c.alias(n) for c, n in zip(columns, names, strict=True))), _NULLS),
    )
    counts = groups.agg(
        F.sum("n"), F.sum(F.when(repeats, F.col("n") - 1)), F.min(text), F.max(text)
    ).collect()[0]
    answer = _answer(counts[0] or 0, counts[1] or 0, [t for t in counts[2:] if t is not None])
    return {task_label(t): answer for t in tasks}


def _answer(rows: int, failing: int, examples: Sequence[str]) -> CheckAnswer:
    shown = dict.fromkeys(e if len(e) <= LONGEST else e[:LONGEST] + "..." for e in examples)
    return {"rows": rows, "failing": failing, "examples": list(shown)}
