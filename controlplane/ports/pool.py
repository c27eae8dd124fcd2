"""Pools of drivers and workers.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from controlplane.core.model.drivers import Driver
from controlplane.core.model.namespaces import DEFAULT
from controlplane.core.model.scaling import PoolShare
from controlplane.core.model.tasks import Size

LOG_BYTES = 1 << 20  # of a driver's log are read at once, at its end


class DriverPool(Protocol):
    """Where drivers and workers run. Level-triggered: `scale` states the wanted drivers, `poll` the
    actual ones. Both raise PoolUnavailable where that cannot be known or done at present; it is
    never taken for "nothing runs"."""

    name: str
    outlives: bool  # drivers go on without this process, and another one of its kind finds them

    shares: tuple[PoolShare, ...]  # what may run in it

    def scale(
        self, kind: str, count: int, size: Size = "standard", busy: Collection[str] = ()
    ) -> None:
        """Start or drain so that `count` drivers of a kind ('driver' | 'worker') run. Repeating is
        harmless. Those whose ids are in `busy` go on, if they are more than that."""

    def end(self, driver: str, reason: str) -> None:
        """End a driver of no further use, by force if need be, so that another one has its slot.
        `poll` reports it with this reason. Repeating is harmless, and so is an id that no driver of
        this pool has."""

    def poll(self) -> tuple[Driver, ...]:
        """Every driver started by this pool since the last poll or still there, with `ended` and
        its reason."""

    def log(self, driver: str, lines: int) -> str:
        """The last log lines of a driver or worker, also after its end; fewer where they have more
        than LOG_BYTES. LogGone says why the log is gone, PoolUnavailable that it cannot be read at
        present. Nothing has to be started or polled before, so that any process of a control plane
        can ask."""

    def close(self) -> None:
        """End all that does not outlive us, and wait until it is gone."""


class NamespacedPool(DriverPool, Protocol):
    """A pool whose drivers serve a namespace each, which their ids name. `poll` reports those of
    all namespaces."""

    def scale(
        self,
        kind: str,
        count: int,
        size: Size = "standard",
        busy: Collection[str] = (),
        *,
        namespace: str = DEFAULT,
    ) -> None:
        """As `DriverPool.scale`, of the drivers of one namespace."""
