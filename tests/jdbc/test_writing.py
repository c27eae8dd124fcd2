"""The `write` kind into tables of each database: what is in the table equals what was given,
whatever dies when."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.jdbc.databases import AnyDatabase
from tests.jdbc.world import RETYPED, ROWS, TYPES, VALUES, WIDER, World, struct

NEW = [{"month": 1, "name": "new"}]


@pytest.fixture
def world(database: AnyDatabase, tmp_path: Path) -> World:
    return World(database, tmp_path)


def test_partitions_are_replaced_and_removed(world: World) -> None:
    job = world.job()
    assert world.write(job, "a.csv", ROWS) == {"rows": 2, "bytes": 0}
    world.write(job, "A.csv", [{"month": 2, "name": ""}])
    world.write(job, "a.csv ", [{"month": 3, "name": "\\ '%s"}])
    world.write(job, "", [{"month": 4, "name": "full"}])
    assert world.rows("month, name, _partition") == [
        (1, "a", "a.csv"),
        (1, None, "a.csv"),
        (2, "", "A.csv"),
        (3, "\\ '%s", "a.csv "),
        (4, "full", ""),
    ]
    world.write(job, "a.csv", ROWS[:1], 2)
    assert world.write(job, "a.csv", ROWS[:1], 2) == {"rows": 1, "bytes": 0}
    assert world.rows() == [(1, "a"), (2, ""), (3, "\\ '%s"), (4, "full")]
    world.write(job, "a.csv", None, 3)
    world.write(job, "a.csv ", [], 3)
    assert world.rows() == [(2, ""), (4, "full")]


def test_rows_of_the_same_key_are_merged(world: World) -> None:
    job = world.job(mode="upsert", key=["name"])
    world.write(job, "a", [{"month": 1, "name": "x"}, {"month": 1, "name": "y"}])
    world.write(job, "b", [{"month": 2, "name": "y"}, {"month": 2, "name": "X"}])
    world.write(job, "a", [{"month": 1, "name": "x"}], 2)
    rows = world.rows("month, name, _partition")
    assert rows == [(1, "x", "a"), (2, "X", "b"), (2, "y", "b")], "a row that moved stays"
    twice = [{"month": 1, "name": "z"}, {"month": 2, "name": "z"}]
    assert world.condition(job, "c", twice) == "key-not-unique"


@pytest.mark.parametrize("more", [{}, {"mode": "upsert", "key": ["id"]}, {"keyed": ("50%",)}])
def test_names_and_values_may_hold_percent_signs(world: World, more: dict[str, Any]) -> None:
    table, column = map(world.database.dialect.name, ("t%s", "50%"))
    job = world.job(struct(id="integer", **{"50%": "string"}), table=table, **more)
    partition = "50%25=%25s" if more.get("keyed") else "%s"
    for generation in (1, 2):
        world.write(job, partition, [{"id": 1, "50%": "%s"}], generation)
    assert world.database.do(f"SELECT id, {column} FROM {table}") == [(1, "%s")]
    world.write(job, partition, None, 3)
    assert world.database.do(f"SELECT * FROM {table}") == []


def test_every_type_arrives(world: World) -> None:
    values = VALUES | {"d": world.database.double}
    world.write(world.job(TYPES), "p", [values, {}])
    rows = world.database.do("SELECT * FROM copy")
    arrived, nothing = sorted(rows, key=lambda row: row[0] is None)
    assert arrived == (*{**values, **world.database.arrived}.values(), "p")
    assert set(nothing) == {None, "p"}


@pytest.mark.parametrize(
    "failpoint", ["jdbc-staged", "jdbc-deleted", "jdbc-written", "jdbc-committed"]
)
def test_a_write_that_dies_is_repeated(world: World, failpoint: str) -> None:
    job = world.job()
    world.write(job, "a", ROWS)
    world.write(job, "b", [{"month": 7, "name": "b"}])
    world.dies(failpoint, job, "a", NEW, 2)
    rows_before, rows_after = [(1, "a"), (1, None), (7, "b")], [(1, "new"), (7, "b")]
    expected = rows_after if failpoint == "jdbc-committed" else rows_before
    assert world.rows() == expected, "readers see all of it or nothing"
    world.write(job, "a", NEW, 2)
    assert world.rows() == rows_after


@pytest.mark.parametrize("failpoint", ["jdbc-remaking", "jdbc-dropped"])
def test_a_table_whose_remaking_dies_is_made_again(world: World, failpoint: str) -> None:
    """Also where the server commits at each change of a table."""
    world.write(world.job(), "a", ROWS)
    job = world.job(RETYPED, schema_change="recreate")
    new = [{"month": "x", "name": "y"}]
    world.dies(failpoint, job, "a", new, 2)
    world.write(job, "a", new, 2)
    assert world.rows("*") == [("x", "y", "a")]


def test_two_writers_never_own_a_table(world: World) -> None:
    world.write(world.job(), "a", ROWS)
    assert world.condition(world.job(owner="f.o 2"), "a", []) == "target-owned"
    assert len(world.rows()) == 2
    world.database.do("DELETE FROM _headgate_sync", "DELETE FROM copy")
    world.write(world.job(owner="f.o 2"), "a", ROWS)
    assert world.condition(world.job(), "a", []) == "target-owned"


def test_the_statement_that_gives_a_table_up_does_so(world: World) -> None:
    table = world.database.dialect.name("""It's "a". `Table`""")
    job = world.job(table=table)
    world.write(job, "a", ROWS)
    message = world.failure(job | {"owner": "f.o 2"}, "a", ROWS).message
    world.database.do(message.partition("To give it up: ")[2], f"DELETE FROM {table}")
    world.write(job | {"owner": "f.o 2"}, "a", ROWS)


