"""Deciding about write components: the diff between the last synced root and the dataset's root is
the work.

    no state of the dataset yet             -> blocked, or stale: waits for it
      | newest state
    an older state is being written         -> Sync: that state is finished first (_unfinished)
      | none, or it is done
    the copy differs from the newest state  -> Sync: tasks that write the difference
      | it is equal
    the dataset is at work, or failed       -> stale, or blocked
      |
                                            -> up to date

The progress of the copy is a `Target`: a tree of its content. Partitions that a task is about to
write are voided in it first. The writer may fall silent, and then it is not known what the copy has
of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from controlplane.core import tree
from controlplane.core.compile import connector_identity, ids
from controlplane.core.compile.nodes import Sink
from controlplane.core.model.jobs import WriteSpec, WriteWholeSpec
from controlplane.core.model.projections import Target
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Task
from controlplane.core.plan import lookups, unfinished
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import (
    RECENT,
    Because,
    Decision,
    Item,
    Planning,
    Status,
    Sync,
)
from controlplane.core.plan.transform.input_states import FURTHER, UNRELIABLE, blocked
from controlplane.core.plan.work_keys import Keys, listed
from dataplane.contract.encoding import digest
from dataplane.contract.identity import EMPTY, schema_id
from dataplane.contract.jobs import WriteJob

VOID = bytes(32)  # the fragment of a partition whose content in the copy is unknown


def decide(planning: Planning, node: Sink) -> Deciding[Decision]:
    newest = planning.state(node.source)
    if newest is None:
        return _no_state(planning, node)
    writing = _unfinished(planning, node, newest)
    if writing is not None:
        decision = yield from _bring_to(planning, node, writing)
        if decision is not None and _goes_first(decision):
            return replace(decision, reason=unfinished.LATER)
    decision = yield from _bring_to(planning, node, newest)
    if decision is not None:
        return decision
    return _synced(planning, node)


def _no_state(planning: Planning, node: Sink) -> Decision:
    above = planning.decisions.get(node.source)
    if above is not None and above.status in (*UNRELIABLE, "paused"):
        return blocked(node.dataset, node.source, above)
    return _waits(planning, node)


def _synced(planning: Planning, node: Sink) -> Decision:
    """The copy is what the newest state says. What follows from the dataset's own decision?"""
    above = planning.decisions.get(node.source)
    if above is None:
        return Decision(node.dataset, "up_to_date")
    if above.status in UNRELIABLE:
        return blocked(node.dataset, node.source, above)
    if above.items:
        return _waits(planning, node)
    return Decision(node.dataset, "up_to_date")


def _waits(planning: Planning, node: Sink) -> Decision:
    """Waits for its dataset's result: at most each of the partitions that may change there is
    written."""
    reason = f"if rows of {node.source} differ"
    above = planning.decisions.get(node.source)
    keys = above.pending if above is not None and above.pending is not None else Keys()
    tasks = min(keys.count, 1) if connector_identity.is_whole(node.write) else keys.count
    possible = Item(
        node.dataset, "sync", "sync", certain=False, tasks=tasks, keys=keys, reason=reason
    )
    return Decision(node.dataset, "stale", items=(possible,), reason=f"waits for {node.source}")


# --- the state that is being written --------------------------------------------------------------


def _unfinished(planning: Planning, node: Sink, newest: State) -> State | None:
    """The state that is being written, where it is not the newest. It is finished first, as every
    run is."""
    target = planning.world.target(node.dataset)
    # Nothing is being written.
    if target is None or target.order == target.generation:
        return None
    if target.content_digest == _digest_of(node, newest, target):
        return None
    for limit in (RECENT, FURTHER):
        for state in planning.history(node.source, limit):
            if (
                _identity(node, state) == target.identity
                and _digest_of(node, state, target) == target.content_digest
            ):
                return state
    return None


def _goes_first(decision: Decision) -> bool:
    """Writers are at work; or all is written, and has only to be noted. Writes that failed give way
    to newer ones."""
    return decision.status == "building" or not decision.items


# --- where the copy stands ------------------------------------------------------------------------


def _target(planning: Planning, node: Sink, state: State) -> Target:
    """Where the copy stands; under another identity (place, format, schema) each partition has to
    be written again."""
    identity = _identity(node, state)
    target = planning.world.target(node.dataset)
    if target is None:
        return Target(planning.branch, node.dataset, identity, tree.EMPTY_ROOT, 0, order=node.since)
    if target.identity == identity:
        return target
    return replace(voided(planning.nodes, target), identity=identity)


def voided(nodes: tree.NodeStore, target: Target) -> Target:
    """The target where it is not known what of it is there: each partition is to be written again,
    or removed."""
    keys = [entry.key for entry in tree.scan(nodes, target.root)]
    root = tree.edit(nodes, target.root, _void(keys))
    order = max(target.order, target.generation)
    return replace(target, root=root, generation=0, order=order)


def _identity(node: Sink, state: State) -> bytes:
    return digest("synced/1", target=node.identity, schema=schema_id(state.schema))


def _void(keys: Iterable[str]) -> list[tuple[str, tree.Entry | None]]:
    return [(key, tree.Entry(key, VOID, EMPTY)) for key in keys]


