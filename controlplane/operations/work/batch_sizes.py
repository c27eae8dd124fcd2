"""How many tasks a driver gets at once: as many as their bytes allow, and about a minute's work by the
past attempts of their dataset.

Thousands of small tasks are one Spark job. A claim of slow tasks, such as a model that reads images,
could be hours of work for one driver. Other drivers would have nothing to do, datasets would have no
commits meanwhile, and the end of that driver would lose all of its work.

A claim whose tasks share a Spark job reads the inputs that they read whole once. So it has more
tasks where those inputs are large, and their share of its time does not count as time of a task.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeAlias

from controlplane.core import tree
from controlplane.core.errors import CorruptNode
from controlplane.core.model.branches import MAIN
from controlplane.core.model.past_attempts import PastAttempt, is_measured
from controlplane.core.plan.plan_values import ROW_COST
from controlplane.ports.queue import Candidates
from controlplane.ports.store import Tx
from controlplane.settings import BATCH_S
from dataplane.contract.jobs import is_batched
from dataplane.contract.kinds import Kind

MOST_BYTES = 256 << 20  # of the tasks of a claim, where what they read whole is not more
LEAST = 4  # tasks: a driver has so many Spark jobs of an attempt under way
ATTEMPT_S = 2.0  # that an attempt takes besides its tasks
ATTEMPTS = 32  # the newest ones, which a task's time is taken from
FRESH_S = 10.0  # that they count before they are read again
LARGEST = 2_000  # datasets whose attempts are kept

Took: TypeAlias = tuple[float, int]
"""What an attempt took: seconds, and how many tasks it did."""


class BatchSizes:
    """Safe to use from many threads. `batch_s`: seconds of work that a driver gets at once."""

    def __init__(
        self, batch_s: float = BATCH_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._batch_s, self._clock, self._lock = batch_s, clock, threading.Lock()
        # Until when they count, by namespace, dataset and kind
        self._attempts: dict[tuple[str, str, Kind], tuple[float, tuple[Took, ...]]] = {}

    def count(self, tx: Tx, namespace: str, of: Candidates) -> int:
        """How many of these a driver gets: the first ones."""
        attempts = self._newest(tx, (namespace, of.dataset, of.kind))
        count = self._count(of.sizes_bytes, attempts, whole_bytes=0)
        if count == len(of.sizes_bytes):
            return count
        # It is read where it makes a difference: what is read whole makes claims larger only
        return self._count(of.sizes_bytes, attempts, _whole_bytes(tx, of.job))

    def _count(self, sizes_bytes: Sequence[int], attempts: Iterable[Took], whole_bytes: int) -> int:
        fitting = count_within(sizes_bytes, max(MOST_BYTES, whole_bytes))
        seconds = task_seconds(attempts, sum(sizes_bytes) / len(sizes_bytes), whole_bytes)
        if seconds == 0:
            return fitting
        return min(fitting, max(LEAST, int(self._batch_s / seconds)))

    def _newest(self, tx: Tx, of: tuple[str, str, Kind]) -> tuple[Took, ...]:
        now = self._clock()
        until, attempts = self._attempts.get(of, (now, ()))
        if now < until:
            return attempts
        _, dataset, kind = of
        past = tx.past_attempts.newest(MAIN, [dataset], limit=ATTEMPTS)
        attempts = took(attempt for attempt in past if attempt.kind == kind)
        with self._lock:
            if len(self._attempts) >= LARGEST:
                self._attempts.clear()
            self._attempts[of] = (now + FRESH_S, attempts)
        return attempts


def _whole_bytes(tx: Tx, job_id: bytes) -> int:
    """What all tasks of a job read, once for a claim: as `Task.size_bytes` counts."""
    job = tx.queue.jobs([job_id]).get(job_id)
    if job is None or "language" not in job or "shared" not in job or not is_batched(job):
        return 0
    roots = [bytes.fromhex(root) for root in job["shared"].values()]
    with suppress(CorruptNode):  # then the claim cannot be made at all, which is told there
        summaries = tree.summaries(tx.nodes, roots)
        return ROW_COST * sum(of.totals.content.rows for of in summaries.values())
    return 0


def count_within(sizes_bytes: Iterable[int], most_bytes: int) -> int:
    """How many of the first ones fit together, at least one."""
    total = count = 0
    for size_bytes in sizes_bytes:
        total += size_bytes
        if count and total > most_bytes:
            break
        count += 1
    return count


def took(attempts: Iterable[PastAttempt]) -> tuple[Took, ...]:
    return tuple((of.seconds or 0.0, of.done) for of in attempts if is_measured(of))


def task_seconds(attempts: Iterable[Took], task_bytes: float, whole_bytes: int) -> float:
    """What a task of so many bytes takes in the middle one of all tasks of these attempts, which
    read `whole_bytes` each; 0 where none is known.

    An attempt at one task says little of what many take together. So the seconds of an attempt
    itself are left out, and an attempt at ten tasks counts ten times.
    """
    shares = sorted(
        (max(0.0, seconds - ATTEMPT_S) * _part(count, task_bytes, whole_bytes), count)
        for seconds, count in attempts
    )
    middle = sum(count for _, count in shares) / 2
    passed = 0
    for seconds, count in shares:
        passed += count
        if passed >= middle:
            return seconds
    return 0.0


def _part(count: int, task_bytes: float, whole_bytes: int) -> float:
    """The part that one of so many tasks has in what their attempt reads."""
    read_bytes = count * task_bytes + whole_bytes
    return task_bytes / read_bytes if whole_bytes else 1 / count
