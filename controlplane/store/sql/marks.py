"""Marks: changed datasets, so that planning visits those and the ones downstream.

Does not belong here: the work that follows from a change.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, select
from sqlalchemy import bindparam as bind

from controlplane.core.model.branches import MAIN
from controlplane.core.model.events import NO_BRANCH
from controlplane.store.sql import tables as db
from controlplane.store.sql.snapshots import SqlSnapshots
from controlplane.store.sql.statements import equal, one_of

_MARK = db.marks.c
_NEWER = select(_MARK.name, _MARK.at).where(
    equal(db.marks), _MARK.at > bind("after", type_=BigInteger), one_of(_MARK.branch, "branches")
)


class SqlMarks(SqlSnapshots):
    """Marks are written when the transaction ends: their numbers then grow in the order in which transactions become
    visible, so that who remembers the last number it saw never misses one."""

    def _store_marks(self, number: int) -> None:
        if self._new_marks:
            rows = [{"branch": branch, "name": name, "at": number} for branch, name in self._new_marks]
            self._upsert(db.marks, rows)
            self._new_marks.clear()
            self._write_moves(number)

    def marked(self, branch: str, after: int) -> tuple[int, frozenset[str]]:
        seen = {NO_BRANCH, MAIN, branch} if self._base(branch) is None else {branch}
        if self._counters.pop("marks", after + 1) <= after:  # as it was read a moment ago
            return after, frozenset()
        rows = self._rows(_NEWER, after=after, branches=list(seen))
        return max((row.at for row in rows), default=after), frozenset(row.name for row in rows)
