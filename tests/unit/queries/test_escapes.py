"""Everything that a query must not do, tried: it is refused, and nothing came of it.

Each attempt goes through the process that answers queries, and, past the look at its text, to the
locked database that queries run in. `{inside}` is the file of a table that the query names,
`{outside}` another file of the same user.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from controlplane.core import errors
from dataplane.contract.schemas import field_of, struct_of
from dataplane.query.database import database_of
from dataplane.query.statement import Parser, StatementRefused
from dataplane.storage.lake import open_lake
from tests.slices import examples
from tests.unit.diffs.world import rows
from tests.unit.queries.world import World, process_of, table, world_in

SECRET = "not for queries"
PARSER, DATABASE = Parser(), duckdb.connect()

OUT_OF_SCOPE = [  # of WITH
    'SELECT * FROM (WITH "{inside}" AS (SELECT 1) SELECT 1) q, "{inside}"',
    'WITH "{inside}" AS (SELECT * FROM "{inside}") SELECT * FROM "{inside}"',
    'WITH RECURSIVE "{inside}" AS (SELECT k FROM "{inside}" UNION ALL SELECT 1 WHERE false) FROM "{inside}"',
    'WITH RECURSIVE "{inside}" AS (SELECT * FROM "{inside}") SELECT * FROM "{inside}"',
    'WITH a AS (SELECT * FROM "{inside}"), "{inside}" AS (SELECT 1) SELECT * FROM a',
    'SELECT (WITH "{inside}" AS (SELECT 1) SELECT 1), k FROM "{inside}"',
    'SELECT 1 WHERE EXISTS (WITH "{inside}" AS (SELECT 1) FROM "{inside}") UNION ALL SELECT k FROM "{inside}"',
    'SELECT * FROM shop.totals, LATERAL (WITH "{inside}" AS (SELECT 1) SELECT 1), "{inside}"',
    'FROM (PIVOT "{inside}" ON k IN (1) USING count(*)), (WITH "{inside}" AS (SELECT 1) SELECT 1)',
    'SELECT 1 ORDER BY (WITH "{inside}" AS (SELECT 1) SELECT 1), (SELECT k FROM "{inside}")',
    'WITH "{folder}/\u212a" AS (SELECT 1) SELECT * FROM "{folder}/k"',
    'WITH "{folder}/\u00c9.csv" AS (SELECT 1) SELECT * FROM "{folder}/\u00e9.csv"',
    "SUMMARIZE '{inside}'",
    'SUMMARIZE (WITH "{inside}" AS (SELECT 1) SELECT 1); SUMMARIZE "{inside}"',
]
READING = [
    *OUT_OF_SCOPE,
    "SELECT * FROM read_csv('{outside}')",
    "SELECT * FROM read_csv_auto('{outside}')",
    "SELECT * FROM read_text('{outside}')",
    "SELECT * FROM read_blob('{outside}')",
    "SELECT * FROM read_json('{outside}')",
    "SELECT * FROM read_json_auto('{outside}')",
    "SELECT * FROM read_json_objects('{outside}')",
    "SELECT * FROM read_ndjson('{outside}')",
    "SELECT * FROM read_ndjson_objects('{outside}')",
    "SELECT * FROM read_parquet('{inside}')",
    "SELECT * FROM parquet_scan('{inside}')",
    "SELECT * FROM parquet_metadata('{inside}')",
    "SELECT * FROM parquet_schema('{inside}')",
    "SELECT * FROM parquet_file_metadata('{inside}')",
    "SELECT * FROM parquet_kv_metadata('{inside}')",
    "SELECT * FROM parquet_bloom_probe('{inside}', 'k', 1)",
    "SELECT * FROM read_duckdb('{outside}')",
    "SELECT * FROM sniff_csv('{outside}')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM '{inside}'",
    "SELECT * FROM '{outside}'",
    'SELECT * FROM "{inside}"',
    "SELECT * FROM 'file://{inside}'",
    "SELECT * FROM read_csv(['{outside}'])",
    "SELECT * FROM read_text('http://127.0.0.1:1/x')",
    "SELECT * FROM read_parquet('s3://bucket/x.parquet')",
    "SELECT * FROM read_csv('/dev/stdin')",
    "SELECT * FROM read_text('/proc/self/environ')",
    "SELECT (SELECT content FROM read_text('{outside}'))",
    "WITH x AS (SELECT * FROM read_text('{outside}')) SELECT * FROM x",
    "SELECT * FROM shop.totals, LATERAL (SELECT * FROM read_text('{outside}'))",
    "SELECT 1 UNION ALL SELECT count(*) FROM read_text('{outside}')",
    "SELECT * FROM query('SELECT * FROM read_text(''{outside}'')')",
    "SELECT * FROM query_table('{inside}')",
    "DESCRIBE SELECT * FROM read_csv('{outside}')",
    "SUMMARIZE SELECT * FROM read_csv('{outside}')",
    "DESCRIBE '{inside}'",
    "FROM (PIVOT read_csv('{outside}') ON a IN (1) USING count(*))",
    "VALUES ((SELECT content FROM read_text('{outside}')))",
    "/* */ SELECT * FROM -- x\n read_text('{outside}')",
    "SELECT * FROM READ_TEXT('{outside}')",
    "SELECT * FROM \"read_text\"('{outside}')",
    "SELECT * FROM system.main.read_text('{outside}')",
]
WRITING = [
    "COPY (SELECT 1) TO '{folder}/written'",
    "COPY (SELECT 1) TO '{inside}' (USE_TMP_FILE false)",
    "COPY (SELECT 1) TO '{inside}' (FORMAT parquet, USE_TMP_FILE false)",
    "COPY shop.totals TO '{folder}/written'",
    "COPY shop.totals FROM '{outside}'",
    "EXPORT DATABASE '{folder}/written'",
    "IMPORT DATABASE '{folder}'",
    "ATTACH '{folder}/written'",
    "ATTACH '{folder}/written' AS w; CREATE TABLE w.t AS SELECT 1",
    "WITH x AS (SELECT 1) INSERT INTO shop.totals SELECT * FROM x",
    "CREATE TABLE t AS SELECT 1",
    "CREATE OR REPLACE VIEW shop.totals AS SELECT 1",
    "CREATE MACRO m() AS TABLE SELECT * FROM read_text('{outside}')",
    "DROP VIEW shop.totals",
    "CREATE SECRET s (TYPE s3, KEY_ID 'x', SECRET 'y')",
    "CHECKPOINT",
    "VACUUM",
    "SELECT 1; COPY (SELECT 1) TO '{folder}/written'",
    "SELECT 1) TO '{folder}/written'; --",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{folder}/written'",
    "PREPARE p AS COPY (SELECT 1) TO '{folder}/written'",
    "EXECUTE p",
    "UPDATE shop.totals SET k = 1",
    "DELETE FROM shop.totals",
    "SELECT write_log('x')",
]
CONFIGURING = [
    "SET enable_external_access = true",
    "SET GLOBAL enable_external_access = true",
    "RESET enable_external_access",
    "SET lock_configuration = false",
    "RESET lock_configuration",
    "SET allowed_paths = ['{outside}']",
    "SET allowed_directories = ['/']",
    "SET memory_limit = '100GB'",
    "SET threads = 64",
    "SET temp_directory = '{folder}'",
    "SET home_directory = '{folder}'",
    "SET python_enable_replacements = true",
    "SET VARIABLE v = 1",
    "PRAGMA enable_profiling",
    "PRAGMA database_list",
    "PRAGMA profiling_output = '{folder}/written'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "LOAD '{folder}/x.duckdb_extension'",
    "FORCE INSTALL httpfs FROM 'http://127.0.0.1:1'",
    "USE temp",
    "CALL pragma_version()",
    "CALL enable_logging(storage = 'file', storage_path = '{folder}/written')",
    "SELECT * FROM enable_logging(storage = 'file', storage_path = '{folder}/written')",
    "SELECT * FROM enable_profiling(save_location = '{folder}/written')",
]
TELLING = [
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_databases()",
    "SELECT * FROM duckdb_views()",
    "SELECT * FROM duckdb_temporary_files()",
    "SELECT * FROM duckdb_logs()",
    "SELECT * FROM which_secret('s3://x', 's3')",
    "SELECT * FROM pragma_database_list",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM system.information_schema.columns",
    "SELECT * FROM temp.main.rows_0",
    "SELECT current_setting('temp_directory')",
    "SELECT getenv('HOME')",
    "SHOW ALL TABLES",
    "SHOW DATABASES",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "SELECT * FROM test_all_types()",
    "SELECT * FROM bundle",
    "SELECT * FROM shop.secret",
    "SELECT * FROM python_map_function()",
    "SELECT * FROM arrow_scan(1, 2, 3)",
    "SELECT * FROM pandas_scan(1)",
    "SELECT * FROM seq_scan('x')",
]
ATTEMPTS = [*READING, *WRITING, *CONFIGURING, *TELLING]
# In a database of its own these tell, or change, nothing but that one query's
HARMLESS_WITHOUT_LOOK = {
    *(sql for sql in TELLING if "read_" not in sql),
    "PRAGMA enable_profiling",
    "PRAGMA database_list",
    "SET VARIABLE v = 1",
    "USE temp",
    "CALL pragma_version()",
    "CREATE TABLE t AS SELECT 1",
    "CREATE OR REPLACE VIEW shop.totals AS SELECT 1",
    "CREATE MACRO m() AS TABLE SELECT * FROM read_text('{outside}')",
    "DROP VIEW shop.totals",
    "CREATE SECRET s (TYPE s3, KEY_ID 'x', SECRET 'y')",
    "CHECKPOINT",
    "VACUUM",
    "SELECT write_log('x')",
    # it takes these, writes no file, and answers nothing any more
    "CALL enable_logging(storage = 'file', storage_path = '{folder}/written')",
    "SELECT * FROM enable_logging(storage = 'file', storage_path = '{folder}/written')",
    "SELECT * FROM enable_profiling(save_location = '{folder}/written')",
    "PREPARE p AS COPY (SELECT 1) TO '{folder}/written'",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world_in(tmp_path_factory.mktemp("escapes")) as world:
        world.commit({"": rows((1, "a"), (2, "b"))})
        (world.folder / "outside").write_text(SECRET)
        yield world


def filled(sql: str, folder: Path) -> str:
    inside = next(folder.glob("*.parquet"))
    return sql.format(inside=inside, outside=folder / "outside", folder=folder)


def test_there_are_enough() -> None:
    assert len(set(ATTEMPTS)) >= 110


@pytest.mark.parametrize("sql", ATTEMPTS)
def test_is_refused(world: World, sql: str) -> None:
    inside = next(world.folder.glob("*.parquet")).read_bytes()
    with pytest.raises(errors.QueryRefused) as refused:
        world.ask(filled(sql, world.folder))
    assert SECRET not in str(refused.value)
    assert next(world.folder.glob("*.parquet")).read_bytes() == inside
    assert not (world.folder / "written").exists()


RECURSIVE = (
    "WITH RECURSIVE r(x) AS (SELECT x FROM ({}) y UNION SELECT x FROM ({}) y) SELECT x FROM ({}) z"
)


def larger(queries: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds(
            "WITH {1} AS ({0}) SELECT x FROM ({2}) z".format,
            queries,
            st.sampled_from("pqr"),
            queries,
        ),
        st.builds("WITH p AS ({}), q AS ({}) SELECT x FROM ({}) z".format, *[queries] * 3),
        st.builds(RECURSIVE.format, *[queries] * 3),
        st.builds("({}) UNION ALL ({})".format, *[queries] * 2),
        st.builds("SELECT ({}) AS x FROM ({}) a".format, *[queries] * 2),
        st.builds("SELECT a.x FROM ({}) a, LATERAL ({}) b".format, *[queries] * 2),
        st.builds("SELECT x FROM ({}) WHERE x IN ({}) ORDER BY x".format, *[queries] * 2),
    )


# With a bound: a tree whose every knot has two or three below it would mostly grow without an end,
# and be given up.
queries_with_names = st.recursive(
    st.sampled_from(["SELECT 1 AS x", "SELECT x FROM p", 'SELECT x FROM "Q"', "SELECT x FROM r"]),
    larger,
    max_leaves=8,
)


@pytest.mark.property
@given(sql=queries_with_names)
@settings(max_examples=examples(300, 20_000), deadline=None)
def test_names_of_with_hold_where_duckdb_resolves_them(sql: str) -> None:
    """A name that is none of WITH is looked up in the catalogue: here there is nothing else."""
    try:
        DATABASE.execute(f"EXPLAIN {sql}")
    except duckdb.CatalogException:
        with pytest.raises(StatementRefused, match="there is no table"):
            PARSER.inspect(sql)
    except duckdb.BinderException:
        reject()  # the engine ended before it looked all names up


@pytest.mark.parametrize("sql", OUT_OF_SCOPE)
def test_names_out_of_scope_are_refused_before_they_are_looked_up(sql: str, tmp_path: Path) -> None:
    text = sql.format(inside=tmp_path / "inside.parquet", folder=tmp_path)
    with pytest.raises(StatementRefused, match=r"there is no table|one SELECT"):
        PARSER.inspect(text)


@pytest.mark.parametrize(
    "sql",
    [
        "WITH RECURSIVE r(x) AS (SELECT 1 UNION SELECT x + 1 FROM r WHERE x < 3) SELECT count(*) FROM r",
        "WITH p AS (SELECT 1), q AS (FROM p) SELECT (SELECT count(*) FROM Q) + (SELECT count(*) FROM p) + 1",
        "WITH p AS (SELECT 3 AS x) SELECT x FROM (WITH p AS (SELECT x FROM p) SELECT x FROM p)",
        "WITH p AS (SELECT 3 AS x) (SELECT x FROM p) UNION (SELECT x FROM p) ORDER BY x",
        "WITH p AS (SELECT 3 AS x) SELECT max(b.x) FROM p a, LATERAL (SELECT x FROM p WHERE x = a.x) b",
        'WITH "\u00c9" AS (SELECT 3 AS x) SELECT x FROM "\u00c9"',
    ],
)
def test_names_in_scope_are_those_of_the_query(world: World, sql: str) -> None:
    assert world.rows(sql) == [[3]]


def test_the_only_folder_that_duckdb_opens_is_new_and_empty_for_each_query(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "earlier.csv").write_text(f"a\n{SECRET}\n")
    bounds: Any = {
        "lake": str(tmp_path),
        "scratch": str(scratch),
        "memory_bytes": 1 << 28,
        "disk_bytes": 1 << 30,
    }
    with database_of(open_lake(str(tmp_path)), [], bounds) as database:
        with pytest.raises(duckdb.Error):
            database.execute(f"SELECT * FROM '{scratch}/earlier.csv'").fetchall()
        found = database.execute(
            "SELECT value FROM duckdb_settings() WHERE name = 'allowed_directories'"
        ).fetchall()
        (folder,) = scratch.glob("*/")
        assert found == [(f"[{folder}/]",)]
        assert list(folder.iterdir()) == []
    assert [path.name for path in scratch.iterdir()] == ["earlier.csv"]


@pytest.mark.parametrize("sql", [sql for sql in ATTEMPTS if sql not in HARMLESS_WITHOUT_LOOK])
def test_is_refused_by_the_database_alone(tmp_path: Path, sql: str) -> None:
    """The look at the text is one wall, the locked database another one."""
    (tmp_path / "outside").write_text(SECRET)
    pq.write_table(pa.table({"k": [1]}), tmp_path / "inside.parquet")
    before = (tmp_path / "inside.parquet").read_bytes()
    given = table("inside.parquet", struct_of([field_of("k", "long")]))
    (tmp_path / "scratch").mkdir()
    bounds = {
        "lake": str(tmp_path),
        "scratch": str(tmp_path / "scratch"),
        "memory_bytes": 1 << 28,
        "disk_bytes": 1,
    }
    with database_of(open_lake(str(tmp_path)), [given], bounds) as database:  # type: ignore[arg-type]
        with pytest.raises(duckdb.Error):
            database.execute(filled(sql, tmp_path)).fetchall()
        assert database.execute("SELECT k FROM shop.totals").fetchall() == [(1,)]
    assert (tmp_path / "inside.parquet").read_bytes() == before
    assert not (tmp_path / "written").exists()
    assert not any(
        SECRET in p.read_text(errors="ignore")
        for p in (tmp_path / "scratch").rglob("*")
        if p.is_file()
    )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT read_text('{outside}')",
        "SELECT k.read_text FROM shop.totals",
        "SELECT * FROM shop.totals@x",
    ],
)
def test_what_is_no_sql_is_refused(world: World, sql: str) -> None:
    with pytest.raises(errors.QueryRefused):
        world.ask(filled(sql, world.folder))


def test_the_process_has_no_secrets(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_TOKEN", SECRET)
    world.ctx = world.ctx.__class__(world.store, actor="another")
    world.ask("SELECT 1")
    (child,) = [child for child in world.pool._idle if child.user == "another"]
    assert SECRET.encode() not in Path(f"/proc/{process_of(child).pid}/environ").read_bytes()
