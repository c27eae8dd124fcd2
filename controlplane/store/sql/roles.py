"""Roles of namespaces. Does not belong here: the permissions that they grant."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Row

from controlplane.core.rights import NamedRole, TokenScope
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import Part, dump


class SqlRoles(Part):
    def roles(self) -> tuple[NamedRole, ...]:
        rows = self._rows_of(db.roles)
        return tuple(sorted((_role(row) for row in rows), key=lambda role: role.name))

    def role(self, name: str) -> NamedRole | None:
        row = self._row_of(db.roles, name=name)
        return None if row is None else _role(row)

    def put_role(self, role: NamedRole) -> None:
        self._upsert(db.roles, [_row(role)])

    def drop_role(self, name: str) -> None:
        self._delete(db.roles, name=name)


def _role(row: Row[Any]) -> NamedRole:
    within = TokenScope(**{kind: tuple(patterns) for kind, patterns in json.loads(row.narrowed).items()})
    return NamedRole(row.name, frozenset(json.loads(row.permissions)), within, actor=row.actor, at=row.at)


def _row(role: NamedRole) -> dict[str, Any]:
    within = role.within
    narrowed = {"dataflows": within.dataflows, "datasets": within.datasets, "branches": within.branches}
    return {
        "name": role.name,
        "permissions": dump(sorted(role.permissions)),
        "narrowed": dump(narrowed),
        "actor": role.actor,
        "at": role.at,
    }
