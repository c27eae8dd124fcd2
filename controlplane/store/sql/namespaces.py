"""Namespaces. Does not belong here: who may make or delete one."""

from __future__ import annotations

from sqlalchemy import delete, select

from controlplane.core.model.namespaces import Namespace
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import TableGroup
from controlplane.store.sql.row_records import Record

_NAMESPACES = Record(db.namespaces, Namespace)


class SqlNamespaces(TableGroup):
    def all(self) -> tuple[Namespace, ...]:
        return tuple(sorted(self._values_of(_NAMESPACES), key=lambda namespace: namespace.name))

    def put(self, namespace: Namespace) -> None:
        self._put(_NAMESPACES, [namespace])

    def is_in_use(self, namespace: str) -> bool:
        live = select(db.dataflows.c.dataflow).where(
            db.dataflows.c.namespace == namespace, db.dataflows.c.is_live
        )
        statements = [live] + [
            select(table.c.namespace).where(table.c.namespace == namespace)
            for table in (db.branches, db.attempts)
        ]
        return any(self._row(statement.limit(1)) is not None for statement in statements)

    def empty(self, namespace: str) -> None:
        for table in db.metadata.sorted_tables:
            self._change(delete(table).where(table.c.namespace == namespace))
