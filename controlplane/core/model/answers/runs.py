"""One run, as the command line shows it."""

from __future__ import annotations

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from controlplane.core.model.answers.problems import ErrorReport
from controlplane.core.model.answers.states import State
from controlplane.core.model.answers.status import DatasetStatus, TargetStatus


class RunCounts(TypedDict):
    """What a run did: tasks, and partitions that were adopted or written. `failed`: datasets that
    ended so."""

    executed: int
    adopted: int
    written: int
    retried: int
    failed: int
    other: int


class DatasetError(ErrorReport):
    """An error, with the dataset that has it."""

    dataset: str


class RunSummary(TypedDict):
    """What a run did, and how its dataflows stand."""

    state: State
    tasks: RunCounts
    datasets: list[DatasetStatus]
    targets: list[TargetStatus]
    errors: list[DatasetError]


class RunAnswer(RunSummary):
    """The same, as the command shows it."""

    spark_started: bool
    wall_s: float


class RunBegun(TypedDict):
    """A run that a service has started. `since` is the newest event before it; `failed` has, by
    dataflow, the keys of the tasks that had failed before it."""

    since: int
    revisions: dict[str, int]
    failed: dict[str, list[str]]


class RunProgress(RunSummary):
    """The same of a run that may be under way. `settled`: nothing of it moves any more.
    `under_way`: tasks of the whole installation that wait or run. `spark_starting_s`: for how long
    Spark has been starting for them."""

    since: int
    settled: bool
    under_way: int
    spark_starting_s: float | None
    spark_started: bool
