"""Shares. Does not belong here: who may read one."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from controlplane.core.model.shares import Share, SharedTable
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import Part


class SqlShares(Part):
    def all(self) -> tuple[Share, ...]:
        rows = self._rows_of(db.shares)
        return tuple(sorted((_share(row) for row in rows), key=lambda share: share.name))

    def put(self, share: Share) -> None:
        row = {"name": share.name, "id": share.id, "actor": share.actor, "at": share.at}
        self._upsert(db.shares, [row])

    def drop(self, share: Share) -> None:
        self._delete(db.shared_tables, share=share.id)
        self._delete(db.shares, name=share.name)

    def tables(self, share: str) -> tuple[SharedTable, ...]:
        rows = self._rows_of(db.shared_tables, share=share)
        return tuple(sorted((_table(row) for row in rows), key=lambda table: (table.schema, table.name)))

    def put_table(self, table: SharedTable) -> None:
        self._upsert(db.shared_tables, [_table_row(table)])

    def drop_table(self, table: SharedTable) -> None:
        self._delete(db.shared_tables, share=table.share, schema=table.schema, name=table.name)


def _share(row: Row[Any]) -> Share:
    return Share(row.name, row.id, row.actor, row.at)


def _table(row: Row[Any]) -> SharedTable:
    return SharedTable(
        row.share,
        row.schema,
        row.name,
        branch=row.branch,
        dataset=row.dataset,
        has_history=row.has_history,
        at=row.at,
    )


def _table_row(table: SharedTable) -> dict[str, Any]:
    return {
        "share": table.share,
        "schema": table.schema,
        "name": table.name,
        "branch": table.branch,
        "dataset": table.dataset,
        "has_history": table.has_history,
        "at": table.at,
    }
