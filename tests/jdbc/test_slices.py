"""Which slices a table has, and that a version moves if and only if the rows or columns of its
slice do: on each database."""

from __future__ import annotations

import pytest

from dataplane.connectors.jdbc.check import check
from dataplane.connectors.jdbc.jdbc_listing import Slice, partitions
from dataplane.contract.schemas import Json
from dataplane.task_failures import TaskFailure
from tests.jdbc.databases import AnyDatabase

ROWS = "INSERT INTO t VALUES (1, 'a', 1.5), (1, NULL, 2), (2, 'b', NULL), (NULL, 'c', 0)"
MONTHS = {"month", "month=1", "month=2"}
NOTHING_LISTED: Json = {"known": {"key": None, "objects": []}}


@pytest.fixture
def table(database: AnyDatabase) -> AnyDatabase:
    name = f"{database.dialect.name('Name')} {database.text}"
    database.do(f"CREATE TABLE t (month int, {name}, price decimal(10,2))", ROWS)
    return database


def versions(job: Json) -> dict[str, str]:
    return {p["key"]: p["objects"][0]["version"] for p in partitions(job)}


def moved_by(database: AnyDatabase, statement: str) -> set[str]:
    """Keys of slices whose version a statement moves."""
    job = database.reading(by="partitioned", column="month")
    before = versions(job)
    assert set(before) == MONTHS
    database.do(statement)
    after = versions(job)
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def test_a_whole_table_is_one_partition_also_when_it_is_empty(table: AnyDatabase) -> None:
    [full] = partitions(table.reading())
    assert (full["key"], full["objects"][0]["columns"]) == ("", ["month", "Name", "price"])
    assert full["objects"][0]["size"] > 0
    table.do("DELETE FROM t")
    [empty] = partitions(table.reading())
    assert empty["objects"][0]["version"] != full["objects"][0]["version"]
    assert empty["objects"][0]["size"] == 0


@pytest.mark.parametrize(
    ("statement", "moved"),
    [
        ("SELECT 1", set()),
        ("UPDATE t SET price = 7 WHERE month = 2", {"month=2"}),
        ("INSERT INTO t VALUES (1, NULL, 2), (1, NULL, 2)", {"month=1"}),
        ("UPDATE t SET {name} = '' WHERE {name} IS NULL", {"month=1"}),
        ("UPDATE t SET {name} = 'A' WHERE {name} = 'a'", {"month=1"}),
        ("UPDATE t SET {name} = 'b ' WHERE {name} = 'b'", {"month=2"}),
        ("INSERT INTO t VALUES (3, '', 0)", {"month=3"}),
        ("DELETE FROM t WHERE month IS NULL", {"month"}),
        ("UPDATE t SET month = 2 WHERE month IS NULL", {"month", "month=2"}),
        ("ALTER TABLE t ADD more int", MONTHS),
        ("ALTER TABLE t RENAME COLUMN price TO cost", MONTHS),
    ],
)
def test_a_version_moves_if_and_only_if_its_slice_does(
    table: AnyDatabase, statement: str, moved: set[str]
) -> None:
    assert moved_by(table, statement.format(name=table.dialect.name("Name"))) == moved


def test_another_type_moves_all_versions(table: AnyDatabase) -> None:
    assert moved_by(table, table.retype("price", "decimal(12,2)")) == MONTHS


def test_equal_pairs_of_rows_do_not_cancel_each_other(table: AnyDatabase) -> None:
    table.do("DELETE FROM t", "INSERT INTO t VALUES (1, 'x', 1), (1, 'x', 1)")
    before = versions(table.reading())
    table.do("UPDATE t SET price = 2")
    assert versions(table.reading()) != before


def test_bounds_make_ranges(table: AnyDatabase) -> None:
    ranges = list(partitions(table.reading(by="partitioned", column="month", bounds=["2", "10"])))
    assert [p["key"] for p in ranges] == ["month", "month=..2", "month=2..10"]
    for part in ranges:
        assert Slice.of(part["objects"][0]["uri"]).key == part["key"]


