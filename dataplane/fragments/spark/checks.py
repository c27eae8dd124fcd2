"""The `check` kind of work: how many of some rows fail an expectation, with the first of them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
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

ROWS = 20  # that are shown of one task
LONGEST = 2_000  # characters of one
# Characters of all rows of one task, and of a claim: each task may show its first row
MOST_OF_TASK, MOST_OF_CLAIM = 10_000, 500_000
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
    most = min(MOST_OF_TASK, MOST_OF_CLAIM // len(tasks))
    answers = {task_label(t): _answer(0, 0, (), most) for t in tasks}
    for label, n, count in counted:
        answers[label] = _answer(n, count, shown.get(label, ()), most)
    return answers


def _examples(
    attempt: SparkAttempt[CheckClaim], tasks: Sequence[FilesTask]
) -> dict[str, list[str]]:
    """The first rows that fail, in the order of their JSON. Spark cuts long ones before it sorts and
    collects them, since one cell may have megabytes."""
    rows = _rows(attempt, tasks, attempt.claim["job"]["shown"])
    columns = [F.col(quoted(name)) for name in rows.columns if name != LABEL]
    failing = rows.filter(~condition(rows, attempt.claim["job"])).select(
        F.col(LABEL), _row(columns)
    )
    place = F.row_number().over(Window.partitionBy(LABEL).orderBy("row"))
    first = failing.select(LABEL, "row", place.alias("place")).filter(F.col("place") <= ROWS)
    examples: dict[str, list[str]] = {}
    for label, row in sorted((label, row) for label, row, _ in first.collect()):
        examples.setdefault(label, []).append(row)
    return examples


def _row(columns: Sequence[Column]) -> Column:
    """The JSON of a row. One character over the limit shows that it was cut."""
    return F.substring(F.to_json(F.struct(*columns), _NULLS), 1, LONGEST + 1).alias("row")


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
    counts = groups.agg(F.sum("n"), F.sum(F.when(repeats, F.col("n") - 1))).collect()[0]
    shown: list[str] = []
    if counts[1]:
        key = [column.alias(name) for column, name in zip(columns, names, strict=True)]
        first = groups.filter(repeats).select(_row(key)).orderBy("row").limit(ROWS)
        shown = [row for (row,) in first.collect()]
    answer = _answer(counts[0] or 0, counts[1] or 0, shown, MOST_OF_TASK)
    return {task_label(t): answer for t in tasks}


def _answer(rows: int, failing: int, examples: Sequence[str], most: int) -> CheckAnswer:
    """With as many rows as fit into `most` characters, and always with the first one."""
    shown: list[str] = []
    for row in dict.fromkeys(examples):
        short = row if len(row) <= LONGEST else f"{row[:LONGEST]}..."
        most -= len(short)
        if shown and most < 0:
            break
        shown.append(short)
    return {"rows": rows, "failing": failing, "examples": shown}
