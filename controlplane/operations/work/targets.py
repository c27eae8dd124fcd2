"""External copies of datasets: what a worker is told when it takes the work, and what is known once it is done.

Does not belong here: deciding what is to be written (plan.sink), tasks as such (work).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from controlplane.core import tree
from controlplane.core.model.projections import Target
from controlplane.core.model.tasks import Task
from controlplane.ports.store import Tx
from dataplane.contract.schemas import Json


def begun(tx: Tx, tasks: Sequence[Task]) -> dict[str, Json]:
    """What the job of tasks that write partitions says besides: where it was in sync before, or some of them are there
    already, it goes on."""
    if not tasks or "root" in tasks[0].spec:
        return {}
    targets = (tx.targets(branch).get(name) for branch, name in tx.demanding(tasks[0].key))
    is_there = any(t and (t.generation or tree.totals(tx, t.root).content.rows) for t in targets)
    return {"goes_on": True} if is_there else {}


def with_fragments(tx: Tx, tasks: Sequence[Task]) -> list[Task]:
    """Tasks that write a whole generation, with all its fragments in place of its root."""
    return [replace(t, spec=_expanded(tx, t.spec)) if "root" in t.spec else t for t in tasks]


def _expanded(tx: Tx, spec: Json) -> Json:
    copies = Counter(entry.fragment for entry in tree.scan(tx, bytes.fromhex(spec["root"])))
    found = tx.fragments(copies)
    told = [{"id": id.hex()[:32], "copies": copies[id], "files": list(found[id].files)} for id in sorted(found)]
    return {"generation": spec["generation"], "fragments": told}


def written(tasks: Sequence[Task]) -> int:
    """Partitions that these finished tasks brought up to date."""
    return sum(t.spec.get("changes", 1) for t in tasks)


def synced(tx: Tx, target: Target, tasks: Sequence[Task]) -> Target:
    """The target with what these finished tasks wrote to it."""
    whole = [t.spec for t in tasks if "root" in t.spec]
    if whole:
        newest = max(whole, key=lambda spec: int(spec["generation"]))
        return replace(target, root=bytes.fromhex(newest["root"]), error=None)
    edits = sorted((_entry(tx, t) for t in tasks), key=lambda e: e[0].encode())
    return replace(target, root=tree.edit(tx, target.root, edits), error=None)


def _entry(tx: Tx, task: Task) -> tuple[str, tree.Entry | None]:
    if "fragment" not in task.spec:
        return task.partition, None
    fragment = bytes.fromhex(task.spec["fragment"])
    content = tx.fragments([fragment])[fragment].content
    return task.partition, tree.Entry(task.partition, fragment, content)
