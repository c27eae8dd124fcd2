"""From partitions to tasks: results in memory enter the root, the rest has to be computed, many of
them in windows.

What source and transform share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TypeAlias, TypeVar

from controlplane.core import tree
from controlplane.core.model.jobs import StoredJob
from controlplane.core.model.states import PartialState
from controlplane.core.model.tasks import Task, Trace
from controlplane.core.plan import lookups
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import Compute, Decision, Planning, Status
from controlplane.core.plan.work_keys import Keys, union
from dataplane.contract.results import DEALT, TaskError

CHUNK = 5_000
CHUNKS = 40  # that one pass looks at, at most
UNDER_WAY = ("queued", "running")

T = TypeVar("T")
TasksOf = Callable[[Sequence[str]], Deciding[dict[str, Task]]]
Hits: TypeAlias = dict[str, tuple[bytes, Trace]]  # partition -> its task and trace
# For tasks without an own trace
Elsewhere = Callable[[Mapping[str, Task]], Deciding[tuple[Hits, dict[str, Task]]]]


@dataclass(slots=True)
class Window:
    """What looking at some partitions found out."""

    hits: Hits = field(default_factory=dict)
    missing: dict[str, Task] = field(default_factory=dict)  # partition -> its task
    # Those of them that are on the queue, or failed
    queued: dict[bytes, Task] = field(default_factory=dict)
    is_whole: bool = True  # all partitions were looked at
    output: str = ""  # of the tasks

    def under(self, job: bytes) -> Window:
        """With another job for its tasks."""
        missing = {key: replace(task, job=job) for key, task in self.missing.items()}
        return replace(self, missing=missing)

    def lack(self, missing: Mapping[str, Task]) -> Deciding[None]:
        """Record tasks that memory does not have, and their state if they are queued."""
        keys = [task.key for task in missing.values()]
        queued = yield from lookups.tasks(keys)
        self.missing.update(missing)
        self.queued.update((key, queued[key]) for key in keys if key in queued)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Each once, for the first of its partitions."""
        by_key: dict[bytes, Task] = {}
        for task in reversed(self.missing.values()):
            by_key[task.key] = task  # of equal ones the first is kept, which comes last here
        return tuple(reversed(by_key.values()))

    @property
    def entries(self) -> dict[str, tuple[bytes, tree.Entry]]:
        """Partition -> its task and what this gave; a task may have given several."""
        by_partition: dict[str, tuple[bytes, tree.Entry]] = {}
        for key, (task, trace) in self.hits.items():
            for entry in _outputs(key, trace, self.output):
                by_partition[entry.key] = task, entry
        return by_partition

    @property
    def failed(self) -> tuple[Task, ...]:
        return tuple(task for task in self.queued.values() if task.state == "failed")

    @property
    def unclaimed(self) -> dict[str, Task]:
        """The missing tasks that are not on the queue: they failed, or were not requested."""
        under_way = {task.key for task in self.queued.values() if task.state in UNDER_WAY}
        return {key: task for key, task in self.missing.items() if task.key not in under_way}

    @property
    def open(self) -> int:
        """Tasks that are missing and have not failed."""
        keys = {task.key for task in self.missing.values()}
        return len(keys) - len(self.failed)


def _outputs(key: str, trace: Trace, output: str) -> Iterator[tree.Entry]:
    """What of a trace is in this output: its only fragment, or one for each partition that the task
    dealt out."""
    for name, fragment in trace.outputs.items():
        if name == output:
            yield tree.Entry(key, fragment, trace.contents[name])
        elif not output and name.startswith(DEALT):
            yield tree.Entry(name.removeprefix(DEALT), fragment, trace.contents[name])


def look(
    keys: Iterable[str],
    tasks_of: TasksOf,
    limit: int,
    output: str = "",
    elsewhere: Elsewhere | None = None,
) -> Deciding[Window]:
    """Look partitions up in memory until `limit` tasks are open. `elsewhere`: looks for results of
    tasks that memory does not have, and may put other tasks in their place."""
    window = Window(output=output)

    def take(chunk: Sequence[str]) -> Deciding[None]:
        yield from _look(window, (yield from tasks_of(chunk)), elsewhere)

    yield from walk(window, keys, limit, take)
    return window


