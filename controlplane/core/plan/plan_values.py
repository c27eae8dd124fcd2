"""The values of a plan, and the facts that planning reads. How each kind of node is decided is
beside this module."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, TypeAlias

from controlplane.core import tree
from controlplane.core.compile.nodes import Desired, Source, Transform
from controlplane.core.errors import error_text
from controlplane.core.model.check_results import CheckResult
from controlplane.core.model.holds import Hold
from controlplane.core.model.jobs import StoredJob
from controlplane.core.model.memos import Memos
from controlplane.core.model.pins import Pin
from controlplane.core.model.projections import Target
from controlplane.core.model.roll_ups import SliceUnion
from controlplane.core.model.sources import Listing, SourcePartition
from controlplane.core.model.states import LOST, Cause, Consumed, PartialState, State, UnfinishedRun
from controlplane.core.model.tasks import Fragment, Task, Trace
from controlplane.core.plan.work_keys import Keys
from controlplane.core.tree import NodeStore
from dataplane.contract.results import TaskError, infrastructure_error, task_error
from dataplane.contract.schemas import Schema

Action: TypeAlias = Literal["compute", "adopt", "remove", "check", "sync"]
Status: TypeAlias = Literal[
    "up_to_date", "stale", "building", "failed", "blocked", "waiting", "paused", "held"
]
SEVERITY: tuple[Status, ...] = (
    "up_to_date", "paused", "held", "building", "stale", "waiting", "blocked", "failed",
)  # fmt: skip
KEPT_KEYS = 100_000  # of equal sets of keys, at a time
EXACT = 1_000  # partitions up to which each is checked before a decision
# Of an input that is read in parts: below, the plain query costs less than reading what parts gave
FEWEST = 16
# Of partitions that hold changed keys: below, one task that reads them costs less than their parts
MIN_ROWS = 100_000
RECENT = 8  # states of an input in which a consistent combination is looked for
ROW_COST = 100  # bytes that a row counts for when claims are sized

# Parts up to which all of them are merged by one task; else those of each leaf of their tree first
WIDEST = 1_024


@dataclass(frozen=True, slots=True)
class Because:
    """A change of an input's root that led to work; None where there was, or is, nothing."""

    dataset: str
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class Item:
    """Work of one kind on one dataset. `tasks` counts exactly if `certain`, else it is an upper
    bound."""

    dataset: str
    action: Action
    cause: Cause
    certain: bool
    tasks: int
    keys: Keys  # of its partitions
    size_bytes: int = 0
    because: tuple[Because, ...] = ()
    reason: str = ""  # in words, where the cause does not say it all

    @property
    def count(self) -> int:
        """Partitions."""
        return self.keys.count


@dataclass(frozen=True, slots=True)
class Keep:
    """Nothing to do, or nothing that can be done now."""

    tasks = ()


@dataclass(frozen=True, slots=True)
class Commit:
    """Move the dataset to `state`. `entered` maps the partitions that enter its root to their tasks
    (None: a build trace brought the whole root, `adopted` partitions of it)."""

    tasks = ()
    state: State
    entered: Mapping[str, bytes] | None
    adopted: int
    pin: Pin | None = None
    build: bytes | None = None  # remember the root under this build key
    notes: Memos = field(default_factory=dict)  # memos: what its checks came to


@dataclass(frozen=True, slots=True)
class Compute:
    """Ask for these tasks; they share `job`. If there are many, these are the first; `building`
    holds the finished part so far, with `entered` the tasks of the partitions that came to it. They
    belong to the run that reads the inputs in `unfinished`."""

    tasks: tuple[Task, ...]
    job: StoredJob
    building: PartialState | None = None
    entered: Mapping[str, bytes] = field(default_factory=dict)
    unfinished: UnfinishedRun | None = None


@dataclass(frozen=True, slots=True)
class Learn:
    """A schema has to be inferred or analysed before anything else can be decided; its memo key is
    the task's key."""

    tasks: tuple[Task, ...]  # one
    job: StoredJob


@dataclass(frozen=True, slots=True)
class RunChecks:
    """The expectations on some rows have no answer yet: request these check tasks, and remember the
    answers that follow from others already."""

    tasks: tuple[Task, ...]
    jobs: Mapping[bytes, StoredJob]
    notes: Memos = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sync:
    """Bring an external copy to `state`: `target` is where it stands, with every stale entry
    voided."""

    target: Target
    tasks: tuple[Task, ...]
    job: StoredJob


