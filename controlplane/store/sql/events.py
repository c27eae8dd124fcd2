"""Events and drivers: rows that are recorded as they come. Does not belong here: decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from sqlalchemy import delete, func, select

from controlplane.core.model.driver_ends import EXPECTED
from controlplane.core.model.drivers import Driver
from controlplane.core.model.events import CLAIMED, Event
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import OpenTransaction, TableGroup
from controlplane.store.sql.row_records import Record, dump
from controlplane.store.sql.statements import one_of

_EVENTS = Record(db.events, Event)
_DRIVERS = Record(db.drivers, Driver, fault=None, size=None)
DRIVER_ONLY = dump(["driver"])  # scopes of a token that a pool made


class SqlEvents(TableGroup):
    """New events are written when the transaction ends or reads events: a reader that remembers the
    last id it saw never misses one that became visible later under a smaller id."""

    def __init__(self, transaction: OpenTransaction) -> None:
        super().__init__(transaction)
        self._new_events: list[Event] = []

    def put(self, events: Sequence[Event]) -> None:
        self._new_events.extend(events)

    def _write_events(self) -> None:
        if new := self._new_events:
            self.store_events(self._count("events", len(new)))

    def store_events(self, last: int) -> None:
        """`last`: the counter of events, which was raised for all of them."""
        rows = _EVENTS.numbered(self._new_events, last)
        self._insert(db.events, [{**row, "at": self._now()} for row in rows])
        self._new_events.clear()

    def newer(self, branch: str | None, after: int, limit: int = 1000) -> tuple[Event, ...]:
        self._write_events()
        of_branch = self._mine(db.events) if branch is None else self._events_in(db.events, branch)
        newer = (
            select(db.events)
            .where(of_branch, db.events.c.id > after)
            .order_by(db.events.c.id)
            .limit(limit)
        )
        return tuple(_EVENTS.from_rows(self._rows(newer)))

    def last(self) -> int:
        self._write_events()
        return self._counted("events")

    def claim_of(self, attempt: str) -> Event | None:
        self._write_events()
        event = db.events.c
        statement = self._select(db.events, kind=CLAIMED).where(
            event.body.contains(dump(attempt), autoescape=True)
        )
        row = self._row(statement.order_by(event.id.desc()).limit(1))
        return row and _EVENTS.from_row(row)

    def of_kind(self, branch: str, kind: str, since: float) -> tuple[Event, ...]:
        self._write_events()
        event = db.events.c
        statement = self._select(db.events, kind=kind, branch=branch).where(event.at > since)
        return tuple(_EVENTS.from_rows(self._rows(statement.order_by(event.id))))

    def count(
        self, branch: str, after: int, among: Callable[[str], bool] | None = None
    ) -> dict[str, int]:
        self._write_events()
        newer = self._events_in(db.events, branch) & (db.events.c.id > after)
        groups = (db.events.c.kind,) if among is None else (db.events.c.kind, db.events.c.dataset)
        rows = self._rows(
            select(*groups, func.sum(db.events.c.n).label("total")).where(newer).group_by(*groups)
        )
        sums: dict[str, int] = {}
        for row in rows:
            if among is None or not row.dataset or among(row.dataset):
                sums[row.kind] = sums.get(row.kind, 0) + int(row.total)
        return sums

    def drop(self, before: float, limit: int) -> int:
        self._write_events()
        event = db.events.c
        oldest = (
            select(event.id, event.at).where(self._mine(db.events)).order_by(event.id).limit(limit)
        )
        old = list(takewhile(lambda row: row.at < before, self._rows(oldest)))
        if not old:
            return 0
        return self._change(delete(db.events).where(self._mine(db.events), event.id <= old[-1].id))

    def waiting(self) -> int:
        """How many events wait for the end of the transaction."""
        return len(self._new_events)

    def cursor(self, name: str) -> int | None:
        row = self._row_of(db.cursors, name=name)
        return None if row is None else int(row.event)

    def move_cursor(self, name: str, event: int) -> None:
        insert = self._dialect.insert(db.cursors).values(
            namespace=self._namespace, name=name, event=event
        )
        key = list(db.cursors.primary_key)
        is_behind = db.cursors.c.event < event
        self._connection.execute(
            insert.on_conflict_do_update(index_elements=key, set_={"event": event}, where=is_behind)
        )


class SqlDrivers(TableGroup):
    def put(self, driver: Driver) -> None:
        self._put(_DRIVERS, [driver])

    def running(self) -> tuple[Driver, ...]:
        running = self._select(db.drivers, ended=False).order_by(db.drivers.c.at)
        drivers = _DRIVERS.from_rows(self._rows(running))
        return tuple(sorted(drivers, key=lambda d: (d.at, d.id)))

    def ends(self, limit: int) -> tuple[Driver, ...]:
        driver = db.drivers.c
        statement = self._select(db.drivers, ended=True).where(
            driver.reason.not_in(sorted(EXPECTED))
        )
        newest = statement.order_by(driver.seen.desc(), driver.id).limit(limit)
        return tuple(_DRIVERS.from_rows(self._rows(newest)))

    def drop(self, before: float, limit: int) -> int:
        driver, token = db.drivers.c, db.tokens.c
        ended = self._mine(db.drivers, ended=True) & (driver.seen < before)
        ended_ids = [row.id for row in self._rows(select(driver.id).where(ended).limit(limit))]
        over = (token.expires < before) | one_of(token.subject)
        tokens = self._drop(
            db.tokens, token.id, (token.scopes == DRIVER_ONLY) & over, 2 * limit, keys=ended_ids
        )
        return tokens + self._change_among(delete(db.drivers).where(ended), driver.id, ended_ids)
