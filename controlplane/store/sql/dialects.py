"""Where SQLite and PostgreSQL differ: clock, many rows at once, the lock on a namespace's queue,
engines.

Does not belong here: anything about a particular table.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any, NamedTuple, Protocol

from sqlalchemy import URL, BigInteger, Connection, Engine, create_engine, event, func, select
from sqlalchemy import bindparam as bind
from sqlalchemy.dialects import sqlite

from controlplane.store.sql import statements

BUSY_S = 30
# Of PostgreSQL
LIMITS = {"tcp_keepalives_idle": "30", "tcp_keepalives_interval": "10", "tcp_keepalives_count": "3"}
IDLE = "idle_in_transaction_session_timeout"
# May look at thousands of files between two pages, and locks nothing
READER_LIMITS = LIMITS | {IDLE: "600s"}
# The next leader waits for the rows that a paused one has locked
WRITER_LIMITS = LIMITS | {IDLE: "20s"}
FEW = 100  # rows
_NUMBER = bind("number", type_=BigInteger)
_LOCK = select(func.pg_advisory_xact_lock(_NUMBER))
_LOCK_SHARED = select(func.pg_advisory_xact_lock_shared(_NUMBER))
_CLOCK = select(func.extract("epoch", func.clock_timestamp()))
# Once the lock is held
_LOCK_AND_CLOCK = _LOCK.add_columns(func.extract("epoch", func.clock_timestamp()))
READERS, WRITERS = 8, 4


class Engines(NamedTuple):
    writer: Engine
    reader: Engine


class Dialect(Protocol):
    """What queries need to know about the database they speak to."""

    insert: Callable[..., Any]
    """INSERT with ON CONFLICT."""

    def now(self, connection: Connection) -> float: ...

    def insert_rows(
        self, connection: Connection, statement: Any, rows: Sequence[Mapping[str, Any]]
    ) -> int:
        """Run an INSERT for all rows, in their order; how many it inserted or changed."""

    def lock_queue(self, connection: Connection, namespace: str) -> float | None:
        """Until the transaction ends, no other one changes this namespace's demands, or its tasks
        but by claims. Returns the time by the database's clock, where it comes along."""

    def lock_nodes(self, connection: Connection, namespace: str, *, alone: bool) -> None:
        """Until the transaction ends, no other one holds this alone; if `alone`, no other one holds
        it at all."""


class Sqlite:
    """Writers are serial (BEGIN IMMEDIATE), so locks have nothing to do."""

    insert: Callable[..., Any] = staticmethod(sqlite.insert)

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def now(self, _connection: Connection) -> float:
        return self._clock()

    def insert_rows(
        self, connection: Connection, statement: Any, rows: Sequence[Mapping[str, Any]]
    ) -> int:
        """Plain values need no look at each by SQLAlchemy, which for thousands of rows takes longer
        than SQLite."""
        if len(rows) < FEW:
            return connection.execute(statement, rows).rowcount
        text, in_order, fixed = statements.positional(statement, *rows[0])
        return connection.exec_driver_sql(
            text, [in_order({**fixed, **row}) for row in rows]
        ).rowcount

    def lock_queue(self, _connection: Connection, _namespace: str) -> None:
        """Held already: there is one writer."""

    def lock_nodes(self, _connection: Connection, _namespace: str, *, alone: bool) -> None:
        """Held already: there is one writer."""


class Postgres:
    """Read committed: every change is guarded by its WHERE, or by the lock on the namespace's
    queue."""

    def __init__(self) -> None:
        # Only here: a start on SQLite does not pay for it
        from sqlalchemy.dialects import postgresql

        self.insert: Callable[..., Any] = postgresql.insert

    def now(self, connection: Connection) -> float:
        return float(connection.execute(_CLOCK).scalar_one())

    def insert_rows(
        self, connection: Connection, statement: Any, rows: Sequence[Mapping[str, Any]]
    ) -> int:
        """One array for each column: many times faster than a statement for each row."""
        columns = {f"new_{name}": [row[name] for row in rows] for name in rows[0]}
        return connection.execute(statements.from_arrays(statement, *rows[0]), columns).rowcount

    def lock_queue(self, connection: Connection, namespace: str) -> float:
        _, now = connection.execute(_LOCK_AND_CLOCK, {"number": _lock("queue", namespace)}).one()
        return float(now)

    def lock_nodes(self, connection: Connection, namespace: str, *, alone: bool) -> None:
        connection.execute(_LOCK if alone else _LOCK_SHARED, {"number": _lock("nodes", namespace)})


def _lock(what: str, namespace: str) -> int:
    """The number of an advisory lock."""
    name = f"headgate/{what}\n{namespace}".encode()
    return int.from_bytes(sha256(name).digest()[:8], "big", signed=True)


def sqlite_engines(url: URL) -> Engines:
    """One connection that writes, and others that can only read: a reader never waits, a writer
    waits for its turn."""
    _make_private(url.database)
    writer = create_engine(
        url, pool_size=1, max_overflow=0, pool_timeout=BUSY_S, connect_args={"timeout": BUSY_S}
    )
    reader = create_engine(
        url, pool_size=READERS, max_overflow=3 * READERS, connect_args={"timeout": BUSY_S}
    )
    event.listen(writer, "connect", _open_writer)
    event.listen(reader, "connect", _open_reader)
    event.listen(writer, "begin", _begin("BEGIN IMMEDIATE"))
    event.listen(reader, "begin", _begin("BEGIN"))
    return Engines(writer, reader)


def _make_private(path: str | None) -> None:
    """A database that only its owner can read, from its first byte; the files beside it take its
    mode. One that is there is not opened: closing it would end the locks that this process has on
    it."""
    with suppress(OSError):  # SQLite will report the fault
        if path and not path.startswith((":", "file:")):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _open_writer(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where we say so
    for pragma in (
        "journal_mode=wal",
        "synchronous=normal",
        "temp_store=memory",
        "cache_size=-16000",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _open_reader(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA query_only=on")


def _begin(command: str) -> Callable[[Connection], None]:
    def begin(connection: Connection) -> None:
        raw: Any = connection.connection.dbapi_connection
        raw.execute(command)  # not through SQLAlchemy: it is no statement of ours

    return begin


def _limited(limits: Mapping[str, str]) -> Callable[[Any, object], None]:
    """Timeouts by which the server releases the locks of this process when it is paused, or its
    machine is gone. Limits that are already set stay."""

    def opened(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            for name, value in limits.items():
                cursor.execute(
                    f"SELECT set_config('{name}', '{value}', false) WHERE current_setting('{name}') = '0'"
                )
        connection.commit()

    return opened


def postgres_engines(url: URL) -> Engines:
    """Two pools that survive a restart of the server; readers see one snapshot and cannot write."""
    reader = _postgres_engine(url, READERS, 2 * READERS, READER_LIMITS)
    writer = _postgres_engine(url, WRITERS, 3 * WRITERS, WRITER_LIMITS)
    return Engines(
        writer,
        reader.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True),
    )


def _postgres_engine(url: URL, pool_size: int, further: int, limits: Mapping[str, str]) -> Engine:
    engine = create_engine(
        url,
        pool_size=pool_size,
        max_overflow=further,
        pool_timeout=BUSY_S,
        pool_pre_ping=True,
        isolation_level="READ COMMITTED",
        connect_args={
            "connect_timeout": 10,
            "application_name": "headgate",
            "prepare_threshold": None,  # plans know the arrays that they are for
        },
    )
    event.listen(engine, "connect", _limited(limits))
    return engine
