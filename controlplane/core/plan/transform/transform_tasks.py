"""The tasks that make partitions of a transform: what each reads, which gives its key, and the job
that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Transform
from controlplane.core.model.jobs import FragmentsSpec, StoredTransformJob
from controlplane.core.model.states import PAIRS
from controlplane.core.model.tasks import Task
from controlplane.core.plan import lookups, salts
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.transform.case import Case
from controlplane.core.plan.transform.input_states import Input
from controlplane.core.plan.transform.transform_jobs import (
    logic_job,
    node_task,
    with_shared,
)
from dataplane.contract.encoding import Encoded
from dataplane.contract.identity import EMPTY, Content, slot_id, task_key
from dataplane.contract.jobs import is_batched
from dataplane.contract.schemas import encoded

# `each` or `by` slot -> what the partition reads through it
Reads = Mapping[str, tree.Entry | None]


def job_of(case: Case) -> StoredTransformJob:
    logic = logic_job(case.node, case.schemas, case.planning.now)
    job = with_shared(logic, {i.slot.name: i.of.root.hex() for i in case.inputs if not i.is_parted})
    if pairs := {
        i.slot.name: i.index[i.slot.name + PAIRS].root.hex() for i in case.inputs if i.index
    }:
        job["pairs"] = pairs
    if case.is_together:
        job["together"] = True
    if case.node.component.profile != "full":
        job["profile"] = case.node.component.profile
    return job


def tasks_of(case: Case, job: StoredTransformJob, keys: Sequence[str]) -> Deciding[dict[str, Task]]:
    """The task of each of these partitions; those that wait for an input are left out."""
    yield from lookups.nodes([(i.root, _keys_read(case, i, keys)) for i in case.parted])
    entries_of = {i.slot.name: _entries(case, i, keys) for i in case.parted}
    waiting = set().union(*(_waiting(case, i, keys) for i in case.parted))
    digest, shared = (
        ids.job_id(job),
        {i.slot.name: whole_slot(case, i) for i in case.inputs if not i.is_parted},
    )
    schemas = {i.slot.name: encoded(i.schema) for i in case.parted}
    batched, salt_of = is_batched(job), salts.of(case.planning, case.node)
    return {
        key: task_of(
            case.node,
            digest,
            key,
            reads=reads,
            slots=slots_of(reads, schemas) | shared,
            batched=batched,
            salt_of=salt_of,
        )
        for key in keys
        if key not in waiting
        for reads in ({name: entries.get(key) for name, entries in entries_of.items()},)
    }


def _keys_read(case: Case, i: Input, keys: Sequence[str]) -> Sequence[str]:
    """The keys of the input's rows that these output partitions read, in order."""
    if i.slot.reach is None:
        return keys
    return sorted({read for key in keys for read in case.node.keys_read(i.slot, key)})


def _entries(case: Case, i: Input, keys: Sequence[str]) -> Mapping[str, tree.Entry]:
    """By output partition, the entry of the rows that it reads; with the sum of their contents
    where it reads those of neighbouring granules. No fragment holds just these."""
    present = tree.lookup(case.nodes, i.root, _keys_read(case, i, keys))
    if i.slot.reach is None:
        return present
    entries: dict[str, tree.Entry] = {}
    for key in keys:
        read = [present[k] for k in case.node.keys_read(i.slot, key) if k in present]
        if read:
            content = reduce(Content.plus, (part.content for part in read))
            entries[key] = read[0]._replace(key=key, content=content)
    return entries


def _waiting(case: Case, i: Input, keys: Sequence[str]) -> set[str]:
    """Those of the keys that a half-built input does not have yet."""
    if i.pending is None:
        return set()
    nodes = case.nodes
    waiting = set(i.pending.listed).intersection(keys)
    for root, have in i.pending.trees.values():
        waiting |= tree.lookup(nodes, root, keys).keys() - tree.lookup(nodes, have, keys).keys()
    return waiting - tree.lookup(nodes, i.of.root, keys).keys()


def whole_slot(case: Case, i: Input) -> bytes:
    return slot_id(i.content(case.planning), i.schema)


def slots_of(reads: Reads, schemas: Mapping[str, Encoded]) -> dict[str, bytes]:
    return {name: slot_id(e.content if e else EMPTY, schemas[name]) for name, e in reads.items()}


def task_of(
    node: Transform,
    job: bytes,
    key: str,
    reads: Reads,
    slots: Mapping[str, bytes],
    batched: bool,
    salt_of: salts.SaltOf,
) -> Task:
    # Files of the others are found when it is handed out
    each = (s.name for s in node.slots if s.mode == "each")
    spec: FragmentsSpec = {
        "slots": {name: [e.fragment.hex()] if (e := reads[name]) else [] for name in each}
    }
    rows = sum(e.content.rows for e in reads.values() if e)
    return node_task(
        node,
        task_key(node.task_logic, slots, salt_of(key)),
        job,
        spec,
        rows,
        key,
        is_batched=batched,
    )
