"""Dataflows that are stored, checked and ended; connections and channels that were tried."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from controlplane.core.model.answers.plans import PlanAnswer
from controlplane.core.model.answers.problems import ProblemDetail


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
    """The obstacle of a connection."""

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
    """The obstacles of each place that a set of blueprints reads or writes."""

    connected: bool
    items: list[ConnectionEntry]


class NotifyEntry(TypedDict):
    """A channel that was sent a test message. `dataflow`: None for the installation's. No `error`:
    it took it."""

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
