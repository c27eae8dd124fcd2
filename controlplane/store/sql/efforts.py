"""The statement that adds up work by dataset and day, of three tables at once."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Row,
    Select,
    cast,
    func,
    literal,
    select,
    union_all,
)
from sqlalchemy import bindparam as bind

from controlplane.core.model.efforts import DAY_S, Effort
from controlplane.store.sql import tables as db
from controlplane.store.sql.statements import equal

SUMS: Final = (
    "attempts",
    "tasks",
    "seconds",
    "bytes_read",
    "bytes_written",
    "reused",
    "unchanged",
)


def _days(at: ColumnElement[float]) -> ColumnElement[int]:
    """Days since 1970, by UTC."""
    return cast(func.floor(at / DAY_S), BigInteger)


def _part(
    dataset: ColumnElement[str], at: ColumnElement[float], **sums: ColumnElement[Any]
) -> Select[Any]:
    """Rows with a dataset, a day and all sums; 0 where a table has none of a kind."""
    columns = (sums.get(name, literal(0)).label(name) for name in SUMS)
    return select(dataset.label("dataset"), _days(at).label("day"), *columns)


def _attempts() -> Select[Any]:
    past = db.past_attempts.c
    part = _part(
        past.dataset,
        past.ended_at,
        attempts=literal(1),
        tasks=past.done,
        seconds=func.coalesce(past.seconds, 0.0),
        bytes_read=func.coalesce(past.bytes_read, 0),
        bytes_written=past.bytes_written,
    )
    return part.where(equal(db.past_attempts, "branch"), past.ended_at >= bind("since"))


def _reused() -> Select[Any]:
    event = db.events.c
    part = _part(event.dataset, event.at, reused=event.n)
    return part.where(equal(db.events, "branch", "kind"), event.at >= bind("since"))


def _unchanged() -> Select[Any]:
    """States that changed nothing that readers see."""
    state = db.states.c
    before = func.lag(state.generation).over(partition_by=state.dataset, order_by=state.seq)
    columns = (state.dataset, state.at, state.generation, before.label("before"))
    states = select(*columns).where(equal(db.states, "branch")).subquery().c
    part = _part(states.dataset, states.at, unchanged=literal(1))
    return part.where(states.generation == states.before, states.at >= bind("since"))


def _efforts() -> Select[Any]:
    parts = union_all(_attempts(), _reused(), _unchanged()).subquery().c
    sums = (func.sum(parts[name]).label(name) for name in SUMS)
    grouped = select(parts.dataset, parts.day, *sums).group_by(parts.dataset, parts.day)
    return grouped.order_by(parts.day.desc(), parts.dataset).limit(bind("limit"))


EFFORTS: Final = _efforts()


def effort(row: Row[Any]) -> Effort:
    """A row of `EFFORTS`. PostgreSQL gives its sums as decimals."""
    return Effort(
        dataset=row.dataset,
        day=int(row.day),
        attempts=int(row.attempts),
        tasks=int(row.tasks),
        seconds=float(row.seconds),
        bytes_read=int(row.bytes_read),
        bytes_written=int(row.bytes_written),
        reused=int(row.reused),
        unchanged=int(row.unchanged),
    )
