"""Namespaces. Does not belong here: who may make or delete one."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, delete, select

from controlplane.core.model.namespaces import Namespace
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import Part


class SqlNamespaces(Part):
    def all(self) -> tuple[Namespace, ...]:
        rows = self._rows_of(db.namespaces)
        return tuple(sorted((_namespace(row) for row in rows), key=lambda one: one.name))

    def put(self, namespace: Namespace) -> None:
        row = {"name": namespace.name, "actor": namespace.actor, "at": namespace.at, "ended": namespace.ended}
        self._upsert(db.namespaces, [row])

    def is_in_use(self, namespace: str) -> bool:
        live = select(db.dataflows.c.dataflow).where(db.dataflows.c.namespace == namespace, db.dataflows.c.is_live)
        looks = [live] + [
            select(table.c.namespace).where(table.c.namespace == namespace) for table in (db.branches, db.attempts)
        ]
        return any(self._row(look.limit(1)) is not None for look in looks)

    def empty(self, namespace: str) -> None:
        for table in db.metadata.sorted_tables:
            self._change(delete(table).where(table.c.namespace == namespace))


def _namespace(row: Row[Any]) -> Namespace:
    return Namespace(row.name, row.actor, row.at, row.ended)
