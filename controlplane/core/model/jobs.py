"""Jobs and specs of tasks as they are stored: roots of trees and ids of fragments, where a claim
has files.

A job is what many tasks share, a spec is what one has of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NotRequired, TypeAlias, TypedDict, final

from dataplane.contract.claims import EarlierMessages, Present
from dataplane.contract.jobs import (
    AnalyseJob,
    CheckQuestion,
    ConnectJob,
    FootersJob,
    IndexJob,
    InferJob,
    ListJob,
    NotifyJob,
    PackJob,
    ParseJob,
    PythonLogic,
    SqlLogic,
    WriteJob,
)
from dataplane.contract.schemas import Schema
from dataplane.contract.source_objects import SourceObject


class StoredSqlJob(SqlLogic):
    shared: dict[str, str]  # roots (hex) of inputs that all tasks read whole
    # Roots of the trees of pairs, of inputs that are read by key
    pairs: NotRequired[dict[str, str]]


class StoredPythonJob(PythonLogic):
    shared: dict[str, str]
    pairs: NotRequired[dict[str, str]]


class StoredFollower(TypedDict):
    """A follower as it is stored with the job of what it follows."""

    dataset: str
    slot: str
    logic: str
    ids: dict[str, str]
    job: StoredSqlJob


class StoredCheckJob(CheckQuestion):
    shared: NotRequired[dict[str, str]]


StoredTransformJob: TypeAlias = StoredSqlJob | StoredPythonJob
StoredJob: TypeAlias = (
    ListJob
    | ConnectJob
    | NotifyJob
    | WriteJob
    | FootersJob
    | InferJob
    | ParseJob
    | AnalyseJob
    | StoredTransformJob
    | IndexJob
    | StoredCheckJob
    | PackJob
)


def roots_in(job: Mapping[str, Any]) -> Iterator[str]:
    """The roots (hex) of the trees that tasks of a stored job read, and those of its followers."""
    yield from job.get("shared", {}).values()
    yield from job.get("pairs", {}).values()
    for follower in job.get("followers", ()):
        yield from roots_in(follower["job"])


def datasets_of_followers(job: Mapping[str, Any]) -> Iterator[str]:
    """The datasets that a driver may go on to after tasks of a stored job."""
    for follower in job.get("followers", ()):
        yield follower["dataset"]
        yield from datasets_of_followers(follower["job"])


# --- specs --------------------------------------------------------------------------------------


@final
class NoSpec(TypedDict):
    """The spec of a task whose job is complete: analyse, connect, notify, a check of a whole
    dataset. It is empty."""

    # Never there; without it, mypy takes every other spec for one of these
    nothing: NotRequired[None]


@final
class ListSpec(TypedDict):
    request: int  # the number of the request that it serves


@final
class InferSpec(TypedDict):
    objects: list[SourceObject]
    listing: str  # whose objects they are, hex


@final
class ParseSpec(TypedDict):
    objects: list[SourceObject]
    columns: Schema
    listing: str
    lacking: NotRequired[Schema]
    inferred: NotRequired[list[str]]
    present: NotRequired[Present]


class FollowingSpec(TypedDict):
    """A task after one of a fold. `ids`: the slots that it reads besides the partition before it
    (hex)."""

    partition: str
    slots: dict[str, list[str]]
    ids: dict[str, str]
    was: list[int] | None


@final
class FragmentsSpec(TypedDict):
    """The spec of tasks that read fragments: transform, index, check, pack. `slots`: ids of
    fragments (hex) by input."""

    slots: dict[str, list[str]]
    into: NotRequired[int]  # pack: the number of files
    earlier: NotRequired[EarlierMessages]
    was: NotRequired[list[int] | None]  # of a fold: a content that ends the run
    then: NotRequired[list[FollowingSpec]]
    present: NotRequired[Present]


@final
class WriteSpec(TypedDict):
    """One partition of a target."""

    generation: int
    fragment: NotRequired[str]  # its new rows, hex
    remove: NotRequired[bool]  # it is to go


@final
class WriteWholeSpec(TypedDict):
    """All of a generation at once."""

    root: str
    generation: int
    changes: int  # partitions in which it differs from the present output


Spec: TypeAlias = (
    NoSpec | ListSpec | InferSpec | ParseSpec | FragmentsSpec | WriteSpec | WriteWholeSpec
)
