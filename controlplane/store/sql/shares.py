"""Shares. Does not belong here: who may read one."""

from __future__ import annotations

from controlplane.core.model.shares import SharedTable, ShareRow
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import TableGroup
from controlplane.store.sql.row_records import Record

_SHARES = Record(db.shares, ShareRow)
_TABLES = Record(db.shared_tables, SharedTable)


class SqlShares(TableGroup):
    def all(self) -> tuple[ShareRow, ...]:
        return tuple(sorted(self._values_of(_SHARES), key=lambda share: share.name))

    def put(self, share: ShareRow) -> None:
        self._put(_SHARES, [share])

    def drop(self, share: ShareRow) -> None:
        self._delete(db.shared_tables, share=share.id)
        self._delete(db.shares, name=share.name)

    def tables(self, share: str) -> tuple[SharedTable, ...]:
        tables = self._values_of(_TABLES, share=share)
        return tuple(sorted(tables, key=lambda table: (table.schema, table.name)))

    def put_table(self, table: SharedTable) -> None:
        self._put(_TABLES, [table])

    def drop_table(self, table: SharedTable) -> None:
        self._delete(db.shared_tables, share=table.share, schema=table.schema, name=table.name)
