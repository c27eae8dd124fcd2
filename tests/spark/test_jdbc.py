"""Slices of PostgreSQL as fragments: all of one snapshot, or none."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest

from dataplane.connectors.jdbc.jdbc_reader import reading
from dataplane.contract.schemas import Json, field_of, struct_of
from dataplane.contract.source_objects import SourceObject
from dataplane.spark.spark_session import reading_session
from tests.e2e.workspace import until
from tests.jdbc.databases import PostgresDatabase, Servers
from tests.spark.conftest import Lake, done, told_types
from tests.spark.test_databases import SUM, inferred, job, parsed, tasks, with_months


@pytest.fixture
def database(servers: Servers) -> PostgresDatabase:
    return servers.database(PostgresDatabase)


def listed_objects(work: Json) -> list[SourceObject]:
    return [source for task in tasks(work).values() for source in task["objects"]]


def test_types_and_values(lake: Lake, database: PostgresDatabase) -> None:
    database.do(
        """CREATE TABLE t (b bool, s int2, i int, n int8, p numeric(12,3), d float8,
           "Text `x`" text, day date, at timestamptz, local timestamp, raw bytea, id uuid,
           tags text[])""",
        """INSERT INTO t VALUES (true, 1, 2, 3, 4.5, 'NaN',
           '', '2013-01-02', '2013-01-02 03:04:05.000678+01', '2013-01-02 03:04:05.000678',
           '\\xff00', '00000000-0000-0000-0000-000000000001', '{a,NULL}')""",
    )
    work = job(database)
    [result] = parsed(lake, work, tasks(work))
    [row] = lake.rows(result)
    assert repr(row.pop("d")) == "nan"
    assert row == {
        "b": True, "s": 1, "i": 2, "n": 3, "p": Decimal("4.500"), "Text `x`": "",
        "day": date(2013, 1, 2), "at": datetime(2013, 1, 2, 2, 4, 5, 678),  # noqa: DTZ001
        "local": datetime(2013, 1, 2, 3, 4, 5, 678), "raw": b"\xff\x00",  # noqa: DTZ001
        "id": "00000000-0000-0000-0000-000000000001", "tags": ["a", None],
    }  # fmt: skip
    kinds = {f["name"]: f["type"] for f in done(result)["schema"]["fields"]}
    assert (kinds["at"], kinds["local"]) == ("timestamp", "timestamp_ntz")
    assert (kinds["p"], kinds["s"]) == ("decimal(12,3)", "short")


QUESTIONS = """SELECT tags ? 'a?''b' AS one, tags ?| '{x,y}' AS two, '?' AS q, E'\\'?' AS e,
$x$?'$x$ AS d, "n$?$" -- isn't it?
FROM t /* who's ? */ WHERE NOT tags ?& '{x,z}'"""


def test_numbers_with_zeros_before_their_point_are_whole(
    lake: Lake, database: PostgresDatabase
) -> None:
    database.do(
        'CREATE TABLE t (a numeric(5, -2), "c `x`" numeric(3, 5), d numeric(5, -2)[],'
        " e numeric(4, 2))",
        "INSERT INTO t VALUES (1234567, 0.00123, '{123456,-99}', 12.34), (NULL, NULL, NULL, NULL)",
    )
    work = job(database)
    listed = tasks(work)
    schema = inferred(lake, work, next(iter(listed.values())))
    kinds = {f["name"]: f["type"] for f in schema["fields"]}
    assert (kinds["a"], kinds["c `x`"], kinds["e"]) == (
        "decimal(7,0)",
        "decimal(5,5)",
        "decimal(4,2)",
    )
    [result] = parsed(lake, work, listed, schema)
    [row, _] = sorted(lake.rows(result), key=lambda row: row["a"] is None)
    assert (row["a"], row["c `x`"], row["e"]) == (
        Decimal(1234600),
        Decimal("0.00123"),
        Decimal("12.34"),
    )
    assert row["d"] == [Decimal(123500), Decimal(-100)]


def test_a_query_may_have_question_marks(lake: Lake, database: PostgresDatabase) -> None:
    database.do(
        'CREATE TABLE t (tags jsonb, "n$?$" int)',
        """INSERT INTO t VALUES ('["a?''b"]', 1), ('["x", "z"]', 2)""",
    )
    work = job(database, table=None, query=QUESTIONS)
    [result] = parsed(lake, work, tasks(work))
    assert lake.rows(result) == [
        {"one": True, "two": False, "q": "?", "e": "'?", "d": "?'", "n$?$": 1}
    ]


@pytest.fixture
def months(database: PostgresDatabase) -> PostgresDatabase:
    with_months(database)
    return database


def test_a_value_that_does_not_fit_is_an_error_that_tells_the_types(
    lake: Lake, months: PostgresDatabase
) -> None:
    work = job(months)
    [result] = parsed(lake, work, tasks(work), struct_of([field_of("n", "byte")]))
    assert (result["state"], result["error"]["kind"]) == ("failed", "user")
    assert told_types(result) == {"month": "integer", "n": "long"}


@pytest.mark.parametrize("statement", ["TRUNCATE t", "ALTER TABLE t ALTER n TYPE text"])
def test_a_table_that_is_rewritten_while_it_is_read_is_void(
    lake: Lake, months: PostgresDatabase, statement: str
) -> None:
    """The server shows such a table empty to older snapshots. And nobody has to wait until all has
    been read."""
    work = job(months, by="partitioned", column="month")
    objects = listed_objects(work)
    with reading(reading_session(lake.spark), work) as source:
        assert source.changed(objects) == frozenset()
        months.do("SET lock_timeout = '10s'", statement)
        assert source.changed(objects) == {source["name"] for source in objects}


def test_a_table_that_goes_on_is_read_as_it_was(lake: Lake, months: PostgresDatabase) -> None:
    work = job(months)
    objects = listed_objects(work)
    with reading(reading_session(lake.spark), work) as source:
        assert source.changed(objects) == frozenset()
        months.do("UPDATE t SET n = 0", "SET lock_timeout = '10s'", "ALTER TABLE t ADD more int")
        rows = source.rows([("0" * 32, objects[0])])
        assert [tuple(row) for row in rows.agg({"n": "sum"}).collect()] == [(SUM,)]
        assert source.changed(objects) == frozenset()


def test_a_query_over_a_table_that_is_rewritten_while_it_is_read_is_void(
    lake: Lake, months: PostgresDatabase
) -> None:
    work = job(months, table=None, query="SELECT month, n FROM t", by="partitioned", column="month")
    objects = listed_objects(work)
    with reading(reading_session(lake.spark), work) as source:
        assert source.changed(objects) == frozenset()
        assert source.changed(objects) == frozenset()
        months.do("SET lock_timeout = '10s'", "TRUNCATE t")
        assert source.changed(objects) == {source["name"] for source in objects}


def test_a_table_that_inherits_is_void_where_it_is_rewritten(
    lake: Lake, months: PostgresDatabase
) -> None:
    months.do("CREATE TABLE more () INHERITS (t)", "INSERT INTO more VALUES (8, 1)")
    work = job(months)
    objects = listed_objects(work)
    with reading(reading_session(lake.spark), work) as source:
        assert source.changed(objects) == frozenset()
        assert source.changed(objects) == frozenset()
        months.do("SET lock_timeout = '10s'", "TRUNCATE more")
        assert source.rows([("0" * 32, objects[0])]).count() == 700
        assert source.changed(objects) == {source["name"] for source in objects}


def test_sums_that_nobody_asks_for_are_given_up(lake: Lake, months: PostgresDatabase) -> None:
    months.do("INSERT INTO t SELECT 1, i FROM generate_series(1, 1000000) AS i")
    work = job(months)
    objects = listed_objects(work)
    with reading(reading_session(lake.spark), work) as source:
        source.changed(objects)
    others = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    until(lambda: months.do(others) == [(0,)], lambda: f"there are {months.do(others)} sessions")
