"""Answers of the API as types: operations build them, OpenAPI describes them, the SDK and the command line read them.

The keys stand in the order in which an answer has them. Times are ISO 8601 in UTC, or seconds since 1970 where they are
numbers. Does not belong here: how an answer is found, and bodies of requests.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from controlplane.core.model.check_results import CheckResult
from controlplane.core.model.json_values import JsonObject, JsonValue
from controlplane.core.model.states import Cause
from controlplane.core.model.tasks import Size, TaskState
from controlplane.core.model.work_answers import WorkSummary
from dataplane.contract.kinds import Kind

State: TypeAlias = Literal["up_to_date", "stale", "building", "failed", "blocked", "waiting", "paused", "held"]
"""How a dataset, a target, a dataflow or all of them stand: `core.plan.Status`."""

Level: TypeAlias = Literal["failed", "warning"]
LEVELS: tuple[Level, ...] = ("failed", "warning")


# --- what is wrong ----------------------------------------------------------------------------------


class ProblemDetail(TypedDict):
    """One thing that is wrong. Lines and columns count from 1; 0 where there is no place."""

    file: str
    line: int
    column: int
    code: str
    message: str
    hint: str


class ProblemDocument(TypedDict):
    """Why a request was not done. `type` names the code of docs/errors.md. A proxy's answer has no title and no id."""

    type: str
    title: NotRequired[str]
    status: int
    detail: str
    request_id: NotRequired[str]
    errors: list[ProblemDetail]


class ErrorReport(TypedDict):
    """An error of a task, with its place in the blueprint or in a text that the blueprint names."""

    code: Literal["user-error", "infrastructure-error"]
    condition: str | None
    sqlstate: str | None
    message: str
    file: str | None
    line: int | None
    column: int | None
    log: str | None
    attempt: str | None


# --- the plan, and causes ---------------------------------------------------------------------------


class InputMode(TypedDict):
    """How a transform reads an input, and why."""

    mode: str
    reason: str


class VolatileConstruct(TypedDict):
    """What in the text of a transform may give another result each time. `file`: None for the text in the blueprint."""

    construct: str
    file: str | None
    line: int


RootChange = TypedDict("RootChange", {"dataset": str, "from": str | None, "to": str | None})
RootChange.__doc__ = "A change of an input that leads to work: its root before and after, None where there is none."


class PlanItem(TypedDict):
    """Work of one kind on one dataset, or in an explanation what was done. `tasks` counts exactly if `certain`.

    `partitions` are the first keys of `count`.
    """

    dataset: str
    action: Literal["compute", "adopt", "remove", "check", "sync"]
    cause: Cause
    reason: str | None
    certain: bool
    tasks: int
    count: int
    partitions: list[str]
    bytes: int
    modes: dict[str, InputMode]
    because: RootChange | None
    cost: NotRequired[PlanCost | None]


class Spread(TypedDict):
    """What half of the past attempts took at most, and what a tenth and nine tenths of them did."""

    low: float
    median: float
    high: float


class PlanCost(TypedDict):
    """What work is thought to take, by past attempts: seconds of drivers, and what is written. `unknown` names datasets
    of which no attempt is known; they are not in the sums. `seconds`: None where nothing is known."""

    seconds: Spread | None
    bytes: int
    rows: int
    unknown: list[str]


class RetypedColumn(TypedDict):
    """A column with another type, as DDL. `wider`: each value of the old type is one of the new type."""

    name: str
    before: str
    after: str
    wider: bool


class ColumnsChange(TypedDict):
    """How the columns of a dataset differ."""

    added: list[str]
    removed: list[str]
    retyped: list[RetypedColumn]


class PlanBreak(ProblemDetail):
    """What does not work any more: the `component`, by a change of the dataset `by`."""

    component: str
    what: Literal["itself", "reader", "target", "check"]
    by: str


class ComponentChange(TypedDict):
    """What an edit changes in one component.

    `kind`: `logic` changes rows, `text` does not; of `columns`, only the inputs were edited. `logic` names the parts of
    the logic that differ. `impact` is that of the columns on readers. `schema_from`: who says which columns there are;
    `schema_unknown` tells why that is not Spark, where it was asked or nobody can say.
    """

    component: str
    kind: Literal["added", "removed", "logic", "text", "columns"]
    impact: Literal["breaking", "widening", "neutral", "unknown"]
    text_diff: str
    logic_changed: bool
    logic: list[str]
    columns: ColumnsChange
    schema_from: Literal["spark", "declared", "sqlglot", "unknown"]
    schema_unknown: str | None
    breaks: list[PlanBreak]


