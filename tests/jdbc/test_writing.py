"""The `write` kind into tables of a real PostgreSQL: what is in the table equals what was given,
whatever dies when."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dataplane.connectors.jdbc.jdbc_writer import writing
from dataplane.contract.claims import WriteTask
from dataplane.contract.jobs import WriteJob
from dataplane.contract.schemas import Json, Schema, Type, field_of, struct_of
from dataplane.fragments.arrow import arrow_schema
from dataplane.storage.lake import LocalLake
from dataplane.task_failures import TaskFailure
from tests.jdbc.conftest import AnyDatabase, Database


def struct(**columns: Type) -> Schema:
    return struct_of(field_of(n, t) for n, t in columns.items())


PLAIN = struct(month="integer", name="string")
ROWS: list[dict[str, Any]] = [{"month": 1, "name": "a"}, {"month": 1, "name": None}]
ONE = """
import json, sys
from pathlib import Path
from dataplane.connectors.jdbc.jdbc_writer import writing
from dataplane.storage.lake import LocalLake
job, task, lake = json.loads(sys.argv[1])
with writing(job, LocalLake(Path(lake))) as write:
    print(write(task))
"""


class World:
    """A table, and the lake that it is copied from."""

    def __init__(self, database: AnyDatabase, lake: Path) -> None:
        self.database, self.lake, self.count = database, lake, 0

    def job(
        self,
        schema: Schema = PLAIN,
        *,
        owner: str = "f.o 1",
        keyed: tuple[str, ...] = (),
        **more: Json,
    ) -> WriteJob:
        settings = {
            "url": self.database.url,
            "table": "copy",
            "mode": "replace",
            "key": [],
            "schema_change": "fail",
        }
        own = {
            "connector": "jdbc",
            "settings": settings | more,
            "options": {},
            "owner": owner,
            "schema": schema,
        }
        return cast("WriteJob", own | {"keyed": list(keyed)})

    def file(self, rows: list[dict[str, Any]], schema: Schema) -> str:
        self.count += 1
        pq.write_table(
            pa.Table.from_pylist(rows, arrow_schema(schema)), self.lake / f"{self.count}.parquet"
        )
        return f"{self.count}.parquet"

    def task(
        self, partition: str, rows: list[dict[str, Any]] | None, generation: int, schema: Schema
    ) -> WriteTask:
        work = {"remove": True} if rows is None else {"files": [self.file(rows, schema)]}
        return cast(
            "WriteTask",
            {"task": "", "epoch": 1, "partition": partition, "generation": generation} | work,
        )

    def write(
        self, job: WriteJob, partition: str, rows: list[dict[str, Any]] | None, generation: int = 1
    ) -> Json:
        with writing(job, LocalLake(self.lake)) as write:
            return write(self.task(partition, rows, generation, job["schema"]))

    def dies(
        self,
        failpoint: str,
        job: WriteJob,
        partition: str,
        rows: list[dict[str, Any]],
        generation: int,
    ) -> None:
        task = self.task(partition, rows, generation, job["schema"])
        command = [sys.executable, "-c", ONE, json.dumps([job, task, str(self.lake)])]
        environment = {**os.environ, "HEADGATE_FAILPOINTS": failpoint}
        assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL

    def rows(self, columns: str = "month, name") -> list[tuple[Any, ...]]:
        return sorted(self.database.do(f"SELECT {columns} FROM copy"), key=repr)

    def condition(self, job: WriteJob, *arguments: Any) -> str | None:
        with pytest.raises(TaskFailure) as caught:
            self.write(job, *arguments)
        return caught.value.condition


@pytest.fixture
def world(database: Database, tmp_path: Path) -> World:
    return World(database, tmp_path)


def test_partitions_are_replaced_and_removed(world: World) -> None:
    job = world.job()
    assert world.write(job, "a.csv", ROWS) == {"rows": 2, "bytes": 0}
    world.write(job, "", [{"month": 2, "name": ""}])
    assert world.rows("month, name, _partition") == [
        (1, "a", "a.csv"),
        (1, None, "a.csv"),
        (2, "", ""),
    ]
    world.write(job, "a.csv", ROWS[:1], 2)
    assert world.write(job, "a.csv", ROWS[:1], 2) == {"rows": 1, "bytes": 0}
    assert world.rows() == [(1, "a"), (2, "")]
    world.write(job, "a.csv", None, 3)
    world.write(job, "", [], 3)
    assert world.rows() == []


def test_rows_are_found_by_the_columns_of_the_key(world: World) -> None:
    job = world.job(keyed=("Month",))
    world.write(job, "month=1", ROWS)
    world.write(job, "month", [{"month": None, "name": "none"}])
    world.write(job, "month=1", ROWS[:1], 2)
    assert world.rows() == [(1, "a"), (None, "none")]
    assert world.database.do("SELECT * FROM copy LIMIT 0") == []
    world.write(job, "month", None, 2)
    assert world.rows("*") == [(1, "a")], "no column is added"


def test_rows_of_the_same_key_are_merged(world: World) -> None:
    job = world.job(mode="upsert", key=["name"])
    world.write(job, "a", [{"month": 1, "name": "x"}, {"month": 1, "name": "y"}])
    before = world.database.do("SELECT name, xmin::text FROM copy WHERE name = 'x'")
    world.write(job, "b", [{"month": 2, "name": "y"}])
    world.write(job, "a", [{"month": 1, "name": "x"}], 2)
    assert world.rows("month, name, _partition") == [(1, "x", "a"), (2, "y", "b")], (
        "a row that moved stays"
    )
    assert before
    assert (
        world.condition(job, "c", [{"month": 1, "name": "z"}, {"month": 2, "name": "z"}])
        == "key-not-unique"
    )


@pytest.mark.parametrize("more", [{}, {"mode": "upsert", "key": ["id"]}, {"keyed": ("50%",)}])
def test_names_and_values_may_hold_percent_signs(world: World, more: dict[str, Any]) -> None:
    world.database.do('CREATE SCHEMA IF NOT EXISTS "s%s"')
    job = world.job(struct(id="long", **{"50%": "string"}), table='"s%s"."t%s"', **more)
    partition = "50%25=%25s" if more.get("keyed") else "%s"
    for generation in (1, 2):
        world.write(job, partition, [{"id": 1, "50%": "%s"}], generation)
    assert world.database.do('SELECT id, "50%" FROM "s%s"."t%s"') == [(1, "%s")]
    world.write(job, partition, None, 3)
    assert world.database.do('SELECT * FROM "s%s"."t%s"') == []
    world.database.do('DROP SCHEMA "s%s" CASCADE')


TYPES = struct(
    b="boolean", i="byte", s="short", n="long", f="float", d="double", price="decimal(20,4)", at="timestamp",
    local="timestamp_ntz", day="date", raw="binary",
    tags={"type": "array", "elementType": "string", "containsNull": True},
)  # fmt: skip
VALUES = {
    "b": True, "i": 1, "s": 2, "n": 2**60, "f": 0.5, "d": float("inf"), "price": Decimal("12.3400"),
    "at": datetime(2013, 1, 2, 3, 4, 5, 678, tzinfo=UTC), "local": datetime.fromisoformat("2013-01-02T03:04:05"),
    "day": date(9999, 12, 31), "raw": b"\xff\x00", "tags": ['a,"b"', None],
}  # fmt: skip


def test_every_type_arrives(world: World) -> None:
    world.write(world.job(TYPES), "p", [VALUES, {}])
    [found, nothing] = world.database.do("SELECT * FROM copy ORDER BY n")
    assert found == (*VALUES.values(), "p")
    assert set(nothing) == {None, "p"}


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


def test_two_writers_never_own_a_table(world: World) -> None:
    world.write(world.job(), "a", ROWS)
    assert world.condition(world.job(owner="f.o 2"), "a", []) == "target-owned"
    assert len(world.rows()) == 2
    world.database.do("DELETE FROM _headgate_sync WHERE target = 'public.copy'", "TRUNCATE copy")
    world.write(world.job(owner="f.o 2"), "a", ROWS)
    assert world.condition(world.job(), "a", []) == "target-owned"


def test_the_statement_that_gives_a_table_up_does_so(world: World) -> None:
    world.database.do("""CREATE SCHEMA "It's. Mine" """)
    job = world.job(table='"It\'s. Mine"."A""b"')
    world.write(job, "a", ROWS)
    with pytest.raises(TaskFailure) as caught:
        world.write(job | {"owner": "f.o 2"}, "a", ROWS)
    world.database.do(
        caught.value.message.partition("To give it up: ")[2], """TRUNCATE "It's. Mine"."A""b" """
    )
    world.write(job | {"owner": "f.o 2"}, "a", ROWS)


def test_a_table_of_somebody_else_is_left_alone(world: World) -> None:
    world.database.do(
        "CREATE TABLE copy (month int, name text, _partition text)",
        "INSERT INTO copy VALUES (1, 'x', '')",
    )
    assert world.condition(world.job(), "a", ROWS) == "target-occupied"
    world.database.do("TRUNCATE copy")
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
    world.database.do("DROP TABLE copy", "DELETE FROM _headgate_sync WHERE target = 'public.copy'")
    assert world.condition(job, "b", ROWS, 3) == "target-gone"
    assert world.database.do("SELECT to_regclass('copy')") == [(None,)]


def test_what_comes_late_changes_nothing(world: World) -> None:
    world.write(world.job(), "a", ROWS, 2)
    assert world.condition(world.job(), "a", [], 1) == "target-ahead"
    world.write(world.job(), "a", None, 3)
    assert world.condition(world.job(), "a", ROWS, 2) == "target-ahead"
    assert world.rows() == []


def test_what_comes_late_takes_no_row_of_another_partition(world: World) -> None:
    job = world.job(mode="upsert", key=["month"])
    world.write(job, "to", [{"month": 1, "name": "new"}], 3)
    world.write(job, "from", [{"month": 1, "name": "old"}, {"month": 2, "name": "other"}], 2)
    assert world.rows() == [(1, "new"), (2, "other")]
    world.write(job, "from", None, 3)
    assert world.rows() == [(1, "new")]
    world.write(job, "from", [{"month": 1, "name": "back"}], 4)
    assert world.rows("month, name, _partition") == [(1, "back", "from")]


WIDER = struct(month="integer", name="string", more="date")
RETYPED = struct(month="string", name="string")


def test_columns_change_as_the_policy_allows(world: World) -> None:
    world.write(world.job(), "a", ROWS)
    assert world.condition(world.job(WIDER), "a", ROWS, 2) == "target-schema-changed"
    world.write(
        world.job(WIDER, schema_change="alter"),
        "b",
        [{"month": 2, "name": "b", "more": date(2013, 1, 1)}],
        2,
    )
    assert world.rows("month, more") == [(1, None), (1, None), (2, date(2013, 1, 1))]
    world.write(world.job(schema_change="alter"), "b", [{"month": 2, "name": "b"}], 3)
    assert world.rows("month, more") == [(1, None), (1, None), (2, None)]
    assert (
        world.condition(world.job(RETYPED, schema_change="alter"), "a", [], 4)
        == "target-schema-changed"
    )
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


@pytest.mark.parametrize(
    ("kind", "wanted"), [("real", "double"), ("numeric(10,1)", "decimal(10,2)")]
)
def test_an_empty_table_is_taken_only_with_our_types(world: World, kind: str, wanted: str) -> None:
    world.database.do(f"CREATE TABLE copy (c {kind}, _partition text)")
    assert world.condition(world.job(struct(c=wanted)), "a", []) == "target-schema-changed"


def test_an_empty_table_with_every_type_of_ours_is_taken(world: World) -> None:
    world.write(world.job(TYPES), "p", [])
    world.database.do("DROP TABLE _headgate_sync")
    world.write(world.job(TYPES), "p", [VALUES])
    assert len(world.rows("n")) == 1


def test_a_value_that_no_column_holds_is_an_error_of_the_user(world: World) -> None:
    with pytest.raises(TaskFailure) as caught:
        world.write(world.job(), "a", [{"month": 1, "name": "\0"}])
    assert caught.value.kind == "user"
    assert world.rows() == []
