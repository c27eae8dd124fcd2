"""Where SQLite and PostgreSQL differ: clock, look-up by many keys, the lock on a namespace's queue, engines.

Does not belong here: anything about a particular table.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from sqlalchemy import (
    ARRAY,
    URL,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Engine,
    any_,
    create_engine,
    event,
    func,
    select,
    text,
    tuple_,
)
from sqlalchemy import bindparam as bind
from sqlalchemy.dialects import sqlite

BUSY_S = 30
LIMITS = {"tcp_keepalives_idle": "30", "tcp_keepalives_interval": "10", "tcp_keepalives_count": "3"}  # of PostgreSQL
IDLE = "idle_in_transaction_session_timeout"
READER_LIMITS = LIMITS | {IDLE: "600s"}  # may look at thousands of files between two pages, and locks nothing
WRITER_LIMITS = LIMITS | {IDLE: "20s"}  # whoever leads next waits for the rows that a paused one has locked
FEW, DIGEST_BYTES = 100, 32
_CUT_OUT = text(
    "(WITH RECURSIVE place(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM place WHERE i + 1 < :n)"
    f" SELECT substr(:joined, i * {DIGEST_BYTES} + 1, {DIGEST_BYTES}) FROM place)"
)
_PAIRED = text(
    f"SELECT substr(:joined, pair.key * {DIGEST_BYTES} + 1, {DIGEST_BYTES}), pair.value FROM json_each(:keys) AS pair"
)
READERS, WRITERS = 8, 4


class Engines(NamedTuple):
    writer: Engine
    reader: Engine


class Dialect(Protocol):
    """What queries need to know about the database they speak to."""

    insert: Callable[..., Any]
    """INSERT with ON CONFLICT."""

    def greatest(self, one: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[Any]: ...

    def now(self, connection: Connection) -> float: ...

    def among(self, column: Column[Any], values: Sequence[Any]) -> ColumnElement[bool]:
        """The column's value is one of these (some 10,000 at most), in one statement."""

    def among_pairs(
        self, digest: Column[Any], key: Column[Any], pairs: Sequence[tuple[bytes, str]]
    ) -> ColumnElement[bool]:
        """The two columns together are one of these pairs (some 10,000 at most), looked up one by one."""

    def insert_rows(self, connection: Connection, statement: Any, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run an INSERT for all rows, in their order."""

    def lock_queue(self, connection: Connection, namespace: str) -> None:
        """Until the transaction ends, nobody else changes this namespace's demands, or its tasks but by claims."""

    def lock_nodes(self, connection: Connection, namespace: str, *, alone: bool) -> None:
        """Until the transaction ends, nobody else holds this alone; if `alone`, nobody else holds it at all."""


class Sqlite:
    """Writers are serial (BEGIN IMMEDIATE), so locks have nothing to do."""

    insert: Callable[..., Any] = staticmethod(sqlite.insert)

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def greatest(self, one: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.max(one, other)

    def now(self, _connection: Connection) -> float:
        return self._clock()

    def among(self, column: Column[Any], values: Sequence[Any]) -> ColumnElement[bool]:
        """Many digests are cut out of one value: it takes long to give thousands one by one."""
        if len(values) < FEW or not all(isinstance(v, bytes) and len(v) == DIGEST_BYTES for v in values):
            return column.in_(values)
        return column.op("IN", is_comparison=True, return_type=Boolean())(
            _CUT_OUT.bindparams(bind("n", len(values), unique=True), bind("joined", b"".join(values), unique=True))
        )

    def among_pairs(
        self, digest: Column[Any], key: Column[Any], pairs: Sequence[tuple[bytes, str]]
    ) -> ColumnElement[bool]:
        joined, keys = b"".join(digest for digest, _ in pairs), json.dumps([key for _, key in pairs])
        return tuple_(digest, key).in_(
            _PAIRED.bindparams(bind("joined", joined, unique=True), bind("keys", keys, unique=True))
        )

    def insert_rows(self, connection: Connection, statement: Any, rows: Sequence[Mapping[str, Any]]) -> None:
        """Plain values need no look at each by SQLAlchemy, which for thousands of rows takes longer than SQLite."""
        if len(rows) < FEW:
            connection.execute(statement, rows)
            return
        compiled = statement.compile(dialect=connection.dialect, column_keys=list(rows[0]))
        in_order, fixed = itemgetter(*compiled.positiontup), compiled.params
        connection.exec_driver_sql(str(compiled), [in_order({**fixed, **row}) for row in rows])

    def lock_queue(self, _connection: Connection, _namespace: str) -> None:
        """Held already: there is one writer."""

    def lock_nodes(self, _connection: Connection, _namespace: str, *, alone: bool) -> None:
        """Held already: there is one writer."""


class Postgres:
    """Read committed: every change is guarded by its WHERE, or by the lock on the namespace's queue."""

    def __init__(self) -> None:
        from sqlalchemy.dialects import postgresql  # only here: a start on SQLite does not pay for it

        self.insert: Callable[..., Any] = postgresql.insert

    def greatest(self, one: ColumnElement[Any], other: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.greatest(one, other)

    def now(self, connection: Connection) -> float:
        return float(connection.execute(select(func.extract("epoch", func.clock_timestamp()))).scalar_one())

    def among(self, column: Column[Any], values: Sequence[Any]) -> ColumnElement[bool]:
        """One array: a join with its elements could be planned as a loop over the table for each, before ANALYZE."""
        return column == any_(bind(None, list(values), type_=ARRAY(column.type), unique=True))

    def among_pairs(
        self, digest: Column[Any], key: Column[Any], pairs: Sequence[tuple[bytes, str]]
    ) -> ColumnElement[bool]:
        columns = zip((digest, key), zip(*pairs, strict=True), strict=True)
        arrays = (bind(None, list(values), type_=ARRAY(column.type), unique=True) for column, values in columns)
        return tuple_(digest, key).in_(select(*map(func.unnest, arrays)))

    def insert_rows(self, connection: Connection, statement: Any, rows: Sequence[Mapping[str, Any]]) -> None:
        """One array for each column: many times faster than a statement for each row."""
        names = list(rows[0])
        columns = ((statement.table.c[name], [row[name] for row in rows]) for name in names)
        arrays = (bind(None, values, type_=ARRAY(column.type), unique=True) for column, values in columns)
        connection.execute(statement.from_select(names, select(*map(func.unnest, arrays))))

    def lock_queue(self, connection: Connection, namespace: str) -> None:
        connection.execute(select(func.pg_advisory_xact_lock(_lock("queue", namespace))))

    def lock_nodes(self, connection: Connection, namespace: str, *, alone: bool) -> None:
        lock = func.pg_advisory_xact_lock if alone else func.pg_advisory_xact_lock_shared
        connection.execute(select(lock(_lock("nodes", namespace))))


def _lock(what: str, namespace: str) -> int:
    """The number of an advisory lock."""
    name = f"headgate/{what}\n{namespace}".encode()
    return int.from_bytes(sha256(name).digest()[:8], "big", signed=True)


def sqlite_engines(url: URL) -> Engines:
    """One connection that writes, and others that can only read: a reader never waits, a writer waits for its turn."""
    _make_private(url.database)
    writer = create_engine(url, pool_size=1, max_overflow=0, pool_timeout=BUSY_S, connect_args={"timeout": BUSY_S})
    reader = create_engine(url, pool_size=READERS, max_overflow=3 * READERS, connect_args={"timeout": BUSY_S})
    event.listen(writer, "connect", _open_writer)
    event.listen(reader, "connect", _open_reader)
    event.listen(writer, "begin", _begin("BEGIN IMMEDIATE"))
    event.listen(reader, "begin", _begin("BEGIN"))
    return Engines(writer, reader)


def _make_private(path: str | None) -> None:
    """A database that only its owner can read, from its first byte; the files beside it take its mode. One that is
    there is not opened: closing it would end the locks that this process has on it."""
    with suppress(OSError):  # that SQLite will tell of
        if path and not path.startswith((":", "file:")):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _open_writer(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where we say so
    for pragma in ("journal_mode=wal", "synchronous=normal", "temp_store=memory", "cache_size=-16000"):
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
    """What the server is to do when this process is paused, or its machine is gone: let go of what it locks. Unless
    somebody chose other limits."""

    def opened(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            for name, value in limits.items():
                cursor.execute(f"SELECT set_config('{name}', '{value}', false) WHERE current_setting('{name}') = '0'")
        connection.commit()

    return opened


def postgres_engines(url: URL) -> Engines:
    """Two pools that survive a restart of the server; readers see one snapshot and cannot write."""
    reader = _postgres_engine(url, READERS, 2 * READERS, READER_LIMITS)
    writer = _postgres_engine(url, WRITERS, 3 * WRITERS, WRITER_LIMITS)
    return Engines(writer, reader.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True))


def _postgres_engine(url: URL, kept: int, further: int, limits: Mapping[str, str]) -> Engine:
    engine = create_engine(
        url,
        pool_size=kept,
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
