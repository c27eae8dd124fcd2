"""The values that planning, storage and the API exchange: revisions, listings, states, tasks, traces.

Does not belong here: how they are stored, or how they are decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from dataplane.contract import Content, FileEntry, Json, Kind, Schema, SourceObject, TaskError

Cause: TypeAlias = Literal[
    "logic", "input", "schema", "missing", "removed", "period", "retry", "forced", "sync", "lost"
]
LOST = bytes(32)  # stands for the code of a state some of whose files are gone: all of it is looked at again
AWAITED = "awaited"  # in `Listing.held`
TaskState: TypeAlias = Literal["queued", "running", "done", "failed"]


Size: TypeAlias = Literal["small", "standard", "large"]  # how much of a machine a task may need
SIZES: tuple[Size, ...] = ("small", "standard", "large")


@dataclass(frozen=True, slots=True)
class Revision:
    """One accepted text of a dataflow. `files` are the texts that it names; `uids` its components' immutable ids."""

    branch: str
    dataflow: str
    number: int
    text: str
    files: Mapping[str, str]
    file: str
    uids: Mapping[str, str]
    actor: str
    request_id: str
    at: float


@dataclass(frozen=True, slots=True)
class Listing:
    """What a location held when it was last listed whole. `requested` > `served` asks for another listing."""

    id: bytes
    root: bytes | None  # of a tree: partition key -> source id
    at: float | None
    objects: int
    size_bytes: int
    requested: int = 0
    served: int = 0
    error: TaskError | None = None
    held: Json = None  # {before, lost}: a loss that waits for confirmation; {awaited}: plans wait for the next one
    digest: bytes | None = None  # of all that the worker found; an equal one is an equal listing
    columns: tuple[tuple[str, ...] | None, ...] = ()  # distinct own columns of objects, in order of the first key
    all_columns: bool = True  # there are no more than those

    @property
    def is_open(self) -> bool:
        """Somebody asked for another one."""
        return self.requested > self.served

    @property
    def is_awaited(self) -> bool:
        """What it says may be out of date for whoever has just begun to read there."""
        return self.is_open and bool(self.held and self.held.get(AWAITED))


@dataclass(frozen=True, slots=True)
class Consumed:
    """One input as a state was built from it."""

    dataset: str
    root: bytes
    schema: bytes  # schema id


@dataclass(frozen=True, slots=True)
class State:
    """A settled state of a dataset. `seq` counts all states, `generation` those that changed what readers see.

    `cut` maps source datasets (`flow.name`) to the listing roots reflected here.
    """

    branch: str
    dataset: str
    seq: int
    generation: int
    logic: bytes
    inputs: Mapping[str, Consumed]
    root: bytes
    schema: Schema
    cut: Mapping[str, bytes]
    partitions: int
    rows: int
    cause: Cause
    revision: int
    at: float
    lineage: bytes  # digest of this logic and of all logic upstream: inputs of other code are never mixed


@dataclass(frozen=True, slots=True)
class Building:
    """A dataset that is being built in windows: `root` holds what is done for these inputs; the rest are its holes.

    `lineage` and `cut` say what it will be once done; `inputs` are the roots (perhaps half-built, too) consumed so far.
    """

    branch: str
    dataset: str
    lineage: bytes
    inputs: Mapping[str, Consumed]
    root: bytes
    schema: Schema | None
    cut: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Begun:
    """What a run under way reads: it is finished on that, whatever comes meanwhile.

    `states` are those of the inputs, by slot (their `seq`). A read component has none: it reads the listing whose root
    stands in its `cut`.
    """

    branch: str
    dataset: str
    lineage: bytes
    states: Mapping[str, int]
    cut: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Fragment:
    """Immutable files that hold one partition's rows. `home` is the dataset whose folder they lie in."""

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
    """The fact that a task gave these fragments, by the names of outputs (`contract.output_results`).

    `seq` grows with every trace in the namespace; `by` tells whether the work was executed or adopted from a manifest.
    """

    task: bytes
    outputs: Mapping[str, bytes]
    seq: int = 0
    by: By = "executed"
    home: str = ""
    contents: Mapping[str, Content] = field(default_factory=dict, compare=False)  # of outputs; stores fill it in


