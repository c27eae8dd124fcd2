"""Attempts that are over: what each took, and what came of it; and what a task costs by them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, TypeAlias

from dataplane.contract.kinds import Kind

Outcome: TypeAlias = Literal["done", "failed", "retried"]
"""What became of an attempt: all of its tasks are done; one failed; or none failed and one goes
back to the queue."""

COST_ATTEMPTS = 200  # the newest ones of a dataset, which its cost is estimated from
SLOW_TIMES, SLOW_MORE_S, SLOW_KNOWN = 2.0, 10.0, 3  # bounds of a slow attempt: see `is_slow`
# Kinds whose cost a plan asks for; a slice of a topic costs a worker too little to count
COMPUTING: tuple[Kind, ...] = ("parse", "transform", "index", "write")


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """An attempt that is over, as one branch sees it. One whose tasks several branches demand is
    there for each.

    `tasks` counts claimed tasks, `done` accepted results, including those of a fold's tasks that
    were not claimed. None: it is not known, as of a driver that ended without a report.
    """

    id: str
    branch: str  # empty: no branch demanded its tasks any more
    kind: Kind
    dataset: str
    partition: str  # the first of those that were claimed
    driver: str
    queued_at: float  # of the first of its tasks
    started_at: float
    ended_at: float
    seconds: float | None  # that its driver or worker was at it
    outcome: Outcome
    tasks: int
    done: int
    failed: int
    rows: int  # written
    bytes_written: int
    bytes_read: int | None
    spark_jobs: int | None
    spark_stages: int | None
    spark_ui: str | None  # the address of Spark's pages; they end with the driver
    event_log: str | None  # where Spark's event log lies
    error: str | None  # the condition of the first task that did not succeed


@dataclass(frozen=True, slots=True)
class Cost:
    """What one task of a dataset took, by its last attempts that succeeded: each attempt's share
    for one of its tasks.

    Seconds are those of the 10th, 50th and 90th percentile; `rows` and `bytes` are what a task
    wrote, by the median.
    """

    seconds_p10: float
    seconds: float
    seconds_p90: float
    rows: float
    bytes: float
    attempts: int


@dataclass(frozen=True, slots=True)
class TaskShare:
    """One attempt's share for one of its tasks."""

    seconds: float
    rows: float
    bytes: float


def share(seconds: float, done: int, rows: int, bytes_written: int) -> TaskShare:
    return TaskShare(seconds / done, rows / done, bytes_written / done)


def is_measured(attempt: PastAttempt) -> bool:
    """Whether it measures the cost of a task."""
    if attempt.kind not in COMPUTING or attempt.outcome != "done":
        return False
    return attempt.seconds is not None and attempt.done > 0


def cost(shares: Iterable[TaskShare]) -> Cost:
    """The median cost of at least one share; seconds also as 10th and 90th percentile."""
    measured = list(shares)
    seconds = sorted(measure.seconds for measure in measured)
    return Cost(
        seconds_p10=quantile(seconds, 0.1),
        seconds=median(seconds),
        seconds_p90=quantile(seconds, 0.9),
        rows=median(measure.rows for measure in measured),
        bytes=median(measure.bytes for measure in measured),
        attempts=len(measured),
    )


def is_slow(seconds: float, usual: Cost | None) -> bool:
    """Whether a task took more than twice the median, and ten seconds more: of at least three
    attempts."""
    if usual is None or usual.attempts < SLOW_KNOWN:
        return False
    return seconds > SLOW_TIMES * usual.seconds and seconds > usual.seconds + SLOW_MORE_S


def quantile(ascending: Sequence[float], part: float) -> float:
    """The value that this part of the others does not exceed (the nearest rank)."""
    return ascending[round(part * (len(ascending) - 1))]
