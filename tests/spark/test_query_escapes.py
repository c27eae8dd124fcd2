"""Everything that a query of Spark's must not do, tried: it is refused, and nothing came of it.

Each attempt goes the way of a query, and once more straight to the process that answers, past the
look at its text. `{inside}` is the file of a table that the query names, `{outside}` another file
of the same user. Does not belong here: the walls themselves, which transforms have as well
(`hostile.test_sql`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.core.errors import HeadgateError, Problem, QueryRefused
from controlplane.services.queries.adapter.spark import SETTINGS
from dataplane.contract.query_protocol import SparkRun
from tests.spark.query_world import SparkWorld, spark_world_in
from tests.unit.diffs.world import SCHEMA, rows
from tests.unit.queries.world import process_of

SECRET = "what no row may hold"

READING = [
    "SELECT * FROM text.`{outside}`",
    "SELECT * FROM csv.`{outside}`",
    "SELECT * FROM json.`{outside}`",
    "SELECT * FROM xml.`{outside}`",
    "SELECT * FROM orc.`{outside}`",
    "SELECT * FROM avro.`{outside}`",
    "SELECT * FROM binaryFile.`{outside}`",
    "SELECT * FROM parquet.`{inside}`",
    "SELECT * FROM delta.`{folder}`",
    "SELECT * FROM parquet.`/etc`",
    "SELECT * FROM text.`/etc/hostname`",
    "SELECT * FROM text.`/proc/self/environ`",
    "SELECT * FROM text.`file://{outside}`",
    "SELECT * FROM text.`http://127.0.0.1:1/x`",
    "SELECT * FROM parquet.`s3a://bucket/x.parquet`",
    "SELECT * FROM TEXT.`{outside}`",
    "SELECT * FROM `text`.`{outside}`",
    "SELECT * FROM spark_catalog.text.`{outside}`",
    "SELECT * FROM `{outside}`",
    "SELECT (SELECT max(value) FROM text.`{outside}`)",
    "WITH x AS (SELECT * FROM text.`{outside}`) SELECT * FROM x",
    "SELECT * FROM shop.totals, LATERAL (SELECT * FROM text.`{outside}`)",
    "SELECT * FROM shop.totals WHERE v IN (SELECT value FROM text.`{outside}`)",
    "SELECT 1 UNION ALL SELECT count(*) FROM text.`{outside}`",
    "SELECT v FROM shop.totals EXCEPT SELECT value FROM text.`{outside}`",
    "FROM text.`{outside}`",
    "FROM shop.totals |> UNION ALL (SELECT 1, value FROM text.`{outside}`)",
    "TABLE text.`{outside}`",
    "/* */ SELECT * FROM -- x\n text.`{outside}`",
    "SELECT * FROM IDENTIFIER('text.`{outside}`')",
    "SELECT * FROM IDENTIFIER('te' || 'xt.`{outside}`')",
    "SELECT * FROM read_files('{outside}')",
    "SELECT * FROM read_kafka('x')",
    "SELECT * FROM text('{outside}')",
    "SELECT * FROM shop.totals WITH ('path' = '{outside}')",
    "SELECT * FROM jdbc.`jdbc:sqlite:{outside}`",
    "SELECT * FROM STREAM shop.totals",
    "SELECT from_xml(v, 'a INT', map('rowValidationXSDPath', '{outside}')) FROM shop.totals",
    "SELECT from_avro(CAST(v AS BINARY), '\"string\"', map('avroSchemaUrl', '{outside}')) FROM shop.totals",
    "SELECT from_protobuf(CAST(v AS BINARY), 'x', '{outside}') FROM shop.totals",
]
CALLING = [
    "SELECT reflect('java.lang.System', 'getProperty', 'user.dir')",
    "SELECT java_method('java.lang.System', 'getenv', 'HOME')",
    "SELECT try_reflect('java.lang.System', 'getProperty', 'user.dir')",
    "SELECT java_method('java.lang.Runtime', 'getRuntime')",
    "SELECT input_file_name() FROM shop.totals",
    "SELECT input_file_block_start() FROM shop.totals",
    "SELECT IDENTIFIER('reflect')('java.lang.System', 'getProperty', 'user.dir')",
    "SELECT IDENTIFIER('ref' || 'lect')('java.lang.System', 'getProperty', 'user.dir')",
    "SELECT TRANSFORM (v) USING 'cat {outside}' AS (x) FROM shop.totals",
    "FROM shop.totals MAP v USING 'cat' AS x",
    "FROM shop.totals REDUCE v USING 'cat' AS x",
    "SELECT * FROM python_worker_logs()",
    "SELECT * FROM read_state('{folder}')",
]
WRITING = [
    "INSERT INTO shop.totals VALUES (1, 'x')",
    "INSERT OVERWRITE DIRECTORY '{folder}/written' USING parquet SELECT 1",
    "INSERT OVERWRITE LOCAL DIRECTORY '{folder}/written' SELECT 1",
    "WITH x AS (SELECT 1 AS a) INSERT INTO shop.totals SELECT a, 'x' FROM x",
    "FROM shop.totals INSERT OVERWRITE DIRECTORY '{folder}/written' USING csv SELECT *",
    "CREATE TABLE t USING parquet LOCATION '{folder}/written' AS SELECT 1",
    "CREATE TABLE t (a INT) USING csv OPTIONS (path '{outside}')",
    "CREATE OR REPLACE TEMP VIEW t USING text OPTIONS (path '{outside}')",
    "CREATE GLOBAL TEMPORARY VIEW t AS SELECT 1",
    "CREATE DATABASE d LOCATION '{folder}/written'",
    "CREATE FUNCTION f AS 'java.lang.String' USING JAR '{outside}'",
    "CREATE TEMPORARY FUNCTION f AS 'org.apache.hadoop.hive.ql.udf.UDFReflect'",
    "CREATE FUNCTION f(a INT) RETURNS INT RETURN a",
    "CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE PYTHON AS $$ return 1 $$",
    "DROP VIEW headgate_0",
    "DROP TABLE shop.totals",
    "ALTER TABLE shop.totals ADD COLUMNS (x INT)",
    "TRUNCATE TABLE shop.totals",
    "DELETE FROM shop.totals",
    "UPDATE shop.totals SET k = 1",
    "MERGE INTO shop.totals USING shop.totals s ON false WHEN NOT MATCHED THEN INSERT *",
    "LOAD DATA LOCAL INPATH '{outside}' INTO TABLE shop.totals",
    "CACHE TABLE t AS SELECT * FROM text.`{outside}`",
    "CACHE TABLE shop.totals",
    "ANALYZE TABLE shop.totals COMPUTE STATISTICS",
    "REFRESH '{folder}'",
    "MSCK REPAIR TABLE shop.totals",
]
CONFIGURING = [
    "SET spark.sql.runSQLOnFiles = true",
    "SET",
    "SET -v",
    "SET TIME ZONE 'UTC'",
    "SET VAR x = 1",
    "DECLARE VARIABLE x INT DEFAULT 1",
    "RESET",
    "ADD JAR '{outside}'",
    "ADD FILE '{outside}'",
    "ADD ARCHIVE '{outside}'",
    "LIST JARS",
    "LIST FILES",
    "DELETE JAR '{outside}'",
    "USE DATABASE default",
    "SELECT 1; SET spark.sql.runSQLOnFiles = true",
    "SELECT 1; SELECT * FROM text.`{outside}`",
    "BEGIN SELECT 1; END",
    "EXECUTE IMMEDIATE 'SELECT * FROM text.`{outside}`'",
    "EXPLAIN SELECT * FROM text.`{outside}`",
    "CALL system.x()",
]
TELLING = [
    "SHOW TABLES",
    "SHOW DATABASES",
    "SHOW FUNCTIONS",
    "SHOW TBLPROPERTIES shop.totals",
    "SHOW CREATE TABLE shop.totals",
    "SHOW COLUMNS IN shop.totals",
    "DESCRIBE EXTENDED shop.totals",
    "DESCRIBE FUNCTION reflect",
    "SELECT * FROM shop.secret",
    "SELECT * FROM global_temp.t",
    "SELECT * FROM system.session.variables",
    "SELECT * FROM headgate_0",
]
ATTEMPTS = [*READING, *CALLING, *WRITING, *CONFIGURING, *TELLING]
# Of the process: this is its table
GIVEN = {"SELECT * FROM headgate_0", "SELECT * FROM shop.totals"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkWorld]:
    with spark_world_in(tmp_path_factory.mktemp("escapes")) as world:
        world.commit({"": rows((1, "a"), (2, "b"))})
        (world.folder / "outside").write_text(SECRET)
        yield world


def filled(sql: str, world: SparkWorld) -> str:
    inside = next(world.folder.glob("*.parquet"))
    return sql.replace("{inside}", str(inside)).replace("{outside}", str(world.folder / "outside")).replace(
        "{folder}", str(world.folder)
    )  # fmt: skip


def test_there_are_enough() -> None:
    assert len(set(ATTEMPTS)) >= 110


def check_untouched(world: SparkWorld, refused: pytest.ExceptionInfo[HeadgateError]) -> None:
    assert SECRET not in str(refused.value)
    assert not (world.folder / "written").exists()
    assert (world.folder / "outside").read_text() == SECRET
    assert world.rows("SELECT k FROM shop.totals ORDER BY k") == [[1], [2]]


@pytest.mark.parametrize("sql", ATTEMPTS)
def test_is_refused(world: SparkWorld, sql: str) -> None:
    with pytest.raises(QueryRefused) as refused:
        world.ask(filled(sql, world))
    check_untouched(world, refused)


def straight(world: SparkWorld, sql: str) -> None:
    """To the process, with a table that it has under both names."""
    file = next(world.folder.glob("*.parquet")).name
    question: SparkRun = {
        "ask": "spark",
        "sql": sql.replace("shop.totals", "headgate_0"),
        "parameters": {},
        "tables": [
            {"view": "headgate_0", "name": "shop.totals", "files": [file], "schema": SCHEMA}
        ],
        "settings": dict(SETTINGS),
        "limit": 10,
        "seconds": 60.0,
    }
    child = world.spark.take("")
    try:
        answer = child.ask(question, time.monotonic() + 60)
        while True:
            piece = next(answer)
            assert SECRET.encode() not in piece
    except StopIteration as end:
        refusal = end.value["refusal"]
    finally:
        world.spark.put_back(child, is_sound=True)
    assert refusal["kind"] == "refused", refusal
    raise QueryRefused(Problem("", 0, 0, "query-refused", refusal["message"]))


@pytest.mark.parametrize("sql", [sql for sql in ATTEMPTS if sql not in GIVEN])
def test_is_refused_by_the_process_alone(world: SparkWorld, sql: str) -> None:
    """The look at the text is one wall, Spark's own plans are another one."""
    with pytest.raises(QueryRefused) as refused:
        straight(world, filled(sql, world))
    check_untouched(world, refused)


@pytest.mark.parametrize(
    "name", ["env:HOME", "system:user.dir", "spark.app.id", "sparkconf:spark.app.name"]
)
def test_nothing_in_the_text_is_replaced(world: SparkWorld, name: str) -> None:
    text = "${" + name + "}"
    with pytest.raises(QueryRefused, match="would be replaced"):
        world.ask(f"SELECT '{text}'")
    with pytest.raises(QueryRefused) as told:
        straight(world, f"SELECT CAST('{text}' AS INT)")
    assert text in str(told.value)


def test_the_process_has_no_secrets(world: SparkWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.spark._idle.pop().close()
    monkeypatch.setenv("HEADGATE_TOKEN", SECRET)
    world.ask("SELECT uuid()")
    (child,) = world.spark._idle
    assert SECRET.encode() not in Path(f"/proc/{process_of(child).pid}/environ").read_bytes()