def test_a_table_of_another_user_is_left_alone(world: World) -> None:
    world.create(world.job())
    world.database.do("INSERT INTO copy VALUES (1, 'x', '')")
    assert world.condition(world.job(), "a", ROWS) == "target-occupied"
    world.database.do("DELETE FROM copy")
    world.write(world.job(), "a", ROWS)
    assert len(world.rows()) == 2
    world.database.do("DROP TABLE copy")
    assert world.condition(world.job(), "a", ROWS) == "target-missing"


def test_a_copy_that_goes_on_is_not_begun_anew(world: World) -> None:
    """Else partitions that do not change would be missing."""
    job = world.job() | {"goes_on": True}
    assert world.condition(job, "a", ROWS) == "target-gone"
    world.write(world.job(), "a", ROWS)
    world.write(job, "b", ROWS, 2)
    assert len(world.rows()) == 4
    world.database.do("DROP TABLE copy", "DELETE FROM _headgate_sync")
    assert world.condition(job, "b", ROWS, 3) == "target-gone"
    exists = world.database.dialect.exists(world.database.schema, "copy")
    assert world.database.do(exists) == []


def test_a_late_write_changes_nothing(world: World) -> None:
    world.write(world.job(), "a", ROWS, 2)
    assert world.condition(world.job(), "a", [], 1) == "target-ahead"
    world.write(world.job(), "a", None, 3)
    assert world.condition(world.job(), "a", ROWS, 2) == "target-ahead"
    assert world.rows() == []


def test_a_late_write_takes_no_row_of_another_partition(world: World) -> None:
    job = world.job(mode="upsert", key=["month"])
    world.write(job, "to", [{"month": 1, "name": "new"}], 3)
    world.write(job, "from", [{"month": 1, "name": "old"}, {"month": 2, "name": "other"}], 2)
    assert world.rows() == [(1, "new"), (2, "other")]
    assert world.condition(job, "to", [], 2) == "target-ahead"
    world.write(job, "from", None, 3)
    assert world.rows() == [(1, "new")]
    world.write(job, "from", [{"month": 1, "name": "back"}], 4)
    assert world.rows("month, name, _partition") == [(1, "back", "from")]


