"""Tables of a real MariaDB: a version moves if and only if its slice does, and a copy equals what
was given, whatever dies when."""

from __future__ import annotations

from collections.abc import Generator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from dataplane.connectors.jdbc.check import check
from dataplane.connectors.jdbc.jdbc_connection import address, connected, in_words
from dataplane.connectors.jdbc.jdbc_listing import Slice, partitions
from dataplane.connectors.jdbc.mysql import MARIADB
from dataplane.contract.schemas import Json
from dataplane.task_failures import TaskFailure
from tests.jdbc.conftest import MariaDatabase
from tests.jdbc.test_slices import versions
from tests.jdbc.test_writing import PLAIN, RETYPED, ROWS, TYPES, VALUES, WIDER, World, struct

MORE = "INSERT INTO t VALUES (1, 'a', 1.5), (1, NULL, 2), (2, 'b', NULL), (NULL, 'c', 0)"


@pytest.fixture
def table(maria: MariaDatabase) -> MariaDatabase:
    maria.do(
        "CREATE TABLE t (month int, `Name` text CHARACTER SET utf8mb4, price decimal(10,2), raw blob)"
    )
    maria.do(MORE.replace("t VALUES", "t (month, `Name`, price) VALUES"))
    return maria


@pytest.mark.parametrize(
    ("statement", "moved"),
    [
        ("SELECT 1", set()),
        ("UPDATE t SET price = 7 WHERE month = 2", {"month=2"}),
        ("INSERT INTO t VALUES (1, NULL, 2, NULL), (1, NULL, 2, NULL)", {"month=1"}),
        ("UPDATE t SET `Name` = '' WHERE `Name` IS NULL", {"month=1"}),
        ("UPDATE t SET `Name` = 'A' WHERE `Name` = 'a'", {"month=1"}),
        ("UPDATE t SET `Name` = 'b ' WHERE `Name` = 'b'", {"month=2"}),
        ("UPDATE t SET raw = X'00' WHERE month = 2", {"month=2"}),
        ("INSERT INTO t VALUES (3, '', 0, '')", {"month=3"}),
        ("DELETE FROM t WHERE month IS NULL", {"month"}),
        ("UPDATE t SET month = 2 WHERE month IS NULL", {"month", "month=2"}),
        ("ALTER TABLE t MODIFY price decimal(12,2)", {"month", "month=1", "month=2"}),
        ("ALTER TABLE t ADD more int", {"month", "month=1", "month=2"}),
        ("ALTER TABLE t CHANGE price cost decimal(10,2)", {"month", "month=1", "month=2"}),
    ],
)
def test_a_version_moves_if_and_only_if_its_slice_does(
    table: MariaDatabase, statement: str, moved: set[str]
) -> None:
    job = table.reading(by="partitioned", column="month")
    before = versions(job)
    assert set(before) == {"month", "month=1", "month=2"}
    table.do(statement)
    after = versions(job)
    assert {k for k in before.keys() | after.keys() if before.get(k) != after.get(k)} == moved


def test_a_whole_table_is_one_partition_also_when_it_is_empty(table: MariaDatabase) -> None:
    [full] = partitions(table.reading())
    assert (full["key"], full["objects"][0]["columns"]) == ("", ["month", "Name", "price", "raw"])
    table.do("DELETE FROM t")
    [empty] = partitions(table.reading())
    assert (empty["objects"][0]["version"], empty["objects"][0]["size"]) != (
        full["objects"][0]["version"],
        0,
    )
    assert empty["objects"][0]["size"] == 0


def test_texts_that_a_collation_takes_for_equal_are_slices_of_their_own(
    table: MariaDatabase,
) -> None:
    texts = ["a", "A", "a ", "it's \\ %s é/=", "", "😀"]
    table.do("DELETE FROM t")
    for text in texts:
        table.do(f"INSERT INTO t (`Name`) VALUES (X'{text.encode().hex()}')")
    job = table.reading(by="partitioned", column="Name")
    objects = [p["objects"][0] for p in partitions(job)]
    assert {Slice.of(o["uri"]).value for o in objects} == set(texts)


@pytest.mark.parametrize(
    ("column", "bounds", "falls"),
    [
        ("month", ["20", "10"], True),
        ("month", ["1", "9", "9", "10"], False),
        ("CONVERT(month USING utf8mb4)", ["9", "10"], True),
        ("price", ["0.5", "10"], False),
        (
            "CAST(9007199254740992 + month AS UNSIGNED)",
            ["9007199254740993", "9007199254740992"],
            True,
        ),
    ],
)
def test_bounds_ascend_as_the_server_compares_them(
    table: MariaDatabase, column: str, bounds: list[str], *, falls: bool
) -> None:
    query = f"SELECT {column} AS c FROM t"
    job = table.reading(None, query=query, by="partitioned", column="c", bounds=bounds)
    if not falls:
        assert sum(1 for _ in partitions(job)) >= 1
        return
    for ask in (lambda: list(partitions(job)), lambda: check(job | {"writes": False})):
        with pytest.raises(TaskFailure) as caught:
            ask()
        assert caught.value.condition == "bounds-not-ascending"


