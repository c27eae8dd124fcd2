"""Marks: which datasets something happened to, so that planning looks at those and at what is downstream of them.

Does not belong here: what has to be done about it.
"""

from __future__ import annotations

from sqlalchemy import select

from controlplane.core.model.branches import MAIN
from controlplane.core.model.events import NO_BRANCH
from controlplane.store.sql import tables as db
from controlplane.store.sql.snapshots import SqlSnapshots


class SqlMarks(SqlSnapshots):
    """Marks are written when the transaction ends: their numbers then grow in the order in which transactions become
    visible, so that who remembers the last number it saw never misses one."""

    def _write_marks(self) -> None:
        if self._new_marks:
            number = self._count("marks", 1)
            rows = [{"branch": branch, "name": name, "at": number} for branch, name in self._new_marks]
            self._upsert(db.marks, rows)
            self._new_marks.clear()
            self._write_moves(number)

    def marked(self, branch: str, after: int) -> tuple[int, frozenset[str]]:
        seen = {NO_BRANCH, MAIN, branch} if self._base(branch) is None else {branch}
        newer = self._mine(db.marks) & (db.marks.c.at > after) & db.marks.c.branch.in_(seen)
        rows = self._rows(select(db.marks.c.name, db.marks.c.at).where(newer))
        return max((row.at for row in rows), default=after), frozenset(row.name for row in rows)
