"""SQL transforms: one job for many tasks comes to what single jobs do, and errors lead to the
user's own line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from dataplane.contract.identity import Content
from dataplane.contract.results import TaskResult
from dataplane.spark.spark_session import WHOLE
from tests.spark.conftest import Lake, done, failed, query, schema_of, told_types

FLIGHTS = "day INT, carrier STRING, delay DOUBLE, tags ARRAY<STRING>"
COLUMNS = pa.schema(
    [
        ("day", pa.int32()),
        ("carrier", pa.string()),
        ("delay", pa.float64()),
        ("tags", pa.list_(pa.string())),
    ]
)
DAYS: list[list[tuple]] = [
    [(1, "UA", 5.0, ["x", "y"]), (1, "AA", None, [])],
    [(2, "UA", -0.0, None), (2, "ZZ", 7.5, ["z"]), (2, "UA", 1.0, ["x"])],
    [(3, None, 2.0, [None])],
    [],
]


INT = pa.schema([("a", pa.int32())])


class Flights:
    """Partitions, one of them empty, and a table that all of them are joined to."""

    def __init__(self, lake: Lake) -> None:
        tables = [
            pa.table(list(map(list, zip(*rows, strict=True))), schema=COLUMNS) if rows else None
            for rows in DAYS
        ]
        self.days = [[] if t is None else lake.table(t) for t in tables]
        self.airlines = lake.table(pa.table({"code": ["UA", "AA"], "name": ["United", "American"]}))
        self.inputs = {
            "flights": {"view": "in_0", "mode": "each", "schema": schema_of(lake.spark, FLIGHTS)},
            "airlines": {
                "view": "in_1",
                "mode": "all",
                "schema": schema_of(lake.spark, "code STRING, name STRING"),
            },
        }
        self.lake = lake

    def job(self, sql: str, batch: str | None = None, **job: Any) -> dict[str, Any]:
        text = sql.replace("flights", "in_0").replace("airlines", "in_1")
        more = {
            "inputs": self.inputs,
            "shared": {"airlines": self.airlines},
            "batch_input": "flights",
        }
        return query(text, batch_sql=batch, **more, **job)

    def run(self, job: dict[str, Any]) -> list[TaskResult]:
        return self.lake.run(
            "transform", job, [{"slots": {"flights": files}} for files in self.days]
        )


@pytest.fixture
def flights(lake: Lake) -> Flights:
    return Flights(lake)


QUERIES = [
    (
        "SELECT f.day, a.name, f.delay + :more AS d FROM flights f LEFT JOIN airlines a ON f.carrier = a.code",
        "f",
    ),
    ("SELECT f.*, a.name FROM flights f JOIN airlines a ON f.carrier = a.code", None),
    (
        "SELECT *, upper(t) AS u FROM flights f LATERAL VIEW explode(tags) x AS t WHERE delay > 0",
        None,
    ),
    (
        "SELECT day, explode(tags) AS t, NULL AS nothing, array(struct(NULL AS x)) AS deep FROM flights f",
        "f",
    ),
    (
        "SELECT f.carrier `a.b`, map(f.carrier, f.delay) `c``d` FROM flights f WHERE carrier IS NOT NULL",
        "f",
    ),
]


@pytest.mark.parametrize(("sql", "alias"), QUERIES)
def test_a_batch_comes_to_what_single_jobs_do(
    flights: Flights, sql: str, alias: str | None
) -> None:
    job = flights.job(sql, params={"more": 1.5})
    carried = job["sql"].replace(" FROM", f", {alias}._fragment FROM", 1) if alias else job["sql"]
    singles, batch = flights.run(job), flights.run({**job, "batch_sql": carried})
    assert [r["content"] for r in map(done, batch)] == [r["content"] for r in map(done, singles)]
    assert [r["schema"] for r in batch] == [r["schema"] for r in singles]
    assert [flights.lake.rows(r) for r in batch] == [flights.lake.rows(r) for r in singles]
    assert sum(Content(*r["content"]).rows for r in batch) > 0
    assert (batch[-1]["content"], batch[-1]["files"]) == ([0, 0, 0], [])


def test_one_bad_partition_fails_alone(flights: Flights) -> None:
    job = flights.job("SELECT day,\n  1 / (day - 3) AS x FROM flights")
    results = flights.run(
        {**job, "batch_sql": "SELECT day, 1 / (day - 3) AS x, _fragment FROM in_0"}
    )
    assert [r["state"] for r in results] == ["done", "done", "failed", "done"]
    error = failed(results[2])
    assert (error["kind"], error["condition"], error["sqlstate"]) == (
        "user",
        "DIVIDE_BY_ZERO",
        "22012",
    )
    assert (error["file"], error["line"], error["column"]) == (None, 2, 3)
    assert error["message"].startswith("Division by zero.")


def test_places_are_those_of_the_users_text(flights: Flights) -> None:
    # SELECT f.day, f.delay
    # FROM flights.delays f, airlines
    # WHERE ...
    edits = [[27, 41, "in_0"], [45, 53, "in_1"], [53, 53, " AS airlines"]]
    ran = "SELECT f.day, f.delay\nFROM in_0 f, in_1 AS airlines\nWHERE name = nme"
    job = query(ran, inputs=flights.inputs, edits=edits)
    (error,) = map(failed, flights.lake.run("analyse", job, [{}]))
    assert error["condition"] == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert (error["line"], error["column"]) == (3, 14)
    (error,) = map(
        failed, flights.lake.run("analyse", {**job, "sql": ran.replace("in_1 AS", "in_2 AS")}, [{}])
    )
    assert (error["condition"], error["line"], error["column"]) == (
        "TABLE_OR_VIEW_NOT_FOUND",
        2,
        24,
    )
    assert "in_0" not in str(error)


def test_the_place_of_what_reads_past_the_inputs(flights: Flights) -> None:
    edits = [[22, 29, "in_0"]]
    ran = "SELECT day\nFROM (SELECT * FROM in_0) f,\n  text.`/nowhere`"
    (error,) = map(
        failed, flights.lake.run("analyse", query(ran, inputs=flights.inputs, edits=edits), [{}])
    )
    assert (error["kind"], error["condition"], error["line"], error["column"]) == (
        "user",
        "direct-read",
        3,
        3,
    )


def test_the_parsers_place_too(lake: Lake) -> None:
    (result,) = lake.run("analyse", query("SELECT 1,\n  2 b c"), [{}])
    error = failed(result)
    assert (error["condition"], error["line"], error["column"]) == ("PARSE_SYNTAX_ERROR", 2, 7)
    assert error["message"].startswith("Syntax error at or near 'c'"), (
        "the condition is a field of its own"
    )


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT parse_json('{\"k\":1}') AS v", "variant"),
        ("SELECT named_struct('a', array(parse_json('1'))) AS v", "variant"),
        ("SELECT interval 1 day AS v", "interval day"),
        ("SELECT time'12:00:00' AS v", "time(6)"),
    ],
)
def test_types_that_no_table_holds_are_refused_before_any_task(
    lake: Lake, sql: str, kind: str
) -> None:
    (result,) = lake.run("analyse", query(sql), [{}])
    error = failed(result)
    assert (error["kind"], error["condition"]) == ("user", "UNSUPPORTED_OUTPUT_TYPE")
    assert error["message"] == f"column v has type {kind}: cast it"


@pytest.mark.parametrize(
    ("sql", "condition"),
    [
        ("SELECT 1 AS a, 2 AS a", "COLUMN_ALREADY_EXISTS"),
        ("SELECT 1 AS a, 2 AS A", "COLUMN_ALREADY_EXISTS"),
        ("SELECT 1 AS _fragment", "RESERVED_COLUMN"),
        ("SELECT interval 1 day AS i", "UNSUPPORTED_OUTPUT_TYPE"),
        ("SELECT array('x' COLLATE UTF8_LCASE) AS c", "UNSUPPORTED_OUTPUT_TYPE"),
        ("SELECT * FROM nowhere", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM text.`/nowhere`", "direct-read"),
        ("SELECT reflect('java.lang.System', 'getenv', 'HOME') AS a", "direct-read"),
        ("SELECT :missing AS a", "UNBOUND_SQL_PARAMETER"),
        ("SELECT CAST('cancelled' AS INT) AS a", "CAST_INVALID_INPUT"),
        ("SELECT raise_error('No space left on device') AS a", "USER_RAISED_EXCEPTION"),
    ],
)
def test_what_cannot_be_is_the_users_error(lake: Lake, sql: str, condition: str) -> None:
    (result,) = lake.run("transform", query(sql), [{}])
    assert (failed(result)["kind"], failed(result)["condition"]) == ("user", condition)


def test_names_that_differ_by_case_where_case_counts(lake: Lake) -> None:
    spark = {"ansi": False, "case_sensitive": True, "timezone": "Asia/Tokyo"}
    (result,) = lake.run(
        "transform",
        query("SELECT 1 AS a, 2 / 0 AS A, timestamp'2020-01-01' AS t", spark=spark),
        [{}],
    )
    assert done(result)["files"][0]["stats"]["minValues"]["t"] == "2019-12-31T15:00:00.000Z"
    assert done(result)["files"][0]["stats"]["nullCount"] == {"a": 0, "A": 1, "t": 0}


def test_a_column_that_a_file_lacks_is_null(lake: Lake) -> None:
    files = lake.table(pa.table({"a": [1]}, INT)) + lake.table(
        pa.table({"a": [2], "b": ["x"]}, INT.append(pa.field("b", pa.string())))
    )
    inputs = {
        "t": {
            "view": "v",
            "mode": "all",
            "schema": schema_of(lake.spark, "a INT, b STRING, c DATE"),
        }
    }
    (result,) = lake.run(
        "transform", query("SELECT * FROM v", inputs=inputs, shared={"t": files}), [{"slots": {}}]
    )
    assert lake.rows(result) == [{"a": 1, "b": None, "c": None}, {"a": 2, "b": "x", "c": None}]


@pytest.fixture
def careless(lake: Lake) -> Iterator[None]:
    """An operator's settings for all sessions."""
    conf = lake.spark.sparkContext._jsc.sc().conf()
    for name in WHOLE:
        conf.set(name, "true")
    yield
    for name in WHOLE:
        conf.remove(name)


