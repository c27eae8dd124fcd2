"""What holds for tables of PostgreSQL alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataplane.connectors.jdbc.jdbc_listing import partitions
from dataplane.connectors.jdbc.postgresql import POSTGRESQL
from tests.jdbc.databases import PostgresDatabase
from tests.jdbc.test_slices import ROWS as LISTED
from tests.jdbc.test_slices import listing_fault, versions
from tests.jdbc.world import ROWS, World


@pytest.fixture
def table(postgres: PostgresDatabase) -> PostgresDatabase:
    postgres.do('CREATE TABLE t (month int, "Name" text, price numeric(10,2))', LISTED)
    return postgres


@pytest.fixture
def world(postgres: PostgresDatabase, tmp_path: Path) -> World:
    return World(postgres, tmp_path)


def test_the_same_rows_elsewhere_are_the_same(table: PostgresDatabase) -> None:
    before = versions(table.reading())
    table.do("UPDATE t SET price = 1.5 WHERE price = 1.5", "VACUUM FULL t")
    assert versions(table.reading()) == before


def test_versions_are_those_of_earlier_releases(table: PostgresDatabase) -> None:
    """Else all slices would be read again after an upgrade."""
    listed = versions(table.reading(by="partitioned", column="month"))
    assert {key: version[5:17] for key, version in listed.items()} == {
        "month": "cd0947626566",
        "month=1": "80204670860c",
        "month=2": "5921ab4ed8f6",
    }


def test_the_server_makes_a_text_of_each_row_once(table: PostgresDatabase) -> None:
    table.do(
        "CREATE FUNCTION twice(n numeric) RETURNS numeric LANGUAGE plpgsql STABLE"
        " AS 'BEGIN RETURN 2 * n; END'",
        f"ALTER DATABASE {table.name} SET track_functions = 'all'",
    )
    [full] = partitions(table.reading(None, query="SELECT twice(price) FROM t"))
    assert full["objects"][0]["size"] > 0
    assert table.calls() == [4], "one for each row"


def test_bounds_of_days_ascend_as_days_do(table: PostgresDatabase) -> None:
    query = "SELECT date '2013-01-01' + month AS c FROM t"
    bounds = ["2013-09-01", "2013-10-01", "2013-9-02"]
    job = table.reading(None, query=query, by="partitioned", column="c", bounds=bounds)
    assert listing_fault(job).condition == "bounds-not-ascending"


@pytest.mark.parametrize(
    ("url", "table_name", "condition"),
    [
        (
            "jdbc:postgresql://127.0.0.1:{port}/{name}?user=test&sslmode=require",
            "t",
            "tls-failed",
        ),
        ("jdbc:postgresql://127.0.0.1:{port}/{name}?user=test", "gone.t", "table-missing"),
        ("http://127.0.0.1", "t", "bad-url"),
        ("secret://nothing/here", "t", "secret-missing"),
    ],
)
def test_a_listing_that_fails_names_the_cause(
    table: PostgresDatabase, url: str, table_name: str, condition: str
) -> None:
    job = table.reading(table_name)
    job["settings"]["url"] = url.format(port=table.port, name=table.name)
    assert listing_fault(job).condition == condition


@pytest.mark.parametrize("conforming", ["on", "off"])
def test_a_text_is_the_same_whatever_the_server_makes_of_backslashes(
    postgres: PostgresDatabase, conforming: str
) -> None:
    """Spark's connections have the server's setting."""
    text = "it's \\' OR 1 = 1 -- \\\\"
    setting = f"SET standard_conforming_strings = {conforming}"
    assert postgres.do(setting, f"SELECT {POSTGRESQL.literal(text)}") == [(text,)]


def test_rows_are_found_by_the_columns_of_the_key(world: World) -> None:
    job = world.job(keyed=("Month",))
    world.write(job, "month=1", ROWS)
    world.write(job, "month", [{"month": None, "name": "none"}])
    world.write(job, "month=1", ROWS[:1], 2)
    assert world.rows() == [(1, "a"), (None, "none")]
    world.write(job, "month", None, 2)
    assert world.rows("*") == [(1, "a")], "no column is added"


def test_a_schema_may_have_any_name(world: World) -> None:
    world.database.do("""CREATE SCHEMA "It's. %s" """)
    job = world.job(table='"It\'s. %s"."A""b"')
    world.write(job, "a", ROWS)
    message = world.failure(job | {"owner": "f.o 2"}, "a", ROWS).message
    world.database.do(message.partition("To give it up: ")[2], """TRUNCATE "It's. %s"."A""b" """)
    world.write(job | {"owner": "f.o 2"}, "a", ROWS)


def test_a_value_that_no_column_holds_is_an_error_of_the_user(world: World) -> None:
    assert world.failure(world.job(), "a", [{"month": 1, "name": "\0"}]).kind == "user"
    assert world.rows() == []