WorkStep: TypeAlias = Compute | Learn | RunChecks | Sync  # demands its tasks
Step: TypeAlias = Keep | Commit | WorkStep


@dataclass(frozen=True, slots=True)
class Decision:
    """The step for one dataset or target, and its status."""

    dataset: str
    status: Status
    step: Step = Keep()
    items: tuple[Item, ...] = ()
    reason: str = ""
    blocked_by: str = ""
    error: TaskError | None = None
    pending: Keys | None = None  # the partitions that may still change
    checks: tuple[CheckResult, ...] = ()  # results of its expectations on the rows that it is about
    gives_up: bool = False  # the run under way, for good: the requested work takes its place
    is_off: bool = False  # an export of a branch that writes nowhere: no part of the branch's state
    unions: tuple[SliceUnion, ...] = ()  # results that its step names, and that memory lacks so far

    @property
    def tasks_left(self) -> int:
        """Tasks that are still to be done, at most."""
        return sum(i.tasks for i in self.items)


@dataclass(frozen=True, slots=True)
class Plan:
    decisions: tuple[Decision, ...]

    @property
    def items(self) -> tuple[Item, ...]:
        return tuple(i for d in self.decisions for i in d.items)

    def of(self, dataset: str) -> Decision | None:
        return next((d for d in self.decisions if d.dataset == dataset), None)

    def work(self, nodes: NodeStore) -> Iterator[tuple[str, str, Cause]]:
        """All that is to be computed or synced as (dataset, partition, cause). Reads trees where
        there is much, those of equal keys only once."""
        keys_of: dict[object, Sequence[str]] = {}
        for item in (i for i in self.items if i.tasks):
            names = item.keys.name
            if names not in keys_of and item.count <= KEPT_KEYS:
                keys_of[names] = tuple(item.keys.read(nodes))
            dataset, cause = item.dataset, item.cause
            for key in keys_of.get(names) or item.keys.read(nodes):
                yield dataset, key, cause


def in_words(dataset: str, status: Status) -> str:
    """For components that wait for it: `shop.orders has failed`, `shop.orders is paused`."""
    return f"{dataset} has failed" if status == "failed" else f"{dataset} is {status}"


def worst(decisions: Iterable[Decision]) -> Status:
    """The state of a whole: the worst in it, but for exports that are off."""
    statuses = (decision.status for decision in decisions if not decision.is_off)
    return max(statuses, key=SEVERITY.index, default="up_to_date")


class Snapshot(Protocol):
    """Facts that planning reads, of one consistent snapshot. Look-ups of many components are
    combined into one."""

    @property
    def nodes(self) -> NodeStore:
        """Writes go to an overlay until a commit."""

    def state(self, dataset: str) -> State | None: ...
    def history(self, dataset: str, limit: int = RECENT) -> Sequence[State]:
        """The newest few states, newest first."""

    def settled(self, states: Sequence[tuple[str, int]]) -> Sequence[State]:
        """Those of these states (dataset, `seq`) that are still there."""

    def listing(self, id: bytes) -> Listing | None: ...
    def source_partitions(
        self, keys: Mapping[bytes, Sequence[str]]
    ) -> Mapping[bytes, Mapping[str, SourcePartition]]:
        """By listing."""

    def building(self, dataset: str) -> PartialState | None: ...
    def unfinished(self, dataset: str) -> UnfinishedRun | None: ...
    def pinned(self, dataset: str) -> Pin | None: ...
    def traces(self, keys: Sequence[bytes]) -> Mapping[bytes, Trace]: ...
    def fragments(self, ids: Sequence[bytes]) -> Mapping[bytes, Fragment]: ...
    def remembered(
        self, builds: Sequence[bytes], memos: Sequence[bytes]
    ) -> tuple[Mapping[bytes, tuple[bytes, Schema]], Memos]: ...
    def tasks(self, keys: Sequence[bytes]) -> Mapping[bytes, Task]: ...
    def target(self, component: str) -> Target | None: ...
    def is_paused(self, dataset: str) -> bool: ...
    def holds(self) -> Mapping[str, Hold]:
        """Those that hold in this branch, by dataset."""

    def forced(self, dataset: str) -> int:
        """A number that grows whenever its results are to be computed again; 0 if never."""

    def forced_at(self, dataset: str, partition: str) -> int:
        """The number of one partition: it stays where only others are to be computed again."""