class SourceCounts(TypedDict):
    """Partitions of a source: one object each, unless `partition:` puts several objects under one key."""

    added: int
    changed: int
    removed: int


class SourceObjectChange(TypedDict):
    """What happened to one of them. `name`: its object's, or the partition key where there are several objects."""

    name: str
    change: Literal["added", "changed", "removed"]


class SourceChange(TypedDict):
    """A source: when it was last looked at, and how it differs from what the dataset holds (in the answer of `refresh`:
    from what was found the last time). `objects` are the first ten. `problem`: why it could not be looked at."""

    dataset: str
    location: str
    as_of: str | None
    changed: SourceCounts
    objects: list[SourceObjectChange]
    problem: str | None


class DatasetBasis(TypedDict):
    """Where a dataset stood: zeros and no root where it had not been made. `commit` counts its states."""

    generation: int
    commit: int
    root: str | None


class PlanBasis(TypedDict):
    """What a plan rests on, for `POST .../plan` to carry out just that: digests of the blueprints and of the work
    on each dataset, revisions (0: none), roots of listings, and where datasets stood."""

    dataflows: list[str]
    blueprints: str
    revisions: dict[str, int]
    sources: dict[str, str | None]
    datasets: dict[str, DatasetBasis]
    work: dict[str, str]


class PlanAnswer(TypedDict):
    """What would run now. `certain` and `possible` count tasks. `sources` and `basis` stand on the first page; answers
    to what was applied have no basis.

    `changes` are those of the blueprints that were sent, compared with what is stored; `breaks` are all of theirs.
    """

    branch: str
    state: Literal["work", "nothing"]
    as_of: str
    sources: list[SourceChange]
    certain: int
    possible: int
    items: list[PlanItem]
    cost: PlanCost
    changes: list[ComponentChange]
    breaks: list[PlanBreak]
    notices: list[ProblemDetail]
    basis: NotRequired[PlanBasis]
    next: str | None


class SourceOrigin(TypedDict):
    """A source behind a dataset, with the addresses of some of its objects."""

    dataset: str
    location: str
    objects: list[str]


# --- how things stand -------------------------------------------------------------------------------


class ListingLateness(TypedDict):
    """When a source was last listed, when it is due, since when a worker is at it, and how far it is behind."""

    at: str | None
    due: str | None
    since: str | None
    refresh_s: float | None
    behind_s: float


class RunningWork(TypedDict):
    """Attempts at a dataset that run, since when the oldest of them does, and that oldest one."""

    attempts: int
    since: str
    seconds: float
    attempt: str


class DatasetTimes(TypedDict):
    """What the last commit took, and what runs now. `last`: None where it is not known, or nothing was computed."""

    last: WorkSummary | None
    running: RunningWork | None


class DatasetFreshness(TypedDict):
    """How old the newest data of a dataset is, and may be. `at`, `age_s`: None where there is no data yet.

    `reason`: why the dataset is late, in words.
    """

    limit_s: float
    age_s: float | None
    at: str | None
    late: bool
    reason: str | None


class DatasetStatus(TypedDict):
    """How a dataset stands. `checks` names those that failed, or warn. `as_of` (when it was last looked at) and
    `listing` are there for sources, `times` where it was asked for, `freshness` where it is expected. `wider`: where an
    inferred schema is wider than the source objects, in sentences."""

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
    wider: NotRequired[list[str]]
    freshness: NotRequired[DatasetFreshness]
    times: NotRequired[DatasetTimes]


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
    """One dataset, with its schema."""

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
    """A driver or worker. `waiting`: it was asked for and has not begun, for the `reason`. `at`: when it ended."""

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


class DataflowStatus(TypedDict):
    """How a dataflow stands. `problem`: it does not compile, and nothing of it is computed."""

    name: str
    branch: str
    revision: int
    state: State
    problem: NotRequired[str]
    datasets: list[DatasetStatus]
    targets: list[TargetStatus]


class StatusAnswer(TypedDict):
    """How everything stands, or what was asked for. `leader`: None while no process plans."""

    state: State
    dataflows: list[DataflowStatus]
    drivers: list[DriverStatus]
    leader: LeaderStatus | None


class WhyNode(TypedDict):
    """A dataset in the tree of causes: what changed, or (`pending`) is to change. `inputs`: those that led to it.

    `cause`: None of one that did not change. `repeated`: its inputs are told where it stands first. `partitions` are
    the first of the `count` that changed.
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
    """What keeps work from being done. `dataset`: where it begins; `error`: of that dataset; `fix`: what ends it."""

    dataset: str
    state: State
    sentence: str
    fix: str
    error: ErrorReport | None


class WhyAnswer(TypedDict):
    """Why a dataset, or one partition, is as it is. `sentence`: the cause; `tree`: the way down to it.

    `because` has the datasets of the tree that changed, nearest first, as items of a plan. `work`: what the last
    commit took. `freshness`: where it is expected.
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
    freshness: NotRequired[DatasetFreshness]


