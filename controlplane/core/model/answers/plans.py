"""Plans: what would run, what an edit changes and breaks, what it costs, and what a plan rests
on."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from controlplane.core.model.answers.holds import HeldDataset
from controlplane.core.model.answers.problems import ProblemDetail
from controlplane.core.model.scaling import Keep
from controlplane.core.model.states import Cause


class InputMode(TypedDict):
    """How a transform reads an input, and why: each, by, all, previous; `undecided` before the
    types of its inputs are known. `cure`: what to write so that it is not read whole."""

    mode: str
    reason: str
    cure: NotRequired[str]


class KeptInput(InputMode):
    """How a component keeps one input, and why. `kept_as`: `parts` of an aggregate that can be merged,
    `fold` of the partition before; else as `mode`, and `key` names its columns."""

    component: str
    input: str
    dataset: str
    kept_as: Literal["each", "by", "parts", "fold", "all", "undecided"]
    key: list[str]


class LatePartition(TypedDict):
    """What one late partition of a source costs, as if all rows that are computed again differed.
    `uncounted`: datasets that are in no figure, as the number of their partitions or keys is not
    known; `untimed`: those that are not in `seconds`, for want of a past attempt."""

    source: str
    tasks: int
    partitions: int
    seconds: float | None
    uncounted: list[str]
    untimed: list[str]


class PlanModes(TypedDict):
    """How inputs are kept, and what late partitions cost. `left_out`: inputs beyond the first."""

    inputs: list[KeptInput]
    late: list[LatePartition]
    left_out: int


class VolatileConstruct(TypedDict):
    """What in the text of a transform may give another result each time. `file`: None for the text
    in the blueprint."""

    construct: str
    file: str | None
    line: int


RootChange = TypedDict("RootChange", {"dataset": str, "from": str | None, "to": str | None})
RootChange.__doc__ = (
    "A change of an input that leads to work: its root before and after, None where there is none."
)


class PlanItem(TypedDict):
    """Work of one kind on one dataset: planned, or in an explanation done. `tasks` counts exactly
    if `certain`.

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
    """An estimate of work, by past attempts: seconds of drivers, and written bytes. `adopted`:
    partitions that are known already, and cost nothing. `unknown` names datasets of which no
    attempt is known; they are not in the sums. `seconds`: None where nothing is known."""

    seconds: Spread | None
    bytes: int
    rows: int
    adopted: int
    unknown: list[str]


class RetypedColumn(TypedDict):
    """A column with another type, as DDL. `wider`: each value of the old type is one of the new
    type."""

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

    `kind`: `logic` changes rows, `text` does not; of `columns`, only the inputs were edited.
    `logic` names the parts of the logic that differ. `impact` is that of the columns on readers.
    `schema_from`: who says which columns there are; `schema_unknown`: why that is not Spark, where
    its analysis was requested or the columns are unknown.
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
    """Partitions of a source: one object each, unless `partition:` puts several objects under one
    key."""

    added: int
    changed: int
    removed: int


class SourceObjectChange(TypedDict):
    """What happened to one of them. `name`: its object's, or the partition key where there are
    several objects."""

    name: str
    change: Literal["added", "changed", "removed"]


class SourceChange(TypedDict):
    """A source: when it was last looked at, and how it differs from what the dataset holds (in the
    answer of `refresh`: from the listing before). `objects` are the first ten. `problem`: why it
    was not looked at, or why a feed gives nothing new. `is_left_alone`: on purpose, since it is
    paused or listed on request only. `due`: of a cron expression, when the next look is due.
    `pulled`: of a source on demand, how often it is listed, and for which dataset."""

    dataset: str
    location: str
    as_of: str | None
    changed: SourceCounts
    objects: list[SourceObjectChange]
    problem: str | None
    is_left_alone: bool
    due: NotRequired[str]
    pulled: NotRequired[str]


class DatasetBasis(TypedDict):
    """Where a dataset stood: zeros and no root where it had not been made. `commit` counts its
    states."""

    generation: int
    commit: int
    root: str | None


class PlanBasis(TypedDict):
    """What a plan rests on, for `POST .../plan` to carry out just that: digests of the blueprints
    and of the work on each dataset, revisions (0: none), roots of listings, and where datasets
    stood. `looked`: the id under which sources were listed for the plan, for an hour; empty where
    none was."""

    dataflows: list[str]
    blueprints: str
    revisions: dict[str, int]
    sources: dict[str, str | None]
    datasets: dict[str, DatasetBasis]
    work: dict[str, str]
    looked: NotRequired[str]


class FailedPlan(TypedDict):
    """A dataset or copy that failed: nothing of it runs before what `sentence` says. `command`: a
    retry, or the checks that fail."""

    dataset: str
    sentence: str
    command: str


class BrokenDataflow(TypedDict):
    """A stored dataflow that does not compile: nothing of it runs."""

    dataflow: str
    sentence: str


class DriversAtRest(TypedDict):
    """What a dataflow's choice of `drivers` costs while nothing waits for them."""

    dataflow: str
    keep: Keep
    sentence: str


class PlanAnswer(TypedDict):
    """What would run now. `certain` and `possible` count tasks. `sources` and `basis` stand on the
    first page; answers about applied blueprints have no basis. `held`: datasets for which nothing
    is planned, since they were rolled back; `failed`: those that a retry or an edit has to come
    for. `not_compiled`: dataflows of which nothing is known.

    `drivers`: of dataflows that choose how long drivers stay, on the first page. `modes`: how the
    dataflows keep their inputs, on the first page.

    `changes` are those of the blueprints that were sent, compared with the stored ones; `breaks`
    are all of theirs.
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
    held: NotRequired[list[HeldDataset]]
    failed: NotRequired[list[FailedPlan]]
    not_compiled: NotRequired[list[BrokenDataflow]]
    drivers: NotRequired[list[DriversAtRest]]
    modes: NotRequired[PlanModes]
    basis: NotRequired[PlanBasis]
    next: str | None


class SourceOrigin(TypedDict):
    """A source behind a dataset, with the addresses of some of its objects. `due`: of a cron
    expression, when the next look is due."""

    dataset: str
    location: str
    objects: list[str]
    due: NotRequired[str]