def walk(
    window: Window,
    items: Iterable[T],
    limit: int,
    take: Callable[[Sequence[T]], Deciding[None]],
    size: int = CHUNK,
) -> Deciding[None]:
    """`take` in chunks of `size` items, until `limit` tasks of the window are open."""
    rest = iter(items)
    for _ in range(CHUNKS):
        chunk = list(islice(rest, size))
        if not chunk:
            return
        yield from take(chunk)
        if window.open >= limit:
            break
    window.is_whole = next(rest, None) is None


def _look(window: Window, tasks: Mapping[str, Task], elsewhere: Elsewhere | None) -> Deciding[None]:
    traces = yield from lookups.traces([task.key for task in tasks.values()])
    missing: dict[str, Task] = {}
    for key, task in tasks.items():
        if task.key in traces:
            window.hits[key] = task.key, traces[task.key]
        else:
            missing[key] = task
    if missing and elsewhere is not None:
        hits, missing = yield from elsewhere(missing)
        window.hits.update(hits)
    if missing:
        yield from window.lack(missing)


def limit(planning: Planning, count: int) -> int:
    """How many tasks may be open at a time where `count` partitions have to be checked."""
    if count > planning.exact:
        return planning.window
    return planning.exact + 1


def hole_keys(
    planning: Planning, roots: Sequence[bytes], have: bytes, count: int
) -> Deciding[Iterable[str]]:
    """The keys of the trees of `roots` that `have` lacks, in order; a few are read together with
    those of others."""
    if count > planning.exact:
        return union(Keys((), {(root, have): (root, have)}, count) for root in roots).read(
            planning.nodes
        )
    several = yield from lookups.missing_keys([(have, root) for root in roots])
    return sorted(set(chain.from_iterable(several)))


def edited(
    planning: Planning, base: bytes, window: Window, removed: Iterable[str]
) -> Deciding[bytes]:
    """The root with the hits of a window in it, and without `removed`."""
    edits: dict[str, tree.Entry | None] = dict.fromkeys(removed)
    for key, (_, entry) in window.entries.items():
        edits[key] = entry
    if not edits:
        return base
    keys = sorted(edits)
    yield from lookups.nodes([(base, keys)])
    return tree.edit(planning.nodes, base, [(key, edits[key]) for key in keys])


def entering(planning: Planning, base: bytes, window: Window) -> Deciding[dict[str, bytes]]:
    """The tasks of those hits whose fragment the present root does not have, by partition."""
    # A second output is no task's own.
    if window.output:
        return {}
    entries = window.entries
    keys = sorted(entries)
    yield from lookups.nodes([(base, keys)])
    present = tree.lookup(planning.nodes, base, keys)
    entered: dict[str, bytes] = {}
    for key, (task, entry) in entries.items():
        before = present.get(key)
        if before is None or before.fragment != entry.fragment:
            entered[key] = task
    return entered


def computing(
    decision: Decision, window: Window, job: StoredJob, building: PartialState | None = None
) -> Decision:
    """A decision to compute what a window misses, with the status that the tasks already there
    give."""
    failed, tasks = window.failed, window.tasks
    entered: dict[str, bytes] = {}
    if building is not None and not window.output:
        entered = {key: task for key, (task, _) in window.hits.items()}
    return replace(
        decision,
        status=_status(window),
        step=Compute(tasks, job, building, entered),
        error=failed[0].error if failed else None,
        reason=f"{len(failed)} of {len(tasks)} tasks failed" if failed else "",
    )


def _status(window: Window) -> Status:
    # Nothing is left that could go on.
    if window.failed and not window.open and window.is_whole:
        return "failed"
    if any(task.state in UNDER_WAY for task in window.queued.values()):
        return "building"
    return "stale"


def learning(task: Task) -> Deciding[tuple[Status, TaskError | None]]:
    """How the question that `task` answers stands."""
    queued = yield from lookups.tasks([task.key])
    queued_task = queued.get(task.key)
    if queued_task is None:
        return "stale", None
    if queued_task.state == "failed":
        return "failed", queued_task.error
    return "building", None