def test_columns_change_as_the_policy_allows(world: World) -> None:
    world.write(world.job(), "a", ROWS)
    assert world.condition(world.job(WIDER), "a", ROWS, 2) == "target-schema-changed"
    wider = [{"month": 2, "name": "b", "more": date(2013, 1, 1)}]
    world.write(world.job(WIDER, schema_change="alter"), "b", wider, 2)
    assert world.rows("month, more") == [(1, None), (1, None), (2, date(2013, 1, 1))]
    world.write(world.job(schema_change="alter"), "b", [{"month": 2, "name": "b"}], 3)
    assert world.rows("month, more") == [(1, None), (1, None), (2, None)]
    altering = world.job(RETYPED, schema_change="alter")
    assert world.condition(altering, "a", [], 4) == "target-schema-changed"
    world.write(world.job(RETYPED, schema_change="recreate"), "a", [{"month": "x", "name": "y"}], 4)
    assert world.rows("*") == [("x", "y", "a")]
    assert world.condition(world.job(schema_change="recreate"), "a", ROWS, 3) == "target-ahead"


def test_a_column_that_comes_back_with_another_type_is_not_written_to(world: World) -> None:
    before, after = struct(id="long", c="integer"), struct(id="long", c="double")
    for generation, schema in enumerate(
        [before, struct(id="long"), before, struct(id="long")], start=1
    ):
        world.write(world.job(schema, schema_change="alter"), "a", [{"id": 1}], generation)
    job = world.job(after, schema_change="alter")
    assert world.condition(job, "a", [{"id": 1, "c": 1.5}], 5) == "target-schema-changed"
    world.database.do("ALTER TABLE copy DROP COLUMN c")
    world.write(job, "a", [{"id": 1, "c": 1.5}], 5)
    assert world.rows("id, c") == [(1, 1.5)]


@pytest.mark.parametrize("kinds", [("float", "double"), ("decimal(10,1)", "decimal(10,2)")])
def test_an_empty_table_is_taken_only_with_our_types(world: World, kinds: tuple[str, str]) -> None:
    theirs, ours = kinds
    world.create(world.job(struct(c=theirs)))
    assert world.condition(world.job(struct(c=ours)), "a", []) == "target-schema-changed"


def test_an_empty_table_with_every_type_of_ours_is_taken(world: World) -> None:
    world.write(world.job(TYPES), "p", [])
    world.database.do("DROP TABLE _headgate_sync")
    world.write(world.job(TYPES), "p", [VALUES])
    assert len(world.rows("n")) == 1


# --- append ---------------------------------------------------------------------------------------


def test_rows_of_new_partitions_are_appended(world: World) -> None:
    job = world.job(mode="append", keyed=("month",))
    assert world.write(job, "month=1", ROWS) == {"rows": 2, "bytes": 0}
    world.write(job, "month=2", [{"month": 2, "name": "b"}], 2)
    world.write(job, "month=1", ROWS[::-1], 3)
    assert world.rows("*") == [(1, "a"), (1, None), (2, "b")], "the same rows are not added twice"


def test_a_table_with_rows_is_appended_to(world: World) -> None:
    job = world.job(mode="append")
    world.create(job)
    world.database.do("INSERT INTO copy VALUES (0, 'theirs')")
    world.write(job, "a", ROWS)
    assert world.rows() == [(0, "theirs"), (1, "a"), (1, None)]
    replaces = world.job(RETYPED, schema_change="recreate")
    assert world.condition(replaces, "a", [], 2) == "target-schema-changed"
    assert len(world.rows()) == 3, "rows of another user are never dropped"