@dataclass(frozen=True, slots=True)
class Task:
    """One unit of work, keyed by what it computes. `job` is the digest of the JSON that it shares with its batch."""

    key: bytes
    kind: Kind
    dataset: str  # that first demanded it; home of its fragments
    partition: str
    job: bytes
    spec: Json  # a TaskSpec without task, epoch and partition; `slots` name fragment ids (hex) instead of files
    size_bytes: int = 0
    priority: int = 0
    state: TaskState = "queued"
    epoch: int = 0
    attempt: str | None = None
    failures: int = 0  # infrastructure failures so far
    not_before: float = 0.0
    error: TaskError | None = None
    size: Size = "standard"


class Asked(NamedTuple):
    """How a task that is demanded stands."""

    state: TaskState
    size: Size
    priority: int

    def covers(self, task: Task) -> bool:
        """Whether it needs no larger driver, and is no more urgent, than what was asked for before."""
        return SIZES.index(task.size) <= SIZES.index(self.size) and task.priority <= self.priority


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a driver at a batch of tasks. `tasks` maps task keys to the epochs that this attempt holds."""

    id: str
    dataset: str
    driver: str
    kind: Kind
    job: bytes
    prefix: str
    tasks: Mapping[bytes, int]
    lease_until: float
    at: float


Fault: TypeAlias = Literal[
    "", "crashed", "memory", "deadline", "evicted", "disrupted", "quota", "refused", "image", "unschedulable"
]


@dataclass(frozen=True, slots=True)
class Driver:
    """A child or pod that pulls work. `pool` is `local` or `kubernetes`; `kind` tells if it has a JVM.

    `reason` says why it ended, or what it waits for. The `fault` is what its attempts ended of; it and
    the `size` are not stored.
    """

    id: str
    pool: str
    kind: Literal["driver", "worker"]
    at: float
    seen: float
    ended: bool = False
    reason: str = ""
    fault: Fault = field(default="", compare=False)
    size: Size = field(default="standard", compare=False)


@dataclass(frozen=True, slots=True)
class Publication:
    """How far a dataset's Delta table has followed its states."""

    branch: str
    dataset: str
    generation: int
    root: bytes
    schema: bytes
    version: int
    error: str | None = None


NO_WISH = bytes(32)


@dataclass(frozen=True, slots=True)
class Target:
    """How far an external copy has followed its dataset. `root` is a tree: partition key -> what was last synced.

    `order` counts the wishes for it, and is what writers fence by: generations go down where a copy is made of another
    dataset. It is the generation, as long as nothing but that changes.
    """

    branch: str
    component: str  # flow.name
    identity: bytes  # of everything that says where and how it is written; another one starts from nothing
    root: bytes
    generation: int
    error: TaskError | None = None
    order: int = 0
    wish: bytes = NO_WISH  # a digest of what is written under this order


CLAIMED = "task.claimed"  # the kind of event that begins an attempt: `{attempt, driver}`


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. `n` is what counters add up."""

    kind: str
    dataset: str = ""
    n: int = 0
    body: Mapping[str, Json] = field(default_factory=dict)
    id: int = 0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token as stored: never its text, only the SHA-256 of it."""

    id: str
    hash: bytes
    name: str
    scopes: tuple[str, ...]  # admin | driver
    subject: str
    at: float
    expires: float | None = None
    revoked: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """An audited change of desired state (who, when, what before and after)."""

    actor: str
    request_id: str
    action: str
    target: str
    before: Json
    after: Json
    at: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request with an Idempotency-Key was answered."""

    key: str
    body: bytes  # digest of the request
    status: int
    response: str


@dataclass(frozen=True, slots=True)
class SourcePartition:
    """The source objects behind one partition of a listing."""

    key: str
    source: bytes  # source id
    objects: tuple[SourceObject, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """What a published table is to hold. A fragment comes once for each partition that has it.

    `path` is the table's folder relative to the lake. Fragments whose files lie elsewhere are linked below it.
    `is_layout`: it has these rows already, perhaps in other files.
    `is_passing`: so it does as far as is known, and one of a newer generation, or none, is left alone.
    """

    path: str
    schema: Schema
    fragments: tuple[Fragment, ...]
    generation: int
    dataset: str
    is_layout: bool = False
    is_passing: bool = False
