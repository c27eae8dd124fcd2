"""The content of pages, as types: each is the JSON of a page's twin. Parts of it are answers of the
API as they are."""

from __future__ import annotations

from typing_extensions import TypedDict

from controlplane.core.model.answers import (
    ChecksAnswer,
    DataDifference,
    DataflowAnswer,
    DataflowStatus,
    DatasetAnswer,
    DriverStatus,
    HistoryAnswer,
    LeaderStatus,
    PartitionsAnswer,
    Standstill,
    State,
    TargetStatus,
    WhyAnswer,
)
from controlplane.core.model.answers.components import (
    ComponentCode,
    ComponentsAnswer,
    DataflowText,
    RevisionEntry,
)
from controlplane.core.model.answers.datasets import CheckPoint, PartitionEntry, Trend
from controlplane.core.model.answers.explore import RangesAnswer, Wave, WaveAnswer, WavesAnswer
from controlplane.core.model.answers.health import Computation, OpenProblem
from controlplane.core.model.answers.lineage import ColumnLink
from controlplane.core.model.json_values import JsonValue
from controlplane.operations.explore.partition_times import PartitionTimes
from controlplane.operations.inspect.dataset_facts import DatasetFacts
from controlplane.ui.time_axis import Period


class FlowSummary(TypedDict):
    """A dataflow in a line. `states`: how many datasets and copies stand so; `overdue`: how many
    datasets have data that is older than `freshness` allows; `warnings`: how many expectations
    warn."""

    name: str
    revision: int
    state: State
    problem: str | None
    description: str
    states: dict[State, int]
    overdue: int
    warnings: int
    datasets: int
    targets: int
    partitions: int
    rows: int


class HomePage(TypedDict):
    """`at`: the time of the database. `drivers`: those that run, or are to start."""

    state: State
    at: str
    drivers: list[DriverStatus]
    leader: LeaderStatus | None
    standstill: Standstill | None
    needs: list[OpenProblem]
    work: list[Computation]
    waves: list[Wave]
    dataflows: list[FlowSummary]


class FlowsPage(TypedDict):
    """`total`: before any filter."""

    query: str
    state: str
    total: int
    items: list[FlowSummary]


class ColumnsDrawn(TypedDict):
    """The columns of a dataset. `column`: the one whose lineage is drawn, by `links` up to its
    sources and down to all that is made of it; `left_out`: how many links there are beside them."""

    dataset: str
    columns: list[str]
    column: str | None
    links: list[ColumnLink]
    left_out: int


class FlowPage(TypedDict):
    """A dataflow. `components` has what of other dataflows it reads, too; `beyond` says how that
    stands. `waves`: the last ones. `moment`: the one that is looked at; `stuck`: what failed, or is
    not there yet, of what follows it. `columns`: of the chosen dataset, where they are
    requested."""

    summary: FlowSummary
    text: DataflowText
    status: DataflowStatus
    beyond: dict[str, State]
    components: ComponentsAnswer
    waves: WavesAnswer
    moment: WaveAnswer | None
    stuck: list[str]
    columns: ColumnsDrawn | None


class RecordsShown(TypedDict):
    """The first rows of a dataset. `problem`: why there are none to be seen."""

    items: list[dict[str, JsonValue]]
    problem: str | None


class TimeAxis(TypedDict):
    """Keys of partitions that name times. `period`: of a cell. `is_exact`: all keys of a cell are
    in its period; else a cell reaches back to the one before."""

    period: Period
    is_exact: bool


class DatasetPage(TypedDict):
    """A dataset or a copy. Fields that a copy does not have are None, and so are rows where the
    token may not see them.

    `ranges` stand in the place of `partitions` where these are many, or a range is looked into.
    `axis`: the time that all keys name; None if one names none. `work`: the first partitions that
    failed, and that have work to do; `is_more_work`: there may be more. `times`: of the partitions
    that are shown one by one, by their fragments. `check_points`: of each expectation by its name.
    `changed`: the changes of the chosen generation, with the first changed partitions; None where
    none is chosen. `failed`: the first partitions with a task that failed; None where the dataset
    did not fail. A page of one tab, or a fragment,
    has None for what it does not show.
    """

    dataset: DatasetAnswer | TargetStatus
    facts: DatasetFacts
    why: WhyAnswer | None
    near: ComponentsAnswer | None
    states: dict[str, State]
    code: ComponentCode | None
    history: HistoryAnswer | None
    partitions: PartitionsAnswer | None
    ranges: RangesAnswer | None
    trends: list[Trend] | None
    axis: TimeAxis | None
    work: list[PartitionEntry]
    is_more_work: bool
    times: dict[str, PartitionTimes]
    checks: ChecksAnswer | None
    check_points: dict[str, list[CheckPoint]] | None
    records: RecordsShown | None
    changed: DataDifference | None
    failed: PartitionsAnswer | None


class BlueprintPage(TypedDict):
    """The text of a dataflow, as of the chosen revision. `newest`: its number now. `difference`:
    lines of a diff from the revision before. `problem`: why the newest text does not compile."""

    dataflow: DataflowAnswer
    newest: int
    revisions: list[RevisionEntry]
    difference: list[str]
    problem: str | None


class KeysPage(TypedDict):
    """`keys` and what they do; `words` of the pages and what they mean."""

    keys: dict[str, str]
    words: dict[str, str]
