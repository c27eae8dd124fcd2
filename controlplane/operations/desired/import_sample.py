"""The check of an import by a sample: the code of the component computes some partitions, and their
contents are compared with those of the copied rows.

    partition    copied    computed
    2026-11-01   2 rows    2 rows of the same content    equal
    2026-11-09   2 rows    2 rows of another content     differs

The tasks are those that a run of the component would request. So partitions that were computed
before are not computed again. Nothing of the component changes. Where partitions differ, the copy
gets a generation with the computed rows, and then one with the copied rows again: `headgate diff`
compares the rows of the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.errors import ImportRefused
from controlplane.core.model.answers import ImportSample
from controlplane.core.model.jobs import StoredJob
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Task
from controlplane.core.plan import lookups, windows
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.transform.case import Case
from controlplane.core.plan.transform.compute import sorted_job
from controlplane.core.plan.transform.transform_decision import with_indexes
from controlplane.core.plan.transform.transform_tasks import tasks_of
from controlplane.core.tree import Entry, NodeStore
from controlplane.operations.planning.snapshot import StoreSnapshot
from controlplane.ports.store import Tx
from dataplane.contract.identity import Content
from dataplane.contract.schemas import Schema

MOST: Final = 1_000  # partitions of a sample
INDEXED: Final = 10_000  # tasks of a key index that are requested at a time
# Behind the name of the copy: no dataset has it, so no plan drops the tasks, and they end with the
# dataflow of the copy
DEMAND: Final = "#verify"


@dataclass(frozen=True, slots=True)
class ComputedSample:
    """The partitions that the code has computed, or the tasks that are missing, of one job."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    tasks: Sequence[Task] = ()
    job: StoredJob | None = None
    failed: Sequence[Task] = ()


def check_sample(
    tx: Tx, facts: StoreSnapshot, case: Case, copied: State, names: Mapping[str, str]
) -> ImportSample | ImportRefused:
    """Compare a sample of the copied partitions with those that the code computes, or request its
    tasks. `names`: keys of the sample in the copy, by the component's keys. The error of a task
    that failed; a repeated import requests it again.

    Raises ImportRefused for a component that cannot be checked.
    """
    _require_checkable(case)
    case = replace(case, planning=replace(case.planning, window=INDEXED))
    computed = lookups.decide(_computed(case, copied.schema, sorted(names)), facts)
    demand = copied.dataset + DEMAND
    if computed.failed:
        tx.queue.drop_demands(copied.branch, demand)
        return ImportRefused("import-failed", _failure(computed.failed[0]))
    if computed.job is not None:
        # Jobs of inputs by key name trees that the index has just got
        tx.nodes.put_nodes(facts.overlay.staged)
        tx.queue.put_job(ids.job_id(computed.job), computed.job)
        tx.queue.enqueue(copied.branch, demand, computed.tasks)
        return _sample(names, waiting=len(computed.tasks))
    tx.queue.drop_demands(copied.branch, demand)
    differing = _differing(tx.nodes, copied.root, computed, names)
    if not differing:
        return _sample(names)
    computed_point, copied_point = _keep_computed(tx, copied, differing)
    return {
        **_sample(names),
        "differing": sorted(differing),
        "computed": computed_point,
        "copied": copied_point,
    }


def _sample(names: Mapping[str, str], waiting: int = 0) -> ImportSample:
    return {
        "partitions": len(names),
        "waiting": waiting,
        "differing": [],
        "computed": None,
        "copied": None,
    }


def _require_checkable(case: Case) -> None:
    node, why = case.node, ""
    if node.is_volatile:
        why = "its code gives other rows each time"
    elif node.fold is not None:
        why = "a partition of a fold is computed from the computed partitions before it"
    elif node.late is not None:
        why = "its rows depend on the order in which messages came"
    if why:
        message = f"{node.dataset} cannot be verified: {why}; import it without --verify"
        raise ImportRefused("import-refused", message)


def _failure(task: Task) -> str:
    assert task.error is not None
    where = f"{task.dataset}/{task.partition}" if task.partition else task.dataset
    return f"{where} cannot be verified: {task.error['message']}; nothing was imported"


