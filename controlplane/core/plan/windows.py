"""From partitions to tasks: what memory has enters the root, the rest has to be computed, many of them in windows.

What source and transform share. Does not belong here: which partitions are looked at, and what their tasks are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from controlplane.core import tree
from controlplane.core.model.states import PartialState
from controlplane.core.model.tasks import Task, Trace
from controlplane.core.plan import lookups
from controlplane.core.plan.keys import Keys, union
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.values import Compute, Decision, Planning, Status
from dataplane.contract.results import DEALT, TaskError
from dataplane.contract.schemas import Json

CHUNK = 5_000
CHUNKS = 40  # that one pass looks at, at most

TasksOf = Callable[[Sequence[str]], Deciding[dict[str, Task]]]


@dataclass(slots=True)
class Window:
    """What looking at some partitions found out."""

    hits: dict[str, tuple[bytes, Trace]] = field(default_factory=dict)  # partition -> its task and trace
    missing: dict[str, Task] = field(default_factory=dict)  # partition -> its task
    known: dict[bytes, Task] = field(default_factory=dict)  # those of them that are on the queue, or failed
    is_whole: bool = True  # all partitions were looked at
    output: str = ""  # of the tasks

    def under(self, job: bytes) -> Window:
        """With another job for its tasks."""
        return replace(self, missing={key: replace(task, job=job) for key, task in self.missing.items()})

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Each once, for the first of its partitions."""
        return tuple({t.key: t for t in reversed(self.missing.values())}.values())[::-1]

    @property
    def entries(self) -> dict[str, tuple[bytes, tree.Entry]]:
        """Partition -> its task and what this gave; a task may have given several."""
        return {
            entry.key: (task, entry)
            for key, (task, trace) in self.hits.items()
            for entry in _outputs(key, trace, self.output)
        }

    @property
    def failed(self) -> tuple[Task, ...]:
        return tuple(t for t in self.known.values() if t.state == "failed")

    @property
    def stuck(self) -> dict[str, Task]:
        """What is missing and nobody is at work on."""
        under_way = {t.key for t in self.known.values() if t.state in ("queued", "running")}
        return {key: task for key, task in self.missing.items() if task.key not in under_way}

    @property
    def open(self) -> int:
        return len({t.key for t in self.missing.values()}) - len(self.failed)


def _outputs(key: str, trace: Trace, output: str) -> Iterator[tree.Entry]:
    for name, fragment in trace.outputs.items():
        if name == output or (not output and name.startswith(DEALT)):
            partition = name.removeprefix(DEALT) if name.startswith(DEALT) else key
            yield tree.Entry(partition, fragment, trace.contents[name])


def look(keys: Iterable[str], tasks_of: TasksOf, limit: int, output: str = "") -> Deciding[Window]:
    """Look partitions up in memory until `limit` tasks are open."""
    window, rest = Window(output=output), iter(keys)
    for _ in range(CHUNKS):
        chunk = list(islice(rest, CHUNK))
        if not chunk:
            return window
        yield from _look(window, (yield from tasks_of(chunk)))
        if window.open >= limit:
            break
    window.is_whole = next(rest, None) is None
    return window


def _look(window: Window, tasks: dict[str, Task]) -> Deciding[None]:
    traces = yield from lookups.traces([t.key for t in tasks.values()])
    missing = {key: task for key, task in tasks.items() if task.key not in traces}
    window.hits.update((key, (t.key, traces[t.key])) for key, t in tasks.items() if t.key in traces)
    window.missing.update(missing)
    if missing:
        known = yield from lookups.tasks([t.key for t in missing.values()])
        window.known.update((t.key, known[t.key]) for t in missing.values() if t.key in known)


def limit(planning: Planning, count: int) -> int:
    """How many tasks may be open at a time where `count` partitions have to be looked at."""
    return planning.window if count > planning.exact else planning.exact + 1


def hole_keys(planning: Planning, wanted: Sequence[bytes], have: bytes, count: int) -> Deciding[Iterable[str]]:
    """The keys of the wanted trees that `have` lacks, in order; a few are read together with those of others."""
    if count > planning.exact:
        nodes = planning.world.nodes
        return union(Keys((), {(root, have): (root, have)}, count) for root in wanted).read(nodes)
    several = yield from lookups.holes([(have, root) for root in wanted])
    return sorted({key for keys in several for key in keys})


def edited(planning: Planning, base: bytes, window: Window, removed: Iterable[str]) -> Deciding[bytes]:
    """The root with the hits of a window in it, and without `removed`."""
    edits: dict[str, tree.Entry | None] = dict.fromkeys(removed)
    edits |= {key: entry for key, (_, entry) in window.entries.items()}
    keys = sorted(edits)
    if not keys:
        return base
    yield from lookups.nodes([(base, keys)])
    return tree.edit(planning.world.nodes, base, [(key, edits[key]) for key in keys])


def entering(planning: Planning, base: bytes, window: Window) -> Deciding[dict[str, bytes]]:
    """The tasks of those hits whose fragment the present root does not have, by partition. A second output is nobody's
    own."""
    if window.output:
        return {}
    entries = window.entries
    keys = sorted(entries)
    yield from lookups.nodes([(base, keys)])
    present = tree.lookup(planning.world.nodes, base, keys)
    return {
        key: task
        for key, (task, entry) in entries.items()
        if key not in present or present[key].fragment != entry.fragment
    }


def computing(decision: Decision, window: Window, job: Json, building: PartialState | None = None) -> Decision:
    """A decision to compute what a window misses, with the status that the tasks already there give."""
    failed, states = window.failed, {t.state for t in window.known.values()}
    status: Status = "building" if states & {"queued", "running"} else "stale"
    if failed and not window.open and window.is_whole:
        status = "failed"
    entered = {key: task for key, (task, _) in window.hits.items()} if building and not window.output else {}
    return replace(
        decision,
        status=status,
        step=Compute(window.tasks, job, building, entered),
        error=_first_error(failed),
        reason=f"{len(failed)} of {len(window.tasks)} tasks failed" if failed else "",
    )


def _first_error(failed: Sequence[Task]) -> TaskError | None:
    return failed[0].error if failed else None


def learning(task: Task, known: Mapping[bytes, Task]) -> tuple[Status, TaskError | None]:
    """How the question that `task` answers stands."""
    found = known.get(task.key)
    if found is not None and found.state == "failed":
        return "failed", found.error
    return ("building" if found else "stale"), None
