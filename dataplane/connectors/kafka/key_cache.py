"""The rows of a topic by key, in a file beside the worker: only a cache, with a mark of the topic's
state that it has.

Rows are compared with it, so that only differences are sent; the file itself lists these.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TypeAlias, TypeVar

from dataplane.contract.schemas import Json
from dataplane.task_failures import TaskFailure

T = TypeVar("T")
Change: TypeAlias = tuple[bytes, bytes | None]  # a key, and what it is to have: None for nothing

_TABLES = """
CREATE TABLE IF NOT EXISTS held (key BLOB PRIMARY KEY, hash BLOB NOT NULL, fragment TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS fragments (id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS seen (mark TEXT NOT NULL);
CREATE TEMP TABLE outgoing (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID;
CREATE TEMP TABLE came (key BLOB PRIMARY KEY, hash BLOB NOT NULL, value BLOB NOT NULL) WITHOUT ROWID;
"""
_HOLD = "INSERT INTO held VALUES (?, ?, NULL) ON CONFLICT DO UPDATE SET hash = excluded.hash"
_TWICE = "SELECT came.key FROM came JOIN held USING (key) WHERE held.fragment IS NOT NULL LIMIT 1"
_DIFFERENT = """INSERT INTO outgoing SELECT came.key, came.value FROM came LEFT JOIN held USING (key)
WHERE held.hash IS NOT came.hash"""
_CLAIM = """INSERT INTO held SELECT key, hash, ? FROM came WHERE true
ON CONFLICT DO UPDATE SET hash = excluded.hash, fragment = excluded.fragment"""
ROWS = 16_384


@contextmanager
def opened(file: Path) -> Iterator[KeyCache]:
    """All changes are one transaction, kept by `keep`; a broken file is replaced."""
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        connection = _connected(file)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        file.unlink()
        connection = _connected(file)
    with closing(connection):
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield KeyCache(connection)
        finally:
            with suppress(sqlite3.Error):
                connection.rollback()


def _connected(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=10, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(_TABLES)
    return connection


@dataclass(frozen=True, slots=True)
class KeyCache:
    """The keys of a topic, each with a hash of its value and the fragment that has its row."""

    connection: sqlite3.Connection

    def mark(self) -> Json:
        """As of when it is; None if that is not known."""
        row = self.connection.execute("SELECT mark FROM seen").fetchone()
        return json.loads(row[0]) if row else None

    def keep(self, mark: Json) -> None:
        self.connection.execute("DELETE FROM seen")
        self.connection.execute("INSERT INTO seen VALUES (?)", (json.dumps(mark),))
        self.connection.execute("COMMIT")

    def replay(self, changes: Iterable[Change]) -> None:
        """Know what these messages leave behind, and nothing else."""
        for table in ("held", "fragments", "seen"):
            self.connection.execute(f"DELETE FROM {table}")
        for some in batched(changes, ROWS):
            last = dict(some)
            deleted = [(key,) for key, value in last.items() if value is None]
            hashed = [(key, hash_of(value)) for key, value in last.items() if value is not None]
            self.connection.executemany("DELETE FROM held WHERE key = ?", deleted)
            self.connection.executemany(_HOLD, hashed)

    def fragments(self) -> frozenset[str]:
        return frozenset(id for (id,) in self.connection.execute("SELECT id FROM fragments"))

    def drop(self, fragments: Iterable[str]) -> None:
        """Rows of these are there no more, unless other fragments bring them."""
        dropped = [(id,) for id in fragments]
        self.connection.executemany("DELETE FROM fragments WHERE id = ?", dropped)
        if dropped:
            remaining = "SELECT id FROM fragments"
            self.connection.execute(
                f"UPDATE held SET fragment = NULL WHERE fragment NOT IN ({remaining})"
            )

    def add(self, fragment: str, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """The rows of a fragment, by key. TaskFailure where a key has a row already."""
        for some in batched(rows, ROWS):
            if len(dict(some)) < len(some):
                raise _not_unique(
                    next(key for key, n in Counter(key for key, _ in some).items() if n > 1)
                )
            came = ((key, hash_of(value), value) for key, value in some)
            self.connection.executemany("INSERT INTO came VALUES (?, ?, ?)", came)
            if twice := self.connection.execute(_TWICE).fetchone():
                raise _not_unique(twice[0])
            self.connection.execute(_DIFFERENT)
            self.connection.execute(_CLAIM, (fragment,))
            self.connection.execute("DELETE FROM came")
        self.connection.execute("INSERT INTO fragments VALUES (?)", (fragment,))

    def settle(self) -> int:
        """Remove the rows that no fragment has. The number of all changes."""
        orphans = "FROM held WHERE fragment IS NULL"
        self.connection.execute(f"INSERT INTO outgoing SELECT key, NULL {orphans}")
        self.connection.execute(f"DELETE {orphans}")
        [(count,)] = self.connection.execute("SELECT count(*) FROM outgoing").fetchall()
        return int(count)

    def outgoing(self) -> Iterator[Change]:
        yield from self.connection.execute("SELECT key, value FROM outgoing ORDER BY key")


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some


def hash_of(value: bytes) -> bytes:
    return blake2b(value, digest_size=16).digest()


def _not_unique(key: bytes) -> TaskFailure:
    return TaskFailure(
        "key-not-unique",
        f"two rows have the key {key.decode()}: name columns that tell all rows apart",
    )
