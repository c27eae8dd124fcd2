"""Packs in use: due and requested ones, taking them in, reading a dataset by them, and giving them
up."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeAlias

from controlplane.core import tree
from controlplane.core.compile.nodes import Node
from controlplane.core.compile.sort_by import sorting
from controlplane.core.model import packs
from controlplane.core.model.jobs import StoredJob
from controlplane.core.model.pack_origins import Origin
from controlplane.core.model.packs import Pack
from controlplane.core.model.retention import Files
from controlplane.core.model.roll_ups import is_span
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Attempt, Fragment, Task
from controlplane.core.plan.slice_readers import topics_of
from controlplane.operations.projections import compaction_gc
from controlplane.ports.store import Store, Tx
from dataplane.contract.identity import pack_id
from dataplane.contract.results import FileEntry, TaskResult, partition_result

DATASETS_A_TIME = 20  # that are looked at in one snapshot
LEAVES_A_TIME = 20
PACKS_A_TIME = 100  # of one dataset
Leaf: TypeAlias = tuple[bytes, Sequence[tree.Entry]]  # with its digest


# --- reading ----------------------------------------------------------------------------------------


def fragments(tx: Tx, root: bytes, leaves: Container[bytes] | None = None) -> list[Fragment]:
    """The rows of a dataset in as few fragments as there are: packs in place of their members (only
    of these leaves, where some are named), and every other fragment as often as partitions have
    it."""
    by_leaf = [(digest, entries) for digest, entries in tree.by_leaf(tx.nodes, root)]
    by_id = tx.traces.fragments({e.fragment for _, entries in by_leaf for e in entries})
    packs_by_leaf = {
        d: packs.packs_of(e, by_id) for d, e in by_leaf if leaves is None or d in leaves
    }
    by_id |= _there(tx, packs_by_leaf.values())
    return [
        f
        for d, entries in by_leaf
        for f in packs.laid_out(entries, packs_by_leaf.get(d, ()), by_id)
    ]


def are_there(tx: Tx, laid_out: Iterable[Fragment]) -> bool:
    """Whether none of the packs among these fragments was given up meanwhile."""
    ids = {f.id for f in laid_out if Files(f.id, f.attempt, f.files).is_pack}
    return all(fragment.status == "stored" for fragment in tx.traces.stored(ids).values())


def files(tx: Tx, root: bytes) -> list[FileEntry]:
    """The files of a whole dataset."""
    return [file for fragment in fragments(tx, root) for file in fragment.files]


def breaks_up(tx: Tx, root: bytes, leaves: Container[bytes]) -> bool:
    """Whether packs are there of leaves of this tree that are not among `leaves`."""
    replaced = [entries for digest, entries in tree.by_leaf(tx.nodes, root) if digest not in leaves]
    members = tx.traces.fragments({e.fragment for entries in replaced for e in entries})
    return bool(_there(tx, [packs.packs_of(entries, members) for entries in replaced]))


def _there(tx: Tx, pack_groups: Iterable[Iterable[Pack]]) -> dict[bytes, Fragment]:
    by_id = tx.traces.fragments({pack.id for some in pack_groups for pack in some})
    return {id: fragment for id, fragment in by_id.items() if fragment.status == "stored"}


# --- asking -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Due:
    """Packs that a dataset lacks, as tasks with their jobs."""

    dataset: str
    tasks: tuple[Task, ...]
    jobs: Mapping[bytes, StoredJob]
    origins: tuple[Origin, ...] = ()


def due(tx: Tx, state: State, node: Node, topics: Container[str]) -> Due:
    """Packs of leaves that the newest commit left as they are, or of all leaves once nothing was
    committed for a while. `topics`: the datasets that read a topic."""
    if node.is_copy or not _may_have_packs(tx, state, topics):
        return Due(state.dataset, (), {})
    missing = list(islice(_missing(tx, state), PACKS_A_TIME))
    jobs = [(pack, packs.job_of(pack, _order(node, state))) for _, pack in missing]
    tasks = tuple(packs.task_of(pack, state.dataset, job) for pack, job in jobs)
    origins = tuple(Origin(pack.id, leaf, pack.members[0], tx.now()) for leaf, pack in missing)
    return Due(
        state.dataset,
        tasks,
        {task.job: job for task, (_, job) in zip(tasks, jobs, strict=True)},
        origins,
    )


def _may_have_packs(tx: Tx, state: State, topics: Container[str]) -> bool:
    """Rolled-up slices have many files in few partitions."""
    if state.partitions >= packs.FEWEST:
        return True
    if not any(source in topics for source in state.cut):
        return False
    return any(is_span(part.key) for part in tree.scan(tx.nodes, state.root))


def _missing(tx: Tx, state: State) -> Iterator[tuple[bytes, Pack]]:
    """Packs of stable leaves that are not stored, each once, with its leaf."""
    stable = _stable(tx, state)
    leaves = (leaf for leaf in tree.by_leaf(tx.nodes, state.root) if leaf[0] in stable)
    seen_ids: set[bytes] = set()
    while stable and (some := _next_leaves(leaves)):
        members = tx.traces.fragments({e.fragment for _, entries in some for e in entries})
        by_id = {
            pack.id: (leaf, pack)
            for leaf, entries in some
            for pack in packs.packs_of(entries, members)
        }
        missing = (
            by_id.keys() - _there(tx, [[pack for _, pack in by_id.values()]]).keys() - seen_ids
        )
        seen_ids |= missing
        yield from (by_id[id] for id in sorted(missing))


def _next_leaves(leaves: Iterator[Leaf]) -> list[Leaf]:
    """Some leaves, as many as have some thousand files: one, if it is of spans."""
    some: list[Leaf] = []
    for leaf in leaves:
        some.append(leaf)
        if len(some) == LEAVES_A_TIME or any(is_span(part.key) for part in leaf[1]):
            break
    return some


def is_quiet(state: State, now: float) -> bool:
    """True if the state has been the newest for so long that no commit is expected soon."""
    return now - state.at >= packs.QUIET_S


def _stable(tx: Tx, state: State) -> frozenset[bytes]:
    if is_quiet(state, tx.now()):
        return frozenset(tree.leaf_digests(tx.nodes, state.root))
    before = next(
        (s for s in tx.states.history(state.branch, state.dataset, 2) if s.seq < state.seq), None
    )
    if before is None:
        return frozenset()
    return frozenset(tree.leaf_digests(tx.nodes, before.root)) & frozenset(
        tree.leaf_digests(tx.nodes, state.root)
    )


def _order(node: Node, state: State) -> Sequence[str]:
    """The requested order; else the columns of a key, by which readers look for rows."""
    assert node.has_rows
    is_exact = bool(node.spark["case_sensitive"])
    columns = sorting(node.component, state.schema, case_sensitive=is_exact) or ()
    return columns or [part.column for part in node.key]


def ask(
    store: Store, namespace: str, states: Iterable[State], nodes: Mapping[str, Node]
) -> frozenset[str]:
    """Ask for the packs that these datasets lack; the datasets that some are made for now."""
    pairs = [(state, nodes[state.dataset]) for state in states if state.dataset in nodes]
    topics = frozenset(source.dataset for source in topics_of(nodes))
    waiting: set[str] = set()
    for at in range(0, len(pairs), DATASETS_A_TIME):
        some = pairs[at : at + DATASETS_A_TIME]
        with store.read(namespace) as tx:
            due_states = [(state.branch, due(tx, state, node, topics)) for state, node in some]
        waiting |= _requested(
            store,
            namespace,
            [(branch, due_dataset) for branch, due_dataset in due_states if due_dataset.tasks],
        )
    return frozenset(waiting)


def _requested(
    store: Store, namespace: str, due_states: Sequence[tuple[str, Due]]
) -> frozenset[str]:
    if not due_states:
        return frozenset()
    with store.begin(namespace) as tx:
        for branch, due_dataset in due_states:
            for digest, job in due_dataset.jobs.items():
                tx.queue.put_job(digest, job)
            tx.queue.drop_demands(
                branch, packs.name_of(due_dataset.dataset), [task.key for task in due_dataset.tasks]
            )
            tx.queue.enqueue(branch, packs.name_of(due_dataset.dataset), due_dataset.tasks)
            tx.upkeep.put_origins(due_dataset.origins)
        return frozenset(
            due_dataset.dataset
            for branch, due_dataset in due_states
            if _is_open(tx, branch, due_dataset.dataset)
        )


def still_open(
    store: Store, namespace: str, branch: str, datasets: Iterable[str]
) -> frozenset[str]:
    """Those of the datasets for which packs are being made."""
    with store.read(namespace) as tx:
        return frozenset(dataset for dataset in datasets if _is_open(tx, branch, dataset))


def _is_open(tx: Tx, branch: str, dataset: str) -> bool:
    name = packs.name_of(dataset)
    return any(
        demand.state in ("queued", "running")
        for demand in tx.queue.demanded(branch, [name]).get(name, {}).values()
    )


# --- taking in --------------------------------------------------------------------------------------


def take_in(tx: Tx, attempt: Attempt, results: Iterable[TaskResult]) -> list[bytes]:
    """Keep packs that were made; returns their ids. Tables that may show them have to be checked
    again."""
    made = [pack for r in results if (pack := _made(attempt, r)).id.hex() == r["task"]]
    compaction_gc.replaced(tx, made)
    tx.traces.put([], made)
    for branch, name in {who for pack in made for who in tx.queue.demanding(pack.id)}:
        waiting = [
            key for key, task in tx.queue.demands(branch, name).items() if task.state != "done"
        ]
        tx.queue.drop_demands(branch, name, waiting)
        _unpublish(tx, branch, packs.dataset_of(name))
    return [pack.id for pack in made]


def _made(attempt: Attempt, result: TaskResult) -> Fragment:
    schema, content, files = partition_result(result)
    return Fragment(
        pack_id(schema, content), schema, content, tuple(files), attempt.dataset, attempt.id
    )


def _unpublish(tx: Tx, branch: str, dataset: str) -> None:
    """The table's rows are right, and its files are no more those that they should be."""
    publication = tx.projections.publications(branch, [dataset]).get(dataset)
    if publication is not None:
        tx.projections.put_publication(replace(publication, schema=b""))


# --- giving up --------------------------------------------------------------------------------------


def give_up_all(tx: Tx) -> int:
    """Stop using all existing packs; new ones are made in time. Files stay, since readers of older
    versions of tables have them open. How many."""
    pack_ids = list(_all(tx))
    forget(tx, pack_ids)
    return len(pack_ids)


def forget(tx: Tx, pack_ids: Sequence[bytes]) -> None:
    """Give up these packs."""
    if not pack_ids:
        return
    tx.traces.condemn(pack_ids)
    for branch, dataset in ((p.branch, p.name) for p in tx.upkeep.pointers(["publication"])):
        _unpublish(tx, branch, dataset)


def _all(tx: Tx) -> Iterator[bytes]:
    return (of.fragment for of in tx.traces.files() if of.is_pack)
