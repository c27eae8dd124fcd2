"""Conditions on rows, and taking out the rows that fail them where they are written: dropped, or
kept elsewhere.

A condition fails where it is false; where it is NULL it holds, as a CHECK of SQL does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dataplane.contract.claims import FragmentClaim
from dataplane.contract.jobs import CheckJob, DropRule, DropRules
from dataplane.contract.results import EXPECTATION, LABEL, REASON, RECORD, Metrics, TaskError
from dataplane.contract.schemas import Schema, field_of, struct_of
from dataplane.fragments.attempt import Failed
from dataplane.fragments.content import quoted
from dataplane.fragments.spark.late_rows import is_on_time, with_limits
from dataplane.fragments.spark.reading import labelled_rows
from dataplane.fragments.spark.sorting import clustered, clustered_within
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.fragments.spark.writing import write_labelled, write_many, write_one
from dataplane.fragments.statistics import read_footer
from dataplane.fragments.written import Written
from dataplane.spark.plan_guard import check_condition, check_filter
from dataplane.spark.spark_errors import ErrorSource, explain
from dataplane.spark.spark_session import closed, reading_session, under
from dataplane.task_failures import TaskFailure

Condition: TypeAlias = DropRule | CheckJob
TAKEN_OUT = "-q"  # behind a label: that of the second fragment of a task
RECORD_CHARACTERS = 16_384  # of a bad record that are kept: at most 64 KiB


def condition(rows: DataFrame, check: Condition) -> Column:
    """The condition of a check, found to be one over these rows. Raises Failed at its own place.

    The text is read as one expression, also where it has several.
    """
    try:
        check_condition(rows.sparkSession, check["check"])
        column = F.expr(check["check"])
        check_filter(rows.filter(column))
    except Exception as e:
        raise Failed(explain_check(check, e)) from e
    return column


def explain_check(
    check: Condition, error: BaseException, renamed: Callable[[str], str] = str
) -> TaskError:
    text = check["check"]
    return {
        **explain(error, ErrorSource(sql=text, original=text, renamed=renamed)),
        "file": EXPECTATION + check["name"],
    }


# --- taking rows out ------------------------------------------------------------------------------


def sorted_out(rows: DataFrame, expect: DropRules) -> DataFrame:
    """`rows` with other labels where they are to be taken out: that of the first check that a row
    fails."""
    with under(rows.sparkSession, closed(expect["spark"])):
        conditions = list(_conditions(rows, expect))
        label = F.col(LABEL)
        failing = [(~holds, F.concat(label, F.lit(_mark(i)))) for i, holds in enumerate(conditions)]
        first, *others = failing
        marked = reduce(lambda when, branch: when.when(*branch), others, F.when(*first)).otherwise(
            label
        )
        return rows.withColumn(LABEL, marked)


def _conditions(rows: DataFrame, expect: DropRules) -> Iterator[Column]:
    for check in expect["drop"]:
        yield _condition(rows, check)
        added = [REASON, *check.get("record_columns", ())] if check.get("quarantine") else []
        if reserved := [name for name in added if name in rows.columns]:
            raise TaskFailure(
                "RESERVED_COLUMN",
                f"a column of rows to be quarantined may not be named {reserved[0]!r}",
            )


def _condition(rows: DataFrame, check: DropRule) -> Column:
    if "late" in check:
        return is_on_time()
    if "record_columns" in check:
        return F.lit(True)  # bad records are none of these rows
    return condition(rows, check)


def _mark(number: int) -> str:
    return f"-{number}"


def write_kept(
    attempt: SparkAttempt[FragmentClaim], rows: DataFrame, labels: Sequence[str]
) -> dict[str, Written]:
    """As `write_many`, without the rows that the job takes out."""
    expect = attempt.claim["job"].get("expect")
    if not expect:
        return write_many(attempt, clustered_within(rows, attempt.claim["job"]), labels)
    limited = with_limits(rows, expect, attempt.claim["tasks"])
    marked = sorted_out(limited, expect).select(*map(quoted, rows.columns))
    return write_sorted_out(attempt, marked, labels)


def write_one_kept(attempt: SparkAttempt[FragmentClaim], rows: DataFrame, label: str) -> Written:
    """One task's rows, without those that the job takes out."""
    if not attempt.claim["job"].get("expect"):
        return write_one(attempt, clustered(rows, attempt.claim["job"]), label)
    return write_kept(attempt, rows.withColumn(LABEL, F.lit(label)), [label])[label]


