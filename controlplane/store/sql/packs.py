"""Packs that are no longer needed. Does not belong here: which those are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import delete

from controlplane.core.model.pack_origins import Origin, PendingDeletion
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import Part


class SqlPacks(Part):
    def put_origins(self, origins: Sequence[Origin]) -> None:
        rows = ({"pack": o.pack, "leaf": o.leaf, "member": o.member, "at": o.at} for o in origins)
        self._upsert(db.pack_origins, rows)

    def origins(self) -> Iterator[Origin]:
        rows = self._paged(self._select(db.pack_origins), db.pack_origins.c.pack)
        return (Origin(row.pack, row.leaf, row.member, row.at) for row in rows)

    def drop_packs(self, packs: Sequence[bytes]) -> None:
        for column in (db.pack_origins.c.pack, db.fragments.c.id):
            self._change_among(delete(column.table).where(self._mine(column.table)), column, packs)

    def put_leftovers(self, leftovers: Sequence[PendingDeletion]) -> None:
        rows = ({"folder": one.folder, "attempt": one.attempt, "due": one.due} for one in leftovers)
        self._upsert(db.leftovers, rows)

    def leftovers(self, due: float, limit: int) -> tuple[PendingDeletion, ...]:
        of = db.leftovers.c
        rows = self._rows(self._select(db.leftovers).where(of.due <= due).order_by(of.due, of.folder).limit(limit))
        return tuple(PendingDeletion(row.folder, row.attempt, row.due) for row in rows)

    def drop_leftovers(self, folders: Sequence[str]) -> None:
        self._delete_among(db.leftovers, "folder", folders)
