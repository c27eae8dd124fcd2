"""A pool that counts the Spark drivers that it has started."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from controlplane.core.model.drivers import Driver
from controlplane.core.model.namespaces import DEFAULT
from controlplane.core.model.tasks import Size
from controlplane.ports.pool import NamespacedPool


class TrackedPool:
    """A pool that remembers which Spark drivers it has seen.

    Children are started from one thread that lives as long as they may: on Linux they end with it.
    """

    def __init__(self, pool: NamespacedPool) -> None:
        self._pool, self.name, self.outlives, self.shares = (
            pool,
            pool.name,
            pool.outlives,
            pool.shares,
        )
        self._hand = ThreadPoolExecutor(max_workers=1, thread_name_prefix="pool")
        self.drivers: set[str] = set()

    def scale(
        self,
        kind: str,
        count: int,
        size: Size = "standard",
        busy: Collection[str] = (),
        *,
        namespace: str = DEFAULT,
    ) -> None:
        self._hand.submit(self._pool.scale, kind, count, size, busy, namespace=namespace).result()

    def end(self, driver: str, reason: str) -> None:
        self._pool.end(driver, reason)

    def poll(self) -> tuple[Driver, ...]:
        drivers = self._pool.poll()
        self.drivers.update(d.id for d in drivers if d.kind == "driver")
        return drivers

    def log(self, driver: str, lines: int) -> str:
        return self._pool.log(driver, lines)

    def close(self) -> None:
        self._pool.close()
        self._hand.shutdown()
