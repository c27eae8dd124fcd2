"""The loops of all namespaces, each in a thread of its own: a slow or broken namespace delays none
of the others.

A namespace that was made is served without a restart, one that was deleted ends with its drivers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from controlplane import logs
from controlplane.core.errors import PoolUnavailable
from controlplane.core.model import driver_ends
from controlplane.core.model.leases import Deposed
from controlplane.core.model.namespaces import DEFAULT
from controlplane.operations.desired import namespaces
from controlplane.operations.failing_units import FailingUnits
from controlplane.ports.store import Store
from controlplane.reconciler.shared_pool import FairShare, SharedPool
from controlplane.reconciler.wake import Ends, WakeCounter

LOOK_S = 5.0  # at the longest: who makes a namespace wakes the loop of `default`
PAUSE_S = 0.5  # between two looks: `default` is woken for much else
BEGINNING = "loop"  # the unit that begins to serve a namespace
log = logs.get("reconciler")


class Term:
    """The end of one loop: of all, or of its namespace."""

    def __init__(self, over: Ends) -> None:
        self._over, self._lost = over, threading.Event()

    def is_set(self) -> bool:
        return self._over.is_set() or self._lost.is_set()

    def end(self) -> None:
        self._lost.set()


@dataclass(frozen=True, slots=True)
class Served:
    """A namespace beside `default`, and the thread of its loop."""

    term: Term
    thread: threading.Thread


class Loop(Protocol):
    """What serves one namespace."""

    def run(self, stop: Ends) -> None: ...


class Loops:
    """`serving` makes the loop of a namespace, and ends all that belongs to it."""

    def __init__(
        self,
        store: Store,
        serving: Callable[[str], AbstractContextManager[Loop]],
        pool: SharedPool,
        fair: FairShare,
        wake: WakeCounter,
        failing_units: FailingUnits,
        *,
        look_s: float = LOOK_S,
        pause_s: float = PAUSE_S,
    ) -> None:
        self._look_s, self._pause_s = look_s, pause_s
        self._store, self._serving, self._pool, self._fair = store, serving, pool, fair
        self._wake, self._failing_units = wake, failing_units
        self._served: dict[str, Served] = {}
        self._pausing = threading.Event()

    def run(self, over: Ends) -> None:
        """The loop of `default` in this thread, and those of others beside it, until all is
        over."""
        term = Term(over)
        follower = threading.Thread(
            target=self._follow, args=[term], name="namespaces", daemon=True
        )
        follower.start()
        try:
            with self._serving(DEFAULT) as loop:
                loop.run(over)
        finally:
            term.end()
            self._pausing.set()
            self._wake.notify()
            follower.join()
            for name in list(self._served):
                self._end(name)

    def _follow(self, term: Term) -> None:
        """Begin to serve new namespaces, and stop serving deleted ones. A fault is tried again."""
        while not term.is_set():
            count = self._wake.count
            try:
                self._look(term)
            except Exception as e:  # noqa: BLE001  # namespaces that are served go on after any failure
                log.warning("namespaces cannot be looked at", reason=str(e))
            self._pausing.wait(self._pause_s)
            self._wake.wait(self._look_s, count)

    def _look(self, over: Ends) -> None:
        there = set(namespaces.names(self._store)) - {DEFAULT}
        for name in self._served.keys() - there:
            self._end(name)
            self._let_go(name)
        self._failing_units.keep_only(there)
        for name in sorted(there):
            served = self._served.get(name)
            is_served = served is not None and served.thread.is_alive()
            if (
                not is_served
                and not over.is_set()
                and not self._failing_units.of(name).is_waiting(BEGINNING)
            ):
                self._begin(name, over)

    def _begin(self, name: str, over: Ends) -> None:
        term = Term(over)
        thread = threading.Thread(
            target=self._serve, args=[name, term], name=f"reconciler {name}", daemon=True
        )
        self._served[name] = Served(term, thread)
        thread.start()

    def _serve(self, name: str, term: Term) -> None:
        """One that cannot begin is tried again, after waits that grow."""
        failing_units = self._failing_units.of(name)
        try:
            with self._serving(name) as loop:
                failing_units.succeeded(BEGINNING)
                log.info("a namespace is served", namespace=name)
                loop.run(term)
        except Deposed as e:
            log.warning("deposed", namespace=name, reason=str(e))
        except Exception as e:  # noqa: BLE001  # any failure is this namespace's alone
            failing_units.failed(BEGINNING, e)
            failing_units.pass_failed(e)

    def _end(self, name: str) -> None:
        served = self._served.pop(name)
        served.term.end()
        self._wake.of(name).notify()
        served.thread.join()

    def _let_go(self, name: str) -> None:
        """Let go of the drivers of a namespace that is gone."""
        self._fair.forget(name)
        try:
            for driver in self._pool.poll(name):
                self._pool.pool.end(driver.id, driver_ends.AS_REQUESTED)
        except PoolUnavailable as e:
            log.warning(
                "drivers of a namespace that is gone cannot be ended", namespace=name, reason=str(e)
            )
