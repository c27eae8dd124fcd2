"""How things stand, and why."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from controlplane.core.model.answers.holds import DatasetHold
from controlplane.core.model.answers.plans import (
    InputMode,
    PlanItem,
    SourceOrigin,
    VolatileConstruct,
)
from controlplane.core.model.answers.problems import ErrorReport
from controlplane.core.model.answers.states import Level, State
from controlplane.core.model.answers.work import WorkSummary
from controlplane.core.model.json_values import JsonObject, JsonValue
from controlplane.core.model.states import Cause


class ListingLateness(TypedDict):
    """When a source was last listed, when it is due, since when a worker is at it, and how far it
    is behind. `cron`: the expression that says when it is due."""

    at: str | None
    due: str | None
    since: str | None
    refresh_s: float | None
    behind_s: float
    cron: NotRequired[str]


class SourceLag(TypedDict):
    """Rows of a stream that are listed and not committed. `seconds`: how long the oldest of them
    has waited `since` it was listed; None where that is not known.

    `rows`: None before the first listing. `sentence` says the same, and why there may be more.
    """

    rows: int | None
    seconds: float | None
    since: str | None
    sentence: str


class RunningWork(TypedDict):
    """Attempts at a dataset that run, since when the oldest of them does, and that oldest one."""

    attempts: int
    since: str
    seconds: float
    attempt: str


class DatasetTimes(TypedDict):
    """What the last commit took, and what runs now. `last`: None where it is not known, or nothing
    was computed."""

    last: WorkSummary | None
    running: RunningWork | None


class DatasetFreshness(TypedDict):
    """How old the newest data of a dataset is, and may be. `at`, `age_s`: None where there is no
    data yet.

    `reason`: why the dataset is late, in words.
    """

    limit_s: float
    age_s: float | None
    at: str | None
    late: bool
    reason: str | None


class FreshnessEntry(DatasetFreshness):
    """The same with the name of the dataset."""

    dataset: str


class OfferedAs(TypedDict):
    """A feed that offers the dataset. `breaches`: what of its contract the newest generation
    breaks, in sentences."""

    name: str
    breaches: list[str]


class DatasetWatermark(TypedDict):
    """Up to which time a stream is complete, as far as its messages say; None before there are any.
    `ahead`: rows that are left out, as their times are too far ahead."""

    at: str | None
    ahead: int
    sentence: str


class DatasetStatus(TypedDict):
    """How a dataset stands. `checks` names those that failed, or warn. `as_of` (when it was last
    looked at) and `listing` are there for sources, `lag` for streams, `times` where it was
    requested, `freshness` where it is expected. `tasks_left`: tasks that are still to be done, at
    most, while there are some. `wider`: where an inferred schema is wider than the source objects,
    in sentences. `hold`: where it was rolled back. `feed`: the feed that it is read from, `feeds`:
    those that offer it. `own`: in a branch, whether it has states of its own there; else they are
    main's."""

    name: str
    state: State
    generation: int
    partitions: int
    rows: int
    root: str | None
    table: str | None
    published_generation: int
    checks: dict[Level, list[str]]
    reason: str | None
    error: ErrorReport | None
    as_of: NotRequired[str | None]
    listing: NotRequired[ListingLateness]
    lag: NotRequired[SourceLag]
    tasks_left: NotRequired[int]
    wider: NotRequired[list[str]]
    hold: NotRequired[DatasetHold]
    freshness: NotRequired[DatasetFreshness]
    times: NotRequired[DatasetTimes]
    feed: NotRequired[str]
    feeds: NotRequired[list[OfferedAs]]
    own: NotRequired[bool]
    watermark: NotRequired[DatasetWatermark]


class SparkField(TypedDict):
    """A column. `type` is Spark's JSON of a type: a name, or an object for nested ones."""

    name: str
    type: JsonValue
    nullable: bool
    metadata: JsonObject


class SparkSchema(TypedDict):
    """Columns as Spark's JSON of a struct type."""

    type: Literal["struct"]
    fields: list[SparkField]


class DatasetAnswer(DatasetStatus):
    """One dataset, with its schema. `namespace`: which it is in, the bucket of the S3 view.
    `rows_last_minute`: how many rows more than a minute ago a stream's dataset has; `roll_up`:
    whether its slices are rolled up, in a sentence."""

    namespace: str
    rows_last_minute: NotRequired[int]
    roll_up: NotRequired[str]
    schema: SparkSchema | None
    description: str
    logic: str
    modes: dict[str, InputMode]
    volatile: list[VolatileConstruct]