@pytest.mark.parametrize(
    ("column", "bounds", "falls"),
    [
        ("month", ["20", "10"], True),
        ("month", ["1", "9", "9", "10"], False),
        ("cast(month AS char(2))", ["9", "10"], True),
        ("price", ["0.5", "10"], False),
    ],
)
def test_bounds_ascend_as_the_server_compares_them(
    table: AnyDatabase, column: str, bounds: list[str], *, falls: bool
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


def test_texts_that_a_collation_takes_for_equal_are_slices_of_their_own(
    table: AnyDatabase,
) -> None:
    texts = ["a", "A", "a ", "it's {0} \\ %s é/=", "", "😀"]
    table.do("DELETE FROM t")
    for text in texts:
        table.do(f"INSERT INTO t VALUES (1, {table.dialect.literal(text)}, 0)")
    job = table.reading(by="partitioned", column="Name")
    objects = {p["key"]: p["objects"][0] for p in partitions(job)}
    assert "Name=it%27s%20%7B0%7D%20%5C%20%25s%20%C3%A9%2F%3D" in objects
    assert {Slice.of(o["uri"]).value for o in objects.values()} == set(texts)


def test_a_query_in_the_servers_own_sql(table: AnyDatabase) -> None:
    name = table.dialect.name("Name")
    job = table.reading(None, query=f"SELECT {name}, '{{}}' AS braces, 7 % 4 AS rest FROM t -- all")
    [full] = partitions(job)
    assert full["objects"][0]["columns"] == ["Name", "braces", "rest"]


def test_no_column_hides_the_others_from_the_version(table: AnyDatabase) -> None:
    table.do("CREATE TABLE h (_headgate_row int, b int)")
    for job in (table.reading("h"), table.reading("h", by="partitioned", column="b")):
        with pytest.raises(TaskFailure) as caught:
            list(partitions(job))
        assert caught.value.condition == "reserved-column"
    [full] = partitions(table.reading(None, query="SELECT _headgate_row AS a, b FROM h"))
    assert full["objects"][0]["columns"] == ["a", "b"]


def test_each_refresh_adds_the_rows_above(table: AnyDatabase) -> None:
    job = table.reading(by="incremental", column="month") | NOTHING_LISTED
    [first] = partitions(job)
    listed = {"known": {"key": first["key"], "objects": first["objects"]}}
    assert list(partitions(job | listed)) == []
    table.do("INSERT INTO t VALUES (2, 'late', 0), (10, 'd', 0), (9, 'e', 0)")
    [second] = partitions(job | listed)
    assert (first["key"], second["key"]) == ("000000000001", "000000000002")
    before, after = (Slice.of(p["objects"][0]["uri"]) for p in (first, second))
    assert (before.low, before.high) == (None, "2")
    assert (after.low, after.high, after.has_low) == ("2", "10", False)


def test_an_empty_text_is_a_bound(table: AnyDatabase) -> None:
    job = table.reading(by="incremental", column="Name") | NOTHING_LISTED
    table.do("DELETE FROM t", "INSERT INTO t VALUES (1, '', 0), (2, '', 0)")
    [first] = partitions(job)
    listed = {"known": {"key": first["key"], "objects": first["objects"]}}
    assert list(partitions(job | listed)) == []
    table.do("INSERT INTO t VALUES (1, 'a', 0)")
    [second] = partitions(job | listed)
    before, after = (Slice.of(p["objects"][0]["uri"]) for p in (first, second))
    assert ((before.low, before.high), (after.low, after.high)) == ((None, ""), ("", "a"))


def listing_fault(job: Json) -> TaskFailure:
    with pytest.raises(TaskFailure) as caught:
        list(partitions(job))
    return caught.value


@pytest.mark.parametrize(
    ("place", "table_name", "condition"),
    [
        ("127.0.0.1:{port}/nowhere?user=test", "t", "database-missing"),
        ("127.0.0.1:{port}/{name}?user=nobody", "t", "credentials-refused"),
        ("127.0.0.1:1/{name}?user=test", "t", "connection-refused"),
        ("no-such-host.invalid/{name}?user=test", "t", "host-unknown"),
        ("127.0.0.1:{port}/{name}?user=test", "gone", "table-missing"),
        ("127.0.0.1:x/{name}", "t", "bad-url"),
        ("127.0.0.1:{port}/{name}?user=test&loggerFile=/tmp/x", "t", "bad-url"),
    ],
)
def test_a_listing_that_fails_names_the_cause(
    table: AnyDatabase, place: str, table_name: str, condition: str
) -> None:
    job = table.reading(table_name)
    place = place.format(port=table.port, name=table.name)
    job["settings"]["url"] = f"jdbc:{table.dialect.scheme}://{place}"
    failure = listing_fault(job)
    assert failure.condition == condition
    assert failure.__cause__ is None, "no error of a client, which may show a password"


def test_a_place_to_write_to_is_checked(table: AnyDatabase) -> None:
    job: Json = table.reading("copy") | {"writes": True}
    check(job)
    job["settings"]["table"] = "nowhere.copy"
    with pytest.raises(TaskFailure) as caught:
        check(job)
    assert caught.value.condition == "table-missing"
