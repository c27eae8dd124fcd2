"""Which slices a table has, and that a version moves if and only if the rows or columns of its
slice do."""

from __future__ import annotations

import psycopg
import pytest

from dataplane.connectors.jdbc.check import check
from dataplane.connectors.jdbc.jdbc_listing import Slice, partitions
from dataplane.connectors.jdbc.postgresql import POSTGRESQL
from dataplane.contract.schemas import Json
from dataplane.task_failures import TaskFailure
from tests.jdbc.conftest import Database

ROWS = "INSERT INTO t VALUES (1, 'a', 1.5), (1, NULL, 2), (2, 'b', NULL), (NULL, 'c', 0)"


@pytest.fixture
def table(database: Database) -> Database:
    database.do('CREATE TABLE t (month int, "Name" text, price numeric(10,2))', ROWS)
    return database


def versions(job: Json) -> dict[str, str]:
    return {p["key"]: p["objects"][0]["version"] for p in partitions(job)}


def test_a_whole_table_is_one_partition_also_when_it_is_empty(table: Database) -> None:
    [found] = partitions(table.reading())
    assert (found["key"], found["objects"][0]["columns"]) == ("", ["month", "Name", "price"])
    before = found["objects"][0]["version"]
    assert versions(table.reading()) == {"": before}
    table.do("UPDATE t SET price = 1.5 WHERE price = 1.5", "VACUUM FULL t")
    assert versions(table.reading()) == {"": before}, "the same rows elsewhere are the same"
    table.do("DELETE FROM t")
    [empty] = partitions(table.reading())
    assert (empty["objects"][0]["version"] != before, empty["objects"][0]["size"]) == (True, 0)


def test_versions_are_those_of_earlier_releases(table: Database) -> None:
    """Else all slices would be read again after an upgrade."""
    found = versions(table.reading(by="partitioned", column="month"))
    assert {key: version[5:17] for key, version in found.items()} == {
        "month": "cd0947626566",
        "month=1": "80204670860c",
        "month=2": "5921ab4ed8f6",
    }


def test_the_server_makes_a_text_of_each_row_once(table: Database) -> None:
    table.do(
        "CREATE FUNCTION twice(n numeric) RETURNS numeric LANGUAGE plpgsql STABLE AS 'BEGIN RETURN 2 * n; END'",
        f"ALTER DATABASE {table.name} SET track_functions = 'all'",
    )
    [found] = partitions(table.reading(None, query="SELECT twice(price) FROM t"))
    assert found["objects"][0]["size"] > 0
    assert table.calls() == [4], "one for each row"


@pytest.mark.parametrize(
    ("statement", "moved"),
    [
        ("SELECT 1", set()),
        ("UPDATE t SET price = 7 WHERE month = 2", {"month=2"}),
        ("INSERT INTO t VALUES (1, NULL, 2), (1, NULL, 2)", {"month=1"}),
        ('UPDATE t SET "Name" = \'\' WHERE "Name" IS NULL', {"month=1"}),
        ("INSERT INTO t VALUES (3, '', 0)", {"month=3"}),
        ("DELETE FROM t WHERE month IS NULL", {"month"}),
        ("UPDATE t SET month = 2 WHERE month IS NULL", {"month", "month=2"}),
        ("ALTER TABLE t ALTER price TYPE numeric(12,2)", {"month", "month=1", "month=2"}),
        ("ALTER TABLE t ADD more int", {"month", "month=1", "month=2"}),
        ("ALTER TABLE t RENAME price TO cost", {"month", "month=1", "month=2"}),
    ],
)
def test_a_version_moves_if_and_only_if_its_slice_does(
    table: Database, statement: str, moved: set[str]
) -> None:
    job = table.reading(by="partitioned", column="month")
    before = versions(job)
    assert set(before) == {"month", "month=1", "month=2"}
    table.do(statement)
    after = versions(job)
    assert {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)} == moved


def test_equal_pairs_of_rows_do_not_cancel_each_other(table: Database) -> None:
    table.do("DELETE FROM t", "INSERT INTO t VALUES (1, 'x', 1), (1, 'x', 1)")
    before = versions(table.reading())
    table.do("UPDATE t SET price = 2")
    assert versions(table.reading()) != before


def test_bounds_make_ranges(table: Database) -> None:
    found = list(partitions(table.reading(by="partitioned", column="month", bounds=["2", "10"])))
    assert [p["key"] for p in found] == ["month", "month=..2", "month=2..10"]
    for one in found:
        where = Slice.of(one["objects"][0]["uri"])
        assert where.key == one["key"]


@pytest.mark.parametrize(
    ("column", "bounds", "falls"),
    [
        ("month", ["20", "10"], True),
        ("month", ["1", "9", "9", "10"], False),
        ("month::text", ["9", "10"], True),
        ("price", ["0.5", "1e1"], False),
        ("date '2013-01-01' + month", ["2013-09-01", "2013-10-01", "2013-9-02"], True),
    ],
)
def test_bounds_ascend_as_the_server_compares_them(
    table: Database, column: str, bounds: list[str], *, falls: bool
) -> None:
    """Else the slices would share rows."""
    job = table.reading(
        None, query=f"SELECT {column} AS c FROM t", by="partitioned", column="c", bounds=bounds
    )
    if not falls:
        assert sum(1 for _ in partitions(job)) >= 1
        return
    for ask in (lambda: list(partitions(job)), lambda: check(job | {"writes": False})):
        with pytest.raises(TaskFailure) as caught:
            ask()
        assert caught.value.condition == "bounds-not-ascending"