# --- one dataset ------------------------------------------------------------------------------------


class PartitionEntry(TypedDict):
    """One committed partition. `bytes`: None where its files are not known any more."""

    partition: str
    rows: int
    fragment: str
    bytes: int | None


class PartitionsAnswer(TypedDict):
    """A page of partitions, in order of their keys. `next`: the `after` of the next page."""

    items: list[PartitionEntry]
    next: str | None


class GenerationEntry(TypedDict):
    """One generation of a dataset. `work`: what it took; None where it is not known, or nothing was computed."""

    generation: int
    at: str
    cause: Cause
    revision: int
    partitions: int
    rows: int
    root: str
    work: WorkSummary | None


class HistoryAnswer(TypedDict):
    """A page of generations, newest first. `next`: the `before` of the next page."""

    items: list[GenerationEntry]
    next: int | None


class ChecksAnswer(TypedDict):
    """What checks found in a generation, and in rows that did not become one."""

    dataset: str
    state: State
    generation: int
    items: list[CheckResult]
    rejected: list[CheckResult]


class TaskEntry(TypedDict):
    """A task that a dataset asks for. `since`: when the attempt that it is in began, by this `driver`."""

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


# --- branches ---------------------------------------------------------------------------------------


class BranchAnswer(TypedDict):
    """A branch beside main. `dataflows` were edited in it; `datasets` counts those with states of their own."""

    name: str
    source: str
    created_at: str
    actor: str
    expires_at: str | None
    protected: bool
    dataflows: list[str]
    datasets: int


class BranchesAnswer(TypedDict):
    """All branches beside main, in order of their names."""

    items: list[BranchAnswer]
    next: None


class DropBranchAnswer(TypedDict):
    """The branch that was ended."""

    deleted: str


class MergeAnswer(TypedDict):
    """What a merge brought into a branch, or would bring: revisions of dataflows, dataflows that ended, components that
    were taken, and what is to be done there afterwards. `tasks`: what has to be computed; `adopted`: what has not."""

    source: str
    into: str
    dry_run: bool
    revisions: dict[str, int]
    ended: list[str]
    taken: list[str]
    plan: PlanAnswer


class DatasetDifference(TypedDict):
    """How one dataset differs between two branches. Partitions and rows count from the first to the second."""

    dataset: str
    state: Literal["added", "removed", "changed", "equal"]
    added: int
    removed: int
    changed: int
    rows: int
    partitions: list[str]


class ComponentDifference(TypedDict):
    """How the text of one component differs between two branches. `component` is empty for the text around them."""

    dataflow: str
    component: str
    state: Literal["added", "removed", "changed"]
    diff: list[str]


class BranchDifference(TypedDict):
    """How two branches differ. `shared` counts the datasets that both have from main."""

    one: str
    other: str
    components: list[ComponentDifference]
    datasets: list[DatasetDifference]
    shared: int


# --- dataflows --------------------------------------------------------------------------------------


class ApplyAnswer(TypedDict):
    """The revisions of the dataflows that were sent, and what will run."""

    revisions: dict[str, int]
    plan: PlanAnswer


class ValidateAnswer(TypedDict):
    """All problems of a set of blueprints."""

    valid: bool
    errors: list[ProblemDetail]
    notices: list[ProblemDetail]


class ConnectionFault(TypedDict):
    """What is in the way of a connection."""

    kind: Literal["user", "infrastructure"]
    condition: str | None
    sqlstate: NotRequired[str | None]
    message: str
    file: NotRequired[str | None]
    line: NotRequired[int | None]
    column: NotRequired[int | None]
    detail: NotRequired[str]


class ConnectionFound(TypedDict):
    """What a worker found where it tried a place; with no `error`, nothing is in the way."""

    connector: str | None
    place: str | None
    error: ConnectionFault | None


class ConnectionEntry(ConnectionFound):
    """The same, with the component that reads or writes there."""

    component: str


class ConnectionsAnswer(TypedDict):
    """What is in the way of each place that a set of blueprints reads or writes."""

    connected: bool
    items: list[ConnectionEntry]


class NotifyEntry(TypedDict):
    """A channel that was sent a test message. `dataflow`: None for the installation's. No `error`: it took it."""

    dataflow: str | None
    to: str
    place: str
    error: ConnectionFault | None


