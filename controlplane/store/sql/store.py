"""The store on a database that SQLAlchemy speaks to. Does not belong here: single statements (the
parts)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property

from sqlalchemy import Connection, event, make_url
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from controlplane.ports.store import Tx
from controlplane.store.sql.access import SqlAccess
from controlplane.store.sql.alerts import SqlAlerts
from controlplane.store.sql.audit_trail import SqlAuditTrail
from controlplane.store.sql.base import OpenTransaction, keeping_schemas
from controlplane.store.sql.blueprints import SqlBlueprints
from controlplane.store.sql.branches import SqlBranches
from controlplane.store.sql.dialects import (
    Dialect,
    Engines,
    Postgres,
    Sqlite,
    postgres_engines,
    sqlite_engines,
)
from controlplane.store.sql.events import SqlDrivers, SqlEvents
from controlplane.store.sql.feeds import SqlFeeds
from controlplane.store.sql.leases import SqlLeases
from controlplane.store.sql.links import SqlLinks
from controlplane.store.sql.listings import SqlListings, SqlNodes
from controlplane.store.sql.namespaces import SqlNamespaces
from controlplane.store.sql.past_attempts import SqlPastAttempts
from controlplane.store.sql.past_states import SqlPastStates
from controlplane.store.sql.queue import SqlQueue
from controlplane.store.sql.shares import SqlShares
from controlplane.store.sql.snapshots import SqlSnapshots
from controlplane.store.sql.states import SqlProjections
from controlplane.store.sql.traces import SqlTraces
from controlplane.store.sql.upkeep import SqlUpkeep


class SqlTx:
    """One collaborator for each group of tables, made when it is first used."""

    def __init__(self, transaction: OpenTransaction) -> None:
        self._transaction = transaction

    def now(self) -> float:
        return self._transaction.now()

    @cached_property
    def _snapshots(self) -> SqlSnapshots:
        return SqlSnapshots(self._transaction)

    @cached_property
    def blueprints(self) -> SqlBlueprints:
        return SqlBlueprints(self._transaction, self._snapshots, self.queue)

    @cached_property
    def branches(self) -> SqlBranches:
        return SqlBranches(self._transaction, self._snapshots, self.queue)

    @cached_property
    def states(self) -> SqlPastStates:
        return SqlPastStates(self._transaction, self._snapshots, self.queue)

    @cached_property
    def audit(self) -> SqlAuditTrail:
        return SqlAuditTrail(self._transaction)

    @cached_property
    def nodes(self) -> SqlNodes:
        return SqlNodes(self._transaction)

    @cached_property
    def listings(self) -> SqlListings:
        return SqlListings(self._transaction)

    @cached_property
    def traces(self) -> SqlTraces:
        return SqlTraces(self._transaction, self.flush)

    @cached_property
    def queue(self) -> SqlQueue:
        return SqlQueue(self._transaction)

    @cached_property
    def past_attempts(self) -> SqlPastAttempts:
        return SqlPastAttempts(self._transaction)

    @cached_property
    def drivers(self) -> SqlDrivers:
        return SqlDrivers(self._transaction)

    @cached_property
    def projections(self) -> SqlProjections:
        return SqlProjections(self._transaction)

    @cached_property
    def events(self) -> SqlEvents:
        return SqlEvents(self._transaction)

    @cached_property
    def access(self) -> SqlAccess:
        return SqlAccess(self._transaction)

    @cached_property
    def leases(self) -> SqlLeases:
        return SqlLeases(self._transaction)

    @cached_property
    def upkeep(self) -> SqlUpkeep:
        return SqlUpkeep(self._transaction)

    @cached_property
    def alerts(self) -> SqlAlerts:
        return SqlAlerts(self._transaction)

    @cached_property
    def links(self) -> SqlLinks:
        return SqlLinks(self._transaction)

    @cached_property
    def shares(self) -> SqlShares:
        return SqlShares(self._transaction)

    @cached_property
    def feeds(self) -> SqlFeeds:
        return SqlFeeds(self._transaction)

    @cached_property
    def namespaces(self) -> SqlNamespaces:
        return SqlNamespaces(self._transaction)

    def flush(self) -> None:
        """Write the rows that wait for the end. Counters are raised in one order, so that two
        transactions cannot wait for each other."""
        counts = {
            "traces": self.traces.waiting(),
            "changes": self.audit.waiting(),
            "events": self.events.waiting(),
            "marks": 1 if self._transaction.marks else 0,
        }
        numbers = self._snapshots.count_all({name: n for name, n in counts.items() if n})
        self.traces.store_traces(numbers.get("traces", 0))
        self.audit.store_changes(numbers.get("changes", 0))
        self.events.store_events(numbers.get("events", 0))
        self._snapshots.write_marks(numbers.get("marks", 0))


class SqlStore:
    """SQLite or PostgreSQL. Transactions on SQLite are serial; on PostgreSQL those that meet are
    decided by guards."""

    def __init__(self, engines: Engines, dialect: Dialect) -> None:
        self._engines = engines
        self._dialect = dialect
        self._kept_schema = keeping_schemas()
        self._statements = 0
        self._counting = threading.Lock()
        for engine in {e.pool: e for e in (engines.reader, engines.writer)}.values():
            event.listen(engine, "before_cursor_execute", self._note_statement)

    def _note_statement(self, *_: object) -> None:
        with self._counting:
            self._statements += 1

    @property
    def statements(self) -> int:
        return self._statements

    @contextmanager
    def begin(self, namespace: str = "default") -> Iterator[Tx]:
        with _reported_faults(), self._engines.writer.begin() as connection:
            tx = self._transaction(connection, namespace, is_writing=True)
            yield tx
            tx.flush()

    @contextmanager
    def read(self, namespace: str = "default") -> Iterator[Tx]:
        with _reported_faults(), self._engines.reader.begin() as connection:
            yield self._transaction(connection, namespace, is_writing=False)

    def _transaction(self, connection: Connection, namespace: str, *, is_writing: bool) -> SqlTx:
        return SqlTx(
            OpenTransaction(connection, namespace, self._dialect, self._kept_schema, is_writing)
        )

    def close(self) -> None:
        for engine in self._engines:
            engine.dispose()


@contextmanager
def _reported_faults() -> Iterator[None]:
    """Faults that another try may survive are OSErrors for who does not know about databases."""
    try:
        yield
    except PoolTimeout as e:
        raise TimeoutError(str(e)) from e
    except DBAPIError as e:
        if not _is_fault(e):
            raise
        raise ConnectionError(str(e.orig)) from e


def _is_fault(error: DBAPIError) -> bool:
    """PostgreSQL: lost connections, deadlocks, no room. SQLite: all but wrong statements."""
    # Any error code of the server, such as a transaction that was idle for too long
    if error.connection_invalidated:
        return True
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    # A value beyond PostgreSQL's limits
    if (getattr(error.orig, "sqlstate", None) or "").startswith("54"):
        return False
    return getattr(error.orig, "sqlite_errorname", "") != "SQLITE_ERROR"


def open_sql(url: str, clock: Callable[[], float]) -> SqlStore:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return SqlStore(sqlite_engines(parsed), Sqlite(clock))
    return SqlStore(postgres_engines(parsed), Postgres())
