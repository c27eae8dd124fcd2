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
from typing import Generic, NamedTuple, TypeAlias, TypeVar, cast

from controlplane.core import tree
from controlplane.core.errors import CorruptNode
from controlplane.core.model.branches import MAIN
from controlplane.core.model.jobs import StoredTransformJob
from controlplane.core.model.past_attempts import PastAttempt, is_measured
from controlplane.core.plan.plan_values import ROW_COST
from controlplane.ports.queue import Candidates
from controlplane.ports.store import Tx
from controlplane.settings import BATCH_S
from dataplane.contract.jobs import is_batched
from dataplane.contract.kinds import Kind

# Bytes of the tasks of a claim. Those that share a Spark job may have more than `FEW_BYTES`: as many
# as they read whole, or each driver's share of what waits, up to `MOST_BYTES`.
FEW_BYTES, MOST_BYTES = 256 << 20, 1 << 30
LEAST = 4  # tasks: a driver has so many Spark jobs of an attempt under way
ATTEMPT_S = 2.0  # that an attempt takes besides its tasks
ATTEMPTS = 32  # the newest ones, which a task's time is taken from
FRESH_S = 10.0  # that they count before they are read again
LARGEST = 2_000  # datasets whose attempts are kept

K = TypeVar("K")
V = TypeVar("V")

Took: TypeAlias = tuple[float, int]
"""What an attempt took: seconds, and how many tasks it did."""


class Limits(NamedTuple):
    """How many of some tasks a driver gets at once."""

    by_bytes: int
    by_time: int | None  # None: not limited

    @property
    def tasks(self) -> int:
        return self.by_bytes if self.by_time is None else min(self.by_bytes, self.by_time)


class BatchSizes:
    """Safe to use from many threads. `batch_s`: seconds of work that a driver gets at once."""

    def __init__(
        self, batch_s: float = BATCH_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._batch_s = batch_s
        self._attempts = _Fresh[tuple[str, str, Kind], tuple[Took, ...]](clock)
        self._drivers = _Fresh[str, int](clock)

    def limits(self, tx: Tx, namespace: str, of: Candidates) -> Limits:
        """For the first ones of these."""
        attempts = self._attempts.get(
            (namespace, of.dataset, of.kind), lambda: _newest(tx, of.dataset, of.kind)
        )
        limits = self._limits(of.sizes_bytes, attempts, FEW_BYTES)
        if limits.tasks == len(of.sizes_bytes):
            return limits  # what is read below makes claims larger only
        whole_bytes = _whole_bytes(tx, of)
        if whole_bytes is None:
            return limits
        drivers = self._drivers.get(namespace, lambda: _drivers(tx))
        share_bytes = min(MOST_BYTES, sum(of.sizes_bytes) // drivers)
        most_bytes = max(FEW_BYTES, share_bytes, whole_bytes)
        return self._limits(of.sizes_bytes, attempts, most_bytes, whole_bytes)

    def _limits(
        self,
        sizes_bytes: Sequence[int],
        attempts: Iterable[Took],
        most_bytes: int,
        whole_bytes: int = 0,
    ) -> Limits:
        by_bytes = count_within(sizes_bytes, most_bytes)
        seconds = task_seconds(attempts, sum(sizes_bytes) / len(sizes_bytes), whole_bytes)
        return Limits(by_bytes, max(LEAST, int(self._batch_s / seconds)) if seconds else None)


class _Fresh(Generic[K, V]):
    """Values that were read in the last `FRESH_S` seconds, by key."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._values: dict[K, tuple[float, V]] = {}  # with the time until when they count

    def get(self, key: K, read: Callable[[], V]) -> V:
        now = self._clock()
        last = self._values.get(key)
        if last is not None and now < last[0]:
            return last[1]
        fresh = read()
        with self._lock:
            if len(self._values) >= LARGEST:
                self._values.clear()
            self._values[key] = (now + FRESH_S, fresh)
        return fresh


def _newest(tx: Tx, dataset: str, kind: Kind) -> tuple[Took, ...]:
    past = tx.past_attempts.newest(MAIN, [dataset], limit=ATTEMPTS)
    return took(attempt for attempt in past if attempt.kind == kind)


def _drivers(tx: Tx) -> int:
    """How many there are, at least one."""
    return max(1, sum(driver.kind == "driver" for driver in tx.drivers.running()))


def _whole_bytes(tx: Tx, of: Candidates) -> int | None:
    """What one Spark job of these tasks reads for all of them, as `Task.size_bytes` counts. None
    where each task is a job of its own."""
    if of.kind in ("parse", "index"):
        return 0
    stored = tx.queue.jobs([of.job]).get(of.job) if of.kind == "transform" else None
    if stored is None:
        return None
    job = cast("StoredTransformJob", stored)
    if not is_batched(job):
        return None
    roots = [bytes.fromhex(root) for root in job["shared"].values()]
    try:
        summaries = tree.summaries(tx.nodes, roots).values()
    except CorruptNode:  # the claim fails for the same node, with its reason
        return None
    return ROW_COST * sum(summary.totals.content.rows for summary in summaries)


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
