"""The values of a plan, and the facts that planning reads. How each kind of node is decided is beside this module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, TypeAlias

from controlplane.core import tree
from controlplane.core.dataflow import Desired
from controlplane.core.model import (
    Cause,
    Fragment,
    Listing,
    SourcePartition,
    State,
    Target,
    Task,
    Trace,
)
from controlplane.core.tree import NodeStore
from dataplane.contract import Json, Schema, TaskError

Action: TypeAlias = Literal["compute", "adopt", "remove", "sync"]
Status: TypeAlias = Literal["up_to_date", "stale", "building", "failed", "blocked", "waiting", "paused", "held"]
SEVERITY: tuple[Status, ...] = (
    "up_to_date", "paused", "held", "building", "stale", "waiting", "blocked", "failed",
)  # fmt: skip
SHOWN_KEYS = 100


@dataclass(frozen=True, slots=True)
class Because:
    """A change of an input's root that led to work; None where there was, or is, nothing."""

    dataset: str
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class Item:
    """Work of one kind on one dataset. `tasks` counts exactly if `certain`, else it is an upper bound."""

    dataset: str
    action: Action
    cause: Cause
    certain: bool
    tasks: int
    count: int  # partitions
    partitions: tuple[str, ...]  # the first SHOWN_KEYS
    size_bytes: int = 0
    because: tuple[Because, ...] = ()


@dataclass(frozen=True, slots=True)
class Keep:
    """Nothing to do, or nothing that can be done now."""


@dataclass(frozen=True, slots=True)
class Commit:
    """Move the dataset to `state`. `entered` maps the partitions that enter its root to their tasks (None: a build
    trace brought the whole root, `adopted` partitions of it)."""

    state: State
    entered: Mapping[str, bytes] | None
    adopted: int
    pin: tuple[bytes, Schema] | None = None
    build: bytes | None = None  # remember the root under this build key


@dataclass(frozen=True, slots=True)
class Compute:
    """Ask for these tasks; `job` is what they share."""

    tasks: tuple[Task, ...]
    job: Json


@dataclass(frozen=True, slots=True)
class Learn:
    """A schema has to be inferred or analysed before anything else can be said; its memo key is the task's key."""

    task: Task
    job: Json


@dataclass(frozen=True, slots=True)
class Sync:
    """Bring an external copy to `state`: `target` is where it stands, with every stale entry voided."""

    target: Target
    tasks: tuple[Task, ...]
    job: Json


Step: TypeAlias = Keep | Commit | Compute | Learn | Sync


@dataclass(frozen=True, slots=True)
class Pending:
    """Upper bound of the partitions of a dataset that may still change. `keys` None: any."""

    keys: tuple[str, ...] | None
    count: int


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done about one dataset or target, and how it stands."""

    dataset: str
    status: Status
    step: Step = Keep()
    items: tuple[Item, ...] = ()
    reason: str = ""
    blocked_by: str = ""
    error: TaskError | None = None
    pending: Pending | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    decisions: tuple[Decision, ...]

    @property
    def items(self) -> tuple[Item, ...]:
        return tuple(i for d in self.decisions for i in d.items)

    def of(self, dataset: str) -> Decision | None:
        return next((d for d in self.decisions if d.dataset == dataset), None)


def worst(statuses: Iterable[Status]) -> Status:
    """The state of a whole: the worst in it."""
    return max(statuses, key=SEVERITY.index, default="up_to_date")


class World(Protocol):
    """Facts that planning reads. Every method is a look-up of one consistent snapshot, batched by its arguments."""

    @property
    def nodes(self) -> NodeStore:
        """Writes go to an overlay until a commit."""

    def state(self, dataset: str) -> State | None: ...
    def history(self, dataset: str) -> Sequence[State]:
        """The newest few states, newest first."""

    def listing(self, id: bytes) -> Listing | None: ...
    def source_partitions(self, listing: bytes, keys: Sequence[str]) -> Mapping[str, SourcePartition]: ...
    def pinned(self, dataset: str) -> tuple[bytes, Schema] | None: ...
    def traces(self, keys: Sequence[bytes]) -> Mapping[bytes, Trace]: ...
    def fragments(self, ids: Sequence[bytes]) -> Mapping[bytes, Fragment]: ...
    def build_trace(self, key: bytes) -> tuple[bytes, Schema] | None: ...
    def memo(self, key: bytes) -> Json | None: ...
    def tasks(self, keys: Sequence[bytes]) -> Mapping[bytes, Task]: ...
    def target(self, component: str) -> Target | None: ...
    def is_paused(self, dataset: str) -> bool: ...


@dataclass(slots=True)
class Planning:
    """One pass over the nodes in order. Later nodes see what earlier decisions will have committed."""

    desired: Desired
    world: World
    branch: str
    now: float
    states: dict[str, State | None] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)

    def state(self, dataset: str) -> State | None:
        """The dataset's state as it will be once the decisions so far are carried out."""
        if dataset not in self.states:
            self.states[dataset] = self.world.state(dataset)
        return self.states[dataset]

    def history(self, dataset: str) -> tuple[State, ...]:
        stored, new = tuple(self.world.history(dataset)), self.states.get(dataset)
        return stored if new is None or (stored and stored[0].seq == new.seq) else (new, *stored)

    def record(self, decision: Decision) -> None:
        self.decisions[decision.dataset] = decision
        if isinstance(decision.step, Commit):
            self.states[decision.dataset] = decision.step.state