class NotifyAnswer(TypedDict):
    """What came of a test message to each channel."""

    sent: bool
    items: list[NotifyEntry]


class DataflowEntry(TypedDict):
    """A declared dataflow, and who applied its revision."""

    name: str
    branch: str
    revision: int
    actor: str
    at: float
    components: list[str]


class DataflowAnswer(DataflowEntry):
    """A declared dataflow with its texts."""

    file: str
    text: str
    files: dict[str, str]


class DataflowsAnswer(TypedDict):
    """All declared dataflows, in order of their names."""

    items: list[DataflowEntry]
    next: None


class DeleteAnswer(TypedDict):
    """The dataflow that was deleted, and its last revision."""

    deleted: str
    revision: int


# --- controls ---------------------------------------------------------------------------------------


class RefreshAnswer(TypedDict):
    """How many listings were asked for, of which sources, and which datasets are computed again. `schemas`: datasets
    whose columns are inferred anew. `changes`: what was found, where the request waited for it."""

    target: str | None
    listings: int
    sources: list[str]
    forced: list[str]
    schemas: list[str]
    changes: NotRequired[list[SourceChange]]


class RetryAnswer(TypedDict):
    """How many tasks and listings are tried again."""

    target: str | None
    retried: int
    listings: int


class PauseAnswer(TypedDict):
    """Whether the target is paused now. After a resume: what still is, and by what."""

    target: str
    paused: bool
    still_paused: NotRequired[list[str]]
    by: NotRequired[list[str]]


class PauseAllAnswer(TypedDict):
    """The dataflows that were paused or resumed. After a resume: what is still paused, and by what."""

    target: None
    targets: list[str]
    still_paused: NotRequired[list[str]]
    by: NotRequired[list[str]]


class AuditEntry(TypedDict):
    """A change of what is wanted."""

    at: str
    actor: str
    request_id: str
    branch: str  # empty: of no branch
    action: str
    target: str
    before: JsonValue
    after: JsonValue


class AuditAnswer(TypedDict):
    """Changes of what is wanted, the last ones first."""

    items: list[AuditEntry]
    next: None


class EventRecord(TypedDict):
    """What has happened; an event also has the fields of its kind. `n` is what counters add up."""

    id: int
    at: str
    branch: str  # empty: of no branch
    kind: str
    dataset: str
    n: int


# --- tokens, upkeep, health -------------------------------------------------------------------------


class TokenEntry(TypedDict):
    """A token, without its text."""

    id: str
    name: str
    scopes: list[str]
    at: float
    expires: float | None
    expired: bool
    revoked: bool


class TokensAnswer(TypedDict):
    """All tokens that people made."""

    items: list[TokenEntry]
    next: None


class NewTokenAnswer(TypedDict):
    """A new token; `token` is its text, which is never shown again."""

    token: str
    id: str
    name: str
    scopes: list[str]
    at: float
    expires: float | None


class CollectAnswer(TypedDict):
    """How many rows of each kind went, and how many tree nodes are in use. `packs`: how many were given up."""

    packs: NotRequired[int]
    states: int
    builds: int
    tasks: int
    events: int
    answers: int
    drivers: int
    attempts: int
    nodes: int
    nodes_in_use: int
    superseded: int
    folders: int
    packages: int


class FindingEntry(TypedDict):
    """One thing that is not as it should be: a stable code, where, what is so, and what to do about it."""

    code: str
    where: str
    what: str
    fix: str


class Repairs(TypedDict):
    """How many fragments were given up, and the datasets (`branch/dataset`) that are made whole again."""

    fragments: int
    datasets: list[str]


class FsckAnswer(TypedDict):
    """What is wrong with the database or the lake. Not `complete`: more may be wrong."""

    findings: list[FindingEntry]
    complete: bool
    repaired: NotRequired[Repairs]


class HealthAnswer(TypedDict):
    """This process is well."""

    status: Literal["ok"]


# --- one run, which the command line tells ----------------------------------------------------------


class RunCounts(TypedDict):
    """What a run did: tasks, and partitions that were adopted or written. `failed`: datasets that ended so."""

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
    """The same, as the command tells it."""

    spark_started: bool
    wall_s: float


class RunBegun(TypedDict):
    """A run that a service has begun. `since` is the newest event before it; `failed` has, by dataflow, the keys of the
    tasks that had failed before it."""

    since: int
    revisions: dict[str, int]
    failed: dict[str, list[str]]


class RunProgress(RunSummary):
    """The same of a run that may be under way. `settled`: nothing of it moves any more. `under_way`: tasks of the whole
    installation that wait or run."""

    since: int
    settled: bool
    under_way: int
    spark_started: bool
