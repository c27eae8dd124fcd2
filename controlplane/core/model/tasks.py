"""Work: tasks, attempts at them, the fragments they gave, and the traces that remember this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from controlplane.core.model.jobs import Spec
from dataplane.contract.identity import Content
from dataplane.contract.kinds import Kind, Placement, placement_of
from dataplane.contract.results import FileEntry, TaskError
from dataplane.contract.schemas import Schema

TaskState: TypeAlias = Literal["queued", "running", "done", "failed"]


Size: TypeAlias = Literal["small", "standard", "large"]  # how much of a machine a task may need


SIZES: tuple[Size, ...] = ("small", "standard", "large")


# After which tasks are tried again at the size that their blueprint says
RAISED_FOR_S = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class RaisedSize:
    """The least size of a dataset's tasks since one of them ran out of memory at a smaller one.
    `at`: seconds since 1970."""

    dataset: str
    size: Size
    at: float

    def holds(self, now: float) -> bool:
        return now < self.at + RAISED_FOR_S


class StoredFile(NamedTuple):
    """A file of a fragment without its statistics. `path` is relative to the lake."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Fragment:
    """Immutable files that hold one partition's rows. `home` is the dataset whose folder they lie
    in."""

    id: bytes
    schema: Schema
    content: Content
    files: tuple[FileEntry, ...]
    home: str
    attempt: str
    status: Literal["stored", "condemned", "deleted"] = "stored"


By: TypeAlias = Literal["executed", "adopted"]


@dataclass(frozen=True, slots=True)
class Trace:
    """The fact that a task gave these fragments, by the names of outputs
    (`contract.output_results`).

    `seq` grows with every trace in the namespace; `by` records whether the work was executed or
    adopted from a manifest.
    """

    task: bytes
    outputs: Mapping[str, bytes]
    seq: int = 0
    by: By = "executed"
    home: str = ""
    # Of outputs; stores fill it in
    contents: Mapping[str, Content] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Task:
    """One unit of work, keyed by its logic and inputs. `job` is the digest of the JSON that it
    shares with its batch."""

    key: bytes
    kind: Kind
    dataset: str  # that first demanded it; home of its fragments
    partition: str
    job: bytes
    spec: Spec
    size_bytes: int = 0
    priority: int = 0
    state: TaskState = "queued"
    epoch: int = 0
    attempt: str | None = None
    failures: int = 0  # infrastructure failures so far
    not_before: float = 0.0
    error: TaskError | None = None
    size: Size = "standard"
    placement: Placement | None = None  # None: that of its kind, which it then is

    def __post_init__(self) -> None:
        if self.placement is None:
            object.__setattr__(self, "placement", placement_of(self.kind))


def next_larger(size: Size) -> Size | None:
    """The next larger size; None for the largest."""
    return next(iter(SIZES[SIZES.index(size) + 1 :]), None)


def larger(first: Size, other: Size) -> Size:
    return max(first, other, key=SIZES.index)


class Demand(NamedTuple):
    """How a task that is demanded stands."""

    state: TaskState
    size: Size
    priority: int

    def covers(self, task: Task) -> bool:
        """Whether `task` needs no larger driver, and is no more urgent, than this one."""
        return SIZES.index(task.size) <= SIZES.index(self.size) and task.priority <= self.priority


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a driver at a batch of tasks. `tasks` maps task keys to the epochs that this
    attempt holds.

    `partition` is the first one of its tasks, `queued_at` when the oldest of them was queued.
    """

    id: str
    dataset: str
    driver: str
    kind: Kind
    job: bytes
    prefix: str
    tasks: Mapping[bytes, int]
    lease_until: float
    at: float
    queued_at: float = 0.0
    partition: str = ""