def write_sorted_out(
    attempt: SparkAttempt[FragmentClaim],
    rows: DataFrame,
    labels: Sequence[str],
    bad_records: DataFrame | None = None,
) -> dict[str, Written]:
    """As `write_many`; rows that `sorted_out` gave other labels are counted, and gone or
    quarantined. `bad_records`: labelled rows to be quarantined, with the columns of their rule."""
    expect = attempt.claim["job"]["expect"]
    checks = [(check, _mark(i)) for i, check in enumerate(expect["drop"])]
    every = [*labels, *(label + mark for label in labels for _, mark in checks)]
    written = write_many(attempt, clustered_within(rows, attempt.claim["job"]), every)
    quarantined = _quarantined(attempt, written, labels, bad_records)
    for label in labels:
        counts = {
            check["id"]: _delete_rejected(attempt, written[label + mark]) for check, mark in checks
        }
        counts |= _bad_counts(attempt, quarantined.get(label), counts)
        written[label] = _with_counts(written[label], {id: n for id, n in counts.items() if n})
    return {label: replace(written[label], taken_out=quarantined.get(label)) for label in labels}


def write_dealt(
    attempt: SparkAttempt[FragmentClaim], rows: DataFrame
) -> tuple[dict[str, Written], Metrics]:
    """As `write_labelled`, without the rows that the job takes out; and metrics, of how many those
    were in all."""
    expect = attempt.claim["job"].get("expect")
    if not expect:
        return write_labelled(attempt, clustered_within(rows, attempt.claim["job"])), {}
    written = write_labelled(
        attempt, clustered_within(sorted_out(rows, expect), attempt.claim["job"])
    )
    counts: Counter[str] = Counter()
    for number, check in enumerate(expect["drop"]):
        mine = [label for label in written if label.endswith(_mark(number))]
        counts[check["id"]] += sum(_delete_rejected(attempt, written.pop(label)) for label in mine)
    return written, _metrics({id: n for id, n in counts.items() if n})


def _delete_rejected(attempt: SparkAttempt[FragmentClaim], written: Written) -> int:
    """Remove what rows that were taken out were written to; how many there were."""
    count = _row_count(attempt, written)
    attempt.lake.delete(written.files)
    return count


def _row_count(attempt: SparkAttempt[FragmentClaim], written: Written) -> int:
    """By the footers of the files."""
    count: int = sum(
        read_footer(attempt.lake, path, size).num_rows for path, size in written.files.items()
    )
    return count


def _bad_counts(
    attempt: SparkAttempt[FragmentClaim], quarantined: Written | None, counts: Mapping[str, int]
) -> dict[str, int]:
    """The number of bad records by the id of their rule, if there is one: the quarantined rows that
    no other rule counts."""
    rules = attempt.claim["job"]["expect"]["drop"]
    of_records = next((rule for rule in rules if "record_columns" in rule), None)
    if of_records is None or quarantined is None:
        return {}
    others = sum(counts[rule["id"]] for rule in rules if rule.get("quarantine"))
    return {of_records["id"]: _row_count(attempt, quarantined) - others}


def _with_counts(written: Written, dropped: Mapping[str, int]) -> Written:
    return replace(written, metrics=_metrics(dropped)) if dropped else written


def _metrics(dropped: Mapping[str, int]) -> Metrics:
    return {"dropped": dict(dropped), "dropped_rows": sum(dropped.values())} if dropped else {}


# --- keeping them elsewhere -----------------------------------------------------------------------


