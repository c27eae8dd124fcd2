"""Slices of topics between workers and drivers: which workers read them, which slices a worker left,
and which are read by both.

A worker that reads slices renews a lease by claiming them. Without one nothing is requested of
workers, and what still waits for them goes to drivers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from controlplane.core.model.tasks import Attempt, Task
from controlplane.core.plan.source import lane
from controlplane.core.plan.source.lane import MOST_WAITING, READERS, READERS_S, SLICE, is_checked
from controlplane.ports.store import Tx
from dataplane.contract.identity import task_key
from dataplane.contract.results import IndexAnswer, TaskError, TaskResult, infrastructure_error

HOLDER = "workers"  # all of them: each may renew it
DIFFERS = "slice-differs"


def is_reader(kinds: Sequence[str]) -> bool:
    """Whether a claim is of a worker's thread for slices: it claims nothing else."""
    return list(kinds) == [SLICE]


def note_reader(tx: Tx, kinds: Sequence[str], lake: str) -> None:
    """Renew the lease of workers that read slices, long before it is over. Workers write to no
    HDFS."""
    if not is_reader(kinds) or lake.startswith("hdfs:"):
        return
    lease = tx.leases.get(READERS)
    if lease is None or lease.until - tx.now() < READERS_S / 2:
        tx.leases.take(READERS, HOLDER, READERS_S)


def has_readers(tx: Tx) -> bool:
    lease = tx.leases.get(READERS)
    return lease is not None and lease.until > tx.now()


def room(tx: Tx) -> int:
    """How many slices may be requested of workers."""
    if not has_readers(tx):
        return 0
    return max(0, MOST_WAITING - tx.queue.backlog().get(SLICE, 0))


def left_datasets(tx: Tx, branch: str, datasets: Sequence[str]) -> frozenset[str]:
    """The datasets of which workers left the last slices, so that they are not offered more now."""
    newest = tx.past_attempts.newest_of_each(
        branch, datasets, since=tx.now() - lane.LEFT_S, limit=lane.LEFT_ATTEMPTS
    )
    return frozenset(name for name, attempts in newest.items() if lane.are_left(attempts))


def are_stranded(tx: Tx) -> bool:
    """Whether slices wait for workers, and no worker reads any."""
    return tx.queue.backlog().get(SLICE, 0) > 0 and not has_readers(tx)


# --- slices that both read ------------------------------------------------------------------------


def put_aside(
    tx: Tx, attempt: Attempt, tasks: Sequence[Task], results: Sequence[TaskResult]
) -> None:
    """A driver reads these slices as well; what a worker made of them is remembered until then."""
    held = tx.queue.hand_over(attempt.id, tasks, "parse")
    for of_worker in results:
        key = bytes.fromhex(of_worker["task"])
        if key in held:
            tx.traces.put_memo(_check_key(key), {"keys": {"": of_worker["content"]}})


def disputes(tx: Tx, results: Sequence[TaskResult]) -> dict[bytes, TaskError]:
    """The tasks of which a worker had another content than a driver has now."""
    by_driver = {bytes.fromhex(r["task"]): r["content"] for r in results}
    checked = {_check_key(key): key for key in by_driver if is_checked(key)}
    if not checked:
        return {}
    memos = tx.traces.memos(checked)
    if not memos:
        return {}
    tx.traces.forget_memos(memos)
    errors: dict[bytes, TaskError] = {}
    for memo_key, memo in memos.items():
        key, by_worker = checked[memo_key], cast("IndexAnswer", memo)["keys"][""]
        if by_worker != by_driver[key]:
            errors[key] = _dispute(by_worker, by_driver[key])
    return errors


def _check_key(task: bytes) -> bytes:
    return task_key(task, {SLICE: task})


def _dispute(by_worker: list[int], by_driver: list[int]) -> TaskError:
    message = (
        f"a worker and a driver read this slice differently: {by_worker[0]} rows "
        f"({by_worker[1]:016x}) and {by_driver[0]} rows ({by_driver[1]:016x}). Please report it; "
        "`headgate retry` takes the rows of the driver"
    )
    return infrastructure_error(DIFFERS, message)
