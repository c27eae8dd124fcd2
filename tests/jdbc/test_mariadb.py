"""What holds for tables of MariaDB alone."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from dataplane.connectors.jdbc.jdbc_connection import address, connected, in_words
from dataplane.connectors.jdbc.mysql import MARIADB
from tests.jdbc.databases import MariaDatabase
from tests.jdbc.test_slices import listing_fault, versions
from tests.jdbc.world import RETYPED, ROWS, World, struct


@pytest.fixture
def world(maria: MariaDatabase, tmp_path: Path) -> World:
    return World(maria, tmp_path)


def test_bytes_are_part_of_the_version(maria: MariaDatabase) -> None:
    maria.do("CREATE TABLE t (raw blob)", "INSERT INTO t VALUES ('')")
    before = versions(maria.reading())
    maria.do("UPDATE t SET raw = X'00'")
    assert versions(maria.reading()) != before


def test_bounds_above_the_exact_doubles_ascend_as_numbers_do(maria: MariaDatabase) -> None:
    maria.do("CREATE TABLE t (c bigint unsigned)", "INSERT INTO t VALUES (9007199254740992)")
    bounds = ["9007199254740993", "9007199254740992"]
    job = maria.reading(by="partitioned", column="c", bounds=bounds)
    assert listing_fault(job).condition == "bounds-not-ascending"


@pytest.mark.parametrize(
    ("url", "condition"),
    [
        ("jdbc:mysql://127.0.0.1:{port}/{name}?user=test&sslMode=required", "tls-failed"),
        ("jdbc:mysql://127.0.0.1:{port}/{name}?user=test&useSSL=true", "bad-url"),
        ("jdbc:mariadb:replication://127.0.0.1:{port}/{name}?user=test", "bad-url"),
        (
            "jdbc:mysql://127.0.0.1:{port}/{name}?sslMode=verify-ca&serverSslCert=/gone",
            "tls-failed",
        ),
        ("jdbc:mariadb://127.0.0.1:{port}/{name}?user=test&socketFactory=x", "bad-url"),
    ],
)
def test_a_listing_that_fails_names_the_cause(
    maria: MariaDatabase, url: str, condition: str
) -> None:
    job = maria.reading()
    job["settings"]["url"] = url.format(port=maria.port, name=maria.name)
    assert listing_fault(job).condition == condition


def test_rows_that_are_not_read_are_not_fetched(maria: MariaDatabase) -> None:
    """The connection ends: its client would read a billion rows first."""
    with connected(address(maria.reading())) as session:
        rows = session.stream("SELECT seq FROM seq_1_to_1000000000")
        assert next(rows) == ("1",)
        assert isinstance(rows, Generator)
        rows.close()


def test_a_fault_of_files_is_none_of_the_database() -> None:
    with pytest.raises(FileNotFoundError), in_words(MARIADB):
        raise FileNotFoundError


def test_a_type_that_is_not_read_is_refused(maria: MariaDatabase) -> None:
    maria.do("CREATE TABLE t (g point)")
    assert listing_fault(maria.reading()).condition == "not-supported"


def test_a_long_text_of_a_key_is_refused(world: World) -> None:
    long = [{"month": 1, "name": "z" * 1000}]
    job = world.job(mode="upsert", key=["name"])
    assert world.condition(job, "c", long) == "database-error"


def test_a_value_that_no_column_holds_is_an_error_of_the_user(world: World) -> None:
    failure = world.failure(world.job(struct(d="double")), "p", [{"d": float("inf")}])
    assert failure.kind == "user"
    assert world.database.do("SELECT * FROM copy") == []


def test_no_other_writer_takes_a_table_that_is_being_remade(world: World) -> None:
    """The server commits at each change of a table."""
    world.write(world.job(), "a", ROWS)
    job = world.job(RETYPED, schema_change="recreate")
    world.dies("jdbc-dropped", job, "a", [{"month": "x", "name": "y"}], 2)
    assert world.condition(world.job(), "a", ROWS, 2) == "target-schema-changed"


@pytest.mark.parametrize(
    "wrong", ["ENGINE=MyISAM COLLATE utf8mb4_nopad_bin", "COLLATE utf8mb4_general_ci"]
)
def test_an_empty_table_that_could_lose_rows_is_not_taken(world: World, wrong: str) -> None:
    world.database.do(
        f"CREATE TABLE copy (month int, name longtext, _partition longtext NOT NULL) {wrong}"
    )
    assert world.condition(world.job(), "a", ROWS) == "target-schema-changed"
