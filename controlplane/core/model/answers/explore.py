"""What one looks through: the graph, waves of commits, ranges of partitions, one partition, a
search."""

from __future__ import annotations

from typing import Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from controlplane.core.model.answers.datasets import ChangeKind, Changes
from controlplane.core.model.answers.lineage import LineageObjects, LineagePartitions
from controlplane.core.model.answers.states import State
from controlplane.core.model.answers.status import DatasetFreshness
from controlplane.core.model.answers.work import AttemptEntry, PastRunTasks, RunCause
from controlplane.core.model.states import Cause

NodeKind: TypeAlias = Literal["read", "sql", "python", "write", "quarantine"]
Collapse: TypeAlias = Literal["flow", "tag"]
EdgeMode: TypeAlias = Literal["each", "by", "all", "previous", "copy", "quarantine"]
FacetName: TypeAlias = Literal["state", "is", "kind", "flow", "owner", "tag"]
MatchField: TypeAlias = Literal[
    "name", "column", "description", "tag", "owner", "state", "is", "partition"
]


class Share(TypedDict):
    """Partitions: those that are as they shall be, those with work to do, and those whose task
    failed. Where work is counted by tasks, a new partition and a changed one both are to do."""

    done: int
    to_do: int
    failed: int


class GraphNode(TypedDict):
    """A dataset or copy. `outside`: of another dataflow than the requested one, as a direct input
    or reader."""

    name: str
    dataflow: str
    kind: NodeKind
    description: str
    tags: list[str]
    owner: str
    state: State
    reason: str | None
    generation: int
    partitions: int
    rows: int
    share: Share
    outside: bool


GraphEdge = TypedDict(
    "GraphEdge", {"from": str, "to": str, "slot": str, "mode": EdgeMode, "reason": str}
)
GraphEdge.__doc__ = "`to` reads `from` under the name `slot`, partition by partition (`each`) or otherwise, and why so."


class GraphGroup(TypedDict):
    """Datasets that are drawn as one. `states`: how many of its members are in each state; `state`:
    the worst."""

    name: str
    members: int
    state: State
    states: dict[State, int]
    partitions: int
    rows: int
    share: Share


GroupEdge = TypedDict("GroupEdge", {"from": str, "to": str, "count": int})
GroupEdge.__doc__ = "How many edges lead from datasets of one group to those of another."


class GraphAnswer(TypedDict):
    """Datasets and how they read each other, inputs first. `structure` is equal for equal names,
    edges and modes, in any states. `total`: how many there are; `more`: those of them that
    are left out. With `collapse`, `groups` and `group_edges` stand in place of `nodes` and
    `edges`."""

    branch: str
    dataflow: str | None
    around: str | None
    state: State
    structure: str
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    groups: list[GraphGroup]
    group_edges: list[GroupEdge]
    total: int
    more: int


class WaveCommit(TypedDict):
    """A dataset in a wave. `before`: the root that it had. `stopped`: its rows came out as they
    were, so that nothing follows from it. `changes`: None where there is too much to count."""

    dataset: str
    generation: int
    at: str
    cause: Cause
    revision: int
    partitions: int
    rows: int
    root: str
    before: str | None
    stopped: bool
    changes: Changes | None


class WaveKey(TypedDict):
    """A partition that a source changed."""

    partition: str
    change: ChangeKind


class Wave(TypedDict):
    """Commits that belong together, at `at` and until `until`. `dataset` and `cause` are those of
    the first one; `reason`: what started it, in words, and `causes` one by one; `actor`: whose edit
    or request it was, where it was one and that is still known; `revision`: `dataflow@number` of an
    edit. Of its `datasets`, `reached` have another generation since, and `stopped` came out as they
    were; `left_alone`: how many others of these dataflows were there. `exports` were written;
    `tasks` are the counts of the run. `keys`: of a source that changed, the first of its partitions
    that did; `more_keys`: there are others."""

    id: str
    at: str
    until: str
    dataset: str
    cause: Cause
    reason: str
    causes: list[RunCause]
    actor: str | None
    revision: str | None
    datasets: list[str]
    reached: int
    stopped: int
    left_alone: int
    exports: list[str]
    tasks: PastRunTasks
    keys: list[WaveKey]
    more_keys: bool


