"""Leases of the store without a database. Does not belong here: who takes one, and when."""

from __future__ import annotations

from dataclasses import replace

from controlplane.core.model.leases import AHEAD, Deposed, Lease
from tests.property.memory_store.queue import MemoryPart
from tests.property.memory_store.tables import NamespaceTables


class MemoryLeased(MemoryPart):
    def lease(self, name: str) -> Lease | None:
        return self._space.leases.get(name)

    def take_lease(self, name: str, holder: str, lease_s: float) -> Lease:
        known, now = self._space.leases.get(name), self._now
        if known is not None and now < known.until <= now + AHEAD * lease_s and known.holder != holder:
            return known
        epoch = 1 if known is None else known.epoch + 1
        self._space.leases[name] = lease = Lease(name, holder, epoch, now, now + lease_s)
        return lease

    def renew_lease(self, name: str, epoch: int, lease_s: float) -> bool:
        return self._until(name, epoch, self._now + lease_s)

    def end_lease(self, name: str, epoch: int) -> None:
        self._until(name, epoch, self._now)

    def _until(self, name: str, epoch: int, until: float) -> bool:
        known = self._space.leases.get(name)
        if known is None or known.epoch != epoch:
            return False
        self._space.leases[name] = replace(known, until=until)
        return True

    def require_lease(self, name: str, epoch: int, *, of: str | None = None) -> None:
        is_own = of in (None, self._namespace)
        space = self._space if is_own else self.spaces.get(str(of), NamespaceTables())
        known = space.leases.get(name)
        if known is None or known.epoch != epoch:
            raise Deposed(name, epoch)
