"""From an empty database to the tables that the code expects; starts that have nothing to do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, LargeBinary, create_engine, inspect, text
from sqlalchemy.exc import DBAPIError

from controlplane.store import HEAD, open_store, upgrade, version
from controlplane.store.migrate import FIRST, MIGRATIONS, UnknownVersion
from controlplane.store.sql.tables import metadata
from tests.store.examples import event

START = """
import sys
from controlplane.store import open_store, upgrade
upgrade(sys.argv[1])
open_store(sys.argv[1]).close()
print(*sorted({"alembic", "psycopg"} & set(sys.modules)))
"""


@pytest.fixture
def url(empty_database: Callable[[], str]) -> str:
    return empty_database()


def start(url: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", START, url], stdout=subprocess.PIPE, text=True)


def run(engine: Engine, command: str) -> None:
    with engine.begin() as connection:
        connection.execute(text(command))
    engine.dispose()


def test_empty_to_head_equals_the_metadata(url: str) -> None:
    upgrade(url)
    engine = create_engine(url)
    with engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        assert (
            compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []
        )
    engine.dispose()


def test_the_same_statements_build_it_on_sqlite(tmp_path: Path) -> None:
    """Also what reflection does not see: tables that are clustered by their key."""
    migrated, created = (
        create_engine(f"sqlite:///{tmp_path / name}") for name in ("migrated", "created")
    )
    upgrade(str(migrated.url))
    metadata.create_all(created)

    def statements(engine: Engine) -> dict[str, str]:
        with engine.connect() as connection:
            rows = connection.execute(
                text("SELECT name, sql FROM sqlite_master WHERE sql NOTNULL")
            ).fetchall()
        engine.dispose()
        return {name: " ".join(sql.split()) for name, sql in rows if name != "alembic_version"}

    assert statements(migrated) == statements(created)


def test_migrations_lead_from_the_first_release_to_head() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    scripts = ScriptDirectory.from_config(config)
    assert (scripts.get_bases(), scripts.get_heads()) == ([FIRST], [HEAD])


def test_every_key_starts_with_the_namespace() -> None:
    assert {next(iter(table.primary_key)).name for table in metadata.tables.values()} == {
        "namespace"
    }
    indexes = [index for table in metadata.tables.values() for index in table.indexes]
    assert {index.columns[0].name for index in indexes} == {"namespace"}


def test_digests_are_32_bytes() -> None:
    lengths = {
        str(c): c.type.length
        for t in metadata.tables.values()
        for c in t.c
        if isinstance(c.type, LargeBinary)
    }
    assert {column for column, length in lengths.items() if length != 32} == {
        "nodes.body",
        "profiles.body",
    }


def test_an_upgrade_can_be_repeated(url: str) -> None:
    assert version(url) is None
    upgrade(url)
    assert version(url) == HEAD
    store = open_store(url)
    with store.begin() as tx:
        tx.events.put([event("kept")])
    upgrade(url)
    with store.read() as tx:
        assert tx.events.count("main", 0) == {"kept": 1}
    store.close()


def test_migrations_only_add(url: str) -> None:
    """So that a process of the version before goes on with the new schema: what it reads and writes
    is as it was, and what it does not know of may be left out of its rows."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    versions = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    engine = create_engine(url)
    before: dict[str, dict[str, Any]] = {}
    for revision in reversed(versions):
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
        after = _columns(engine)
        for table, columns in before.items():
            assert columns.items() <= after[table].items(), f"{revision} changes {table}"
            new = after[table].keys() - columns.keys()
            assert all(after[table][name][1] for name in new), (
                f"{revision}: old rows lack {new} of {table}"
            )
        before = after
    engine.dispose()


def _columns(engine: Engine) -> dict[str, dict[str, Any]]:
    """Table -> column -> its type, and whether it may be left out."""
    found = inspect(engine)
    return {
        table: {
            c["name"]: (str(c["type"]), bool(c["nullable"] or c["default"]))
            for c in found.get_columns(table)
        }
        for table in found.get_table_names()
    }


def test_a_start_with_nothing_to_do_imports_no_alembic(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'db'}"
    upgrade(url)
    assert start(url).communicate()[0].split() == []


def test_two_processes_upgrade_at_once(url: str) -> None:
    both = [start(url), start(url)]
    for process in both:
        process.communicate()
    assert [process.returncode for process in both] == [0, 0]
    assert version(url) == HEAD


def test_a_failed_upgrade_leaves_nothing(url: str) -> None:
    engine = create_engine(url)
    run(engine, "CREATE TABLE tokens (x INTEGER)")
    with pytest.raises(DBAPIError):
        upgrade(url)
    assert inspect(engine).get_table_names() == ["tokens"]
    assert version(url) is None
    run(engine, "DROP TABLE tokens")
    upgrade(url)
    assert version(url) == HEAD


@pytest.mark.parametrize("revision", ["0001", "0026"])
def test_a_database_of_before_the_first_release_is_refused(url: str, revision: str) -> None:
    upgrade(url)
    engine = create_engine(url)
    run(engine, f"UPDATE alembic_version SET version_num = '{revision}'")
    run(engine, "DROP TABLE roles")
    with pytest.raises(
        UnknownVersion,
        match=f"migration {revision}, which no release had.*Start with a new database",
    ):
        upgrade(url)
    assert version(url) == revision
    assert "roles" not in inspect(engine).get_table_names()
    engine.dispose()


def test_a_database_of_a_newer_release_is_refused(url: str) -> None:
    upgrade(url)
    run(create_engine(url), "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(UnknownVersion):
        upgrade(url)
    assert version(url) == "9999"