def _ordered(node: Sink, state: State, target: Target) -> Target:
    """With an order for this state that comes after all orders before it; the same order while it
    is being written."""
    content_digest = _digest_of(node, state, target)
    if content_digest == target.content_digest:
        return target
    order = max(target.order + 1, target.generation + 1, state.generation)
    return replace(target, order=order, content_digest=content_digest)


def _digest_of(node: Sink, state: State, target: Target) -> bytes:
    """Identifies a state as the one that the copy is brought to."""
    return digest(
        "wish/1",
        target=target.identity,
        source=node.source,
        root=state.root,
        generation=state.generation,
    )


# --- bringing it to a state -----------------------------------------------------------------------


def _bring_to(planning: Planning, node: Sink, state: State) -> Deciding[Decision | None]:
    """What it takes to bring the copy to a state; None if it is there."""
    target = _target(planning, node, state)
    [changes] = yield from lookups.diffs([(target.root, state.root)])
    if not changes and target.generation == state.generation:
        return None
    return (yield from _sync(planning, node, state, target, changes))


def _sync(
    planning: Planning, node: Sink, state: State, target: Target, changes: list[tree.EntryChange]
) -> Deciding[Decision]:
    job = _job(node, state)
    ordered = _ordered(node, state, target)
    tasks = _tasks(node, state, ordered, ids.job_id(job), changes)
    queued = yield from _queued(tasks)
    failed = [task for task in queued if task.state == "failed"]
    keys = [change.key for change in changes]
    yield from lookups.nodes([(target.root, keys)])
    if tasks:
        moved = replace(ordered, root=tree.edit(planning.nodes, target.root, _void(keys)))
    else:
        # All is written: the copy is at this generation
        moved = replace(ordered, generation=state.generation)
    items: tuple[Item, ...] = ()
    if tasks:
        because = Because(node.source, target.root, state.root)
        items = (
            Item(
                node.dataset,
                "sync",
                "sync",
                certain=True,
                tasks=len(tasks),
                keys=listed(keys),
                size_bytes=0,
                because=(because,),
            ),
        )
    return Decision(
        node.dataset,
        _status(tasks, queued, failed),
        Sync(moved, tasks, job),
        items,
        reason=f"{len(failed)} of {len(tasks)} writes failed" if failed else "",
        error=failed[0].error if failed else None,
    )


def _queued(tasks: Sequence[Task]) -> Deciding[list[Task]]:
    """Those of the tasks that are on the queue, or failed."""
    task_keys = {task.key for task in tasks}
    queued = yield from lookups.tasks(list(task_keys))
    return [task for task in queued.values() if task.key in task_keys]


def _status(tasks: Sequence[Task], queued: Sequence[Task], failed: Sequence[Task]) -> Status:
    if failed and len(failed) == len(tasks):
        return "failed"
    if any(task.state in ("queued", "running") for task in queued):
        return "building"
    return "stale"


# --- tasks ----------------------------------------------------------------------------------------


def _job(node: Sink, state: State) -> WriteJob:
    """What all tasks that write this state share."""
    job: WriteJob = {
        "path": node.path,
        "format": node.write.format,
        "options": dict(node.write.options),
        "owner": _owner(node),
        "schema": state.schema,
        **connector_identity.settings_of(node.write),
    }
    if not connector_identity.is_files(node.write):
        job["keyed"] = list(node.keyed)
    elif node.by_columns:
        job["by_columns"] = True
    return job


def _owner(node: Sink) -> str:
    """The uid distinguishes components of one name in two installations; a branch, its copy from
    main's."""
    return " ".join(filter(None, (node.dataset, node.uid, node.branch)))


def _tasks(
    node: Sink, state: State, target: Target, job: bytes, changes: Sequence[tree.EntryChange]
) -> tuple[Task, ...]:
    if changes and connector_identity.is_whole(node.write):
        return (_whole_task(node, state, target, job, len(changes)),)
    return tuple(_task(node, target, job, change) for change in changes)


def _task(node: Sink, target: Target, job: bytes, change: tree.EntryChange) -> Task:
    """Write one partition, or remove it."""
    after = change.after
    key = digest(
        "write/1",
        target=target.identity,
        partition=change.key,
        fragment=after.fragment if after else None,
        job=job,
    )
    spec: WriteSpec = {"generation": target.order}
    rows = 0
    if after is None:
        spec["remove"] = True
    else:
        spec["fragment"] = after.fragment.hex()
        rows = after.content.rows
    return Task(
        key,
        "write",
        node.dataset,
        partition=change.key,
        job=job,
        spec=spec,
        size_bytes=rows,
        priority=node.component.priority,
    )


def _whole_task(node: Sink, state: State, target: Target, job: bytes, changes: int) -> Task:
    """One task for all of a generation: readers of the target see it at once."""
    key = digest(
        "write-whole/1",
        target=target.identity,
        root=state.root,
        generation=state.generation,
        job=job,
    )
    spec: WriteWholeSpec = {
        "root": state.root.hex(),
        "generation": target.order,
        "changes": changes,
    }
    return Task(
        key,
        "write",
        node.dataset,
        partition="",
        job=job,
        spec=spec,
        size_bytes=state.rows,
        priority=node.component.priority,
    )
