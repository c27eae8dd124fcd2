"""How many tasks a driver gets at once: about a minute's work, by the past attempts of their dataset.

Thousands of small tasks are one Spark job. A claim of slow tasks, such as a model that reads images,
could be hours of work for one driver. Other drivers would have nothing to do, datasets would have no
commits meanwhile, and the end of that driver would lose all of its work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from controlplane.core.model.branches import MAIN
from controlplane.core.model.past_attempts import PastAttempt, is_measured
from controlplane.ports.store import Tx
from controlplane.settings import BATCH_S
from dataplane.contract.kinds import Kind

LEAST = 4  # tasks: a driver has so many Spark jobs of an attempt under way
ATTEMPT_S = 2.0  # that an attempt takes besides its tasks
ATTEMPTS = 32  # the newest ones, which a task's time is taken from
FRESH_S = 10.0  # that it counts before the attempts are read again
LARGEST = 10_000  # datasets whose times are kept


class BatchSizes:
    """Safe to use from many threads. `batch_s`: seconds of work that a driver gets at once."""

    def __init__(
        self, batch_s: float = BATCH_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._batch_s, self._clock, self._lock = batch_s, clock, threading.Lock()
        # Until when they count, and the seconds of a task, by namespace, dataset and kind
        self._times: dict[tuple[str, str, Kind], tuple[float, float]] = {}

    def most(self, tx: Tx, namespace: str, dataset: str, kind: Kind) -> int | None:
        """At most so many tasks of a dataset and kind; None: as many as there are."""
        seconds = self._task_seconds(tx, (namespace, dataset, kind))
        return max(LEAST, int(self._batch_s / seconds)) if seconds > 0 else None

    def _task_seconds(self, tx: Tx, of: tuple[str, str, Kind]) -> float:
        now = self._clock()
        until, seconds = self._times.get(of, (now, 0.0))
        if now < until:
            return seconds
        _, dataset, kind = of
        past = tx.past_attempts.newest(MAIN, [dataset], limit=ATTEMPTS)
        seconds = task_seconds(attempt for attempt in past if attempt.kind == kind)
        with self._lock:
            if len(self._times) >= LARGEST:
                self._times.clear()
            self._times[of] = (now + FRESH_S, seconds)
        return seconds


def task_seconds(attempts: Iterable[PastAttempt]) -> float:
    """What a task takes in the middle one of all tasks of these attempts; 0 where none is known.

    An attempt at one task says little of what many take together. So the seconds of an attempt
    itself are left out, and an attempt at ten tasks counts ten times.
    """
    shares = [
        (max(0.0, (attempt.seconds or 0.0) - ATTEMPT_S) / attempt.done, attempt.done)
        for attempt in attempts
        if is_measured(attempt)
    ]
    middle = sum(count for _, count in shares) / 2
    passed = 0
    for seconds, count in sorted(shares):
        passed += count
        if passed >= middle:
            return seconds
    return 0.0
