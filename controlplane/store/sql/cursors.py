"""Cursors over events. Does not belong here: who reads them."""

from __future__ import annotations

from controlplane.store.sql import tables as db
from controlplane.store.sql.base import Part


class SqlCursors(Part):
    def cursor(self, name: str) -> int | None:
        row = self._row_of(db.cursors, name=name)
        return None if row is None else int(row.event)

    def move_cursor(self, name: str, event: int) -> None:
        insert = self._dialect.insert(db.cursors).values(namespace=self._namespace, name=name, event=event)
        key = list(db.cursors.primary_key)
        is_behind = db.cursors.c.event < event
        self._connection.execute(
            insert.on_conflict_do_update(index_elements=key, set_={"event": event}, where=is_behind)
        )