class TargetStatus(TypedDict):
    """How a copy elsewhere stands."""

    name: str
    state: State
    synced_generation: int
    target: str
    reason: str | None
    error: ErrorReport | None
    times: NotRequired[DatasetTimes]


class DriverStatus(TypedDict):
    """A driver or worker. `waiting`: it was requested and has not started, for the `reason`. `at`:
    when it ended."""

    id: str
    pool: str
    kind: Literal["driver", "worker"]
    state: Literal["running", "waiting", "ending", "ended"]
    reason: str
    at: NotRequired[str]


class LeaderStatus(TypedDict):
    """The process that plans, launches and commits."""

    holder: str
    epoch: int
    since: str


class Standstill(TypedDict):
    """Why nothing is computed. `missing`: the part that is not running, and `since` when (None: it
    never ran). `reason`: why a requested driver has not started. `fix` and `command`: what ends the
    standstill."""

    missing: Literal["scheduler", "driver", "worker"]
    sentence: str
    since: str | None
    reason: str | None
    fix: str
    command: str


class DataflowStatus(TypedDict):
    """How a dataflow stands. `problem`: it does not compile, and nothing of it is computed."""

    name: str
    branch: str
    revision: int
    state: State
    problem: NotRequired[str]
    datasets: list[DatasetStatus]
    targets: list[TargetStatus]


class ExportStatus(TypedDict):
    """Of the OpenLineage export. `behind`: how many of our own events it has not come to. `error`:
    of the last try, where it failed, and this process is the one that sends."""

    behind: int
    error: str | None


class StatusAnswer(TypedDict):
    """How everything stands, or the requested part. `leader`: None while no process plans.
    `standstill`: None while work is done, or could be. `openlineage`: only where events of lineage
    are sent."""

    state: State
    dataflows: list[DataflowStatus]
    drivers: list[DriverStatus]
    leader: LeaderStatus | None
    standstill: Standstill | None
    openlineage: NotRequired[ExportStatus]


class WhyNode(TypedDict):
    """A dataset in the tree of causes: what changed, or (`pending`) is to change. `inputs`: those
    that led to it.

    `cause`: None of one that did not change. `repeated`: its inputs are listed where it stands
    first. `partitions` are the first of the `count` that changed.
    """

    dataset: str
    cause: Cause | None
    sentence: str
    pending: bool
    repeated: bool
    generation: int | None
    at: str | None
    count: int
    partitions: list[str]
    inputs: list[WhyNode]


class WhyStop(TypedDict):
    """A later change that went no further than this dataset, whose rows came out equal."""

    dataset: str
    at: str
    sentence: str


class WhyHeldUp(TypedDict):
    """What keeps work from being done. `dataset`: where it begins, and `at` when, where that is
    known; `error`: of that dataset; `fix`: what ends it; `commands`: those that the fix names."""

    dataset: str
    state: State
    sentence: str
    at: str | None
    fix: str
    commands: list[str]
    error: ErrorReport | None


class WhyAnswer(TypedDict):
    """Why a dataset, or one partition, is as it is. `sentence`: the cause; `tree`: the way down to
    it.

    `because` has the datasets of the tree that changed, nearest first, as items of a plan. `work`:
    what the last commit took. `freshness`: where it is expected. `roll_up`: of a stream, whether
    its slices are rolled up. `resources`: where its tasks have a larger size than its blueprint
    says, or drivers get few of them at a time. `at`: of an earlier generation that was requested, when it was
    committed; `state` is that of now.
    """

    dataset: str
    partition: str | None
    state: State
    generation: int
    cause: Cause | None
    sentence: str
    reason: str
    held_up: WhyHeldUp | None
    modes: dict[str, InputMode]
    volatile: list[VolatileConstruct]
    logic: str | None
    because: list[PlanItem]
    tree: WhyNode | None
    stopped: list[WhyStop]
    sources: list[SourceOrigin]
    drivers: list[DriverStatus]
    error: ErrorReport | None
    work: WorkSummary | None
    at: NotRequired[str]
    freshness: NotRequired[DatasetFreshness]
    roll_up: NotRequired[str]
    resources: NotRequired[str]
