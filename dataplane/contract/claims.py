"""What a driver or worker is given to do: a claim has one job, and tasks of one kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NotRequired, TypeAlias, TypedDict

from dataplane.contract.identity import Content, slot_id, task_key
from dataplane.contract.jobs import (
    AnalyseJob,
    CheckJob,
    ConnectJob,
    Follower,
    FootersJob,
    IndexJob,
    InferJob,
    ListJob,
    Logic,
    NotifyJob,
    PackJob,
    ParseJob,
    TransformJob,
    WriteJob,
)
from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import Schema
from dataplane.contract.source_objects import SourceObject

CONTRACT = 1

# By dataset, the content that its partition has. A result that equals it has no followers: theirs
# are known
Present: TypeAlias = dict[str, list[int]]


# --- tasks --------------------------------------------------------------------------------------


class TaskSpec(TypedDict):
    """What all tasks have: the key (hex), the epoch to report it under, the partition."""

    task: str
    epoch: int
    partition: str


class ObjectsTask(TaskSpec):
    """Reads source objects."""

    objects: list[SourceObject]


class ParseTask(ObjectsTask):
    columns: Schema  # the objects' own columns, in dataset order
    # Columns that rows are dropped by, and that the objects do not have
    lacking: NotRequired[Schema]
    # numbers, inferred from texts: a text that they do not hold is an error
    inferred: NotRequired[list[str]]
    present: NotRequired[Present]


class FilesTask(TaskSpec):
    """Reads files of the lake: by name of the input, or under the empty name."""

    slots: dict[str, list[str]]


class FollowingTask(TypedDict):
    """A task after one of a fold: its key follows from what comes out before it. `ids`: what it
    reads besides."""

    partition: str
    slots: dict[str, list[str]]
    ids: dict[str, str]
    was: list[int] | None


def next_key(job: Logic, ids: Mapping[str, str], before: Content) -> bytes:
    """The key of a task of a fold, once it is known what came out before it. `ids`: what it reads
    besides."""
    fold = job["fold"]
    read = {fold["name"]: slot_id(before, job["returns"])}
    return _key(fold["logic"], {**fold["shared"], **ids}, read)


def follower_key(follower: Follower, before: Content) -> bytes:
    """The key of a follower's task, once it is known what came out before it."""
    slot = follower["slot"]
    read = {slot: slot_id(before, follower["job"]["inputs"][slot]["schema"])}
    return _key(follower["logic"], follower["ids"], read)


def _key(logic: str, ids: Mapping[str, str], read: Mapping[str, bytes]) -> bytes:
    slots = {name: bytes.fromhex(id) for name, id in ids.items()}
    return task_key(bytes.fromhex(logic), {**slots, **read})


class EarlierMessages(TypedDict):
    """What came before a slice of a topic: the newest event times in microseconds since 1970, by
    partition of the topic. `listed_ms`: when the slice was listed; 0: not known."""

    newest_us: dict[str, int]
    listed_ms: int


class TransformTask(FilesTask):
    earlier: NotRequired[EarlierMessages]  # where late rows are taken out
    # Of a fold: a content that ends the run, for the next task read it before
    was: NotRequired[list[int] | None]
    then: NotRequired[list[FollowingTask]]
    present: NotRequired[Present]


class PackTask(FilesTask):
    into: int  # the number of files


class WrittenFragment(TypedDict):
    """A fragment of a generation that is written whole. `copies`: how many partitions have it."""

    id: str
    copies: int
    files: list[FileEntry]


class WriteTask(TaskSpec):
    """One partition, or all of a generation where there are `fragments`."""

    generation: int  # of the dataset when it was asked for; never goes down
    files: NotRequired[list[str]]  # the partition's
    remove: NotRequired[bool]  # the partition is to go
    fragments: NotRequired[list[WrittenFragment]]


# --- claims -------------------------------------------------------------------------------------


class _Claim(TypedDict):
    contract: int
    attempt: str
    dataset: str
    prefix: str  # the only folder, relative to the lake, that the attempt may write to
    lake: str  # URI of the lake
    lease_s: float
    reads_bytes: NotRequired[int]  # of the source objects and files that it names


class ListClaim(_Claim):
    kind: Literal["list"]
    job: ListJob
    tasks: list[TaskSpec]


class FootersClaim(_Claim):
    kind: Literal["footers"]
    job: FootersJob
    tasks: list[ParseTask]


class ConnectClaim(_Claim):
    kind: Literal["connect"]
    job: ConnectJob
    tasks: list[TaskSpec]


class NotifyClaim(_Claim):
    kind: Literal["notify"]
    job: NotifyJob
    tasks: list[TaskSpec]


class WriteClaim(_Claim):
    kind: Literal["write"]
    job: WriteJob
    tasks: list[WriteTask]


class InferClaim(_Claim):
    kind: Literal["infer"]
    job: InferJob
    tasks: list[ObjectsTask]


class ParseClaim(_Claim):
    kind: Literal["parse"]
    job: ParseJob
    tasks: list[ParseTask]


class SliceClaim(_Claim):
    """The claim of a slice that a worker reads, if it can: a driver's would say the same."""

    kind: Literal["slice"]
    job: ParseJob
    tasks: list[ParseTask]


class AnalyseClaim(_Claim):
    kind: Literal["analyse"]
    job: AnalyseJob
    tasks: list[TaskSpec]


class TransformClaim(_Claim):
    kind: Literal["transform"]
    job: TransformJob
    tasks: list[TransformTask]


class IndexClaim(_Claim):
    kind: Literal["index"]
    job: IndexJob
    tasks: list[FilesTask]


class CheckClaim(_Claim):
    kind: Literal["check"]
    job: CheckJob
    tasks: list[FilesTask]


class PackClaim(_Claim):
    kind: Literal["pack"]
    job: PackJob
    tasks: list[PackTask]


WorkerClaim: TypeAlias = (
    ListClaim | FootersClaim | ConnectClaim | NotifyClaim | WriteClaim | SliceClaim
)
DriverClaim: TypeAlias = (
    InferClaim | ParseClaim | AnalyseClaim | TransformClaim | IndexClaim | CheckClaim | PackClaim
)
Claim: TypeAlias = WorkerClaim | DriverClaim
SourceClaim: TypeAlias = InferClaim | ParseClaim  # of tasks that read source objects
LogicClaim: TypeAlias = AnalyseClaim | TransformClaim  # of tasks that run users' code
FragmentClaim: TypeAlias = ParseClaim | TransformClaim  # of tasks that write a dataset's fragments
