"""Signed links. Does not belong here: who may make one."""

from __future__ import annotations

import json
from typing import Any, Final

from sqlalchemy import Row

from controlplane.core.model.links import Link
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import TableGroup
from controlplane.store.sql.row_records import Record, dump

REQUEST: Final = ("format", "compression", "point", "partition", "columns", "where", "limit")
"""Fields in one column: they are read together only."""

_LINKS = Record(db.links, Link, **dict.fromkeys(REQUEST))


class SqlLinks(TableGroup):
    def get(self, id: str) -> Link | None:
        row = self._row_of(db.links, id=id)
        return row and _link(row)

    def all(self) -> tuple[Link, ...]:
        return tuple(sorted(map(_link, self._rows_of(db.links)), key=lambda x: (x.at, x.id)))

    def put(self, link: Link) -> None:
        request = dump({name: getattr(link, name) for name in REQUEST})
        self._upsert(db.links, [_LINKS.to_row(link) | {"asked": request}])


def _link(row: Row[Any]) -> Link:
    request = json.loads(row.asked)
    return _LINKS.from_row(row, **{**request, "columns": tuple(request["columns"])})
