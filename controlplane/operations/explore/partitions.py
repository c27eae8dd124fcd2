"""Some partitions of a dataset: by the beginning of their keys, by pending work, by the changes of
a generation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import groupby, islice, takewhile

from controlplane.core import tree
from controlplane.core.errors import GenerationGone
from controlplane.core.model.addresses import Generation
from controlplane.core.model.answers.datasets import PartitionEntry, PartitionsAnswer, PartitionWork
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Fragment
from controlplane.operations.context import Context
from controlplane.operations.explore.change_counts import kind_of
from controlplane.operations.inspect.datasets import kept_states, one_of
from controlplane.operations.inspect.time_travel import state_of
from controlplane.operations.planning.snapshot import StoreSnapshot
from controlplane.ports.store import Tx


@dataclass(frozen=True, slots=True)
class KeyPage:
    """Keys that begin with `prefix` and are greater than `after`."""

    prefix: str = ""
    after: str | None = None
    limit: int = 100

    @property
    def start(self) -> str:
        return self.prefix if self.after is None else max(self.prefix, tree.after(self.after))

    def of(self, keys: Iterable[str]) -> tuple[list[str], str | None]:
        """The page of these sorted keys, which start at `start`, and the key after which the next
        page begins."""
        fitting = takewhile(lambda key: key.startswith(self.prefix), keys)
        page = list(islice(fitting, self.limit + 1))
        shown = page[: self.limit]
        return shown, shown[-1] if len(page) > self.limit else None


def with_work(
    ctx: Context, branch: str, name: str, work: PartitionWork, page: KeyPage
) -> PartitionsAnswer:
    """Those of the newest generation, or that are not there yet, with work to do or with a task
    that failed. Raises NotFound."""
    with ctx.read_plan(branch) as (plan, facts):
        decision = one_of(ctx, plan, branch, name)
        if work == "failed":
            keys: Iterable[str] = _failed(facts, name, page.start)
        else:
            several = [item.keys.read(facts.nodes, page.start) for item in decision.items]
            keys = (key for key, _ in groupby(merge(*several)))
        shown, following = page.of(keys)
        state = facts.state(name)
        there = {} if state is None else tree.lookup(facts.nodes, state.root, shown)
        fragments = facts.tx.traces.fragments([entry.fragment for entry in there.values()])
        items = [_entry(key, there.get(key), fragments) for key in shown]
    for item in items:
        item["work"] = work
    return {
        "generation": 0 if state is None else state.generation,
        "items": items,
        "next": following,
    }


def _failed(facts: StoreSnapshot, name: str, start: str) -> list[str]:
    tasks = facts.tx.queue.demands(facts.branch, name).values()
    return sorted(
        {task.partition for task in tasks if task.state == "failed" and task.partition >= start}
    )


def changed_in(
    ctx: Context, branch: str, name: str, generation: int, page: KeyPage
) -> PartitionsAnswer:
    """Partitions that this generation added, changed or removed; removed ones with their earlier
    rows. Raises NotFound, GenerationGone."""
    with ctx.read() as tx:
        state = state_of(tx, branch, name, Generation(generation))
        before = before_generation(tx, branch, state)
        changes = tree.diff(tx.nodes, before, state.root, start=page.start)
        fitting = list(islice(_beginning(changes, page.prefix), page.limit + 1))
        shown = fitting[: page.limit]
        entries = {change.key: change.after or change.before for change in shown}
        fragments = tx.traces.fragments(
            [entry.fragment for entry in entries.values() if entry is not None]
        )
        items = [_entry(change.key, entries[change.key], fragments) for change in shown]
    for item, change in zip(items, shown, strict=True):
        item["change"] = kind_of(change)
    following = shown[-1].key if len(fitting) > page.limit else None
    return {"generation": state.generation, "items": items, "next": following}


def before_generation(tx: Tx, branch: str, state: State) -> bytes:
    """The root that a dataset had in the generation before. Raises GenerationGone."""
    if state.generation == 1:
        return tree.EMPTY_ROOT
    for before in kept_states(tx, branch, state.dataset, state.seq):
        if before.generation != state.generation:
            return before.root
    raise GenerationGone(
        f"the generation before {state.generation} of dataset {state.dataset} is not kept any more: what changed in it"
        " is not known"
    )


def _beginning(changes: Iterable[tree.EntryChange], prefix: str) -> Iterator[tree.EntryChange]:
    return takewhile(lambda change: change.key.startswith(prefix), changes)


def _entry(
    key: str, entry: tree.Entry | None, fragments: Mapping[bytes, Fragment]
) -> PartitionEntry:
    """`entry`: None where the partition is not committed yet."""
    if entry is None:
        return {"partition": key, "rows": 0, "fragment": None, "bytes": None}
    fragment = fragments.get(entry.fragment)
    return {
        "partition": key,
        "rows": entry.content.rows,
        "fragment": entry.fragment.hex(),
        "bytes": None if fragment is None else sum(file["size"] for file in fragment.files),
    }
