"""External copies of datasets: the facts that a claim gives to a worker, and those that a finished
write leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from controlplane.core import tree
from controlplane.core.model.jobs import WriteWholeSpec
from controlplane.core.model.projections import Target
from controlplane.core.model.tasks import Task
from controlplane.ports.store import Tx
from dataplane.contract.claims import WrittenFragment


def is_there(tx: Tx, tasks: Sequence[Task]) -> bool:
    """Whether the target of tasks that write partitions was in sync before, or has some of them
    already."""
    if not tasks or "root" in tasks[0].spec:
        return False
    targets = (
        tx.projections.targets(branch).get(name)
        for branch, name in tx.queue.demanding(tasks[0].key)
    )
    return any(t and (t.generation or tree.totals(tx.nodes, t.root).content.rows) for t in targets)


def fragments_of(tx: Tx, spec: WriteWholeSpec) -> list[WrittenFragment]:
    """All fragments of a generation that is written whole."""
    copies = Counter(entry.fragment for entry in tree.scan(tx.nodes, bytes.fromhex(spec["root"])))
    by_id = tx.traces.fragments(copies)
    return [
        {"id": id.hex()[:32], "copies": copies[id], "files": list(by_id[id].files)}
        for id in sorted(by_id)
    ]


def written(tasks: Sequence[Task]) -> int:
    """Partitions that these finished tasks brought up to date."""
    return sum(task.spec["changes"] if "root" in task.spec else 1 for task in tasks)


def synced(tx: Tx, target: Target, tasks: Sequence[Task]) -> Target:
    """The target with the output of these finished tasks."""
    full_specs = [task.spec for task in tasks if "root" in task.spec]
    if full_specs:
        newest = max(full_specs, key=lambda spec: spec["generation"])
        return replace(target, root=bytes.fromhex(newest["root"]), error=None)
    edits = sorted((_entry(tx, t) for t in tasks), key=lambda e: e[0].encode())
    return replace(target, root=tree.edit(tx.nodes, target.root, edits), error=None)


def _entry(tx: Tx, task: Task) -> tuple[str, tree.Entry | None]:
    spec = task.spec
    assert "generation" in spec
    assert "root" not in spec
    if "fragment" not in spec:
        return task.partition, None
    fragment = bytes.fromhex(spec["fragment"])
    content = tx.traces.fragments([fragment])[fragment].content
    return task.partition, tree.Entry(task.partition, fragment, content)
