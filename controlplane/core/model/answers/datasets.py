"""One dataset: its partitions, generations, checks and tasks."""

from __future__ import annotations

from typing import Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from controlplane.core.model.answers.problems import ErrorReport
from controlplane.core.model.answers.states import State
from controlplane.core.model.answers.work import WorkSummary
from controlplane.core.model.check_results import CheckResult
from controlplane.core.model.states import Cause
from controlplane.core.model.tasks import Size, TaskState
from dataplane.contract.kinds import Kind

PartitionWork: TypeAlias = Literal["to_do", "failed"]
ChangeKind: TypeAlias = Literal["added", "changed", "removed"]


class Changes(TypedDict):
    """How many partitions differ from those before. `is_all`: False where there are at least so
    many."""

    added: int
    changed: int
    removed: int
    is_all: bool


class PartitionEntry(TypedDict):
    """One partition. `fragment`: None where it is not committed yet. `bytes`: None where its files
    are not known any more. `work` and `change`: what `state` or `changed_in` requested."""

    partition: str
    rows: int
    fragment: str | None
    bytes: int | None
    work: NotRequired[PartitionWork]
    change: NotRequired[ChangeKind]


class PartitionsAnswer(TypedDict):
    """A page of the partitions of one generation, in order of their keys. `next`: the `after` of
    the next page."""

    generation: int
    items: list[PartitionEntry]
    next: str | None


class MeasuredGeneration(TypedDict):
    """What trends measure of a generation."""

    generation: int
    at: str
    rows: int
    work: WorkSummary | None


class GenerationEntry(MeasuredGeneration):
    """One generation of a dataset. `work`: what it took; None where it is not known, or nothing was
    computed.

    `same_as`: the newest earlier generation with the same partitions and rows. `changes`: from the
    generation before; None where that is not kept, or there is too much to count. `actor`: whose
    edit or request it was, where it was one and that is still known.
    """

    cause: Cause
    revision: int
    partitions: int
    root: str
    same_as: int | None
    changes: Changes | None
    actor: str | None


class HistoryAnswer(TypedDict):
    """A page of generations, newest first. `next`: the `before` of the next page."""

    items: list[GenerationEntry]
    next: int | None


class DatasetGeneration(TypedDict):
    """Which generation a dataset has, or had at a time, and when it was committed. `found`: `none`
    where it had no data then, `gone` where that is not kept any more. `sources`: which version of
    each source is in it."""

    dataset: str
    found: Literal["kept", "none", "gone"]
    generation: int | None
    at: str | None
    partitions: int | None
    rows: int | None
    root: str | None
    sources: dict[str, str]


class GenerationsAnswer(TypedDict):
    """The generations of a dataflow's datasets at a time. `consistent`: all were made of the same
    sources."""

    dataflow: str
    at: str
    consistent: bool
    items: list[DatasetGeneration]


TrendMeasure: TypeAlias = Literal["rows", "run_time", "cost", "interval"]
"""`run_time`: seconds from the first start to the last end; `cost`: seconds of drivers and workers,
added up; `interval`: seconds since the commit before."""


class TrendPoint(TypedDict):
    """An amount of one generation. `usual`: the median of those before it, where these are five or
    more. `is_jump`: it is far from them (`operations.inspect.trends`)."""

    generation: int
    at: str
    amount: float
    usual: float | None
    is_jump: bool


class Trend(TypedDict):
    """A measure over generations, the oldest one first."""

    measure: TrendMeasure
    points: list[TrendPoint]


class CheckPoint(TypedDict):
    """How many rows of a generation failed an expectation, of how many."""

    generation: int
    rows: int
    failing: int


class ChecksAnswer(TypedDict):
    """What checks found in a generation, and in rows that did not become one."""

    dataset: str
    state: State
    generation: int
    items: list[CheckResult]
    rejected: list[CheckResult]


class AllChecksAnswer(TypedDict):
    """Checks of all datasets that have some, in order of names. `next`: None."""

    items: list[ChecksAnswer]
    next: None


class TaskEntry(TypedDict):
    """A task that a dataset asks for. `since`: when the attempt that it is in began, by this
    `driver`."""

    task: str
    kind: Kind
    partition: str
    state: TaskState
    attempt: str | None
    since: str | None
    driver: str | None
    failures: int
    not_before: str | None
    bytes: int
    priority: int
    resources: Size
    error: ErrorReport | None


class TasksAnswer(TypedDict):
    """A page of tasks, in order of partitions. `next`: the `after` of the next page."""

    items: list[TaskEntry]
    total: int
    next: str | None