@pytest.mark.usefixtures("careless")
def test_a_broken_file_of_the_lake_is_nobodys_fault(lake: Lake) -> None:
    (file,) = lake.table(pa.table({"a": [1]}, INT))
    (lake.root / file).write_bytes(b"PAR1")
    inputs = {"t": {"view": "v", "mode": "all", "schema": schema_of(lake.spark, "a INT")}}
    (result,) = lake.run(
        "transform", query("SELECT * FROM v", inputs=inputs, shared={"t": [file]}), [{}]
    )
    assert failed(result)["kind"] == "infrastructure"
    assert file in failed(result)["detail"]


@pytest.mark.usefixtures("careless")
@pytest.mark.parametrize("mode", ["all", "each", "batch"])
@pytest.mark.parametrize("beside", [1, 40])
def test_rows_of_a_file_that_the_lake_lost_are_never_just_missing(
    lake: Lake, mode: str, beside: int
) -> None:
    files = [lake.table(pa.table({"a": [n]}, INT))[0] for n in range(beside)]
    (lost,) = lake.table(pa.table({"a": [99]}, INT))
    (lake.root / lost).unlink()
    batch = (
        {"batch_sql": "SELECT v.*, v._fragment FROM v", "batch_input": "t"}
        if mode == "batch"
        else {}
    )
    inputs = {
        "t": {
            "view": "v",
            "mode": "all" if mode == "all" else "each",
            "schema": schema_of(lake.spark, "a INT"),
        }
    }
    whole = [*files, lost]
    job = query(
        "SELECT * FROM v", inputs=inputs, shared={"t": whole} if mode == "all" else {}, **batch
    )
    if mode == "batch":
        result, other = lake.run(
            "transform", job, [{"slots": {"t": whole}}, {"slots": {"t": files}}]
        )
        assert len(lake.rows(other)) == beside
    else:
        (result,) = lake.run("transform", job, [{"slots": {"t": whole}} if mode == "each" else {}])
    error = failed(result)
    assert (error["kind"], error["condition"]) == ("infrastructure", "lake-file-gone")
    assert lost.rpartition("/")[2] in error["message"]
    assert "`headgate fsck --repair`" in error["message"]