@dataclass(slots=True)
class Planning:
    """One pass over the nodes in order. Later nodes see what earlier decisions will have
    committed."""

    desired: Desired
    world: Snapshot
    branch: str
    now: float
    # Tasks that are asked for at a time of a dataset with more than `exact`; 0: only count them
    window: int = 0
    exact: int = EXACT
    fewest: int = FEWEST  # partitions from which on an aggregate is computed in parts
    min_rows: int = MIN_ROWS  # that parts by key are made of
    widest: int = WIDEST  # parts that are merged at once, where they may be merged by steps
    states: dict[str, State | None] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)
    holds: Mapping[str, Hold] = field(default_factory=dict)
    behind_holds: frozenset[str] = frozenset()  # held datasets, and all downstream of them
    # Of datasets that are being decided, by fragment
    unions: dict[str, dict[bytes, SliceUnion]] = field(default_factory=dict)

    @property
    def nodes(self) -> tree.NodeStore:
        return self.world.nodes

    def state(self, dataset: str) -> State | None:
        """The dataset's state as it will be once the decisions so far are carried out."""
        if dataset not in self.states:
            self.states[dataset] = self.world.state(dataset)
        return self.states[dataset]

    def building(self, dataset: str) -> PartialState | None:
        """The half-built output, as it will be once the decisions so far are carried out."""
        decision = self.decisions.get(dataset)
        step = decision.step if decision else None
        if isinstance(step, Compute) and step.building is not None:
            return step.building
        return None if isinstance(step, Commit) else self.world.building(dataset)

    def history(self, dataset: str, limit: int = RECENT) -> tuple[State, ...]:
        stored, new = tuple(self.world.history(dataset, limit)), self.states.get(dataset)
        return stored if new is None or (stored and stored[0].seq == new.seq) else (new, *stored)

    def add_union(self, dataset: str, union: SliceUnion) -> None:
        """Have a result stored with the step of the dataset."""
        self.unions.setdefault(dataset, {})[union.fragment.id] = union

    def unions_of(self, dataset: str) -> Mapping[bytes, SliceUnion]:
        """The results that the decision about a dataset has made, by fragment; also one that is
        being made."""
        decision = self.decisions.get(dataset)
        decided = {union.fragment.id: union for union in decision.unions} if decision else {}
        return decided | self.unions.get(dataset, {})

    def record(self, decision: Decision) -> None:
        unions = self.unions.pop(decision.dataset, {})
        decision = replace(decision, unions=tuple(unions.values()))
        self.decisions[decision.dataset] = decision
        if isinstance(decision.step, Commit):
            self.states[decision.dataset] = decision.step.state


# --- pieces that the three kinds of nodes share ---------------------------------------------------


def next_state(
    planning: Planning,
    node: Source | Transform,
    root: bytes,
    schema: Schema,
    *,
    inputs: Mapping[str, Consumed],
    cut: Mapping[str, bytes],
    cause: Cause,
) -> State:
    """What the node has come to: its generation counts up only if readers see something else than
    before, be it other files of the same rows where some were lost."""
    before, totals = planning.state(node.dataset), tree.totals(planning.nodes, root)
    is_same = (
        before is not None
        and before.root == root
        and before.schema == schema
        and before.logic != LOST
    )
    return State(
        branch=planning.branch,
        dataset=node.dataset,
        seq=before.seq + 1 if before else 1,
        generation=before.generation + (not is_same) if before else 1,
        logic=node.logic,
        inputs=inputs,
        root=root,
        schema=schema,
        cut=cut,
        partitions=totals.partitions,
        rows=totals.content.rows,
        cause=cause,
        revision=node.revision,
        at=planning.now,
        lineage=node.lineage,
    )


INTERNAL = "internal-error"  # the condition of what Headgate itself could not do


def broken(dataset: str, error: Exception) -> Decision:
    """Planning of a dataset raised, so its status is unknown. It is decided again with its next
    change, or sweep."""
    message = f"Headgate could not plan this dataset: {error_text(error)}"[:LONGEST_INTERNAL]
    trace = "".join(traceback.format_exception(error))[-LONGEST_INTERNAL * 8 :]
    return Decision(
        dataset, "failed", error={**infrastructure_error(INTERNAL, message), "detail": trace}
    )


LONGEST_INTERNAL = 1_000  # characters


def user_error(condition: str, message: str) -> TaskError:
    """An error found by planning itself, with no place in a text."""
    return task_error("user", condition, message)
