"""Holds of datasets. Does not belong here: the states that they hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Row

from controlplane.core.model import change_marks
from controlplane.core.model.holds import Hold
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import Part


class SqlHolds(Part):
    def holds(self, branch: str) -> dict[str, Hold]:
        return {row.dataset: _hold(row) for row in self._rows_of(db.holds, branch=branch)}

    def put_hold(self, hold: Hold) -> None:
        self._upsert(db.holds, [_hold_row(hold)])
        self._mark(hold.branch, change_marks.HOLDS, hold.dataset)

    def drop_holds(self, branch: str, datasets: Iterable[str]) -> None:
        names = list(datasets)
        if not names:
            return
        self._delete_among(db.holds, "dataset", names, branch=branch)
        self._mark(branch, change_marks.HOLDS, *names)


def _hold(row: Row[Any]) -> Hold:
    return Hold(
        branch=row.branch,
        dataset=row.dataset,
        seq=row.seq,
        generation=row.generation,
        actor=row.actor,
        at=row.at,
        reason=row.reason,
    )


def _hold_row(hold: Hold) -> dict[str, Any]:
    return {
        "branch": hold.branch,
        "dataset": hold.dataset,
        "seq": hold.seq,
        "generation": hold.generation,
        "actor": hold.actor,
        "at": hold.at,
        "reason": hold.reason,
    }