def test_each_refresh_adds_what_lies_above(table: MariaDatabase) -> None:
    job = table.reading(by="incremental", column="month") | {"known": {"key": None, "objects": []}}
    [first] = partitions(job)
    known = {"known": {"key": first["key"], "objects": first["objects"]}}
    assert list(partitions(job | known)) == []
    table.do("INSERT INTO t (month) VALUES (2), (10), (9)")
    [second] = partitions(job | known)
    part = Slice.of(second["objects"][0]["uri"])
    assert (second["key"], part.low, part.high) == ("000000000002", "2", "10")


@pytest.mark.parametrize(
    ("url", "table_name", "condition"),
    [
        ("jdbc:mariadb://127.0.0.1:{port}/nowhere?user=test", "t", "database-missing"),
        ("jdbc:mariadb://127.0.0.1:{port}/{name}?user=nobody", "t", "credentials-refused"),
        ("jdbc:mysql://127.0.0.1:1/{name}?user=test", "t", "connection-refused"),
        ("jdbc:mysql://no-such-host.invalid/{name}?user=test", "t", "host-unknown"),
        ("jdbc:mysql://127.0.0.1:{port}/{name}?user=test&sslMode=required", "t", "tls-failed"),
        ("jdbc:mysql://127.0.0.1:{port}/{name}?user=test&useSSL=true", "t", "bad-url"),
        ("jdbc:mariadb:replication://127.0.0.1:{port}/{name}?user=test", "t", "bad-url"),
        (
            "jdbc:mysql://127.0.0.1:{port}/{name}?user=test&sslMode=verify-ca&serverSslCert=/gone",
            "t",
            "tls-failed",
        ),
        ("jdbc:mariadb://127.0.0.1:{port}/{name}?user=test", "gone", "table-missing"),
        ("jdbc:mariadb://127.0.0.1:{port}/{name}?user=test&socketFactory=x", "t", "bad-url"),
    ],
)
def test_what_prevents_a_listing_is_told_in_words(
    table: MariaDatabase, url: str, table_name: str, condition: str
) -> None:
    job = table.reading(table_name)
    job["settings"]["url"] = url.format(port=table.port, name=table.name)
    with pytest.raises(TaskFailure) as caught:
        list(partitions(job))
    assert caught.value.condition == condition


def test_rows_that_nobody_reads_any_more_are_not_fetched(maria: MariaDatabase) -> None:
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
    with pytest.raises(TaskFailure) as caught:
        list(partitions(maria.reading()))
    assert caught.value.condition == "not-supported"


def test_a_place_to_write_to_is_checked(maria: MariaDatabase) -> None:
    job: Json = maria.reading("copy") | {"writes": True}
    check(job)
    job["settings"]["table"] = "nowhere.copy"
    with pytest.raises(TaskFailure) as caught:
        check(job)
    assert caught.value.condition == "table-missing"


# --- writing ------------------------------------------------------------------------------------


@pytest.fixture
def world(maria: MariaDatabase, tmp_path: Path) -> World:
    return World(maria, tmp_path)


def test_partitions_are_replaced_and_removed(world: World) -> None:
    job = world.job(keyed=("month",))
    assert world.write(job, "a.csv", ROWS) == {"rows": 2, "bytes": 0}
    world.write(job, "A.csv", [{"month": 2, "name": ""}])
    world.write(job, "a.csv ", [{"month": 3, "name": "\\ '%s"}])
    assert world.rows("month, name, _partition") == [
        (1, "a", "a.csv"),
        (1, None, "a.csv"),
        (2, "", "A.csv"),
        (3, "\\ '%s", "a.csv "),
    ]
    world.write(job, "a.csv", ROWS[:1], 2)
    assert world.write(job, "a.csv", ROWS[:1], 2) == {"rows": 1, "bytes": 0}
    assert world.rows() == [(1, "a"), (2, ""), (3, "\\ '%s")]
    world.write(job, "a.csv", None, 3)
    world.write(job, "a.csv ", [], 3)
    assert world.rows() == [(2, "")]


def test_rows_of_the_same_key_are_merged(world: World) -> None:
    job = world.job(mode="upsert", key=["name"])
    world.write(job, "a", [{"month": 1, "name": "x"}, {"month": 1, "name": "y"}])
    world.write(job, "b", [{"month": 2, "name": "y"}, {"month": 2, "name": "X"}])
    world.write(job, "a", [{"month": 1, "name": "x"}], 2)
    assert world.rows("month, name, _partition") == [(1, "x", "a"), (2, "X", "b"), (2, "y", "b")]
    twice = [{"month": 1, "name": "z"}, {"month": 2, "name": "z"}]
    assert world.condition(job, "c", twice) == "key-not-unique"
    long = [{"month": 1, "name": "z" * 1000}]
    assert world.condition(job, "c", long) == "database-error"


