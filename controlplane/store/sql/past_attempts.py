"""Past attempts, and costs estimated from them. Does not belong here: the use of these records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy import bindparam as bind

from controlplane.core.model.events import ADOPTED
from controlplane.core.model.past_attempts import (
    COMPUTING,
    COST_ATTEMPTS,
    Cost,
    PastAttempt,
    TaskShare,
    cost,
    share,
)
from controlplane.core.model.revisions import MAIN
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import TableGroup
from controlplane.store.sql.row_records import Record
from controlplane.store.sql.statements import equal, one_of

if TYPE_CHECKING:
    from controlplane.core.model.efforts import Effort

_ATTEMPTS = Record(db.past_attempts, PastAttempt)
_PAST, _TWIN = db.past_attempts.c, db.past_attempts.alias("twin").c
_SAME = (_TWIN.namespace == _PAST.namespace) & (_TWIN.id == _PAST.id)
_IS_IN_BRANCH = select(_TWIN.id).where(_SAME, _TWIN.branch == bind("of_branch")).exists()


def _costs(branches: ColumnElement[bool]) -> Select[Any]:
    """The newest attempts of each dataset that say what a task costs."""
    is_measured = equal(db.past_attempts) & (_PAST.outcome == "done") & _PAST.kind.in_(COMPUTING)
    is_measured &= _PAST.seconds.is_not(None) & (_PAST.done > 0)
    place = func.row_number().over(
        partition_by=_PAST.dataset, order_by=(_PAST.ended_at.desc(), _PAST.id)
    )
    columns = (
        _PAST.dataset,
        _PAST.seconds,
        _PAST.done,
        _PAST.rows,
        _PAST.bytes_written,
        place.label("place"),
    )
    ranked = select(*columns).where(is_measured, branches, one_of(_PAST.dataset)).subquery()
    return select(ranked).where(ranked.c.place <= COST_ATTEMPTS)


def _newest_of_each() -> Select[Any]:
    """The last attempts of each dataset, the newest first."""
    is_recent = equal(db.past_attempts, "branch") & (_PAST.ended_at > bind("since"))
    newest_first = (_PAST.ended_at.desc(), _PAST.id)
    place = func.row_number().over(partition_by=_PAST.dataset, order_by=newest_first)
    ranked = select(db.past_attempts, place.label("place"))
    placed = ranked.where(is_recent, one_of(_PAST.dataset)).subquery()
    return select(placed).where(placed.c.place <= bind("limit")).order_by(placed.c.place)


_NEWEST_OF_EACH = _newest_of_each()
_COSTS_OF_MAIN = _costs(_PAST.branch == MAIN)
# Those of both once
_COSTS = _costs((_PAST.branch == bind("of_branch")) | ((_PAST.branch == MAIN) & ~_IS_IN_BRANCH))


class SqlPastAttempts(TableGroup):
    def put(self, attempts: Sequence[PastAttempt]) -> None:
        self._insert(db.past_attempts, map(_ATTEMPTS.to_row, attempts))

    def newest(
        self,
        branch: str,
        datasets: Iterable[str] | None = None,
        *,
        ended: tuple[float, float] | None = None,
        limit: int = 1000,
    ) -> tuple[PastAttempt, ...]:
        past = db.past_attempts.c
        statement = self._select(db.past_attempts, branch=branch)
        if datasets is not None:
            statement = statement.where(past.dataset.in_(list(datasets)))
        if ended is not None:
            statement = statement.where(past.ended_at > ended[0], past.ended_at <= ended[1])
        newest = statement.order_by(past.ended_at.desc(), past.id).limit(limit)
        return tuple(_ATTEMPTS.from_rows(self._rows(newest)))

    def newest_of_each(
        self, branch: str, datasets: Iterable[str], *, since: float, limit: int
    ) -> Mapping[str, Sequence[PastAttempt]]:
        keys = {"keys": list(datasets), "of_branch": branch, "since": since, "limit": limit}
        newest: dict[str, list[PastAttempt]] = {}
        for attempt in _ATTEMPTS.from_rows(self._rows(_NEWEST_OF_EACH, **keys)):
            newest.setdefault(attempt.dataset, []).append(attempt)
        return newest

    def find(self, ids: Iterable[str]) -> dict[str, PastAttempt]:
        past = db.past_attempts.c
        rows = self._among(self._select(db.past_attempts).order_by(past.branch), past.id, ids)
        return {attempt.id: attempt for attempt in _ATTEMPTS.from_rows(rows)}

    def costs(self, branch: str, datasets: Iterable[str]) -> Mapping[str, Cost]:
        names = list(dict.fromkeys(datasets))
        if not names:
            return {}
        costs = _COSTS_OF_MAIN if branch == MAIN else _COSTS
        shares: dict[str, list[TaskShare]] = {}
        for row in self._rows(costs, keys=names, of_branch=branch):
            task_share = share(row.seconds, row.done, row.rows, row.bytes_written)
            shares.setdefault(row.dataset, []).append(task_share)
        return {name: cost(shares_of_it) for name, shares_of_it in shares.items()}

    def efforts(self, branch: str, since: float, limit: int) -> tuple[Effort, ...]:
        from controlplane.store.sql import efforts  # most processes never add up work

        bounds = {"of_branch": branch, "of_kind": ADOPTED, "since": since, "limit": limit}
        return tuple(map(efforts.effort, self._rows(efforts.EFFORTS, **bounds)))

    def drop(self, before: float, limit: int) -> int:
        past = db.past_attempts.c
        return self._drop(db.past_attempts, past.id, past.ended_at < before, limit)
