"""Shares in memory: the twin of `sql.shares`. Does not belong here: who may read one."""

from __future__ import annotations

from controlplane.core.model.shares import Share, SharedTable
from tests.property.memory_store.queue import MemoryPart


class MemoryShares(MemoryPart):
    def shares(self) -> tuple[Share, ...]:
        return tuple(sorted(self._space.shares.values(), key=lambda share: share.name))

    def put_share(self, share: Share) -> None:
        self._space.shares[share.name] = share

    def drop_share(self, share: Share) -> None:
        for table in self.shared_tables(share.id):
            self.drop_shared_table(table)
        self._space.shares.pop(share.name, None)

    def shared_tables(self, share: str) -> tuple[SharedTable, ...]:
        found = (table for table in self._space.shared_tables.values() if table.share == share)
        return tuple(sorted(found, key=lambda table: (table.schema, table.name)))

    def put_shared_table(self, table: SharedTable) -> None:
        self._space.shared_tables[table.share, table.schema, table.name] = table

    def drop_shared_table(self, table: SharedTable) -> None:
        self._space.shared_tables.pop((table.share, table.schema, table.name), None)