def test_what_comes_late_takes_no_row_of_another_partition(world: World) -> None:
    job = world.job(mode="upsert", key=["month"])
    world.write(job, "to", [{"month": 1, "name": "new"}], 3)
    world.write(job, "from", [{"month": 1, "name": "old"}, {"month": 2, "name": "other"}], 2)
    assert world.rows() == [(1, "new"), (2, "other")]
    assert world.condition(job, "to", [], 2) == "target-ahead"
    world.write(job, "from", None, 3)
    assert world.rows() == [(1, "new")]


def test_every_type_arrives(world: World) -> None:
    wide = struct(**{**{f["name"]: f["type"] for f in TYPES["fields"]}, "big": "decimal(38,20)"})
    values = {**VALUES, "d": 1e308, "big": Decimal("123456789012345678.12345678901234567890")}
    world.write(world.job(wide), "p", [values, {}])
    [arrived, nothing] = world.database.do("SELECT * FROM copy ORDER BY n DESC")
    at = datetime(2013, 1, 2, 3, 4, 5, 678, tzinfo=UTC).replace(tzinfo=None)
    wanted = {**values, "at": at, "tags": '["a,\\"b\\"",null]', "day": date(9999, 12, 31)}
    assert arrived == (*wanted.values(), "p")
    assert set(nothing) == {None, "p"}


def test_a_value_that_no_column_holds_is_refused(world: World) -> None:
    with pytest.raises(TaskFailure) as caught:
        world.write(world.job(struct(d="double")), "p", [{"d": float("inf")}])
    assert caught.value.kind == "user"
    assert world.database.do("SELECT * FROM copy") == []


@pytest.mark.parametrize(
    "failpoint", ["jdbc-staged", "jdbc-deleted", "jdbc-written", "jdbc-committed"]
)
def test_what_dies_in_the_middle_is_done_again(world: World, failpoint: str) -> None:
    job = world.job()
    world.write(job, "a", ROWS)
    world.write(job, "b", [{"month": 7, "name": "b"}])
    new = [{"month": 1, "name": "new"}]
    world.dies(failpoint, job, "a", new, 2)
    whole = (
        [(1, "new"), (7, "b")] if failpoint == "jdbc-committed" else [(1, "a"), (1, None), (7, "b")]
    )
    assert world.rows() == whole, "readers see all of it or nothing"
    world.write(job, "a", new, 2)
    assert world.rows() == [(1, "new"), (7, "b")]


@pytest.mark.parametrize("failpoint", ["jdbc-remaking", "jdbc-dropped"])
def test_a_table_whose_remaking_dies_is_made_again(world: World, failpoint: str) -> None:
    """The server commits at each change of a table."""
    world.write(world.job(), "a", ROWS)
    job = world.job(RETYPED, schema_change="recreate")
    new = [{"month": "x", "name": "y"}]
    world.dies(failpoint, job, "a", new, 2)
    if failpoint == "jdbc-dropped":
        assert world.condition(world.job(), "a", ROWS, 2) == "target-schema-changed"
    world.write(job, "a", new, 2)
    assert world.rows("*") == [("x", "y", "a")]


def test_columns_change_as_the_policy_allows(world: World) -> None:
    world.write(world.job(), "a", ROWS)
    assert world.condition(world.job(WIDER), "a", ROWS, 2) == "target-schema-changed"
    wider = [{"month": 2, "name": "b", "more": date(2013, 1, 1)}]
    world.write(world.job(WIDER, schema_change="alter"), "b", wider, 2)
    assert world.rows("month, more") == [(1, None), (1, None), (2, date(2013, 1, 1))]
    other = world.job(RETYPED, schema_change="alter")
    assert world.condition(other, "a", [], 4) == "target-schema-changed"


def test_a_table_of_somebody_else_is_left_alone(world: World) -> None:
    table = "CREATE TABLE copy (month int, name longtext, _partition longtext NOT NULL)"
    world.database.do(f"{table} COLLATE utf8mb4_nopad_bin", "INSERT INTO copy VALUES (1, 'x', '')")
    assert world.condition(world.job(), "a", ROWS) == "target-occupied"
    world.database.do("TRUNCATE copy")
    world.write(world.job(), "a", ROWS)
    assert world.condition(world.job(owner="f.o 2"), "a", []) == "target-owned"
    world.database.do("DROP TABLE copy")
    assert world.condition(world.job(), "a", ROWS) == "target-missing"


@pytest.mark.parametrize(
    "wrong", ["ENGINE=MyISAM COLLATE utf8mb4_nopad_bin", "COLLATE utf8mb4_general_ci"]
)
def test_an_empty_table_that_could_lose_rows_is_not_taken(world: World, wrong: str) -> None:
    world.database.do(
        f"CREATE TABLE copy (month int, name longtext, _partition longtext NOT NULL) {wrong}"
    )
    assert world.condition(world.job(PLAIN), "a", ROWS) == "target-schema-changed"


def test_a_late_writer_is_refused(world: World) -> None:
    world.write(world.job(), "a", ROWS, 2)
    assert world.condition(world.job(), "a", [], 1) == "target-ahead"
    job = world.job() | {"goes_on": True}
    world.database.do("DROP TABLE copy", "DELETE FROM _headgate_sync")
    assert world.condition(job, "a", ROWS, 3) == "target-gone"
