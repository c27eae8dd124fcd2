"""Every call that the benchmark makes to the planner and to operations: open, plan, hand over,
apply, branch, commit.

Does not belong here: graphs and scenarios, and how time is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from benchmarks.planning.contents import ROWS
from benchmarks.planning.graph import layer_of
from controlplane.core.compile.nodes import Desired
from controlplane.core.model.branches import Branch
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Attempt, Fragment, Task, Trace
from controlplane.core.plan import Commit, Plan
from controlplane.core.tree import Entry, NodeStore
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints
from controlplane.operations.planning import planner, snapshot
from controlplane.operations.planning.apply_plan import PlanExecutor
from controlplane.operations.work import reports
from controlplane.ports.lake import ObjectStore
from controlplane.ports.store import Store, Tx
from controlplane.reconciler.loop import WINDOW
from controlplane.store import open_store, upgrade
from dataplane.contract.identity import Content
from dataplane.contract.kinds import Kind
from dataplane.contract.results import FileEntry, TaskResult
from dataplane.contract.schemas import Schema

MAIN: Final = "main"
NAMESPACE: Final = "default"
DRIVER = "bench"
KINDS: tuple[Kind, ...] = ("parse", "transform")
LEASE_S = 3600.0
FILE_BYTES = 100_000


class Counted:
    """A store that counts the tree nodes and states read from it; statements it counts itself."""

    def __init__(self, store: Store) -> None:
        self._store, self.nodes_read, self.states_read = store, 0, 0

    @property
    def statements(self) -> int:
        return self._store.statements

    @contextmanager
    def begin(self, namespace: str = NAMESPACE) -> Iterator[Tx]:
        with self._store.begin(namespace) as tx:
            yield self._counted(tx)

    @contextmanager
    def read(self, namespace: str = NAMESPACE) -> Iterator[Tx]:
        with self._store.read(namespace) as tx:
            yield self._counted(tx)

    def _counted(self, tx: Any) -> Tx:
        """The transaction, in which two of the reading methods count their results."""
        get_nodes, newest = tx.nodes.get_nodes, tx.states.newest

        def counted_nodes(digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
            nodes: Mapping[bytes, bytes] = get_nodes(digests)
            self.nodes_read += len(nodes)
            return nodes

        def counted_states(
            branch: str, datasets: Iterable[str] | None = None
        ) -> Mapping[str, State]:
            states: Mapping[str, State] = newest(branch, datasets)
            self.states_read += len(states)
            return states

        tx.nodes.get_nodes, tx.states.newest = counted_nodes, counted_states
        return cast("Tx", tx)

    def close(self) -> None:
        self._store.close()


def open_counted(url: str) -> Counted:
    return Counted(open_store(url))


def create(url: str) -> None:
    """The tables of an empty database."""
    upgrade(url)


# --- planning ---------------------------------------------------------------------------------------


Told: TypeAlias = Callable[[Plan, NodeStore], int]
"""How a plan is told, until the number of its items is known."""


class Planner:
    """Our planner on one store and branch, which knows what it has seen."""

    def __init__(self, store: Store, branch: str = MAIN) -> None:
        self._planner = planner.Planner(store, NAMESPACE, branch)

    def plan(self, told: Told) -> tuple[Plan, int]:
        with self._planner.read_plan() as (plan, facts):
            return plan, told(plan, facts.nodes)


def counted(plan: Plan, _nodes: NodeStore) -> int:
    """How much work there is, without naming it."""
    return sum(item.tasks for item in plan.items)


def handed_over(plan: Plan, nodes: NodeStore) -> int:
    """The same, having gone through all of it as (component, key, cause)."""
    return sum(1 for _ in plan.work(nodes))


def certain(plan: Plan, _nodes: NodeStore) -> int:
    """How much work there is whatever comes out of it."""
    return sum(item.tasks for item in plan.items if item.certain)


def layers(plan: Plan) -> int:
    """Layers of the graph in which something is to be done, or to be moved."""
    return len(
        {layer_of(d.dataset) for d in plan.decisions if d.items or isinstance(d.step, Commit)}
    )


# --- what happens in the world ------------------------------------------------------------------------


def apply(store: Store, texts: Mapping[str, str], branch: str = MAIN) -> None:
    """Accept these dataflows, as the API does."""
    sources = [blueprints.SentBlueprint(f"/{flow}.yaml", text, {}) for flow, text in texts.items()]
    blueprints.apply(Context(store, actor=DRIVER), branch, sources)


def branch(store: Store, name: str) -> None:
    """Off main."""
    with store.begin(NAMESPACE) as tx:
        tx.branches.create(Branch(name=name, source="main", at=0.0, actor="ann"))


def desired(store: Store, branch: str = MAIN) -> Desired:
    with store.read(NAMESPACE) as tx:
        return snapshot.desired(tx, branch, namespace=NAMESPACE)


# --- tasks ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Lake:
    """What lies in the lake, as far as a report is checked against it: the sizes of files."""

    files: dict[str, int] = field(default_factory=dict)

    def sizes(self, prefix: str) -> dict[str, int]:
        return {path: size for path, size in self.files.items() if path.startswith(prefix)}


@dataclass(frozen=True, slots=True)
class Report:
    """What a driver has to say of a batch of tasks."""

    store: Store
    attempt: Attempt
    results: Sequence[TaskResult]
    lake: Lake

    def commit(self) -> int:
        """Take it in, in one transaction; how many tasks were accepted."""
        lake = cast("ObjectStore", self.lake)
        done = reports.take_in(Context(self.store), self.attempt, self.results, lake, by="executed")
        return len(done.accepted)


def enqueue(store: Store) -> None:
    """One pass of the loop, which asks for tasks."""
    PlanExecutor(
        store, planner.Planner(store, NAMESPACE, MAIN, window=WINDOW), NAMESPACE, MAIN
    ).settle()


def finished(store: Store, tasks: int) -> Report:
    """Claim so many tasks, and compute them."""
    attempt, found = _claim(store, tasks)
    lake, results = Lake(), list[TaskResult]()
    for number, (task, epoch) in enumerate(attempt.tasks.items()):
        path = f"{attempt.prefix}/_fragment={task.hex()[:32]}/part-00000.parquet"
        lake.files[path] = FILE_BYTES
        content = Content(ROWS, number, int.from_bytes(task[:8], "big"))
        results.append(_result(task, epoch, _columns(found[task]), content, path))
    return Report(store, attempt, results, lake)


def finish_as(store: Store, dataset: str, entry: Entry) -> None:
    """Claim the one task there is; it gives what `entry` says."""
    attempt, found = _claim(store, 1)
    [(key, task)] = found.items()
    fragment = Fragment(entry.fragment, _columns(task), entry.content, (), dataset, attempt.id)
    with store.begin(NAMESPACE) as tx:
        tx.queue.finish(attempt.id, [key])
        tx.traces.put([Trace(key, {"": fragment.id}, home=dataset)], [fragment])
        tx.queue.end_attempt(attempt.id)


def _claim(store: Store, tasks: int) -> tuple[Attempt, Mapping[bytes, Task]]:
    with store.begin(NAMESPACE) as tx:
        attempt = tx.queue.claim("0" * 32, DRIVER, KINDS, max_tasks=tasks, lease_s=LEASE_S)
        if attempt is None:
            raise LookupError("there are no tasks")
        return attempt, tx.queue.tasks(attempt.tasks)


def _columns(task: Task) -> Schema:
    assert "columns" in task.spec
    return task.spec["columns"]


def _result(task: bytes, epoch: int, schema: Schema, content: Content, path: str) -> TaskResult:
    file = FileEntry(path=path, size=FILE_BYTES, rows=content.rows, stats={})
    return TaskResult(
        task=task.hex(),
        epoch=epoch,
        state="done",
        files=[file],
        content=list(content),
        schema=schema,
    )
