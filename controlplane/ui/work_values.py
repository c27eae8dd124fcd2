"""The content of the pages of work, branches and care, as types: each is the JSON of a page's
twin."""

from __future__ import annotations

from typing_extensions import TypedDict

from controlplane.core.model.answers import (
    AuditEntry,
    BranchAnswer,
    BranchDifference,
    ChecksAnswer,
    DriverStatus,
    LeaderStatus,
    MergeAnswer,
    S3KeyEntry,
    State,
    TokenEntry,
)
from controlplane.core.model.answers.health import Computation
from controlplane.core.model.answers.plans import SourceChange
from controlplane.core.model.answers.spending import CostAnswer
from controlplane.core.model.answers.status import FreshnessEntry, ListingLateness, SourceLag
from controlplane.core.model.answers.trust import TrustEntry
from controlplane.core.model.answers.work import AttemptAnswer, AttemptFault, PastRun


class RunBar(TypedDict):
    """A bar of the histogram: runs that began at `since` or later and before `until`, which are
    times in UTC. `place`: of the bar, from 0. `failed`: how many of `runs` failed."""

    place: int
    since: str
    until: str
    runs: int
    failed: int


class ActivitySearch(TypedDict):
    """What a filter chooses of the newest runs or changes. `total`: how many; `is_cut`: older ones
    were not searched; `next`: the `skip` of the next page. `actors` and `causes`: of all that were
    searched. `machines`: changes by processes, which the filter leaves out."""

    total: int
    is_cut: bool
    next: int | None
    actors: list[str]
    causes: list[str]
    machines: int


class ActivityPage(TypedDict):
    """A page of runs with their histogram, or of audited changes. `audit`: None on the tab of
    runs."""

    flow: str
    dataflows: list[str]
    runs: list[PastRun]
    histogram: list[RunBar]
    audit: list[AuditEntry] | None
    search: ActivitySearch
    work: list[Computation]
    drivers: list[DriverStatus]
    leader: LeaderStatus | None


class CostPage(TypedDict):
    """What the work of the last days cost. `flow`: empty for all dataflows."""

    flow: str
    days: int
    dataflows: list[str]
    cost: CostAnswer


class AttemptPage(TypedDict):
    """`faults`: the first tasks that it did not do. `log`: the last lines about it, from line
    `first` on. `is_own`: the log names it; else the lines are those of its driver. `problem`: why
    there are none to be seen."""

    attempt: AttemptAnswer
    faults: list[AttemptFault]
    log: str
    first: int
    is_own: bool
    problem: str | None


class ChecksPage(TypedDict):
    """Expectations by dataset, and how old the data is where `freshness` is declared. `failing` and
    `warning` count expectations, and `overdue` datasets, of all of them, before any filter."""

    state: str
    items: list[ChecksAnswer]
    total: int
    failing: int
    warning: int
    overdue: int
    freshness: list[FreshnessEntry]


class SourceEntry(SourceChange):
    """A source. `waits`: why it waits for a yes. `listing`: when it was listed, and is due. `lag`:
    of a stream."""

    state: State
    waits: str | None
    listing: ListingLateness | None
    lag: SourceLag | None


class SourcesPage(TypedDict):
    """`next`: the `after` of the next page."""

    items: list[SourceEntry]
    total: int
    next: str | None


class BranchesPage(TypedDict):
    items: list[BranchAnswer]


class ComparePage(TypedDict):
    """How two branches differ, and the merge of the second into the first. `refused`: why that
    cannot be merged."""

    difference: BranchDifference
    merge: MergeAnswer | None
    refused: str | None


class TokensPage(TypedDict):
    tokens: list[TokenEntry]
    s3_keys: list[S3KeyEntry]
    trust: list[TrustEntry]


class CarePage(TypedDict):
    """`audit`: the last collections and repairs."""

    audit: list[AuditEntry]
