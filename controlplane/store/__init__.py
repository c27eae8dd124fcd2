"""The metadata database: SQLite or PostgreSQL by URL. Tables, statements and migrations, nothing
else.

Does not belong here: decisions. A start on a database that is up to date imports no Alembic, and no
driver but its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from controlplane.core.errors import MissingPackage
from controlplane.ports.store import Store

HEAD = "0029"  # the newest migration


def open_store(url: str, clock: Callable[[], float] = time.time) -> Store:
    """`sqlite:///path` or `postgresql+psycopg://...`. The database must be at HEAD (`upgrade`).

    PostgreSQL goes by its own clock. MissingPackage where its client is not installed.
    """
    from controlplane.store.sql.store import open_sql

    with _with_its_packages():
        return open_sql(url, clock)


def version(url: str) -> str | None:
    """The migration that the database is at; None if it is empty. MissingPackage as
    `open_store`."""
    from controlplane.store.migrate import read_version

    with _with_its_packages():
        return read_version(url)


def upgrade(url: str) -> None:
    """Bring the database to HEAD, in one transaction. At HEAD already: one look, and nothing
    else."""
    if version(url) != HEAD:
        from controlplane.store.migrate import run_migrations

        run_migrations(url)


@contextmanager
def _with_its_packages() -> Iterator[None]:
    """SQLAlchemy asks for a database's client when an engine is made."""
    try:
        yield
    except ModuleNotFoundError as e:
        raise MissingPackage("a database in PostgreSQL", e.name, "postgresql") from e
