"""The values of a review, and the facts that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from controlplane.core.errors import Problem
from controlplane.core.model.memos import Memo
from controlplane.core.model.pins import Pin
from controlplane.core.model.sources import Listing
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Task
from dataplane.contract.jobs import AnalyseJob
from dataplane.contract.schemas import Schema

ChangeKind: TypeAlias = Literal["added", "removed", "logic", "text", "columns"]
"""`logic`: the rows may be others. `text`: only words or settings that no row depends on.
`columns`: it is as it was, and its inputs have other columns."""

Impact: TypeAlias = Literal["breaking", "widening", "neutral", "unknown"]
"""What becomes of the columns: some are gone or retyped; there are more or wider ones; they are as
they were."""

SchemaOrigin: TypeAlias = Literal["spark", "declared", "sqlglot", "unknown"]
BreakKind: TypeAlias = Literal["itself", "reader", "target", "check"]
EXACT: tuple[SchemaOrigin, ...] = ("spark", "declared")


@dataclass(frozen=True, slots=True)
class KnownSchema:
    """The columns of a dataset, and who says so; `why` it is not from Spark, where that was
    requested or cannot be determined."""

    schema: Schema | None
    origin: SchemaOrigin
    why: str = ""

    @property
    def is_exact(self) -> bool:
        return self.origin in EXACT


@dataclass(frozen=True, slots=True)
class Retyped:
    """A column whose type changes. `is_wider`: each value of the old type is one of the new
    type."""

    name: str
    before: str
    after: str
    is_wider: bool


@dataclass(frozen=True, slots=True)
class ColumnChanges:
    """The difference of two schemas."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    retyped: tuple[Retyped, ...] = ()

    @property
    def narrowed(self) -> tuple[Retyped, ...]:
        return tuple(retyped for retyped in self.retyped if not retyped.is_wider)

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.removed or self.retyped)


@dataclass(frozen=True, slots=True, order=True)
class Break:
    """One thing that an edit breaks. `by`: the dataset whose change breaks it; `component` is what
    breaks."""

    by: str
    component: str
    what: BreakKind
    problem: Problem


@dataclass(frozen=True, slots=True)
class ComponentReview:
    """What an edit does to one component. `logic` says in words which parts of its logic differ."""

    dataset: str
    kind: ChangeKind
    impact: Impact
    text_diff: str
    logic: tuple[str, ...]
    columns: ColumnChanges
    origin: SchemaOrigin
    why_unknown: str
    breaks: tuple[Break, ...]


@dataclass(frozen=True, slots=True)
class AnalyseRequest:
    """A question for Spark's analyzer, as the task that a run would ask."""

    task: Task
    job: AnalyseJob


@dataclass(frozen=True, slots=True)
class Review:
    """All changes, in the order of the dataflow. `requests`: the questions to Spark that would give
    more."""

    changes: tuple[ComponentReview, ...]
    requests: tuple[AnalyseRequest, ...]

    @property
    def breaks(self) -> tuple[Break, ...]:
        return tuple(broken for change in self.changes for broken in change.breaks)


NOTHING_CHANGED = Review((), ())


class KnownFacts(Protocol):
    """The stored facts, of one snapshot."""

    def state(self, dataset: str) -> State | None: ...
    def pinned(self, dataset: str) -> Pin | None: ...
    def listing(self, id: bytes) -> Listing | None: ...
    def answers(self, keys: tuple[bytes, ...]) -> Mapping[bytes, Memo]: ...
    def tasks(self, keys: tuple[bytes, ...]) -> Mapping[bytes, Task]: ...
