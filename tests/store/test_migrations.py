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

from controlplane.core.errors import StaleState
from controlplane.core.model.leases import LOOP
from controlplane.ports.store import Store
from controlplane.reconciler.leader import FencedStore
from controlplane.store import HEAD, open_store, upgrade, version
from controlplane.store.migrate import MIGRATIONS, UnknownVersion
from controlplane.store.sql.snapshots import SqlSnapshots
from controlplane.store.sql.tables import metadata
from tests.store.examples import event, state

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
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []
    engine.dispose()


def test_the_same_statements_build_it_on_sqlite(tmp_path: Path) -> None:
    """Also what reflection does not see: tables that are clustered by their key."""
    migrated, created = (create_engine(f"sqlite:///{tmp_path / name}") for name in ("migrated", "created"))
    upgrade(str(migrated.url))
    metadata.create_all(created)

    def statements(engine: Engine) -> dict[str, str]:
        with engine.connect() as connection:
            rows = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE sql NOTNULL")).fetchall()
        engine.dispose()
        return {name: " ".join(sql.split()) for name, sql in rows if name != "alembic_version"}

    assert statements(migrated) == statements(created)


def test_head_is_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_every_key_starts_with_the_namespace() -> None:
    assert {next(iter(table.primary_key)).name for table in metadata.tables.values()} == {"namespace"}
    indexes = [index for table in metadata.tables.values() for index in table.indexes]
    assert {index.columns[0].name for index in indexes} == {"namespace"}


def test_digests_are_32_bytes() -> None:
    lengths = {str(c): c.type.length for t in metadata.tables.values() for c in t.c if isinstance(c.type, LargeBinary)}
    assert {column for column, length in lengths.items() if length != 32} == {"nodes.body", "profiles.body"}


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


def test_a_database_of_the_first_release_is_upgraded(url: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    engine = create_engine(url)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    run(engine, "INSERT INTO pauses (namespace, branch, target) VALUES ('default', 'main', 'flights')")
    upgrade(url)
    store = open_store(url)
    with store.begin() as tx:
        assert tx.blueprints.paused("main") == {"flights"}
        assert tx.blueprints.forces("main") == {}
        number = tx.blueprints.force("main", ["flights.daily"])
        assert tx.blueprints.forces("main") == {"flights.daily": number}
    store.close()


def test_what_was_told_before_there_were_branches_is_mains_or_nobodys(url: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    engine = create_engine(url)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0006")
    put_event = (
        "INSERT INTO events (namespace, id, kind, dataset, n, body, at) VALUES ('default', {}, '{}', '', 1, '{{}}', 1)"
    )
    for number, kind in enumerate(("task.executed", "driver.ended", "listing.done"), 1):
        run(engine, put_event.format(number, kind))
    put_change = (
        "INSERT INTO changes (namespace, id, actor, request_id, action, target, before, after, at) "
        "VALUES ('default', {}, 'ann', 'r', '{}', 'x', '1', '2', 1)"
    )
    for number, action in enumerate(("apply", "token.create", "gc.packs"), 1):
        run(engine, put_change.format(number, action))
    upgrade(url)
    run(engine, put_event.format(4, "told by the version before"))
    store = open_store(url)
    with store.read() as tx:
        assert [(e.id, e.branch) for e in tx.events.newer("main", 0)] == [(1, "main"), (2, ""), (3, ""), (4, "main")]
        assert [(c.action, c.branch) for c in tx.audit.changes("main")] == [
            ("gc.packs", ""),
            ("token.create", ""),
            ("apply", "main"),
        ]
        assert [e.id for e in tx.events.newer("dev", 0)] == [2, 3]
    store.close()


def test_migrations_only_add(url: str) -> None:
    """So that a process of the version before goes on with the new schema: what it reads and writes is as it was, and
    what it does not know of may be left out of its rows."""
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
            assert all(after[table][name][1] for name in new), f"{revision}: old rows lack {new} of {table}"
        before = after
    engine.dispose()


def _columns(engine: Engine) -> dict[str, dict[str, Any]]:
    """Table -> column -> its type, and whether it may be left out."""
    found = inspect(engine)
    return {
        table: {c["name"]: (str(c["type"]), bool(c["nullable"] or c["default"])) for c in found.get_columns(table)}
        for table in found.get_table_names()
    }


def test_an_open_store_goes_on_while_another_process_upgrades(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a rolling upgrade. What of this version has no table yet is the lease: a leader of it comes after that. Nor
    does a process of an earlier version look for pinned branches."""
    monkeypatch.setattr(SqlSnapshots, "_write_moves", lambda *_: None)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    engine = create_engine(url)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0002")
    old, number = open_store(url), 1
    with old.begin() as tx:
        tx.states.commit(state(number), 0)
    monkeypatch.undo()
    upgrade(url)
    new = open_store(url)
    with new.begin() as tx:
        epoch = tx.leases.take(LOOP, "new", 3600.0).epoch
    for store in (old, FencedStore(new, epoch), old):
        with store.begin() as tx:
            tx.states.commit(state(number + 1), number)
        number += 1
    with pytest.raises(StaleState):
        _commit(FencedStore(new, epoch), 2)
    with new.read() as tx:
        assert [s.seq for s in tx.states.history("main", state(1).dataset, 10)] == [4, 3, 2, 1]
    for store in (old, new):
        store.close()
    engine.dispose()


def _commit(store: Store, number: int) -> None:
    with store.begin() as tx:
        tx.states.commit(state(number), number - 1)


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


def test_a_database_of_a_newer_release_is_refused(url: str) -> None:
    upgrade(url)
    run(create_engine(url), "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(UnknownVersion):
        upgrade(url)
    assert version(url) == "9999"


def test_branches_and_pauses_of_0013_are_kept(url: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    engine = create_engine(url)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0013")
    put_branch = (
        "INSERT INTO branches (namespace, name, source, at, actor, protected) VALUES ('default', 'dev', '', 1, "
    )
    run(engine, put_branch + "'ann', true)")
    run(engine, "INSERT INTO pauses (namespace, branch, target) VALUES ('default', 'main', 'flights')")
    upgrade(url)
    store = open_store(url)
    with store.read() as tx:
        kept = tx.branches.all()["dev"]
        assert (kept.actor, kept.protected, kept.publish) == ("ann", True, False)
        assert tx.blueprints.paused("main") == {"flights"}
        assert list(tx.links.all()) == []
    store.close()
