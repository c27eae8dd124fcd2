"""Leases. Does not belong here: who takes one, and when."""

from __future__ import annotations

from sqlalchemy import ColumnElement, select, update

from controlplane.core.model.leases import AHEAD, Deposed, Lease
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import TableGroup
from controlplane.store.sql.row_records import Record

_LEASES = Record(db.leases, Lease)


class SqlLeases(TableGroup):
    """On PostgreSQL the clock is read before a row is waited for, so that waiting never makes a
    lease look over."""

    def get(self, name: str) -> Lease | None:
        return self._value_of(_LEASES, name=name)

    def take(self, name: str, holder: str, lease_s: float) -> Lease:
        lease, now = db.leases.c, self._now()
        mine = {"holder": holder, "since": now, "until": now + lease_s}
        insert = self._dialect.insert(db.leases).values(
            namespace=self._namespace, name=name, epoch=1, **mine
        )
        is_over = (lease.until <= now) | (lease.until > now + AHEAD * lease_s)
        is_free = is_over | (lease.holder == holder)
        renewed = {**mine, "epoch": lease.epoch + 1}
        key = list(db.leases.primary_key)
        self._connection.execute(
            insert.on_conflict_do_update(index_elements=key, set_=renewed, where=is_free)
        )
        return next(self._values_of(_LEASES, name=name))

    def renew(self, name: str, epoch: int, lease_s: float) -> bool:
        return self._until(name, epoch, self._now() + lease_s) == 1

    def end(self, name: str, epoch: int) -> None:
        self._until(name, epoch, self._now())

    def _until(self, name: str, epoch: int, until: float) -> int:
        return self._change(
            update(db.leases).where(self._of_epoch(name, epoch)).values(until=until)
        )

    def require(self, name: str, epoch: int, *, of: str | None = None) -> None:
        """The row is shared until the end: who takes the lease waits for this transaction, or this
        one for him."""
        lease = db.leases.c
        its = (lease.namespace == (of or self._namespace)) & (lease.name == name)
        held = select(lease.epoch).where(its).with_for_update(read=True)
        row = self._row(held)
        if row is None or row.epoch != epoch:
            raise Deposed(name, epoch)

    def _of_epoch(self, name: str, epoch: int) -> ColumnElement[bool]:
        return self._mine(db.leases, name=name, epoch=epoch)
