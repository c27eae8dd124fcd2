"""Branches as pointers: their newest revisions and states, copied inside the database.

Does not belong here: who may branch, comparing and merging.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Table, exists, literal, or_, select

from controlplane.core.errors import BranchExists
from controlplane.core.model import change_marks
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import Part

WHOLE = (db.dataflows, db.uids, db.pauses, db.forces, db.heads, db.buildings, db.pins)


class SqlBranches(Part):
    def copy_branch(self, source: str, target: str) -> None:
        there = (exists().where(self._mine(table, branch=target)) for table in WHOLE)
        if self._connection.execute(select(or_(*there))).scalar_one():
            raise BranchExists(target)
        for table in WHOLE:
            self._copy(table, source, target)
        self._copy(db.revisions, source, target, db.dataflows, dataflow="dataflow", number="last_number")
        self._copy(db.states, source, target, db.heads, dataset="dataset", seq="seq")
        flows = self._rows(select(db.dataflows.c.dataflow).where(self._mine(db.dataflows, branch=target)))
        self._mark(
            target, change_marks.PAUSES, change_marks.FORCED, *(change_marks.flow(row.dataflow) for row in flows)
        )

    def _copy(self, table: Table, source: str, target: str, newest: Table | None = None, **same: str) -> None:
        """The branch's rows; with `newest`, those that it points to."""
        columns = [literal(target).label("branch") if c.name == "branch" else c for c in table.c]
        rows = select(*columns).where(self._mine(table, branch=source))
        if newest is not None:
            rows = rows.where(self._mine(newest, branch=source))
            for own, other in same.items():
                rows = rows.where(table.c[own] == newest.c[other])
        insert: Any = self._dialect.insert(table)
        self._connection.execute(insert.from_select([c.name for c in table.c], rows))
