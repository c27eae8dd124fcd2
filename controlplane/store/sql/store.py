"""The store on a database that SQLAlchemy speaks to. Does not belong here: single statements (the parts)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, event, make_url
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from controlplane.ports.store import Tx
from controlplane.store.sql.alerts import SqlAlerts
from controlplane.store.sql.base import KeptSchema, keeping_schemas
from controlplane.store.sql.blueprints import SqlBlueprints
from controlplane.store.sql.branches import SqlBranches
from controlplane.store.sql.browser_sessions import SqlBrowserSessions
from controlplane.store.sql.cursors import SqlCursors
from controlplane.store.sql.dialects import Dialect, Engines, Postgres, Sqlite, postgres_engines, sqlite_engines
from controlplane.store.sql.events import SqlEvents
from controlplane.store.sql.feeds import SqlFeeds
from controlplane.store.sql.holds import SqlHolds
from controlplane.store.sql.leases import SqlLeases
from controlplane.store.sql.links import SqlLinks
from controlplane.store.sql.listings import SqlListings
from controlplane.store.sql.marks import SqlMarks
from controlplane.store.sql.namespaces import SqlNamespaces
from controlplane.store.sql.packs import SqlPacks
from controlplane.store.sql.past_attempts import SqlPastAttempts
from controlplane.store.sql.past_states import SqlPastStates
from controlplane.store.sql.reads import SqlReads
from controlplane.store.sql.roles import SqlRoles
from controlplane.store.sql.shares import SqlShares
from controlplane.store.sql.traces import SqlTraces
from controlplane.store.sql.trust import SqlTrustRules
from controlplane.store.sql.upkeep import SqlUpkeep


class SqlTx(
    SqlBlueprints,
    SqlBranches,
    SqlListings,
    SqlPastStates,
    SqlHolds,
    SqlTraces,
    SqlPastAttempts,
    SqlEvents,
    SqlCursors,
    SqlReads,
    SqlBrowserSessions,
    SqlMarks,
    SqlUpkeep,
    SqlLeases,
    SqlPacks,
    SqlAlerts,
    SqlLinks,
    SqlShares,
    SqlFeeds,
    SqlTrustRules,
    SqlRoles,
    SqlNamespaces,
):
    """All parts over one connection."""

    def __init__(
        self,
        connection: Connection,
        namespace: str,
        dialect: Dialect,
        schemas: KeptSchema,
        *,
        is_writing: bool,
    ) -> None:
        super().__init__(connection, namespace, dialect, schemas)
        self._is_writing = is_writing
        self._new_traces = []
        self._new_changes = []
        self._new_events = []

    def flush(self) -> None:
        """Write what waits for the end. Counters are raised in one order, so that two transactions cannot wait for each
        other."""
        waiting = {
            "traces": self._traces_at_most(),
            "changes": len(self._new_changes),
            "events": len(self._new_events),
            "marks": 1 if self._new_marks else 0,
        }
        numbers = self._count_all({name: n for name, n in waiting.items() if n})
        self._store_traces(numbers.get("traces", 0))
        self._store_changes(numbers.get("changes", 0))
        self._store_events(numbers.get("events", 0))
        self._store_marks(numbers.get("marks", 0))


class SqlStore:
    """SQLite or PostgreSQL. Transactions on SQLite are serial; on PostgreSQL those that meet are decided by guards."""

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
        with _faults_told(), self._engines.writer.begin() as connection:
            tx = self._transaction(connection, namespace, is_writing=True)
            yield tx
            tx.flush()

    @contextmanager
    def read(self, namespace: str = "default") -> Iterator[Tx]:
        with _faults_told(), self._engines.reader.begin() as connection:
            yield self._transaction(connection, namespace, is_writing=False)

    def _transaction(self, connection: Connection, namespace: str, *, is_writing: bool) -> SqlTx:
        return SqlTx(connection, namespace, self._dialect, self._kept_schema, is_writing=is_writing)

    def close(self) -> None:
        for engine in self._engines:
            engine.dispose()


@contextmanager
def _faults_told() -> Iterator[None]:
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
    if error.connection_invalidated:  # whatever the server called it, such as a transaction that was idle for too long
        return True
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    if (getattr(error.orig, "sqlstate", None) or "").startswith("54"):  # a value beyond PostgreSQL's limits
        return False
    return getattr(error.orig, "sqlite_errorname", "") != "SQLITE_ERROR"


def open_sql(url: str, clock: Callable[[], float]) -> SqlStore:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return SqlStore(sqlite_engines(parsed), Sqlite(clock))
    return SqlStore(postgres_engines(parsed), Postgres())
