"""One pool for all namespaces: each sees and scales its own drivers, and all have a fair share of
the room.

A namespace with ten thousand tasks takes the room that no other needs, and gives it back once
another does. Where there are more namespaces that need a driver than drivers, they take turns.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from controlplane.core.model import namespaces
from controlplane.core.model.drivers import Driver
from controlplane.core.model.scaling import PoolShare, fair
from controlplane.core.model.tasks import Size
from controlplane.ports.pool import DriverPool, NamespacedPool

TURN_S = 60.0  # for which a namespace keeps its drivers where there are too few for all
LOOK_S = 0.5  # what another namespace saw of the pool is good for so long
Of: TypeAlias = tuple[str, Size]


@dataclass(frozen=True, slots=True)
class DriverRequest:
    """One namespace's demand for drivers of one kind and size: the number to keep, the number that
    has work, and the number that runs."""

    target: int
    needed: int
    running: int


class FairShare:
    """What each namespace may have of the pool. Safe to use from many threads."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic, self._lock = monotonic, threading.Lock()
        self._requests = defaultdict[Of, dict[str, DriverRequest]](dict)
        self._held = defaultdict[Of, dict[str, int]](dict)  # what runs, or may be started

    def granted(self, namespace: str, share: PoolShare, request: DriverRequest) -> int:
        """How many drivers of this kind the namespace may have now. It gets no new one before there
        is room for it: those that others are to give back are at work until they have ended."""
        with self._lock:
            of = (share.kind, share.size)
            requests, held = self._requests[of], self._held[of]
            requests[namespace] = request
            fair_share = self._shares(requests, share.room)[namespace]
            others = sum(count for name, count in held.items() if name != namespace)
            granted = min(fair_share, max(request.running, share.room - others))
            held[namespace] = max(request.running, granted)
        return granted

    def _shares(self, requests: Mapping[str, DriverRequest], room: int) -> dict[str, int]:
        """Needed drivers come first; spare room goes to namespaces that would keep their drivers,
        those with the most running ones first."""
        names = sorted(requests)
        turn = int(self._monotonic() // TURN_S) % len(names)
        needed = fair(
            {n: min(w.needed, w.target) for n, w in requests.items()},
            room,
            names[turn:] + names[:turn],
        )
        surplus = {name: request.target - needed[name] for name, request in requests.items()}
        spare = fair(
            surplus,
            room - sum(needed.values()),
            sorted(names, key=lambda name: -requests[name].running),
        )
        return {name: needed[name] + spare[name] for name in names}

    def forget(self, namespace: str) -> None:
        """It is gone."""
        with self._lock:
            for requests in self._requests.values():
                requests.pop(namespace, None)
            for held in self._held.values():
                held.pop(namespace, None)


class SharedPool:
    """Hands each namespace its part of a pool. Safe to use from many threads."""

    def __init__(
        self, pool: NamespacedPool, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.pool = pool
        self._monotonic, self._lock = monotonic, threading.Lock()
        self._there: tuple[Driver, ...] = ()
        # By namespace: ends that another one's look saw
        self._unreported = defaultdict[str, list[Driver]](list)
        self._seen_by, self._seen_at = "", float("-inf")

    def of(self, namespace: str) -> DriverPool:
        return NamespacePool(self, namespace)

    def poll(self, namespace: str) -> tuple[Driver, ...]:
        """The drivers of the namespace. The pool reports an end once, to any caller."""
        with self._lock:
            now = self._monotonic()
            if self._seen_by in ("", namespace) or now - self._seen_at > LOOK_S:
                self._look()
                self._seen_by, self._seen_at = namespace, now
            there = [driver for driver in self._there if namespaces.of_id(driver.id) == namespace]
            return (*there, *self._unreported.pop(namespace, ()))

    def _look(self) -> None:
        drivers = self.pool.poll()
        self._there = tuple(driver for driver in drivers if not driver.ended)
        for driver in drivers:
            if driver.ended:
                self._unreported[namespaces.of_id(driver.id)].append(driver)


class NamespacePool:
    """A pool as one namespace has it."""

    def __init__(self, shared: SharedPool, namespace: str) -> None:
        self._shared, self._pool, self._namespace = shared, shared.pool, namespace
        self.name, self.outlives, self.shares = (
            shared.pool.name,
            shared.pool.outlives,
            shared.pool.shares,
        )

    def scale(
        self, kind: str, count: int, size: Size = "standard", busy: Collection[str] = ()
    ) -> None:
        self._pool.scale(kind, count, size, busy, namespace=self._namespace)

    def end(self, driver: str, reason: str) -> None:
        self._pool.end(driver, reason)

    def poll(self) -> tuple[Driver, ...]:
        return self._shared.poll(self._namespace)

    def log(self, driver: str, lines: int) -> str:
        return self._pool.log(driver, lines)

    def close(self) -> None:
        """The pool is closed with the last namespace."""
