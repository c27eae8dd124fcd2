"""What drivers and workers call to get work and to keep it: claim, heartbeat.

Does not belong here: what is to be computed (plan), what is made of results (`reports`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from controlplane.core import tree
from controlplane.core.errors import HeadgateError
from controlplane.core.model.events import CLAIMED, Event, by_branch
from controlplane.core.model.tasks import SIZES, Attempt, Size, Task
from controlplane.operations.context import Context
from controlplane.operations.projections import compaction
from controlplane.operations.work import fold_runs, listings, targets
from controlplane.ports.store import Tx
from dataplane.contract import (
    CONTRACT,
    Claim,
    Json,
    Kind,
    TaskSpec,
    failpoint,
    pair_key,
)

LEASE_S = 30.0


MAX_TASKS = 500


MAX_BYTES = 256 << 20


CLAIM_NODES = 64 << 20  # bytes of tree nodes that are kept while one claim is made


class UnknownContract(HeadgateError):
    """A driver or worker of a version that this control plane cannot talk to."""

    code = "unknown-contract"


def claim(
    ctx: Context,
    driver: str,
    contract: int,
    kinds: Sequence[Kind],
    *,
    sizes: Sequence[Size] = SIZES,
    without: Sequence[str] = (),
    lake: str = "",
) -> Claim | None:
    """Hand out a batch of queued tasks with all that it takes to run them, or None. `without`: of no such dataflow."""
    if contract != CONTRACT:
        raise UnknownContract(f"contract {contract} is not spoken here; this control plane speaks {CONTRACT}")
    with ctx.store.begin(ctx.namespace) as tx:
        limits = {"max_tasks": MAX_TASKS, "max_bytes": MAX_BYTES}
        attempt = tx.claim(uuid.uuid4().hex, driver, kinds, **limits, lease_s=LEASE_S, sizes=sizes, without=without)
        if attempt is None:
            return None
        answer = _claim(tx, attempt, lake)
        if not answer["tasks"]:
            tx.end_attempt(attempt.id)
            return None
        tx.put_events(_begun(attempt, driver, tx.branches_of(attempt.tasks)))
    failpoint("after-claim")
    return answer


def _begun(attempt: Attempt, driver: str, demanding: Mapping[bytes, Sequence[str]]) -> list[Event]:
    """For each branch that demands tasks of the attempt."""
    body = {"attempt": attempt.id, "driver": driver}
    tasks = by_branch(attempt.tasks, demanding)
    return [Event(CLAIMED, attempt.dataset, len(theirs), body, branch=branch) for branch, theirs in tasks.items()]


def _claim(tx: Tx, attempt: Attempt, lake: str) -> Claim:
    job = listings.with_known(tx, dict(tx.jobs([attempt.job])[attempt.job]))
    tasks = sorted(tx.tasks(attempt.tasks).values(), key=lambda t: t.partition)
    if "fold" in job:
        tasks = fold_runs.without_known(tx, attempt, tasks)
    if attempt.kind == "write":
        job |= targets.begun(tx, tasks)
    tasks = targets.with_fragments(tx, _with_parts(tx, tasks, job.pop("pairs", {})))
    files = _files(tx, _fragment_ids(tasks))
    if "shared" in job:
        job["shared"] = {name: compaction.files(tx, bytes.fromhex(root)) for name, root in job["shared"].items()}
    return {
        "contract": CONTRACT,
        "attempt": attempt.id,
        "dataset": attempt.dataset,
        "prefix": attempt.prefix,
        "lake": lake,
        "lease_s": LEASE_S,
        "kind": attempt.kind,
        "job": job,
        "tasks": [_spec(t, attempt.tasks[t.key], files) for t in tasks],
    }


def _with_parts(tx: Tx, tasks: list[Task], pairs: Mapping[str, str]) -> list[Task]:
    """Tasks with the fragments that hold their key, of each input that is read by key."""
    if not pairs:
        return tasks
    nodes = tree.NodeCache(CLAIM_NODES).over(tx)
    roots = {slot: bytes.fromhex(root) for slot, root in pairs.items()}
    prefixes = sorted(pair_key(t.partition, "") for t in tasks)
    tree.warm(nodes, [(root, prefixes) for root in roots.values()])
    return [replace(t, spec={**t.spec, "slots": t.spec["slots"] | _parts(nodes, t, roots)}) for t in tasks]


def _parts(nodes: tree.NodeStore, task: Task, roots: Mapping[str, bytes]) -> dict[str, list[str]]:
    prefix = pair_key(task.partition, "")
    return {slot: [e.fragment.hex() for e in tree.scan(nodes, root, prefix=prefix)] for slot, root in roots.items()}


def _fragment_ids(tasks: Iterable[Task]) -> Iterator[bytes]:
    for task in tasks:
        for spec in (task.spec, *task.spec.get("then", ())):
            for fragments in spec.get("slots", {}).values():
                yield from map(bytes.fromhex, fragments)
        if "fragment" in task.spec:
            yield bytes.fromhex(task.spec["fragment"])


def _files(tx: Tx, ids: Iterable[bytes]) -> dict[str, list[str]]:
    """Fragment id (hex) -> paths in the lake."""
    found = tx.fragments(dict.fromkeys(ids))
    return {id.hex(): [f["path"] for f in fragment.files] for id, fragment in found.items()}


def _spec(task: Task, epoch: int, files: dict[str, list[str]]) -> TaskSpec:
    spec: TaskSpec = {"task": task.key.hex(), "epoch": epoch, "partition": task.partition}
    extra: Json = _with_files(task.spec, files)
    if "then" in extra:
        extra["then"] = [_with_files(one, files) for one in extra["then"]]
    if "fragment" in extra:
        extra["files"] = files[extra.pop("fragment")]
    return {**spec, **extra}


def _with_files(spec: Json, files: Mapping[str, list[str]]) -> dict[str, Json]:
    if "slots" not in spec:
        return dict(spec)
    return {**spec, "slots": {n: [p for id in ids for p in files[id]] for n, ids in spec["slots"].items()}}


def heartbeat(ctx: Context, driver: str, attempts: Sequence[str]) -> Json:
    """Extend leases. What is not live any more is fenced: its driver stops and deletes nothing."""
    with ctx.store.begin(ctx.namespace) as tx:
        live = tx.extend(driver, attempts, LEASE_S)
    return {"fenced": [a for a in attempts if a not in live], "drain": False}
