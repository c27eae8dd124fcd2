"""Merging many parts of an aggregate along their tree: those of each leaf first, then what came of these, and so on.

One changed part redoes a merge of some 500 on each level. What a leaf's merge gives is named by the content of its
parts, so nothing is remembered of levels but traces, and the task of the whole stays the one that it is without any.
Where it matters which parts meet first (doubles), all are merged at once.
Does not belong here: parts (plan.transform.partials), the queries (sql.split).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from controlplane.core import sql, tree
from controlplane.core.compile import ids
from controlplane.core.model.tasks import Task
from controlplane.core.plan import salts, windows
from controlplane.core.plan.keys import listed
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.transform.case import item_of
from controlplane.core.plan.transform.jobs import between_job, cost_of
from controlplane.core.plan.transform.partials import PartialsFollowing
from controlplane.core.plan.values import Decision
from controlplane.core.sql import PARTS, Unproven
from dataplane.contract.identity import slot_id, task_key
from dataplane.contract.schemas import Json, Schema

AT_A_TIME = 256  # merges that are asked for together: each names all that it reads


@dataclass(slots=True)
class Merging:
    """`root`: a tree of what is merged at last, once nothing is missing in `window`."""

    found: PartialsFollowing
    schema: Schema
    root: bytes
    job: Json = None
    window: windows.Window = field(default_factory=windows.Window)

    @property
    def is_whole(self) -> bool:
        return not self.window.missing


def follow(found: PartialsFollowing, schema: Schema) -> Deciding[Merging]:
    """From all parts, which have this schema, to as few as are merged at once; up to the first level that lacks any."""
    merging = Merging(found, schema, found.root)
    nodes, widest = found.case.planning.world.nodes, found.case.planning.widest
    count = tree.totals(nodes, merging.root).partitions
    if count <= widest:
        return merging
    try:
        merging.job = between_job(found.case.node, found.query, schema)
    except Unproven:
        return merging
    while count > widest:
        yield from _level(merging)
        before, count = count, tree.totals(nodes, merging.root).partitions
        if not merging.is_whole or count == before:
            break
    return merging


def _level(merging: Merging) -> Deciding[None]:
    nodes = merging.found.case.planning.world.nodes
    leaves = dict(tree.leaf_totals(nodes, merging.root))
    several = [last for last, totals in leaves.items() if totals.partitions > 1]
    tasks = partial(_tasks, merging, leaves)
    merging.window = yield from windows.look(several, tasks, len(several))
    if merging.is_whole:
        merging.root = tree.build(nodes, _merged(merging, leaves))
    else:
        merging.window.missing = _with_parts(merging)


def _tasks(merging: Merging, leaves: Mapping[str, tree.Totals], lasts: Sequence[str]) -> Deciding[dict[str, Task]]:
    yield from ()
    job = ids.job_id(merging.job)
    logic = _logic(merging.found, merging.job)
    return {last: _task(merging, logic, job, leaves[last]) for last in lasts}


def _task(merging: Merging, logic: bytes, job: bytes, totals: tree.Totals) -> Task:
    node = merging.found.case.node
    key = task_key(logic, {PARTS: slot_id(totals.content, merging.schema)})
    cost = cost_of(totals.content.rows, is_batched=True)
    of = node.component
    return Task(key, "transform", node.maker, "", job, {}, cost, priority=of.priority, size=of.resources)


def _logic(found: PartialsFollowing, job: Json) -> bytes:
    node, salt = found.case.node, salts.whole(found.case.planning, found.case.node)
    others = {"/salt": salt} if salt else {}
    return ids.part_logic(sql.analyse(job["sql"]).digest, {}, node.spark, node.semantics, others)


def _merged(merging: Merging, leaves: Mapping[str, tree.Totals]) -> Iterator[tree.Entry]:
    """One entry for each leaf, under a key of its own: the last keys of leaves are where nodes end, all of them."""
    nodes, entries = merging.found.case.planning.world.nodes, merging.window.entries
    for last in leaves:
        found = entries[last][1] if last in entries else tree.lookup(nodes, merging.root, [last])[last]
        yield found._replace(key=f"/{last}")


def _with_parts(merging: Merging) -> dict[str, Task]:
    """The first of the missing tasks, with what they read."""
    nodes, missing = merging.found.case.planning.world.nodes, merging.window.missing
    wanted = dict(list(missing.items())[:AT_A_TIME])
    parts: dict[str, list[str]] = {}
    below = ""
    for last, _ in tree.leaf_totals(nodes, merging.root):
        if last in wanted:
            entries = tree.scan(nodes, merging.root, below, tree.after(last))
            parts[last] = [entry.fragment.hex() for entry in entries]
        below = tree.after(last)
    return {last: replace(task, spec={"slots": {PARTS: parts[last]}}) for last, task in wanted.items()}


def compute(merging: Merging) -> Decision:
    """Ask for what is missing; levels above, and the task of the whole, come after."""
    case = merging.found.case
    item = replace(item_of(case, "compute", len(merging.window.tasks) + 1, listed(("",))), certain=False)
    decision = Decision(case.node.dataset, "stale", items=(item,), pending=item.keys)
    return windows.computing(decision, merging.window, merging.job)
