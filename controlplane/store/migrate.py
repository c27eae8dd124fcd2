"""Bringing a database to the newest migration. Does not belong here: what the migrations do
(`migrations/versions`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, inspect, make_url, text

from controlplane.core.errors import HeadgateError
from controlplane.store.sql.dialects import postgres_engines, sqlite_engines

MIGRATIONS = Path(__file__).parent / "migrations"
FIRST = "0027"  # the migration that makes all tables of the first release


class UnknownVersion(HeadgateError):
    """The database was made by a newer Headgate, or by a commit long before the first release."""

    code = "unknown-database-version"


@contextmanager
def _writer(url: str) -> Iterator[Engine]:
    parsed = make_url(url)
    engines = (
        sqlite_engines(parsed)
        if parsed.get_backend_name() == "sqlite"
        else postgres_engines(parsed)
    )
    try:
        yield engines.writer
    finally:
        engines.writer.dispose()


def read_version(url: str) -> str | None:
    with _writer(url) as engine, engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def run_migrations(url: str) -> None:
    """All of them or none: in one transaction, one process at a time. UnknownVersion leaves the
    database as it is."""
    from alembic import command
    from alembic.config import Config
    from alembic.migration import MigrationContext
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    with _writer(url) as engine, engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(4862197340512)"))
        config.attributes["connection"] = connection
        _refuse_unreleased(MigrationContext.configure(connection).get_current_revision())
        try:
            command.upgrade(config, "head")
        except CommandError as e:
            raise UnknownVersion(
                f"a newer Headgate has used this database ({e}): start that one, or restore a backup of before"
            ) from e


def _refuse_unreleased(revision: str | None) -> None:
    """Numbers of migrations are ordered as texts."""
    if revision is not None and revision < FIRST:
        raise UnknownVersion(
            f"this database is of migration {revision}, which no release had: migrations begin with {FIRST}. "
            "Start with a new database: move the home folder away, or name another database"
        )
