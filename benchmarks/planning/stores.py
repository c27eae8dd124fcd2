"""Databases for the benchmark: made empty, copied from a seed in no time, and gone in the end.

A seed must have been closed by all who opened it before it is copied. Does not belong here: what is
in them.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias

import psycopg
from psycopg import sql

from benchmarks.planning import ours
from tests.servers.postgres import Postgres

Name: TypeAlias = Literal["sqlite", "postgresql"]
DURABLE = ("shared_buffers=512MB", "max_connections=60", "max_wal_size=8GB")


class Databases(Protocol):
    """A context manager: all databases end with it."""

    name: Name

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def create(self, name: str) -> str:
        """An empty database at the newest schema; its URL."""

    def seal(self, name: str) -> None:
        """The database is to be copied from now on."""

    def copy(self, name: str, copy: str) -> str:
        """The URL of a copy."""

    def drop(self, name: str) -> None: ...


class Sqlite:
    """Files in a scratch folder."""

    name: Name = "sqlite"

    def __init__(self, scratch: Path | None = None) -> None:
        self._folder = Path(mkdtemp(prefix="headgate-planner-", dir=scratch))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.db"

    def _url(self, name: str) -> str:
        return f"sqlite:///{self._file(name)}"

    def create(self, name: str) -> str:
        ours.create(self._url(name))
        return self._url(name)

    def seal(self, name: str) -> None:
        """SQLite has put its log into the file when the last connection was closed."""
        if self._file(name).with_name(f"{name}.db-wal").exists():
            raise RuntimeError(f"{name} is still open")

    def copy(self, name: str, copy: str) -> str:
        shutil.copyfile(self._file(name), self._file(copy))
        return self._url(copy)

    def drop(self, name: str) -> None:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._file(name)}{suffix}").unlink(missing_ok=True)

    def size_mb(self, name: str) -> float:
        return self._file(name).stat().st_size / 1e6


class Server:
    """A PostgreSQL of its own, as safe against crashes as one would run it."""

    name: Name = "postgresql"

    def __init__(self) -> None:
        self._server = Postgres(settings=DURABLE)

    def __enter__(self) -> Self:
        try:
            self._server.start()
        except BaseException:
            self._server.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._server.remove()

    def create(self, name: str) -> str:
        url = self._server.create(name)
        ours.create(url)
        return url

    def seal(self, name: str) -> None:
        """Once for all copies what a server that has run for a while has done in the background."""
        self._run(sql.SQL("VACUUM ANALYZE"), name)
        self._run(sql.SQL("CHECKPOINT"), name)

    def copy(self, name: str, copy: str) -> str:
        names = map(sql.Identifier, (copy, name))
        self._run(sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY").format(*names))
        return self._server.url(copy)

    def drop(self, name: str) -> None:
        self._run(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _run(self, command: sql.SQL | sql.Composed, database: str = "postgres") -> None:
        where = f"host=127.0.0.1 port={self._server.port} user=test dbname={database}"
        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute(command)


def open_databases(name: Name, scratch: Path | None = None) -> Databases:
    """`scratch`: the folder for files of SQLite."""
    return Sqlite(scratch) if name == "sqlite" else Server()
