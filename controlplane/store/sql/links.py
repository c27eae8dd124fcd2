"""Signed links. Does not belong here: who may make one."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Row

from controlplane.core.model.links import Link
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import Part, dump


class SqlLinks(Part):
    def get(self, id: str) -> Link | None:
        row = self._row_of(db.links, id=id)
        return row and _link(row)

    def all(self) -> tuple[Link, ...]:
        return tuple(sorted((_link(row) for row in self._rows_of(db.links)), key=lambda x: (x.at, x.id)))

    def put(self, link: Link) -> None:
        self._upsert(db.links, [_link_row(link)])


def _link(row: Row[Any]) -> Link:
    asked = json.loads(row.asked)
    return Link(
        id=row.id,
        maker=row.maker,
        actor=row.actor,
        branch=row.branch,
        dataset=row.dataset,
        format=asked["format"],
        compression=asked["compression"],
        point=asked["point"],
        partition=asked["partition"],
        columns=tuple(asked["columns"]),
        where=asked["where"],
        limit=asked["limit"],
        at=row.at,
        expires=row.expires,
        revoked=row.revoked,
    )


def _link_row(link: Link) -> dict[str, Any]:
    asked = {
        "format": link.format,
        "compression": link.compression,
        "point": link.point,
        "partition": link.partition,
        "columns": list(link.columns),
        "where": link.where,
        "limit": link.limit,
    }
    return {
        "id": link.id,
        "maker": link.maker,
        "actor": link.actor,
        "branch": link.branch,
        "dataset": link.dataset,
        "asked": dump(asked),
        "at": link.at,
        "expires": link.expires,
        "revoked": link.revoked,
    }
