"""Merging many parts of an aggregate along their tree: those of each leaf first, then what came of
these, and so on.

    parts      p p p p p p p p p p      follow: more than `widest` are merged level by level
               |_____| |___| |___|      _level: one merge for each leaf of their tree
    merges        m      m     m        these are the tree that the next level merges
                  |______|_____|
    whole                w              as soon as there are few enough, the task of the whole merges them

The walk up ends at the first level that lacks a merge: `compute` asks for it. One changed part
redoes a merge of some 500 on each level. A leaf's merge is identified by the content of its parts,
so nothing is remembered of levels but traces, and the task of the whole keeps the key that it has
without any. Where it matters which parts meet first (doubles), all are merged at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from controlplane.core import sql, tree
from controlplane.core.compile import ids
from controlplane.core.model.jobs import StoredSqlJob
from controlplane.core.model.tasks import Task
from controlplane.core.plan import salts, windows
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import Decision
from controlplane.core.plan.transform.case import item_of, uncertain
from controlplane.core.plan.transform.partials import Partials
from controlplane.core.plan.transform.transform_jobs import between_job, node_task
from controlplane.core.plan.work_keys import listed
from controlplane.core.sql import PARTS, Unproven
from dataplane.contract.identity import slot_id, task_key
from dataplane.contract.schemas import Schema

AT_A_TIME = 256  # merges that are asked for together: each names all that it reads


@dataclass(slots=True)
class Merging:
    """`root`: the tree of parts that are merged last, once nothing is missing in `window`."""

    partials: Partials
    schema: Schema
    root: bytes
    level: int = 0  # steps that the tree of `root` is of
    # The job of a level; none where all parts are merged at once
    between: StoredSqlJob | None = None
    window: windows.Window = field(default_factory=windows.Window)

    @property
    def nodes(self) -> tree.NodeStore:
        return self.partials.case.nodes

    @property
    def job(self) -> StoredSqlJob:
        """The job of a level's tasks."""
        assert self.between is not None
        return self.between

    @property
    def is_whole(self) -> bool:
        return not self.window.missing


def follow(partials: Partials, schema: Schema) -> Deciding[Merging]:
    """From all parts, which have this schema, to as few as are merged at once; up to the first
    level that lacks any."""
    merging = Merging(partials, schema, partials.merged)
    if not partials.is_wide:
        return merging
    try:
        merging.between = between_job(partials.case.node, partials.query, schema)
    except Unproven:
        return merging  # all at once
    widest = partials.case.planning.widest
    while merging.is_whole and partials.width(merging.root, merging.level) > widest:
        leaves = partials.leaves(merging.root, merging.level)
        several = [last for last, totals in leaves.items() if totals.partitions > 1]
        # Every leaf has one part: a further level would merge nothing.
        if not several:
            break
        yield from _level(merging, leaves, several)
    return merging


def _level(
    merging: Merging, leaves: Mapping[str, tree.Totals], several: Sequence[str]
) -> Deciding[None]:
    """The merges of the leaves, if memory has all of them, take the place of the root. `several`:
    the leaves with more than one part."""
    job, logic = ids.job_id(merging.job), _logic(merging)

    def tasks(lasts: Sequence[str]) -> Deciding[dict[str, Task]]:
        yield from ()
        return {last: _task(merging, logic, job, leaves[last]) for last in lasts}

    merging.window = yield from windows.look(several, tasks, len(several))
    if merging.is_whole:
        merging.root = tree.build(merging.nodes, _merged(merging, leaves))
        merging.level += 1
    else:
        merging.window.missing = _with_parts(merging)


def _merged(merging: Merging, leaves: Mapping[str, tree.Totals]) -> Iterator[tree.Entry]:
    """One entry for each leaf, under a key of its own: the last keys of leaves are where nodes end,
    all of them. `name_at` finds it."""
    entries = merging.window.entries
    for last in leaves:
        if last in entries:
            _, entry = entries[last]
        else:
            # The only part of its leaf
            entry = tree.lookup(merging.nodes, merging.root, [last])[last]
        yield entry._replace(key=f"/{last}")


def name_at(level: int, partition: str) -> str:
    """After so many steps, a part has gone into the first result under this key or a greater
    one."""
    return "/" * level + partition


# --- tasks ----------------------------------------------------------------------------------------


def _task(merging: Merging, logic: bytes, job: bytes, totals: tree.Totals) -> Task:
    """The task without its inputs: `_with_parts` adds them where the task is requested."""
    key = task_key(logic, {PARTS: slot_id(totals.content, merging.schema)})
    return node_task(
        merging.partials.case.node, key, job, {}, totals.content.rows, "", is_batched=True
    )


def _logic(merging: Merging) -> bytes:
    case = merging.partials.case
    salt = salts.of_output(case.planning, case.node)
    others = {"/salt": salt} if salt else {}
    return ids.part_logic(
        sql.analyse(merging.job["sql"]).digest, {}, case.node.spark, case.node.semantics, others
    )


def _with_parts(merging: Merging) -> dict[str, Task]:
    """The first of the missing tasks, with their inputs."""
    missing = merging.window.missing
    requested = dict(islice(missing.items(), AT_A_TIME))
    tasks: dict[str, Task] = {}
    below = ""
    for last, _ in tree.leaf_totals(merging.nodes, merging.root):
        end = tree.after(last)
        if last in requested:
            entries = tree.scan(merging.nodes, merging.root, below, end)
            parts = [entry.fragment.hex() for entry in entries]
            tasks[last] = replace(requested[last], spec={"slots": {PARTS: parts}})
        below = end
    return tasks


def compute(merging: Merging) -> Decision:
    """Request the missing merges; levels above, and the task of the whole, come after."""
    case = merging.partials.case
    item = item_of(case, "compute", len(merging.window.tasks) + 1, listed(("",)))
    item = uncertain(item, "further merges follow from what these give")
    decision = Decision(case.node.dataset, "stale", items=(item,), pending=item.keys)
    return windows.computing(decision, merging.window, merging.job)
