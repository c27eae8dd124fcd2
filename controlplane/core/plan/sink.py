"""Deciding about write components: the diff between what was last synced and the dataset's root is the work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from controlplane.core import tree
from controlplane.core.compile import connectors, ids
from controlplane.core.compile.nodes import Sink
from controlplane.core.model.projections import Target
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Task
from controlplane.core.plan import lookups, unfinished
from controlplane.core.plan.keys import Keys, listed
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.transform.inputs import FURTHER, UNRELIABLE, blocked
from controlplane.core.plan.values import RECENT, Because, Decision, Item, Planning, Status, Sync
from dataplane.contract.encoding import digest
from dataplane.contract.identity import EMPTY, schema_id
from dataplane.contract.schemas import Json

VOID = bytes(32)  # the fragment of a partition of which nobody knows what lies there


def decide(planning: Planning, node: Sink) -> Deciding[Decision]:
    above = planning.decisions.get(node.source)
    state = planning.state(node.source)
    if state is None:
        if above is not None and above.status in (*UNRELIABLE, "paused"):
            return blocked(node.dataset, node.source, above)
        return Decision(node.dataset, "stale", items=(_possible(node),), reason=f"waits for {node.source}")
    if (held := _begun(planning, node, state)) is not None:
        decision = yield from _brought(planning, node, held)
        if decision is not None and (decision.status == "building" or not decision.items):
            return replace(decision, reason=unfinished.LATER)
    return (yield from _brought(planning, node, state)) or _settled(node, above)


def _begun(planning: Planning, node: Sink, newest: State) -> State | None:
    """The state that is being written, where it is not the newest: it is finished first, as every run is."""
    target = planning.world.target(node.dataset)
    if target is None or target.order == target.generation or target.wish == _wish(node, newest, target):
        return None  # there is none under way
    for limit in (RECENT, FURTHER):
        states = (s for s in planning.history(node.source, limit) if _identity(node, s) == target.identity)
        if (found := next((s for s in states if _wish(node, s, target) == target.wish), None)) is not None:
            return found
    return None


def _brought(planning: Planning, node: Sink, state: State) -> Deciding[Decision | None]:
    """What it takes to bring the copy to a state; None if it is there."""
    target = _target(planning, node, state)
    [changes] = yield from lookups.changes([(target.root, state.root)])
    if not changes and target.generation == state.generation:
        return None
    return (yield from _sync(planning, node, state, target, changes))


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
    identity = _identity(node, state)
    known = planning.world.target(node.dataset)
    if known is None:
        return Target(planning.branch, node.dataset, identity, tree.EMPTY_ROOT, 0)
    if known.identity == identity:
        return known
    return replace(anew(planning.world.nodes, known), identity=identity)


def anew(nodes: tree.NodeStore, target: Target) -> Target:
    """The target when nobody knows what of it is there: each partition is to be written again, or removed."""
    keys = [e.key for e in tree.scan(nodes, target.root)]
    order = max(target.order, target.generation)
    return replace(target, root=tree.edit(nodes, target.root, _void(keys)), generation=0, order=order)


def _identity(node: Sink, state: State) -> bytes:
    return digest("synced/1", target=node.identity, schema=schema_id(state.schema))


def _void(keys: Iterable[str]) -> list[tuple[str, tree.Entry | None]]:
    return [(key, tree.Entry(key, VOID, EMPTY)) for key in keys]


def _sync(
    planning: Planning, node: Sink, state: State, target: Target, changes: list[tree.EntryChange]
) -> Deciding[Decision]:
    """What is being written is noted first: who writes may fall silent, and then nobody knows what lies there, whether
    it is still wished for or not."""
    job = {
        "path": node.path,
        "format": node.write.format,
        "options": dict(node.write.options),
        "owner": f"{node.dataset} {node.uid}",  # the uid tells apart components of one name in two installations
        "schema": state.schema,
        **connectors.told(node.write),
    }
    if not connectors.is_files(node.write):
        job["keyed"] = list(node.keyed)
    ordered = _ordered(node, state, target)
    if changes and connectors.is_whole(node.write):
        tasks: tuple[Task, ...] = (_whole(node, ids.job_id(job), ordered, state, len(changes)),)
    else:
        tasks = tuple(_task(node, ids.job_id(job), ordered, c) for c in changes)
    wanted = {t.key for t in tasks}
    known = [t for t in (yield from lookups.tasks(list(wanted))).values() if t.key in wanted]
    failed = [t for t in known if t.state == "failed"]
    status: Status = "building" if any(t.state in ("queued", "running") for t in known) else "stale"
    if failed and len(failed) == len(tasks):
        status = "failed"
    because = (Because(node.source, target.root, state.root),)
    item = Item(node.dataset, "sync", "sync", True, len(tasks), listed(c.key for c in changes), 0, because)
    error = failed[0].error if failed else None
    reason = f"{len(failed)} of {len(tasks)} writes failed" if failed else ""
    keys = [c.key for c in changes]
    yield from lookups.nodes([(target.root, keys)])
    noted = replace(ordered, root=tree.edit(planning.world.nodes, target.root, _void(keys)))
    moved = noted if tasks else replace(ordered, generation=state.generation)
    return Decision(node.dataset, status, Sync(moved, tasks, job), (item,) if tasks else (), reason, error=error)


def _ordered(node: Sink, state: State, target: Target) -> Target:
    """What is wished for now comes after all that was before it."""
    wish = _wish(node, state, target)
    if wish == target.wish:
        return target
    return replace(target, order=max(target.order + 1, target.generation + 1, state.generation), wish=wish)


def _wish(node: Sink, state: State, target: Target) -> bytes:
    told = {"root": state.root, "generation": state.generation}
    return digest("wish/1", target=target.identity, source=node.source, **told)


def _task(node: Sink, job: bytes, target: Target, change: tree.EntryChange) -> Task:
    after = change.after
    key = digest(
        "write/1", target=target.identity, partition=change.key, fragment=after.fragment if after else None, job=job
    )
    what: Json = {"remove": True} if after is None else {"fragment": after.fragment.hex()}
    spec: Json = {"generation": target.order, **what}
    rows = after.content.rows if after else 0
    return Task(key, "write", node.dataset, change.key, job, spec, rows, priority=node.component.priority)


def _whole(node: Sink, job: bytes, target: Target, state: State, changes: int) -> Task:
    """One task for all of a generation: readers of the target see it at once."""
    fields = {"root": state.root, "generation": state.generation}
    key = digest("write-whole/1", target=target.identity, **fields, job=job)
    spec: Json = {"root": state.root.hex(), "generation": target.order, "changes": changes}
    return Task(key, "write", node.dataset, "", job, spec, state.rows, priority=node.component.priority)
