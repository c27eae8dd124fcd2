"""Answers about work that is over: attempts, what they took together, and runs. Part of
`answers`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from typing_extensions import TypedDict

from controlplane.core.model.answers.problems import ErrorReport
from controlplane.core.model.past_attempts import Outcome
from controlplane.core.model.states import Cause
from dataplane.contract.kinds import Kind

RunState: TypeAlias = Literal["running", "failed", "done"]


class WorkSummary(TypedDict):
    """What attempts took together. `seconds`: from the first start to the last end; `work_s`: that
    drivers and workers were at it, added up; `waited_s`: from the first task in the queue to the
    first start. None: it is not known.

    `slow` says so in words where a task took more than twice the median, and ten seconds more.
    `attempt` is the last.
    """

    attempts: int
    retried: int
    tasks: int
    failed: int
    began: str
    ended: str
    seconds: float
    work_s: float | None
    waited_s: float
    rows: int
    bytes_written: int
    bytes_read: int | None
    spark_jobs: int | None
    spark_stages: int | None
    spark_ui: str | None
    event_log: str | None
    slow: str | None
    attempt: str


class AttemptEntry(TypedDict):
    """An attempt that is over. `tasks` were claimed, `done` taken in. None: it is not known."""

    attempt: str
    dataset: str
    kind: Kind
    partition: str
    outcome: Outcome
    tasks: int
    done: int
    failed: int
    driver: str
    queued: str
    began: str
    ended: str
    seconds: float | None
    waited_s: float
    rows: int
    bytes_written: int
    bytes_read: int | None
    spark_jobs: int | None
    spark_stages: int | None
    spark_ui: str | None
    event_log: str | None
    error: str | None


class AttemptAnswer(TypedDict):
    """An attempt. `ended`: what came of it; None while it runs."""

    attempt: str
    dataset: str
    kind: Kind
    partition: str
    driver: str
    queued: str
    began: str
    tasks: int
    ended: AttemptEntry | None


class AttemptFault(TypedDict):
    """A task that an attempt did not do. `inputs`: the source objects that it read, or the inputs
    of its transform."""

    partition: str
    inputs: list[str]
    error: ErrorReport | None


class AttemptsAnswer(TypedDict):
    """Attempts that are over, the last ones first."""

    items: list[AttemptEntry]
    next: None


class PastRunTasks(TypedDict):
    """`executed`: tasks that computed; `adopted`: partitions that were known already; `written`: to
    copies; `retried`: attempts that were repeated; `failed`: datasets and copies that ended
    failed."""

    executed: int
    adopted: int
    written: int
    retried: int
    failed: int


class RunCause(TypedDict):
    """What started a run: a source that changed, an edit, an operator's act. `dataset`: the first
    that it changed."""

    dataset: str
    cause: Cause
    reason: str


class PastRun(TypedDict):
    """Commits that belong together, with what started them: `reason` says all `causes`, `cause` is
    the first one. `actor` made the request that started it; None for a source that changed, and
    where the audit has no record. `slow` names datasets that were."""

    id: str
    state: RunState
    cause: Cause
    reason: str
    causes: list[RunCause]
    actor: str | None
    began: str
    ended: str | None
    seconds: float
    datasets: list[str]
    tasks: PastRunTasks
    slow: list[str]


class PastRunsAnswer(TypedDict):
    """Runs, the last ones first."""

    items: list[PastRun]
    next: None


class RunStep(TypedDict):
    """What a run did to one dataset or copy. `generation`: None where it has not come to one."""

    dataset: str
    state: RunState
    cause: Cause | None
    generation: int | None
    at: str | None
    partitions: int | None
    rows: int | None
    adopted: int
    work: WorkSummary | None


class PastRunAnswer(PastRun):
    """One run, with its steps in order and its attempts. `running`: attempts under way. `critical`:
    the datasets whose work decided when the run ended, in the order of their work."""

    steps: list[RunStep]
    attempts: list[AttemptEntry]
    running: list[AttemptAnswer]
    critical: list[str]