class WavesAnswer(TypedDict):
    """Waves, the last ones first. `next`: the `before` of the next page."""

    dataflow: str | None
    items: list[Wave]
    next: str | None


class WaveAnswer(Wave):
    """One wave: its commits in order, and the datasets of the same dataflows that it left as they
    were."""

    steps: list[WaveCommit]
    untouched: list[str]


class PartitionRange(TypedDict):
    """Partitions whose keys are greater than `after` (None: from the first), up to and with `last`.
    `digest` is equal for equal content. `differs`: from the generation compared with; None where
    there is none. `partitions` is 0 where all that was there is gone."""

    after: str | None
    last: str
    partitions: int
    rows: int
    digest: str
    differs: bool | None


class RangesAnswer(TypedDict):
    """The partitions of one generation as ranges of their keys, in order. `from` and `to` of the
    next look into one are its `after` and `last`. `reads`: tree nodes that were read."""

    dataset: str
    generation: int
    against: int | None
    partitions: int
    rows: int
    items: list[PartitionRange]
    reads: int


class PartitionFile(TypedDict):
    path: str
    bytes: int
    rows: int | None


class PartitionSince(TypedDict):
    """The generation in which a partition became what it is. `is_exact`: False where it is that one
    or an earlier one, which is not kept any more or too far back."""

    generation: int
    at: str
    cause: Cause
    is_exact: bool


class PartitionInput(LineagePartitions):
    """`slot`: the name that the component reads it by."""

    slot: str


class PartitionAnswer(TypedDict):
    """One partition of one generation. `attempt`: what wrote it, None where that is not known any
    more; `task_seconds`: its share for one task. `inputs`: partitions that it is made of;
    `objects`: its source objects; `readers`: partitions of newest generations that are made of
    it."""

    dataset: str
    partition: str
    generation: int
    rows: int
    bytes: int | None
    fragment: str
    files: list[PartitionFile]
    since: PartitionSince
    attempt: AttemptEntry | None
    task_seconds: float | None
    inputs: list[PartitionInput]
    objects: list[LineageObjects]
    readers: list[LineagePartitions]
    notes: list[str]


class SearchMatch(TypedDict):
    """Where a word was found. `text`: the name, the column, the partition's key, or a part of the
    description."""

    field: MatchField
    text: str


class SearchHit(TypedDict):
    """A dataset or copy, with what matched of it: the first of `more` and these."""

    dataset: str
    kind: NodeKind
    state: State
    description: str
    matches: list[SearchMatch]
    more: int


class SearchAnswer(TypedDict):
    """Datasets with all of the words, the best first. `total`: how many there are. `notes`: what
    was not looked at."""

    query: str
    items: list[SearchHit]
    total: int
    notes: list[str]


class CatalogueHit(TypedDict):
    """A dataset or copy in a catalogue. `partitions`, `rows`, `updated` (when rows changed last):
    None of a copy, and where nothing is committed. `matches`: where words were found, the first of
    `more` and these. `freshness`: where it is expected. `own`: of a dataset in a branch, as its
    status has it."""

    name: str
    kind: NodeKind
    state: State
    reason: str | None
    description: str
    owner: str
    tags: list[str]
    partitions: int | None
    rows: int | None
    updated: str | None
    matches: list[SearchMatch]
    more: int
    freshness: NotRequired[DatasetFreshness]
    own: NotRequired[bool]


class FacetValue(TypedDict):
    """How many of the datasets that were found have this value."""

    value: str
    count: int
    is_chosen: bool


class Facet(TypedDict):
    """What datasets have in common: its most frequent values, the chosen one among them. They are
    counted as if none was chosen of this facet."""

    name: FacetName
    values: list[FacetValue]


class Catalogue(TypedDict):
    """Datasets with all words and chosen values. `total`: all that there are; `found`: those that
    fit; `next`: how many to skip for the next page. `notes`: parts that were not searched."""

    query: str
    chosen: dict[FacetName, str]
    total: int
    found: int
    items: list[CatalogueHit]
    facets: list[Facet]
    notes: list[str]
    next: int | None