def test_analysis_gives_the_schema_and_runs_nothing(flights: Flights) -> None:
    job = flights.job(
        "SELECT carrier, avg(delay) AS m, NULL AS n, 1 / 0 AS x FROM flights GROUP BY carrier"
    )
    (result,) = flights.lake.run("analyse", job, [{}])
    assert told_types(done(result)) == {
        "carrier": "string",
        "m": "double",
        "n": "string",
        "x": "double",
    }


def test_a_union_reads_the_partition_of_each_side(lake: Lake) -> None:
    """A side that lacks the key is empty, and gives its types all the same."""
    text = pa.schema([("a", pa.int64()), ("b", pa.string())])
    files = {n: lake.table(pa.table({"a": [n]}, INT)) for n in (1, 2)}
    others = {n: lake.table(pa.table({"a": [n], "b": [f"{n}"]}, text)) for n in (2, 3)}
    inputs = {
        "f": {"view": "f", "mode": "each", "schema": schema_of(lake.spark, "a INT")},
        "g": {"view": "g", "mode": "each", "schema": schema_of(lake.spark, "a BIGINT, b STRING")},
    }
    job = query("SELECT a, 'f' AS b FROM f UNION ALL SELECT a + 10, b FROM g", inputs=inputs)
    tasks = [{"slots": {"f": files.get(n, []), "g": others.get(n, [])}} for n in (1, 2, 3)]
    results = [done(r) for r in lake.run("transform", job, tasks)]
    assert [[tuple(row.values()) for row in lake.rows(r)] for r in results] == [
        [(1, "f")],
        [(12, "2"), (2, "f")],
        [(13, "3")],
    ]
    assert {f["type"] for r in results for f in r["schema"]["fields"][:1]} == {"long"}