def test_values_that_no_text_may_hold_unquoted(table: Database) -> None:
    table.do("""INSERT INTO t (month, "Name") VALUES (1, 'it''s {0} %s é/='), (1, '')""")
    job = table.reading(by="partitioned", column="Name")
    found = {p["key"]: p["objects"][0] for p in partitions(job)}
    assert "Name=it%27s%20%7B0%7D%20%25s%20%C3%A9%2F%3D" in found
    assert {Slice.of(o["uri"]).key for o in found.values()} == set(found) >= {"Name", "Name="}


def test_a_query_in_the_servers_own_sql(table: Database) -> None:
    job = table.reading(None, query="SELECT \"Name\", '{}' AS braces, 7 % 4 AS rest FROM t -- all")
    [found] = partitions(job)
    assert found["objects"][0]["columns"] == ["Name", "braces", "rest"]


def test_no_column_hides_the_others_from_the_version(table: Database) -> None:
    table.do("CREATE TABLE h (_headgate_row int, b int)")
    for job in (table.reading("h"), table.reading("h", by="partitioned", column="b")):
        with pytest.raises(TaskFailure) as caught:
            list(partitions(job))
        assert caught.value.condition == "reserved-column"
    [found] = partitions(table.reading(None, query="SELECT _headgate_row AS a, b FROM h"))
    assert found["objects"][0]["columns"] == ["a", "b"]


def test_each_refresh_adds_what_lies_above(table: Database) -> None:
    job = table.reading(by="incremental", column="month") | {"known": {"key": None, "objects": []}}
    [first] = partitions(job)
    known = {"known": {"key": first["key"], "objects": first["objects"]}}
    assert list(partitions(job | known)) == []
    table.do("INSERT INTO t VALUES (2, 'late', 0), (3, 'd', 0), (9, 'e', 0)")
    [second] = partitions(job | known)
    assert (first["key"], second["key"]) == ("000000000001", "000000000002")
    one, two = (Slice.of(p["objects"][0]["uri"]) for p in (first, second))
    assert ((one.low, one.high), (two.low, two.high), two.has_low) == (
        (None, "2"),
        ("2", "9"),
        False,
    )


def test_nothing_above_an_empty_text_comes_twice(table: Database) -> None:
    table.do("CREATE TABLE texts (word text)")
    table.do("INSERT INTO texts VALUES (''), ('')")
    job = table.reading("texts", by="incremental", column="word") | {
        "known": {"key": None, "objects": []}
    }
    [first] = partitions(job)
    known = {"known": {"key": first["key"], "objects": first["objects"]}}
    assert list(partitions(job | known)) == []
    table.do("INSERT INTO texts VALUES ('a')")
    [second] = partitions(job | known)
    one, two = (Slice.of(p["objects"][0]["uri"]) for p in (first, second))
    assert ((one.low, one.high), (two.low, two.high)) == ((None, ""), ("", "a"))


@pytest.mark.parametrize(
    ("url", "table_name", "condition"),
    [
        ("jdbc:postgresql://127.0.0.1:{port}/nowhere?user=test", "t", "database-missing"),
        ("jdbc:postgresql://127.0.0.1:{port}/{name}?user=nobody", "t", "credentials-refused"),
        ("jdbc:postgresql://127.0.0.1:1/{name}?user=test", "t", "connection-refused"),
        ("jdbc:postgresql://no-such-host.invalid/{name}?user=test", "t", "host-unknown"),
        ("jdbc:postgresql://127.0.0.1:{port}/{name}?user=test&sslmode=require", "t", "tls-failed"),
        ("jdbc:postgresql://127.0.0.1:{port}/{name}?user=test", "gone", "table-missing"),
        ("jdbc:postgresql://127.0.0.1:{port}/{name}?user=test", "gone.t", "table-missing"),
        ("jdbc:postgresql://127.0.0.1:x/{name}", "t", "bad-url"),
        ("http://127.0.0.1", "t", "bad-url"),
        ("jdbc:postgresql://127.0.0.1:{port}/{name}?user=test&loggerFile=/tmp/x", "t", "bad-url"),
        ("secret://nothing/here", "t", "secret-missing"),
    ],
)
def test_what_prevents_a_listing_is_told_in_words(
    table: Database, url: str, table_name: str, condition: str
) -> None:
    job = table.reading(table_name)
    job["settings"]["url"] = url.format(port=table.port, name=table.name)
    with pytest.raises(TaskFailure) as caught:
        list(partitions(job))
    assert caught.value.condition == condition
    assert not isinstance(caught.value.__cause__, psycopg.Error)


@pytest.mark.parametrize("conforming", ["on", "off"])
def test_a_text_is_the_same_whatever_the_server_makes_of_backslashes(
    database: Database, conforming: str
) -> None:
    """Spark's connections have the server's setting."""
    text = "it's \\' OR 1 = 1 -- \\\\"
    setting = f"SET standard_conforming_strings = {conforming}"
    assert database.do(setting, f"SELECT {POSTGRESQL.literal(text)}") == [(text,)]