@pytest.mark.parametrize("rows", [NEW, [*ROWS, *NEW], [], None])
def test_a_correction_of_appended_rows_is_refused(
    world: World, rows: list[dict[str, Any]] | None
) -> None:
    job = world.job(mode="append")
    world.write(job, "a", ROWS)
    failure = world.failure(job, "a", rows, 2)
    assert (failure.condition, failure.kind) == ("target-append-only", "user")
    assert world.rows() == [(1, "a"), (1, None)]
    world.write(job, "a", ROWS, 3)
    mark = failure.message.partition("then their mark: ")[2]
    world.database.do("DELETE FROM copy", mark)
    world.write(job, "a", rows, 4)
    assert world.rows() == sorted(((r["month"], r["name"]) for r in rows or []), key=repr)


def test_a_partition_that_was_empty_is_appended(world: World) -> None:
    job = world.job(mode="append")
    world.write(job, "a", [])
    world.write(job, "b", None)
    world.write(job, "a", ROWS, 2)
    assert len(world.rows()) == 2
    assert world.condition(job, "a", ROWS, 1) == "target-ahead"


@pytest.mark.parametrize("failpoint", ["jdbc-staged", "jdbc-written", "jdbc-committed"])
def test_an_append_that_dies_is_repeated_once(world: World, failpoint: str) -> None:
    job = world.job(mode="append")
    world.write(job, "a", ROWS)
    world.dies(failpoint, job, "b", NEW, 2)
    rows_before, rows_after = [(1, "a"), (1, None)], [(1, "a"), (1, "new"), (1, None)]
    assert world.rows() == (rows_after if failpoint == "jdbc-committed" else rows_before)
    world.write(job, "b", NEW, 2)
    assert world.rows() == rows_after


def test_rows_without_their_marks_are_not_appended_again(world: World) -> None:
    job = world.job(mode="append")
    world.write(job, "a", ROWS)
    world.database.do("DELETE FROM _headgate_sync")
    on = world.job(mode="append") | {"goes_on": True}
    failure = world.failure(on, "b", NEW, 2)
    assert (failure.condition, failure.kind) == ("target-occupied", "user")
    world.database.do("DELETE FROM copy")
    assert world.condition(on, "b", NEW, 2) == "target-gone"


def test_a_table_of_another_writer_is_not_appended_to(world: World) -> None:
    world.write(world.job(mode="append"), "a", ROWS)
    other = world.job(mode="append", owner="f.o 2")
    assert world.condition(other, "b", NEW, 2) == "target-owned"
    assert len(world.rows()) == 2


def test_a_column_that_appended_rows_have_lost_is_named(world: World) -> None:
    world.write(world.job(mode="append"), "a", ROWS)
    world.database.do("ALTER TABLE copy DROP COLUMN name")
    failure = world.failure(world.job(mode="append"), "a", ROWS, 2)
    assert failure.condition == "target-schema-changed"
    assert failure.message.endswith("has no column name")


def test_a_column_by_the_name_of_rows_is_not_appended(world: World) -> None:
    """Versions would be those of this column alone."""
    job = world.job(struct(month="integer", _headgate_row="integer"), mode="append")
    assert world.condition(job, "a", []) == "reserved-column"


def test_appended_rows_stay_when_a_column_comes(world: World) -> None:
    """All partitions are written anew then: those of before are the same in their columns."""
    world.write(world.job(mode="append"), "a", ROWS)
    job = world.job(WIDER, mode="append", schema_change="alter")
    world.write(job, "a", ROWS, 2)
    world.write(job, "b", [{"month": 2, "name": "b", "more": date(2013, 1, 1)}], 2)
    assert world.rows("month, more") == [(1, None), (1, None), (2, date(2013, 1, 1))]
    assert world.condition(job, "a", NEW, 3) == "target-append-only"
    narrower = world.job(mode="append", schema_change="alter")
    assert world.condition(narrower, "b", [], 4) == "target-schema-changed"
