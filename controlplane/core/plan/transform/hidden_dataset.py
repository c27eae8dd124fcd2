"""Hidden datasets: each follows one input of a transform, partition by partition, and is edited by
difference.

No blueprint names them. A state remembers the trees that it was made with among its inputs, under
the input's name and an ending (`orders/pairs`), so the next one goes on from there.

    changes     the partitions in which the input differs from the part of it that the trees reflect (`done`)
      | by chunks
    _take       memory has the result of a partition    -> `edit` takes it into the trees
                memory lacks it                         -> a task, up to as many as may be open

A kind of hidden dataset is a subclass of `Hidden`: which results it needs, where they are
remembered, which task gives one, and which trees are made of them.

    key_index   the keys of a partition's rows          -> two trees, `keys` and `pairs`
    partials    the partial aggregates of a partition   -> one tree, `parts`
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import ClassVar, Generic, TypeAlias, TypeVar

from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.model.jobs import StoredJob
from controlplane.core.model.roll_ups import is_span
from controlplane.core.model.states import Consumed, PartialState
from controlplane.core.model.tasks import Task
from controlplane.core.plan import lookups, unions, windows
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import Decision, Item
from controlplane.core.plan.transform.case import Case
from controlplane.core.plan.transform.input_states import Input
from controlplane.core.plan.work_keys import lacking

Result = TypeVar("Result")
Results: TypeAlias = Mapping[tree.Entry | None, Result]


@dataclass(slots=True)
class Hidden(ABC, Generic[Result]):
    """A hidden dataset on its way to the input's present root. `window` holds the tasks that it
    misses.

    `mark` names everything but data that its results depend on. `trees` are what a state remembers
    of it.
    """

    # The endings of the names under which its trees are remembered
    TREES: ClassVar[tuple[str, ...]]
    DONE: ClassVar[str] = ""  # that of the part of the input that they reflect
    CHUNK: ClassVar[int] = windows.CHUNK  # partitions whose results are in memory at a time

    case: Case
    read: Input
    mark: bytes
    job: StoredJob  # that its tasks share
    # Results by the keys of tasks
    memory: Callable[[Sequence[bytes]], Deciding[Mapping[bytes, Result]]]
    trees: dict[str, Consumed] = field(init=False)
    count: int = field(default=0, init=False)  # of partitions that differ, at most
    window: windows.Window = field(default_factory=windows.Window, init=False)

    def __post_init__(self) -> None:
        slot, read = self.read.slot.name, self.read.consumed
        self.trees = {
            slot + ending: Consumed(read.dataset, tree.EMPTY_ROOT, self.mark)
            for ending in self.TREES
        }
        self.trees[slot + self.DONE] = replace(read, root=tree.EMPTY_ROOT)
        for maker in (self.case.planning.building(self.case.node.dataset), self.case.state):
            if maker is not None and self._go_on(maker.inputs):
                break

    def _go_on(self, inputs: Mapping[str, Consumed]) -> bool:
        """Take the trees that are remembered, if they were made under the same mark and read
        schema."""
        if any(
            name not in inputs or inputs[name].schema != made.schema
            for name, made in self.trees.items()
        ):
            return False
        self.trees = {
            name: replace(made, root=inputs[name].root) for name, made in self.trees.items()
        }
        return True

    def root(self, ending: str) -> bytes:
        return self.trees[self.read.slot.name + ending].root

    def put(self, edits_of: Mapping[str, Mapping[str, tree.Entry | None]]) -> None:
        """Edit trees: by the endings of their names, what each key holds from now on."""
        for ending, edits in edits_of.items():
            name = self.read.slot.name + ending
            root = tree.edit(self.case.nodes, self.trees[name].root, sorted(edits.items()))
            self.trees[name] = replace(self.trees[name], root=root)

    def compare(self, have: bytes) -> Deciding[None]:
        """Count the partitions that the input has and this tree lacks, if it has no others."""
        root = self.read.of.root
        yield from lookups.nodes([(root, ()), (have, ())])
        self.count = lacking(self.case.nodes, root, have).count

    @abstractmethod
    def changes(self) -> Deciding[Iterable[tree.EntryChange]]:
        """How the input differs from the part that the trees reflect. Sets `count`."""

    @abstractmethod
    def task(self, partition: tree.Entry, job: bytes) -> Task | None:
        """The task that gives a partition's result; None where none is needed."""

    @abstractmethod
    def edit(self, changes: Sequence[tree.EntryChange], results: Results[Result]) -> Deciding[None]:
        """Take these changes into the trees. `results` has those of all present partitions that
        need one, and of former ones as far as memory has them."""

    def united(self, spans: Sequence[tree.Entry]) -> Deciding[Mapping[tree.Entry, Result]]:  # noqa: ARG002
        """The results about spans whose slices memory has the results of."""
        yield from ()
        return {}

    @property
    def is_whole(self) -> bool:
        return self.window.is_whole and not self.window.missing

    @property
    def missing(self) -> int:
        """The number of tasks that it misses, or an upper bound."""
        return len(self.window.tasks) if self.window.is_whole else self.count

    @property
    def limit(self) -> int:
        """How many of its tasks may be open at a time; 0: they are only counted."""
        return windows.limit(self.case.planning, self.count)

    @property
    def is_windowed(self) -> bool:
        """It takes several passes: a partial root remembers how far it is."""
        return self.limit > 0 and self.count > self.case.planning.exact

    def follow(self) -> Deciding[None]:
        """Take in what memory has, until as many tasks are missing as may be open."""
        changes = yield from self.changes()
        if self.limit == 0:
            self.window.is_whole = False
            return
        yield from windows.walk(self.window, changes, self.limit, self._take, self.CHUNK)

    def _take(self, chunk: Sequence[tree.EntryChange]) -> Deciding[None]:
        job = ids.job_id(self.job)
        tasks: dict[tree.Entry, Task] = {}
        for partition in chain.from_iterable((change.before, change.after) for change in chunk):
            task = self.task(partition, job) if partition else None
            if partition is not None and task is not None:
                tasks[partition] = task
        remembered = yield from self.memory([task.key for task in tasks.values()])
        results: dict[tree.Entry | None, Result] = {
            of: remembered[task.key] for of, task in tasks.items() if task.key in remembered
        }
        spans = {of: t for of, t in tasks.items() if is_span(of.key) and of not in results}
        rest = iter((yield from unions.unrequested(spans)))
        while some := list(islice(rest, unions.SPANS_A_TIME)):
            results.update((yield from self.united(some)).items())
        missing = {
            c.key: tasks[c.after]
            for c in chunk
            if c.after is not None and c.after in tasks and c.after not in results
        }
        if missing:
            yield from self.window.lack(missing)
        ready = [change for change in chunk if change.key not in missing]
        if ready:
            yield from self.edit(ready, results)

    def request(self, work: Item, building: PartialState | None) -> Decision:
        """Ask for the missing tasks. `work` is all that is to be done for the output, as far as it
        is known."""
        decision = Decision(self.case.node.dataset, "stale", items=(work,), pending=work.keys)
        if self.limit == 0:
            return decision
        return windows.computing(decision, self.window, self.job, building)
