"""A thread that sends events of lineage, apart from the loop: a slow or dead service delays no
computation."""

from __future__ import annotations

import threading
import time

from controlplane import logs
from controlplane.core.model.leases import Deposed
from controlplane.operations.failing_units import OF_EXPORT, FailingUnits
from controlplane.reconciler.wake import WakeCounter
from controlplane.services.openlineage.export import Export

RETRY_S = 1.0  # how often it is asked whether the wait after a failure is over
IDLE_S = 30.0  # the longest wait for a nudge
ENDS_WITHIN_S = 12.0  # a request under way is waited for so long; it is sent again by who goes on
log = logs.get("openlineage")


class Exporting:
    """From `start` until `close`. A failed step is retried with growing delays, and is reported
    among the failing units."""

    def __init__(self, export: Export, failing_units: FailingUnits) -> None:
        self._export, self._failing_units = export, failing_units
        self._wake, self._stop = WakeCounter(), threading.Event()
        self._until: float | None = None  # when a finished run stops waiting for unsent events
        self._thread = threading.Thread(target=self._run, name="openlineage", daemon=True)

    def start(self) -> None:
        """What happens from now on is sent."""
        self._export.begin()
        self._thread.start()

    def nudge(self) -> None:
        """There may be something to send."""
        self._wake.notify()

    def close(self, within_s: float = 0.0) -> None:
        """Stop; first send what there is, as long as nothing fails, for at most so long."""
        self._until = time.monotonic() + within_s
        if not within_s:
            self._stop.set()
        self._wake.notify()
        self._thread.join(within_s + ENDS_WITHIN_S)

    def _is_over(self) -> bool:
        return self._stop.is_set() or (self._until is not None and time.monotonic() > self._until)

    def _run(self) -> None:
        while not self._is_over():
            count, is_closing = self._wake.count, self._until is not None
            try:
                is_more = self._failing_units.attempt(
                    OF_EXPORT, lambda: self._export.step(self._is_over), False
                )
            except Deposed:
                return  # the loop gets Deposed as well
            except (
                BaseException
            ) as e:  # the thread must not end unseen: nothing would be sent any more
                log.exception("the export failed", error=str(e))
                is_more = False
            if is_more:
                continue
            if is_closing:
                return
            self._wake.wait(RETRY_S if self._failing_units.failures(OF_EXPORT) else IDLE_S, count)
