"""Facts about source files, and whole locations, from an earlier listing: a cache that is never
trusted about fresh files.

A file system's clock is coarse: a file may change twice within one tick and look the same. So an
entry is kept only if the file had been at rest for a while when it was read.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from dataplane.contract.encoding import digest
from dataplane.contract.schemas import Json
from dataplane.listing.file_columns import is_wide, own_columns
from dataplane.task_failures import TaskFailure

REST_NS = 2_000_000_000
TRIES = 3
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class Stamp:
    """The stat fields that identify an unchanged file without reading it."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @staticmethod
    def of(status: os.stat_result) -> Stamp:
        return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


@dataclass(frozen=True, slots=True)
class Seen:
    """A file as it was read: its version is that of its bytes."""

    stamp: Stamp
    version: str
    columns: list[str] | None


@dataclass(frozen=True, slots=True)
class FileReading:
    """How files are read for their own columns."""

    format: str
    options: Mapping[str, Json]

    @property
    def id(self) -> str:
        # Of which marks were taken for text once
        tag = "own-columns/2" if is_wide(self.options) else "own-columns/1"
        return digest(
            tag, format=self.format, options=json.dumps(self.options, sort_keys=True)
        ).hex()


class Versions:
    """Files seen before, in a small SQLite database, or nowhere. One that fails is as good as an
    empty one."""

    def __init__(
        self, database: Path | None = None, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._database = database
        self._clock_ns = clock_ns

    @property
    def remembers(self) -> bool:
        return self._database is not None

    def unchanged(self, reading: FileReading, stamps: Mapping[str, Stamp]) -> dict[str, Seen]:
        """Those of the files that look as they did when they were read."""
        try:
            return {
                path: observed
                for path, observed in self._load(reading.id, list(stamps))
                if observed.stamp == stamps[path]
            }
        except (sqlite3.Error, OSError):
            return {}

    def now_ns(self) -> int:
        return self._clock_ns()

    def keep(self, reading: FileReading, observed: Iterable[tuple[str, Seen, int]]) -> None:
        """Remember files with the time at which reading them began, if they had been at rest by
        then."""
        rows = [
            (
                reading.id,
                path,
                s.stamp.size,
                s.stamp.mtime_ns,
                s.stamp.ctime_ns,
                s.stamp.inode,
                s.version,
                json.dumps(s.columns),
            )
            for path, s, began_ns in observed
            if max(s.stamp.mtime_ns, s.stamp.ctime_ns) + REST_NS <= began_ns
        ]
        self._write(_TABLE, _INSERT, rows)

    def _write(self, table: str, insert: str, rows: Sequence[tuple[str | int, ...]]) -> None:
        if not rows or self._database is None:
            return
        try:
            self._store(table, insert, rows)
        except sqlite3.DatabaseError as e:  # not a database, or broken: it is only a cache
            if getattr(e, "sqlite_errorname", "") == "SQLITE_BUSY":
                return  # others write there
            with suppress(OSError):
                self._database.unlink()

    def listing(self, way: str, fingerprint: str) -> Json:
        """The stored listing of a location whose fingerprint is unchanged; None if there is
        none."""
        if self._database is None or not self._database.exists():
            return None
        try:
            with closing(self._connect(self._database)) as connection:
                row = connection.execute(_SELECT_LISTING, (way, fingerprint)).fetchone()
        except (sqlite3.Error, OSError):
            return None
        return json.loads(row[0]) if row else None

    def keep_listing(self, way: str, fingerprint: str, listing: Json) -> None:
        """Replace the stored listing of a location, and its fingerprint."""
        self._write(_LISTINGS, _INSERT_LISTING, [(way, fingerprint, json.dumps(listing))])

    def _load(self, reading: str, paths: Sequence[str]) -> Iterator[tuple[str, Seen]]:
        if self._database is None or not self._database.exists():
            return
        with closing(self._connect(self._database)) as connection:
            for start in range(0, len(paths), _CHUNK):
                some = paths[start : start + _CHUNK]
                query = f"{_SELECT} ({', '.join('?' * len(some))})"
                for path, size, mtime_ns, ctime_ns, inode, version, columns in connection.execute(
                    query, (reading, *some)
                ):
                    yield (
                        path,
                        Seen(Stamp(size, mtime_ns, ctime_ns, inode), version, json.loads(columns)),
                    )

    def _store(self, table: str, insert: str, rows: Sequence[tuple[str | int, ...]]) -> None:
        assert self._database
        self._database.parent.mkdir(parents=True, exist_ok=True)
        with closing(self._connect(self._database)) as connection, connection:
            connection.execute(table)
            connection.executemany(insert, rows)

    @staticmethod
    def _connect(database: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(database, timeout=10)
        # Losing it in a power cut costs reading files again
        connection.execute("PRAGMA synchronous = OFF")
        return connection


def cache_file(home: str | None) -> Path | None:
    """The cache file for workers of this home."""
    return Path(home) / "cache" / "versions.db" if home else None


_TABLE = """
CREATE TABLE IF NOT EXISTS seen (
    reading TEXT NOT NULL, path TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL, inode INTEGER NOT NULL, version TEXT NOT NULL, columns TEXT NOT NULL,
    PRIMARY KEY (reading, path)
) WITHOUT ROWID
"""
_INSERT = "INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_SELECT = "SELECT path, size, mtime_ns, ctime_ns, inode, version, columns FROM seen WHERE reading = ? AND path IN"

_LISTINGS = "CREATE TABLE IF NOT EXISTS listings (way TEXT PRIMARY KEY, looks TEXT NOT NULL, found TEXT NOT NULL)"
_INSERT_LISTING = "INSERT OR REPLACE INTO listings VALUES (?, ?, ?)"
_SELECT_LISTING = "SELECT found FROM listings WHERE way = ? AND looks = ?"


def look(path: str) -> Stamp:
    """The stamp of a regular file; OSError or TaskFailure otherwise."""
    return _stamp(os.stat(path), path)


def _without_waiting(path: str, flags: int) -> int:
    """A FIFO that has taken a file's place meanwhile opens at once, though nothing writes to it."""
    return os.open(path, flags | os.O_NONBLOCK)


def _stamp(status: os.stat_result, path: str) -> Stamp:
    if not stat.S_ISREG(status.st_mode):
        raise TaskFailure("not-a-file", f"neither a file nor a folder: {path}")
    return Stamp.of(status)


def examine(path: str, reading: FileReading) -> Seen:
    """Read a whole file: version and columns are those of one and the same state of it."""
    for _ in range(TRIES):
        with open(path, "rb", opener=_without_waiting) as file:
            before = _stamp(os.fstat(file.fileno()), path)
            version = hashlib.file_digest(file, "sha256").hexdigest()
            file.seek(0)
            columns = own_columns(file, path, reading.format, reading.options)
        if look(path) == before:
            return Seen(before, f"sha256:{version}", columns)
    raise TaskFailure(
        "source-changing", f"keeps changing while it is read: {path}", "infrastructure"
    )