# --- pieces that the three kinds of nodes share ---------------------------------------------------


def next_state(before: State | None, after: State) -> State:
    """`after` as the successor of `before`: its generation counts up only if readers see something else."""
    if before is None:
        return replace(after, seq=1, generation=after.generation or 1)
    same = before.root == after.root and before.schema == after.schema
    return replace(after, seq=before.seq + 1, generation=before.generation + (0 if same else 1))


def shown(keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(keys[:SHOWN_KEYS])


def of_tasks(decision: Decision, world: World, tasks: tuple[Task, ...], job: Json, pending: Pending) -> Decision:
    """A decision to compute `tasks`, with the status that the tasks already there give."""
    known = world.tasks([t.key for t in tasks])
    failed = [t for t in known.values() if t.state == "failed"]
    open_tasks = tuple(t for t in tasks if t.key not in known or known[t.key].state != "failed")
    status: Status = "building" if any(t.state in ("queued", "running") for t in known.values()) else "stale"
    if failed and not open_tasks:
        status = "failed"
    error = failed[0].error if failed else None
    reason = f"{len(failed)} of {len(tasks)} tasks failed" if failed else ""
    return replace(decision, status=status, step=Compute(tasks, job), error=error, reason=reason, pending=pending)


def learning(planning: Planning, task: Task) -> tuple[Status, TaskError | None]:
    """How the question that `task` answers stands."""
    known = planning.world.tasks([task.key]).get(task.key)
    if known is not None and known.state == "failed":
        return "failed", known.error
    return ("building" if known else "stale"), None


def entries(planning: Planning, fragments: Mapping[str, bytes]) -> Iterator[tuple[str, tree.Entry | None]]:
    """Tree entries of partitions whose fragments are known."""
    found = planning.world.fragments(list(fragments.values()))
    for key, fragment in fragments.items():
        yield key, tree.Entry(key, fragment, found[fragment].content)


def user_error(condition: str, message: str) -> TaskError:
    """An error found by planning itself, with no place in a text."""
    return {
        "kind": "user",
        "condition": condition,
        "sqlstate": None,
        "message": message,
        "file": None,
        "line": None,
        "column": None,
        "detail": "",
    }


def entering(
    planning: Planning, state: State | None, fragments: Mapping[str, bytes], tasks: Mapping[str, bytes]
) -> dict[str, bytes]:
    """The tasks of those partitions whose fragment the present root does not have."""
    root = state.root if state else tree.EMPTY_ROOT
    present = tree.lookup(planning.world.nodes, root, sorted(tasks, key=str.encode))
    return {k: t for k, t in tasks.items() if k not in present or present[k].fragment != fragments[k]}
