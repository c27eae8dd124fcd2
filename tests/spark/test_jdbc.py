"""Slices of a real database as fragments: all of one snapshot, or none."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from dataplane.connectors.jdbc.jdbc_listing import partitions
from dataplane.connectors.jdbc.jdbc_reader import reading
from dataplane.contract.results import TaskResult
from dataplane.contract.schemas import Json, Schema, field_of, struct_of
from dataplane.spark.spark_session import reading_session
from tests.e2e.workspace import until
from tests.jdbc.conftest import Database
from tests.servers.postgres import Postgres
from tests.spark.conftest import Lake, done, told_schema, told_types

BASE = {"format": "jdbc", "on_bad_record": "fail"}


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    server = Postgres().start()
    yield server
    server.remove()


@pytest.fixture
def database(server: Postgres) -> Iterator[Database]:
    server.create("here")
    found = Database(server.port, "here")
    yield found
    Database(server.port, "postgres").do("DROP DATABASE here WITH (FORCE)")


def job(database: Database, **more: Json) -> Json:
    return BASE | database.reading(**more)


def tasks(work: Json) -> dict[str, Json]:
    """The objects of each partition, as a listing finds them."""
    return {p["key"]: {"partition": p["key"], "objects": p["objects"]} for p in partitions(work)}


def inferred(lake: Lake, work: Json, task: Json) -> Schema:
    [found] = lake.run("infer", work, [task])
    schema = told_schema(found)
    assert schema is not None
    return schema


def parsed(
    lake: Lake, work: Json, listed: dict[str, Json], schema: Schema | None = None
) -> list[TaskResult]:
    columns = schema or inferred(lake, work, next(iter(listed.values())))
    return lake.run("parse", work, [{**t, "columns": columns} for t in listed.values()])


def test_types_and_values(lake: Lake, database: Database) -> None:
    database.do(
        """CREATE TABLE t (b bool, s int2, i int, n int8, p numeric(12,3), d float8, "Text `x`" text, day date,
           at timestamptz, local timestamp, raw bytea, id uuid, tags text[])""",
        """INSERT INTO t VALUES (true, 1, 2, 3, 4.5, 'NaN', '', '2013-01-02', '2013-01-02 03:04:05.000678+01',
           '2013-01-02 03:04:05.000678', '\\xff00', '00000000-0000-0000-0000-000000000001', '{a,NULL}')""",
    )
    work = job(database)
    [result] = parsed(lake, work, tasks(work))
    [row] = lake.rows(result)
    assert repr(row.pop("d")) == "nan"
    assert row == {
        "b": True, "s": 1, "i": 2, "n": 3, "p": Decimal("4.500"), "Text `x`": "", "day": date(2013, 1, 2),
        "at": datetime(2013, 1, 2, 2, 4, 5, 678), "local": datetime(2013, 1, 2, 3, 4, 5, 678), "raw": b"\xff\x00",  # noqa: DTZ001
        "id": "00000000-0000-0000-0000-000000000001", "tags": ["a", None],
    }  # fmt: skip
    kinds = {f["name"]: f["type"] for f in done(result)["schema"]["fields"]}
    assert (kinds["at"], kinds["local"]) == ("timestamp", "timestamp_ntz")
    assert (kinds["p"], kinds["s"]) == ("decimal(12,3)", "short")


QUESTIONS = """SELECT tags ? 'a?''b' AS one, tags ?| '{x,y}' AS two, '?' AS q, E'\\'?' AS e, $x$?'$x$ AS d,
"n$?$" -- isn't it?
FROM t /* who's ? */ WHERE NOT tags ?& '{x,z}'"""


def test_numbers_with_zeros_before_their_point_are_whole(lake: Lake, database: Database) -> None:
    database.do(
        'CREATE TABLE t (a numeric(5, -2), "c `x`" numeric(3, 5), d numeric(5, -2)[], e numeric(4, 2))',
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


def test_a_query_may_have_question_marks(lake: Lake, database: Database) -> None:
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
def months(database: Database) -> Database:
    database.do(
        "CREATE TABLE t (month int, n bigint)",
        "INSERT INTO t SELECT nullif(i % 7, 0), i FROM generate_series(1, 700) AS i",
    )
    return database


def total(lake: Lake, result: TaskResult) -> tuple[int, int]:
    rows: list[dict[str, Any]] = lake.rows(result)
    return len(rows), sum(row["n"] for row in rows)


@pytest.mark.parametrize("bounds", [[], ["2", "5"]])
def test_many_slices_are_one_job_and_each_row_is_in_its_own(
    lake: Lake, months: Database, bounds: list[str]
) -> None:
    work = job(months, by="partitioned", column="month", bounds=bounds)
    listed = tasks(work)
    assert len(listed) == (4 if bounds else 7)
    found = [total(lake, result) for result in parsed(lake, work, listed)]
    assert (sum(n for n, _ in found), sum(s for _, s in found)) == (700, 700 * 701 // 2)
    assert {n for n, _ in found} == ({100, 200, 300} if bounds else {100})


def test_what_changed_since_it_was_listed_is_void(lake: Lake, months: Database) -> None:
    work = job(months, by="partitioned", column="month")
    listed = tasks(work)
    months.do(
        "UPDATE t SET n = 0 WHERE n = 8",
        "DELETE FROM t WHERE month = 2",
        "INSERT INTO t VALUES (77, 1)",
    )
    found = dict(zip(listed, parsed(lake, work, listed), strict=True))
    assert {key for key, result in found.items() if result["state"] == "void"} == {
        "month=1",
        "month=2",
    }
    assert all(
        result["state"] == "done"
        for key, result in found.items()
        if key not in ("month=1", "month=2")
    )


def test_a_growing_table_is_read_from_bound_to_bound(lake: Lake, months: Database) -> None:
    work = job(months, by="incremental", column="n") | {"known": {"key": None, "objects": []}}
    [first] = partitions(work)
    months.do("INSERT INTO t VALUES (1, 701), (1, 702), (1, 5)")
    [second] = partitions(work | {"known": {"key": first["key"], "objects": first["objects"]}})
    listed = {p["key"]: {"partition": p["key"], "objects": p["objects"]} for p in (first, second)}
    [old, new] = parsed(lake, work, listed)
    assert (total(lake, old)[0], total(lake, new)) == (701, (2, 1403)), (
        "the late row below is in the older slice only"
    )


def test_a_value_that_does_not_fit_is_an_error_that_tells_the_types(
    lake: Lake, months: Database
) -> None:
    work = job(months)
    [result] = parsed(lake, work, tasks(work), struct_of([field_of("n", "byte")]))
    assert (result["state"], result["error"]["kind"]) == ("failed", "user")
    assert told_types(result) == {"month": "integer", "n": "long"}


def test_a_server_that_is_gone_is_no_fault_of_the_user(
    lake: Lake, months: Database, server: Postgres
) -> None:
    work = job(months)
    listed = tasks(work)
    columns = inferred(lake, work, listed[""])
    server.stop()
    try:
        [result] = parsed(lake, work, listed, columns)
    finally:
        server.start()
    assert (result["error"]["condition"], result["error"]["kind"]) == (
        "connection-refused",
        "infrastructure",
    )


@pytest.mark.parametrize("statement", ["TRUNCATE t", "ALTER TABLE t ALTER n TYPE text"])
def test_a_table_that_is_rewritten_while_it_is_read_is_void(
    lake: Lake, months: Database, statement: str
) -> None:
    """The server shows such a table empty to older snapshots. And nobody has to wait until all has
    been read."""
    work = job(months, by="partitioned", column="month")
    objects = [found for task in tasks(work).values() for found in task["objects"]]
    with reading(reading_session(lake.spark), work) as source:
        assert source.changed(objects) == frozenset()
        months.do("SET lock_timeout = '10s'", statement)
        assert source.changed(objects) == {found["name"] for found in objects}


def test_a_table_that_goes_on_is_read_as_it_was(lake: Lake, months: Database) -> None:
    work = job(months)
    objects = [found for task in tasks(work).values() for found in task["objects"]]
    with reading(reading_session(lake.spark), work) as source:
        assert source.changed(objects) == frozenset()
        months.do("UPDATE t SET n = 0", "SET lock_timeout = '10s'", "ALTER TABLE t ADD more int")
        assert source.rows([("0" * 32, objects[0])]).agg({"n": "sum"}).first()[0] == 700 * 701 // 2  # type: ignore[index]
        assert source.changed(objects) == frozenset()


def test_a_query_over_a_table_that_is_rewritten_while_it_is_read_is_void(
    lake: Lake, months: Database
) -> None:
    work = job(months, table=None, query="SELECT month, n FROM t", by="partitioned", column="month")
    objects = [found for task in tasks(work).values() for found in task["objects"]]
    with reading(reading_session(lake.spark), work) as source:
        assert source.changed(objects) == frozenset()
        assert source.changed(objects) == frozenset()
        months.do("SET lock_timeout = '10s'", "TRUNCATE t")
        assert source.changed(objects) == {found["name"] for found in objects}


def test_a_table_that_inherits_is_void_where_it_is_rewritten(lake: Lake, months: Database) -> None:
    months.do("CREATE TABLE more () INHERITS (t)", "INSERT INTO more VALUES (8, 1)")
    work = job(months)
    objects = [found for task in tasks(work).values() for found in task["objects"]]
    with reading(reading_session(lake.spark), work) as source:
        assert source.changed(objects) == frozenset()
        assert source.changed(objects) == frozenset()
        months.do("SET lock_timeout = '10s'", "TRUNCATE more")
        assert source.rows([("0" * 32, objects[0])]).count() == 700
        assert source.changed(objects) == {found["name"] for found in objects}


def test_sums_that_nobody_asks_for_are_given_up(lake: Lake, months: Database) -> None:
    months.do("INSERT INTO t SELECT 1, i FROM generate_series(1, 1000000) AS i")
    work = job(months)
    objects = [found for task in tasks(work).values() for found in task["objects"]]
    with reading(reading_session(lake.spark), work) as source:
        source.changed(objects)
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = 'here' AND pid <> pg_backend_pid()"
    )
    until(lambda: months.do(others) == [(0,)], lambda: f"there are {months.do(others)} sessions")
