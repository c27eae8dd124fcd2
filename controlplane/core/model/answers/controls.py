"""Answers about requests of operators, the audit and events."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from controlplane.core.model.answers.plans import SourceChange
from controlplane.core.model.json_values import JsonObject, JsonValue
from controlplane.core.model.reads import How


class RefreshAnswer(TypedDict):
    """How many listings were requested, of which sources, and which datasets are computed again.
    `schemas`: datasets whose columns are inferred again. `changes`: those of the sources, where the
    request waited for them."""

    target: str | None
    listings: int
    sources: list[str]
    forced: list[str]
    schemas: list[str]
    changes: NotRequired[list[SourceChange]]


class ImportSample(TypedDict):
    """A sample of partitions that the code of the component computes. `waiting`: tasks that are
    still to be done. `differing`: partitions whose computed rows differ from those of the table.
    `computed` and `copied`: the generations of the copy that have the computed rows, and those of
    the table."""

    partitions: int
    waiting: int
    differing: list[str]
    computed: str | None
    copied: str | None


ImportAnswer = TypedDict(
    "ImportAnswer",
    {
        "branch": str,
        "target": str,
        "from": str,
        "dataflow": str,
        "state": Literal["copying", "verifying", "differs", "imported"],
        "partitions": int,
        "rows": int,
        "sample": NotRequired[ImportSample],
    },
)
ImportAnswer.__doc__ = (
    "How far an import of a table is. `dataflow`: the one that copies it, until it is imported. "
    "`partitions` and `rows` are those that were imported. `differs`: the code computes other rows "
    "for some partitions of the sample, so nothing was imported."
)


class RetryAnswer(TypedDict):
    """How many tasks and listings are tried again. `partition`: the one that was named."""

    target: str | None
    retried: int
    listings: int
    partition: NotRequired[str]


class PauseAnswer(TypedDict):
    """Whether the target is paused now. After a resume: what still is, and by what; the datasets
    whose hold ended (`released`), and those that are held in main, which the branch shares
    (`still_held`)."""

    target: str
    paused: bool
    still_paused: NotRequired[list[str]]
    by: NotRequired[list[str]]
    released: NotRequired[list[str]]
    still_held: NotRequired[list[str]]


class PauseAllAnswer(TypedDict):
    """The dataflows that were paused or resumed. After a resume: the pauses that remain, and their
    causes; holds as above."""

    target: None
    targets: list[str]
    still_paused: NotRequired[list[str]]
    by: NotRequired[list[str]]
    released: NotRequired[list[str]]
    still_held: NotRequired[list[str]]


class AuditEntry(TypedDict):
    """A change of the desired state."""

    at: str
    actor: str
    request_id: str
    branch: str  # empty: of no branch
    action: str
    target: str
    before: JsonValue
    after: JsonValue


class AuditAnswer(TypedDict):
    """Changes of the desired state, the last ones first."""

    items: list[AuditEntry]
    next: None


class ReadEntry(TypedDict):
    """A read of rows. `times`: requests that are one entry, since `at`; `bytes`: None where bytes
    were not counted. `what`: which generation, in which format, and the like."""

    at: str
    actor: str
    request_id: str
    branch: str
    how: How
    dataset: str
    times: int
    bytes: int | None
    what: JsonObject


class ReadsAnswer(TypedDict):
    """Reads of data, the last ones first."""

    items: list[ReadEntry]
    next: None


class EventRecord(TypedDict):
    """An event. It also has the fields of its kind. `n` is what counters add up."""

    id: int
    at: str
    branch: str  # empty: of no branch
    kind: str
    dataset: str
    n: int
