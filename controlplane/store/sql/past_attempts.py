"""Attempts that are over, and what they say of costs. Does not belong here: what is made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import ColumnElement, Row, func, select

from controlplane.core.model.past_attempts import COMPUTING, COST_ATTEMPTS, Cost, PastAttempt, Share, cost, share
from controlplane.core.model.revisions import MAIN
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import Part

NAMES = tuple(field.name for field in fields(PastAttempt))


class SqlPastAttempts(Part):
    def put_past_attempts(self, attempts: Sequence[PastAttempt]) -> None:
        self._insert(db.past_attempts, map(asdict, attempts))

    def past_attempts(
        self,
        branch: str,
        datasets: Iterable[str] | None = None,
        *,
        ended: tuple[float, float] | None = None,
        limit: int = 1000,
    ) -> tuple[PastAttempt, ...]:
        past = db.past_attempts.c
        wanted = self._select(db.past_attempts, branch=branch)
        if datasets is not None:
            wanted = wanted.where(past.dataset.in_(list(datasets)))
        if ended is not None:
            wanted = wanted.where(past.ended_at > ended[0], past.ended_at <= ended[1])
        newest = wanted.order_by(past.ended_at.desc(), past.id).limit(limit)
        return tuple(map(_past, self._rows(newest)))

    def find_past_attempts(self, ids: Iterable[str]) -> dict[str, PastAttempt]:
        past = db.past_attempts.c
        rows = self._among(self._select(db.past_attempts).order_by(past.branch), past.id, ids)
        return {row.id: _past(row) for row in rows}

    def past_costs(self, branch: str, datasets: Iterable[str]) -> Mapping[str, Cost]:
        names = list(dict.fromkeys(datasets))
        if not names:
            return {}
        past = db.past_attempts.c
        place = func.row_number().over(partition_by=past.dataset, order_by=(past.ended_at.desc(), past.id))
        columns = (past.dataset, past.seconds, past.done, past.rows, past.bytes_written)
        known = select(*columns, place.label("place")).where(
            self._among_measured(branch), self._dialect.among(past.dataset, names)
        )
        ranked = known.subquery()
        shares: dict[str, list[Share]] = {}
        for row in self._rows(select(ranked).where(ranked.c.place <= COST_ATTEMPTS)):
            one = share(row.seconds, row.done, row.rows, row.bytes_written)
            shares.setdefault(row.dataset, []).append(one)
        return {name: cost(found) for name, found in shares.items()}

    def _among_measured(self, branch: str) -> ColumnElement[bool]:
        """Attempts of the branch or of main that say what a task costs; those of both once."""
        past, twin = db.past_attempts.c, db.past_attempts.alias("twin").c
        measured = self._mine(db.past_attempts, outcome="done") & past.kind.in_(COMPUTING)
        measured &= past.seconds.is_not(None) & (past.done > 0)
        if branch == MAIN:
            return measured & (past.branch == MAIN)
        same = (twin.namespace == past.namespace) & (twin.id == past.id) & (twin.branch == branch)
        only_in_main = (past.branch == MAIN) & ~select(twin.id).where(same).exists()
        return measured & ((past.branch == branch) | only_in_main)

    def drop_past_attempts(self, before: float, limit: int) -> int:
        past = db.past_attempts.c
        return self._drop(db.past_attempts, past.id, past.ended_at < before, limit)


def _past(row: Row[Any]) -> PastAttempt:
    return PastAttempt(**{name: row._mapping[name] for name in NAMES})
