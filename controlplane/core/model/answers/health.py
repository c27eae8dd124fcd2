"""Problems of a branch by their causes, and work under way. Part of `answers`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from controlplane.core.model.answers.problems import ErrorReport
from controlplane.core.model.answers.states import State
from controlplane.core.model.answers.status import DatasetFreshness

ProblemKind: TypeAlias = Literal["failed", "blocked", "waiting", "contract", "overdue", "warning"]


class BlockedDataset(TypedDict):
    """A dataset that a problem blocks. `freshness`: where it is overdue, too."""

    name: str
    freshness: DatasetFreshness | None


class OpenProblem(TypedDict):
    """A cause that needs a user: a dataset, an export, or a dataflow that does not compile.

    `since`: when it began, `tried`: when its last attempt ended; None where that is not known.
    `blocks`: what waits for it. `is_loss`: its source lost objects, which a user may confirm.
    `freshness`: of a dataset that is overdue.
    """

    name: str
    kind: ProblemKind
    state: State
    sentence: str
    error: ErrorReport | None
    since: str | None
    tried: str | None
    owner: str
    blocks: list[BlockedDataset]
    is_loss: bool
    freshness: DatasetFreshness | None


class Computation(TypedDict):
    """Work under way at one dataset. `attempts`, `since`: None where no driver is at it yet.

    `done` of `tasks` requested ones are done. `left_s`: about how many seconds are left, by past
    attempts; None where too few are known, or no driver is at it. `basis`: where that comes from.
    """

    name: str
    attempts: int | None
    since: str | None
    attempt: str | None
    done: int
    tasks: int
    left_s: float | None
    basis: str | None