def nothing_written(attempt: SparkAttempt[FragmentClaim], schema: Schema) -> Written:
    """The fragments of a task without a row."""
    second = Written(_with_reason(attempt, schema)) if _quarantining(attempt) else None
    return Written(schema, taken_out=second)


def _with_reason(attempt: SparkAttempt[FragmentClaim], schema: Schema) -> Schema:
    rules = attempt.claim["job"]["expect"]["drop"]
    names = [REASON, *(name for rule in rules for name in rule.get("record_columns", ()))]
    return struct_of([*schema["fields"], *(field_of(name, "string") for name in names)])


def _quarantining(attempt: SparkAttempt[FragmentClaim]) -> dict[str, str]:
    """The names of the checks whose rows are kept, by the mark of their labels."""
    expect = attempt.claim["job"].get("expect")
    checks = expect["drop"] if expect else ()
    return {_mark(i): check["name"] for i, check in enumerate(checks) if check.get("quarantine")}


def _quarantined(
    attempt: SparkAttempt[FragmentClaim],
    written: Mapping[str, Written],
    labels: Sequence[str],
    bad_records: DataFrame | None,
) -> dict[str, Written]:
    """The second fragments of tasks: bad records, and the rows that were written under the labels
    of reasons, once more, with the reason."""
    reasons = _quarantining(attempt)
    if not reasons:
        return {}
    schema = written[labels[0]].schema
    full_schema = _with_reason(attempt, schema)
    marked = [label + mark for label in labels for mark in reasons]
    files = [(path, label) for label in marked for path in written[label].files]
    parts: list[DataFrame] = []
    if bad_records is not None:
        parts.append(_of_records(attempt, bad_records))
    if files:
        rows = labelled_rows(attempt, reading_session(attempt.spark), files, schema)
        parts.append(_with_reasons(rows, schema, reasons))
    if not parts:
        return {label: Written(full_schema) for label in labels}
    # In the session of the first: bad records are read by its settings
    united = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts)
    ordered = united.select(*(quoted(f["name"]) for f in full_schema["fields"]), LABEL)
    rejected = write_many(attempt, ordered, [label + TAKEN_OUT for label in labels])
    return {label: replace(rejected[label + TAKEN_OUT], schema=full_schema) for label in labels}


def _of_records(attempt: SparkAttempt[FragmentClaim], bad_records: DataFrame) -> DataFrame:
    """Bad records with the name of their rule as reason, and with the label of second fragments."""
    rules = attempt.claim["job"]["expect"]["drop"]
    [name] = [rule["name"] for rule in rules if "record_columns" in rule]
    label = F.concat(F.col(LABEL), F.lit(TAKEN_OUT))
    return bad_records.withColumns({REASON: F.lit(name), LABEL: label})


def record_text(text: Column) -> Column:
    """The column of a record's text, cut: each character has at most 4 bytes."""
    return F.make_valid_utf8(F.substring(text, 1, RECORD_CHARACTERS)).alias(RECORD)


def _with_reasons(rows: DataFrame, schema: Schema, reasons: Mapping[str, str]) -> DataFrame:
    (first, name), *others = reasons.items()
    chosen = F.when(F.col(LABEL).endswith(first), F.lit(name))
    chosen = reduce(
        lambda when, reason: when.when(F.col(LABEL).endswith(reason[0]), F.lit(reason[1])),
        others,
        chosen,
    )
    columns = [F.col(quoted(f["name"])) for f in schema["fields"]]
    label = F.concat(F.substring_index(F.col(LABEL), "-", 1), F.lit(TAKEN_OUT))
    return rows.select(*columns, chosen.alias(REASON), label.alias(LABEL))


def check_conditions(rows: DataFrame, expect: DropRules | None) -> None:
    """Raise Failed or TaskFailure where a condition by which rows are taken out cannot be one over
    these rows."""
    if not expect:
        return
    with under(rows.sparkSession, closed(expect["spark"])):
        list(_conditions(rows, expect))
