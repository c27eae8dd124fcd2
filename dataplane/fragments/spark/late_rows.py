"""Late rows of topics: those whose time is more than a delay before that of an earlier offset of
their partition.

A task has the rows of one slice. The newest times before the slice come with the task, so the
result does not depend on how the topic was cut into slices.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import cast

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from dataplane.contract.claims import TaskSpec, TransformTask
from dataplane.contract.jobs import DropRules, LateRule
from dataplane.contract.results import LABEL
from dataplane.fragments.attempt import task_label
from dataplane.fragments.content import quoted
from dataplane.fragments.event_times import APPENDED, OFFSET, PARTITION
from dataplane.spark.spark_session import closed, under
from dataplane.task_failures import TaskFailure

AT_US, LIMIT_US = "_headgate_at_us", "_headgate_limit_us"
_EARLIER = "MAP<STRING, STRUCT<newest_us: MAP<STRING, BIGINT>, listed_ms: BIGINT>>"


def with_limits(rows: DataFrame, expect: DropRules, tasks: Sequence[TaskSpec]) -> DataFrame:
    """Labelled rows, with their times and the limits of these, where the job takes late rows out.
    Raises TaskFailure for a late row, if the job is to fail then."""
    rule = next((check["late"] for check in expect["drop"] if "late" in check), None)
    if rule is None:
        return rows
    # Times without a zone are read as UTC
    with under(rows.sparkSession, closed({**expect["spark"], "timezone": "UTC"})):
        at = F.unix_micros(F.col(quoted(rule["column"])).cast("timestamp"))
        limited = rows.withColumn(AT_US, at).withColumn(LIMIT_US, _limit(rule, tasks))
        if rule["fails"]:
            _fail_at_first(limited)
    return limited


def is_on_time() -> Column:
    """Whether a row with a limit is on time; so is a row without a time."""
    return F.coalesce(F.col(AT_US) >= F.col(LIMIT_US), F.lit(True))


def _limit(rule: LateRule, tasks: Sequence[TaskSpec]) -> Column:
    by_label = {task_label(task): cast("TransformTask", task)["earlier"] for task in tasks}
    earlier = F.from_json(F.lit(json.dumps(by_label)), _EARLIER)[F.col(LABEL)]
    listed_us = earlier["listed_ms"] * 1_000
    allowed_us = round(rule["max_ahead_s"] * 1_000_000)
    since_us = F.when(listed_us > 0, listed_us).otherwise(F.unix_micros(F.col(APPENDED)))
    # Bounds that 64 bits cannot hold: nothing counts, and nothing is late
    latest_us = F.try_add(since_us, F.lit(allowed_us))
    counted = F.when(F.col(AT_US) <= latest_us, F.col(AT_US))
    in_slice = Window.partitionBy(LABEL, PARTITION).orderBy(OFFSET)
    before = F.max(counted).over(in_slice.rowsBetween(Window.unboundedPreceding, -1))
    newest_us = F.greatest(earlier["newest_us"][F.col(PARTITION).cast("string")], before)
    return F.try_subtract(newest_us, F.lit(rule["delay_us"]))


def _fail_at_first(limited: DataFrame) -> None:
    at, limit = (F.timestamp_micros(name).cast("string") for name in (AT_US, LIMIT_US))
    late = limited.filter(~is_on_time()).orderBy(PARTITION, OFFSET)
    first = late.select(PARTITION, OFFSET, at, limit).first()
    if first is None:
        return
    partition, offset, at_text, limit_text = first
    raise TaskFailure(
        "late-row",
        f"the message of partition {partition} at offset {offset} is late: its time {at_text} is"
        f" before the limit of {limit_text}, in UTC; write a longer delay, or late: drop",
    )
