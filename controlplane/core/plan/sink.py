"""Deciding about write components: the diff between what was last synced and the dataset's root is the work."""

from __future__ import annotations

from dataclasses import replace

from controlplane.core import ids, tree
from controlplane.core.dataflow import Sink
from controlplane.core.model import State, Target, Task
from controlplane.core.plan import asking
from controlplane.core.plan.asking import Deciding
from controlplane.core.plan.inputs import UNRELIABLE, blocked
from controlplane.core.plan.keys import Keys, listed
from controlplane.core.plan.values import Because, Decision, Item, Planning, Status, Sync
from dataplane.contract import EMPTY, Json, digest, schema_id

VOID = bytes(32)  # the fragment of a partition that was synced under another identity


def decide(planning: Planning, node: Sink) -> Deciding[Decision]:
    above = planning.decisions.get(node.source)
    state = planning.state(node.source)
    if state is None:
        if above is not None and above.status in (*UNRELIABLE, "paused"):
            return blocked(node.dataset, node.source, above)
        return Decision(node.dataset, "stale", items=(_possible(node),), reason=f"waits for {node.source}")
    target = _target(planning, node, state)
    [changes] = yield from asking.changes([(target.root, state.root)])
    if not changes and target.generation == state.generation:
        return _settled(node, above)
    return (yield from _sync(node, state, target, changes))


def _settled(node: Sink, above: Decision | None) -> Decision:
    if above is not None and above.status in UNRELIABLE:
        return blocked(node.dataset, node.source, above)
    if above is not None and above.items:
        return Decision(node.dataset, "stale", items=(_possible(node),), reason=f"waits for {node.source}")
    return Decision(node.dataset, "up_to_date")


def _possible(node: Sink) -> Item:
    return Item(node.dataset, "sync", "sync", False, 0, Keys())


def _target(planning: Planning, node: Sink, state: State) -> Target:
    """Where the copy stands; under another identity (place, format, schema) each partition has to be written again."""
    identity = digest("synced/1", target=node.identity, schema=schema_id(state.schema))
    known = planning.world.target(node.dataset)
    if known is None:
        return Target(planning.branch, node.dataset, identity, tree.EMPTY_ROOT, 0)
    if known.identity == identity:
        return known
    nodes = planning.world.nodes
    void = ((e.key, tree.Entry(e.key, VOID, EMPTY)) for e in tree.scan(nodes, known.root))
    return replace(known, identity=identity, root=tree.edit(nodes, known.root, list(void)))


def _sync(node: Sink, state: State, target: Target, changes: list[tree.Change]) -> Deciding[Decision]:
    job = {
        "path": node.path,
        "format": node.write.format,
        "options": dict(node.write.options),
        "owner": node.identity.hex(),
        "schema": state.schema,
    }
    tasks = tuple(_task(node, ids.job_id(job), target, c) for c in changes)
    wanted = {t.key for t in tasks}
    known = [t for t in (yield from asking.tasks(list(wanted))).values() if t.key in wanted]
    failed = [t for t in known if t.state == "failed"]
    status: Status = "building" if any(t.state in ("queued", "running") for t in known) else "stale"
    if failed and len(failed) == len(tasks):
        status = "failed"
    because = (Because(node.source, target.root, state.root),)
    item = Item(node.dataset, "sync", "sync", True, len(tasks), listed(c.key for c in changes), 0, because)
    error = failed[0].error if failed else None
    reason = f"{len(failed)} of {len(tasks)} partitions failed" if failed else ""
    moved = target if tasks else replace(target, generation=state.generation)
    return Decision(node.dataset, status, Sync(moved, tasks, job), (item,) if tasks else (), reason, error=error)


def _task(node: Sink, job: bytes, target: Target, change: tree.Change) -> Task:
    after = change.after
    key = digest(
        "write/1", target=target.identity, partition=change.key, fragment=after.fragment if after else None, job=job
    )
    spec: Json = {"remove": True} if after is None else {"fragment": after.fragment.hex()}
    rows = after.content.rows if after else 0
    return Task(key, "write", node.dataset, change.key, job, spec, rows, priority=node.component.priority)