# --- the sample -----------------------------------------------------------------------------------


def sample_keys(nodes: NodeStore, root: bytes, count: int) -> list[str]:
    """Keys of so many partitions, at equal distances in the order of keys; of fewer, all. The same
    for each request of an import."""
    total = tree.totals(nodes, root).partitions
    if total <= count:
        return [partition.key for partition in tree.scan(nodes, root)]
    shift = int.from_bytes(root[:8]) % (total // count)
    places = [i * total // count + shift for i in range(count)]
    keys: list[str] = []
    first, start = 0, ""
    for last, totals in tree.leaf_totals(nodes, root):
        after_leaf = first + totals.partitions
        of_leaf = [place - first for place in places if first <= place < after_leaf]
        if of_leaf:
            entries = list(tree.scan(nodes, root, start, tree.after(last)))
            keys += [entries[place].key for place in of_leaf]
        first, start = after_leaf, tree.after(last)
    return keys


# --- computing it ---------------------------------------------------------------------------------


def _computed(case: Case, schema: Schema, keys: Sequence[str]) -> Deciding[ComputedSample]:
    yield from lookups.nodes([(i.of.root, ()) for i in case.inputs])
    case, index = yield from with_indexes(case)
    if index is not None:
        if not index.window.tasks:
            message = f"{case.node.dataset} has too many input partitions to be verified"
            raise ImportRefused("import-refused", f"{message}; import it without --verify")
        return ComputedSample({}, index.window.tasks, index.job, index.window.failed)
    job = sorted_job(case, schema)

    def tasks(chunk: Sequence[str]) -> Deciding[dict[str, Task]]:
        return (yield from tasks_of(case, job, chunk))

    # Inputs that are read whole have one task, which may give all partitions
    requested = keys if case.parted else [""]
    window = yield from windows.look(requested, tasks, len(requested) + 1)
    if window.missing:
        return ComputedSample({}, window.tasks, job, window.failed)
    return ComputedSample({key: partition for key, (_, partition) in window.entries.items()})


# --- comparing it ---------------------------------------------------------------------------------


def _differing(
    nodes: NodeStore, root: bytes, computed: ComputedSample, names: Mapping[str, str]
) -> dict[str, Entry | None]:
    """The computed partitions that differ, by their keys in the copy; None where the code gives
    none. A task that gives all partitions may give some that the table lacks."""
    names = {**{key: key for key in computed.entries}, **names}
    copied = tree.lookup(nodes, root, names.values())
    differing: dict[str, Entry | None] = {}
    for key, name in names.items():
        partition, copied_partition = computed.entries.get(key), copied.get(name)
        if _content(partition) != _content(copied_partition):
            differing[name] = None if partition is None else partition._replace(key=name)
    return differing


def _content(partition: Entry | None) -> Content | None:
    return None if partition is None else partition.content


def _keep_computed(tx: Tx, copied: State, differing: Mapping[str, Entry | None]) -> tuple[str, str]:
    """The generations of the copy that have the computed, and the copied rows. A repeated check
    finds them."""
    edits = [(key, differing[key]) for key in sorted(differing)]
    root = tree.edit(tx.nodes, copied.root, edits)
    _, *earlier = tx.states.history(copied.branch, copied.dataset, 2)
    if earlier and earlier[0].root == root:
        return _point(earlier[0]), _point(copied)
    computed = _after(tx, copied, root)
    tx.states.commit(computed, copied.seq)
    restored = _after(tx, computed, copied.root)
    tx.states.commit(restored, computed.seq)
    return _point(computed), _point(restored)


def _point(state: State) -> str:
    return f"{state.dataset}@{state.generation}"


def _after(tx: Tx, state: State, root: bytes) -> State:
    """The next generation, with another root."""
    totals = tree.totals(tx.nodes, root)
    return replace(
        state,
        seq=state.seq + 1,
        generation=state.generation + 1,
        root=root,
        partitions=totals.partitions,
        rows=totals.content.rows,
        at=tx.now(),
    )
