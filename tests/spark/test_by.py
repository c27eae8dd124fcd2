"""Key indexes, and tasks of one key: what Spark finds in files is what keys say, for every type
that gives keys."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
import pytest

from dataplane.contract.identity import EMPTY, Content
from dataplane.contract.key_values import key_text
from dataplane.contract.keys import KeyPart, column_key
from dataplane.contract.results import IndexAnswer, SchemaAnswer, TaskResult
from dataplane.spark.job_counts import counts
from tests.slices import sliced
from tests.spark.conftest import Lake, done, failed, query, schema_of
from tests.spark.test_expectations import dropping


def part(column: str, granule: str = "", buckets: int = 0, name: str = "k") -> dict[str, Any]:
    return {"name": name, "column": column, "granule": granule, "buckets": buckets}


def index(
    lake: Lake, ddl: str, parts: list[dict[str, Any]], *tables: pa.Table, timezone: str = "UTC"
) -> list[TaskResult]:
    job = {"schema": schema_of(lake.spark, ddl), "key": parts, "timezone": timezone}
    return lake.run("index", job, [{"slots": {"": lake.table(t)}} for t in tables])


def held(result: TaskResult) -> dict[str, Content]:
    answer = cast("IndexAnswer", done(result)["result"])
    return {key: Content(*content) for key, content in answer["keys"].items()}


TIME = datetime(2013, 7, 4, 23, 30, tzinfo=UTC)
ODD = ["", "a/b=c d'\"`\\", "日本語 🛩", "%2F", "NULL", "null", "k" * 1000, "new\nline", "\0"]
QUARTERS = {14: "00", 15: "15", 44: "30", 59: "45"}  # minute -> its quarter of an hour
WEEKS = {
    day: "{:04}-W{:02}".format(*day.isocalendar())
    for day in (
        date(2013, 1, 1),
        date(2012, 12, 30),
        date(2010, 1, 3),
        date(1, 1, 1),
        date(9999, 12, 31),
    )
}
KEYS: list[tuple[str, pa.DataType, dict[str, Any], dict[Any, str | None]]] = [
    ("BIGINT", pa.int64(), {}, {-1: "-1", 0: "0", 2**63 - 1: str(2**63 - 1), None: None}),
    ("TINYINT", pa.int8(), {}, {-128: "-128", 7: "7"}),
    ("STRING", pa.string(), {}, {text: text for text in ODD} | {None: None}),
    ("BOOLEAN", pa.bool_(), {}, {True: "true", False: "false", None: None}),
    ("DATE", pa.date32(), {}, {date(2013, 1, 31): "2013-01-31", date(9999, 12, 31): "9999-12-31"}),
    (
        "DATE",
        pa.date32(),
        {"granule": "month"},
        {date(2013, 1, 31): "2013-01", date(1, 2, 1): "0001-02", None: None},
    ),
    ("DATE", pa.date32(), {"granule": "year"}, {date(2013, 1, 31): "2013"}),
    (
        "TIMESTAMP",
        pa.timestamp("us", "UTC"),
        {"granule": "hour"},
        {TIME: "2013-07-04T23", None: None},
    ),
    (
        "TIMESTAMP",
        pa.timestamp("us", "UTC"),
        {"granule": "minute"},
        {TIME: "2013-07-04T23:30", TIME.replace(hour=1, minute=7, second=59): "2013-07-04T01:07"},
    ),
    (
        "TIMESTAMP_NTZ",
        pa.timestamp("us"),
        {"granule": "15 minutes"},
        {TIME.replace(tzinfo=None, minute=m): f"2013-07-04T23:{t}" for m, t in QUARTERS.items()},
    ),
    ("TIMESTAMP", pa.timestamp("us", "UTC"), {"granule": "day"}, {TIME: "2013-07-04"}),
    (
        "TIMESTAMP_NTZ",
        pa.timestamp("us"),
        {"granule": "month"},
        {TIME.replace(tzinfo=None): "2013-07"},
    ),
    ("DATE", pa.date32(), {"granule": "week"}, WEEKS | {None: None}),
    (
        "DATE",
        pa.date32(),
        {"granule": "quarter"},
        {date(2013, 3, 31): "2013-Q1", date(2013, 10, 1): "2013-Q4"},
    ),
    ("TIMESTAMP", pa.timestamp("us", "UTC"), {"granule": "week"}, {TIME: "2013-W27"}),
    ("TIMESTAMP", pa.timestamp("us", "UTC"), {"granule": "quarter"}, {TIME: "2013-Q3", None: None}),
    (
        "DECIMAL(20,9)",
        pa.decimal128(20, 9),
        {},
        {
            Decimal("0E-9"): "0",
            Decimal("1.5"): "1.5",
            Decimal("1E-9"): "0.000000001",
            Decimal(-100): "-100",
        },
    ),
    ("DECIMAL(38,0)", pa.decimal128(38, 0), {}, {Decimal(10) ** 37: "1" + "0" * 37}),
]
# Each type is code of its own; under the other mode of Spark it goes the same way.
IN_BOTH_MODES = [
    *((*key, True) for key in KEYS),
    *sliced([pytest.param(*key, False) for key in KEYS], 4),
]


@pytest.mark.parametrize(("ddl", "kind", "unit", "values", "ansi"), IN_BOTH_MODES)
def test_each_key_finds_its_own_rows(
    lake: Lake,
    ddl: str,
    kind: pa.DataType,
    unit: dict[str, Any],
    values: dict[Any, str | None],
    ansi: bool,
) -> None:
    column = [*values, *values]
    table = pa.table({"c d": pa.array(column, kind), "n": pa.array(range(len(column)), pa.int64())})
    schema = f"`c d` {ddl}, n BIGINT"
    [result] = index(lake, schema, [part("c d", **unit)], table)
    assert held(result).keys() == {column_key(["k"], [text]) for text in values.values()}
    assert sum(content.rows for content in held(result).values()) == len(column)
    inputs = {
        "x": {
            "view": "x",
            "mode": "by",
            "schema": schema_of(lake.spark, schema),
            "key": [part("c d", **unit)],
        }
    }
    spark = {"ansi": ansi, "case_sensitive": False, "timezone": "UTC"}
    job = query("SELECT * FROM x", inputs=inputs, key=[part("C D", **unit)], spark=spark)
    files = lake.table(table)
    tasks = [{"partition": key, "slots": {"x": files}} for key in held(result)]
    rows = [lake.rows(r) for r in lake.run("transform", job, tasks)]
    assert sorted(row["n"] for found in rows for row in found) == list(range(len(column)))
    assert all(len(found) == 2 for found in rows)
    told = {value: key_text(value, cast("KeyPart", part("c d", **unit)), UTC) for value in values}
    assert told == values


def test_an_input_with_a_reach_has_the_rows_of_neighbouring_granules(lake: Lake) -> None:
    times = [datetime(2013, 7, 4, hour, 30, tzinfo=UTC) for hour in range(6)]
    files = lake.table(pa.table({"at": pa.array([*times, None], pa.timestamp("us", "UTC"))}))
    read = {
        "view": "x",
        "mode": "by",
        "schema": schema_of(lake.spark, "at TIMESTAMP"),
    }
    key = [part("at", "hour")]
    inputs = {
        "own": {**read, "view": "own", "key": key},
        "x": {**read, "reach": {"key": key, "before_s": 5400, "after_s": 1}},
    }
    text = (
        "SELECT max(own.at) AS at, max(collected) AS hours FROM own"
        " CROSS JOIN (SELECT sort_array(collect_list(hour(at))) AS collected FROM x)"
    )
    job = query(text, inputs=inputs, key=[part("at", "hour")])
    hours = {"k=2013-07-04T03": [1, 2, 3, 4], "k=2013-07-04T00": [0, 1], "k": []}
    tasks = [{"partition": key, "slots": {"own": files, "x": files}} for key in hours]
    for result, expected in zip(lake.run("transform", job, tasks), hours.values(), strict=True):
        [row] = lake.rows(result)
        assert list(row["hours"]) == expected


def test_contents_of_keys_add_up_over_files_whatever_their_own_columns(lake: Lake) -> None:
    ddl = "k INT, v DOUBLE, tags ARRAY<STRING>"
    whole = {
        "k": pa.array([1, 1, 2, None], pa.int32()),
        "v": [0.5, None, -0.0, 7.0],
        "tags": [["a"], None, [], [None]],
    }
    table = pa.table(whole)
    lacking = pa.table({"k": pa.array([1], pa.int32()), "v": [3.0]})
    with_null = lacking.append_column("tags", pa.array([None], pa.list_(pa.string())))
    one, first, second, short, long = map(
        held,
        index(lake, ddl, [part("k")], table, table.slice(0, 1), table.slice(1), lacking, with_null),
    )
    assert one.keys() == {"k=1", "k=2", "k"}
    assert one == {key: first.get(key, EMPTY).plus(second[key]) for key in one}
    assert short == long


def test_a_number_is_one_key_however_wide_its_type_is(lake: Lake) -> None:
    narrow = index(lake, "k INT", [part("k")], pa.table({"k": pa.array([5], pa.int32())}))
    wide = index(lake, "k BIGINT", [part("k")], pa.table({"k": pa.array([5], pa.int64())}))
    decimal = index(
        lake,
        "k DECIMAL(9,2)",
        [part("k")],
        pa.table({"k": pa.array([Decimal(5)], pa.decimal128(9, 2))}),
    )
    assert {key for [result] in (narrow, wide, decimal) for key in held(result)} == {"k=5"}


def test_several_parts_buckets_and_nulls(lake: Lake) -> None:
    customers = [None, *range(100)]
    table = pa.table({"m": ["x"] * 101, "c": pa.array(customers, pa.int64())})
    parts = [part("m", name="m"), part("c", buckets=4, name="customer")]
    [result] = index(lake, "m STRING, c BIGINT", parts, table)
    assert held(result).keys() == {"m=x/customer", *(f"m=x/customer={n}" for n in range(4))}
    assert held(result)["m=x/customer"].rows == 1


def test_buckets_are_known_without_spark(lake: Lake) -> None:
    texts = [None, *ODD, *("日k" * n for n in range(40))]
    for count in (4, 100_000):
        unit = part("s", buckets=count)
        [result] = index(lake, "s STRING", [unit], pa.table({"s": texts}))
        told = Counter(
            column_key(["k"], [key_text(text, cast("KeyPart", unit), UTC)]) for text in texts
        )
        assert {key: content.rows for key, content in held(result).items()} == told


def test_granules_follow_the_sessions_time_zone(lake: Lake) -> None:
    table = pa.table({"t": pa.array([TIME], pa.timestamp("us", "UTC"))})
    [result] = index(lake, "t TIMESTAMP", [part("t", "day")], table, timezone="Asia/Tokyo")
    assert held(result).keys() == {"k=2013-07-05"}


def test_no_rows_have_no_keys(lake: Lake) -> None:
    [result] = index(lake, "k INT", [part("k")], pa.table({"k": pa.array([], pa.int32())}))
    assert held(result) == {}


def test_what_is_no_text_fails_alone(lake: Lake) -> None:
    broken = pa.table({"k": pa.array([b"\xff"], pa.binary()).cast(pa.string(), safe=False)})
    good, bad = index(lake, "k STRING", [part("k")], pa.table({"k": ["a"]}), broken)
    assert held(good).keys() == {"k=a"}
    assert failed(bad)["condition"] == "INVALID_UTF8_STRING"


def two_keys(lake: Lake, **job: Any) -> list[TaskResult]:
    table = lake.table(
        pa.table({"k": pa.array([1, 2], pa.int32()), "v": pa.array([1, 2], pa.int32())})
    )
    inputs = {
        "x": {
            "view": "x",
            "mode": "by",
            "schema": schema_of(lake.spark, "k INT, v INT"),
            "key": [part("k")],
        }
    }
    tasks = [{"partition": key, "slots": {"x": table}} for key in ("k=1", "k=2")]
    return lake.run(
        "transform",
        {**query("SELECT * FROM x"), "inputs": inputs, "key": [part("k")], **job},
        tasks,
    )


def test_keys_that_are_computed_together_come_to_what_each_comes_to(lake: Lake) -> None:
    sql = "SELECT k, sum(v) AS v, count(*) AS n FROM x GROUP BY k"
    files = [
        lake.table(pa.table({"k": pa.array(ks, pa.int32()), "v": pa.array(ks, pa.int32())}))
        for ks in KS
    ]
    inputs = {
        "x": {
            "view": "x",
            "mode": "by",
            "schema": schema_of(lake.spark, "k INT, v INT"),
            "key": [part("k")],
        }
    }
    job = {**query(sql), "inputs": inputs, "key": [part("k")]}
    held_by = {"k=1": [0, 1, 1], "k=2": [0], "k": [2], "k=9": [0]}  # one file is in two partitions
    tasks = [
        {"partition": k, "slots": {"x": [p for n in of for p in files[n]]}}
        for k, of in held_by.items()
    ]
    single, together = (
        lake.run("transform", {**job, **more}, tasks) for more in ({}, {"together": True})
    )
    assert [done(r)["content"] for r in together] == [done(r)["content"] for r in single]
    assert [lake.rows(r) for r in together] == [lake.rows(r) for r in single]
    assert lake.rows(together[0]) == [{"k": 1, "v": 4, "n": 4}]
    assert lake.rows(together[3]) == []


KS: list[list[int | None]] = [[1, 2, 1, 5], [1], [None]]


def test_of_keys_computed_together_only_the_wrong_ones_fail(lake: Lake) -> None:
    right, wrong = two_keys(lake, sql="SELECT if(k = 2, 7, k) AS k, v FROM x", together=True)
    assert lake.rows(right) == [{"k": 1, "v": 1}]
    assert failed(wrong)["condition"] == "KEY_MISMATCH"
    right, wrong = two_keys(lake, sql="SELECT k, 1 / (k - 2) AS v FROM x", together=True)
    assert lake.rows(right) == [{"k": 1, "v": -1.0}]
    assert failed(wrong)["condition"] == "DIVIDE_BY_ZERO"


def test_rows_of_another_key_are_an_error_that_names_both(lake: Lake) -> None:
    right, wrong = two_keys(lake, sql="SELECT least(k, 1) AS k, v FROM x")
    assert lake.rows(right) == [{"k": 1, "v": 1}]
    error = failed(wrong)
    assert (error["condition"], error["kind"]) == ("KEY_MISMATCH", "user")
    assert "k=2" in error["message"]
    assert "k=1" in error["message"]


def test_a_key_that_became_null_is_another_one(lake: Lake) -> None:
    right, wrong = two_keys(lake, sql="SELECT nullif(k, 2) AS k FROM x")
    assert lake.rows(right) == [{"k": 1}]
    assert failed(wrong)["condition"] == "KEY_MISMATCH"


def test_a_result_without_the_keys_column_is_an_error(lake: Lake) -> None:
    for result in two_keys(lake, sql="SELECT v FROM x"):
        assert failed(result)["condition"] == "INVALID_KEY_COLUMN"


def dealt(
    lake: Lake, sql: str = "SELECT k, v, sum(v) OVER () AS whole FROM x", **job: Any
) -> TaskResult:
    table = pa.table({"k": pa.array([1, 2, 1, None], pa.int32()), "v": [1, 2, 3, 4]})
    inputs = {"x": {"view": "x", "mode": "all", "schema": schema_of(lake.spark, "k INT, v BIGINT")}}
    more = {"inputs": inputs, "shared": {"x": lake.table(table)}, "key": [part("K")]}
    [result] = lake.run(
        "transform", {**query(sql), **more, **job}, [{"partition": "", "slots": {}}]
    )
    return result


def test_one_task_over_everything_gives_a_fragment_for_each_key(lake: Lake) -> None:
    result = done(dealt(lake))
    assert {key: Content(*one["content"]).rows for key, one in result["outputs"].items()} == {
        "k=1": 2,
        "k=2": 1,
        "k": 1,
    }
    found = {
        key: lake.rows({**result, "files": one["files"]}) for key, one in result["outputs"].items()
    }
    assert found["k=1"] == [{"k": 1, "v": 1, "whole": 10}, {"k": 1, "v": 3, "whole": 10}]
    assert found["k"] == [{"k": None, "v": 4, "whole": 10}]
    assert sorted(f["path"] for one in result["outputs"].values() for f in one["files"]) == sorted(
        f["path"] for f in result["files"]
    )


def test_equal_rows_of_a_key_have_an_equal_content_however_they_were_made(lake: Lake) -> None:
    whole, other = (
        done(dealt(lake, "SELECT k, v FROM x")),
        done(dealt(lake, "SELECT k, v FROM x WHERE k = 1")),
    )
    assert other["outputs"]["k=1"]["content"] == whole["outputs"]["k=1"]["content"]
    assert Content(*whole["content"]).rows == 4


def test_rows_that_fail_are_not_dealt(lake: Lake) -> None:
    result = done(dealt(lake, "SELECT k, v FROM x", **dropping("v <> 1", "K IS NOT NULL", "v < 3")))
    assert {
        key: lake.rows({**result, "files": one["files"]}) for key, one in result["outputs"].items()
    } == {"k=2": [{"k": 2, "v": 2}]}
    counts = {f"{0:064x}": 1, f"{1:064x}": 1, f"{2:064x}": 1}
    assert done(result)["metrics"] == {"dropped": counts, "dropped_rows": 3}
    files = {str(p.relative_to(lake.root)) for p in lake.root.glob("default/**/*.parquet")}
    assert len([path for path in files if "-" in path.split("_fragment=")[-1].split("/")[0]]) == 0
    nothing = done(dealt(lake, "SELECT k, v FROM x", **dropping("v < 0")))
    assert (nothing["outputs"], nothing["content"]) == ({}, [0, 0, 0])


def test_no_rows_give_no_fragment(lake: Lake) -> None:
    result = done(dealt(lake, "SELECT k, v FROM x WHERE false"))
    assert (result["outputs"], result["files"], result["content"]) == ({}, [], [0, 0, 0])
    assert [f["name"] for f in result["schema"]["fields"]] == ["k", "v"]


def test_rows_without_the_key_cannot_be_dealt(lake: Lake) -> None:
    assert failed(dealt(lake, "SELECT v FROM x"))["condition"] == "INVALID_KEY_COLUMN"


def python(*lines: str) -> dict[str, Any]:
    """The job of a function of `x`, and of `y` where it is an input."""
    head = "from pyspark.sql import functions as F, Window\nW = Window.partitionBy('k')\n"
    text = "\n    ".join([f"{head}def transform(x, y=None):", *lines])
    return {
        "language": "python",
        "modules": {"m.py": text},
        "main": "m.py",
        "entrypoint": "transform",
    }


def test_python_is_handed_the_rows_of_its_key_only(lake: Lake) -> None:
    results = two_keys(lake, **python("return x.groupBy('k').count()"))
    assert [lake.rows(r) for r in results] == [[{"k": 1, "count": 1}], [{"k": 2, "count": 1}]]


PER_KEY = [
    "return x.groupBy('k').agg(F.sum('v').alias('v'), F.max_by('d', 'v').alias('d'))",
    "return x.where('v > 1').withColumn('n', F.row_number().over(W.orderBy('v')))",
    "return x.withColumnRenamed('k', 'q').distinct().select(F.col('q').alias('K'), 'v').sort('v')",
    "return x.join(x.groupBy('k').agg(F.avg('v').alias('mean')), 'k').where('v > mean')",
    "return x.join(y, x.v == y.w, 'left').select('k', 'v', 'w')",
    "return x.join(y.limit(1).agg(F.max('w').alias('top')))",
    "return x.union(x.where('v > 1')).withColumn('e', F.explode(F.array('v', 'v'))).drop('v')",
    "return x.select('k', F.udf(lambda v: v and v + 1, 'int')('v').alias('v')).repartition(2)",
    "x.createTempView('mine'); return x.sparkSession.sql('SELECT k, max(v) AS v FROM mine GROUP BY k')",
    "return x.join(x.where('v > 1').select('k', F.col('v').alias('u')), 'k', 'left_anti')",
]
OTHERWISE = [
    "return x.limit(1)",
    "return x.groupBy().agg(F.max('k').alias('k'), F.sum('v').alias('v'))",
    "return x.rollup('k').count().where('k IS NOT NULL')",
    "return x.withColumn('n', F.row_number().over(Window.orderBy('v')))",
    "return x.groupBy('k').agg(F.collect_list('v').alias('v'))",
    "return x.dropDuplicates(['k'])",
    "return x.withColumn('share', F.lit(1 / x.count()))",
    "import threading; n = [0]; t = threading.Thread(target=lambda: n.append(x.count())); t.start(); t.join(); "
    "return x.withColumn('n', F.lit(n[-1]))",
    "return x.withColumn('r', F.rand())",
    "return x.groupBy('k').applyInPandas(lambda rows: rows, 'k INT, v INT, d DATE')",
    "return x.select('k', F.pandas_udf(lambda v: v - v.mean(), 'double')('v').alias('v'))",
    "return x.select(F.expr('least(k, 1)').alias('k'), 'v')",
    "return x.select('v')",
    "return y.join(x, x.v == y.w, 'left').select('k', 'w')",
    "return x.join(x.select(F.col('k').alias('o'), F.col('v').alias('u')), F.col('v') == F.col('u'))",
    "return x.select('k', 'v').union(y.select('w', 'w'))",
    "return x.where(x.v == x.select(F.max('v')).scalar())",
    "return x.rdd.map(lambda r: r).toDF('k INT, v INT, d DATE')",
]


def by_key(lake: Lake, code: dict[str, Any]) -> dict[str, Any]:
    inputs = {
        "x": {
            "view": "x",
            "mode": "by",
            "schema": schema_of(lake.spark, "k INT, v INT, d DATE"),
            "key": [part("k")],
        },
        "y": {"view": "y", "mode": "all", "schema": schema_of(lake.spark, "w INT")},
    }
    return {**query(""), "inputs": inputs, "key": [part("k")], **code}


def is_proven(lake: Lake, code: dict[str, Any]) -> bool:
    return is_together(lake, by_key(lake, code))


def is_together(lake: Lake, job: dict[str, Any]) -> bool:
    [result] = lake.run("analyse", job, [{}])
    return cast("SchemaAnswer", done(result)["result"]).get("together", False)


def test_python_is_proven_by_the_plan_of_its_result(lake: Lake) -> None:
    for code in (*PER_KEY, *OTHERWISE):
        assert is_proven(lake, python(code)) is (code in PER_KEY), code


@pytest.mark.parametrize("code", sliced([pytest.param(code) for code in PER_KEY], 3))
def test_python_that_is_proven_gives_for_many_keys_what_it_gives_for_each(
    lake: Lake, code: str
) -> None:
    job = by_key(lake, python(code))
    table = pa.table(
        {
            "k": pa.array([1, 2, 1, None, 1, 2], pa.int32()),
            "v": pa.array([1, 2, 3, 4, 3, None], pa.int32()),
            "d": pa.array([date(2013, 1, n) for n in range(1, 7)]),
        }
    )
    first, second = lake.table(table.slice(0, 3)), lake.table(table.slice(3))
    job["shared"] = {"y": lake.table(pa.table({"w": pa.array([3, 3, 4], pa.int32())}))}
    tasks = [
        {"partition": key, "slots": {"x": [*first, *second]}} for key in ("k=1", "k=2", "k", "k=5")
    ]
    single, together = (
        lake.run("transform", {**job, **more}, tasks) for more in ({}, {"together": True})
    )
    assert [done(r)["content"] for r in together] == [done(r)["content"] for r in single]
    assert [lake.rows(r) for r in together] == [lake.rows(r) for r in single]
    assert lake.rows(together[3]) == []


BY_HOUR = [
    "SELECT window(at, '{}').start AS m, v, count(*) AS n FROM x GROUP BY window(at, '{}').start, v",
    "SELECT window(at, '{}').start AS m, max(v) AS v FROM x GROUP BY window(at, '{}') HAVING max(v) > 0",
    "SELECT w.start AS m, v FROM (SELECT window(at, '{}') AS w, v FROM x) GROUP BY w, v",
    "SELECT m, v, sum(v) OVER (PARTITION BY m) AS total"
    " FROM (SELECT window(at, '{}').start AS m, v FROM x)",
    "SELECT window(a.at, '{}').start AS m, b.v FROM x a JOIN x b ON a.at = b.at",
]


def windowed(lake: Lake, text: str, length: str, **more: Any) -> dict[str, Any]:
    """A job by hours, of windows of this length."""
    x = {"view": "x", "mode": "by", "schema": schema_of(lake.spark, "at TIMESTAMP, v INT")}
    inputs = {"x": {**x, "key": [part("at", "hour")], **more.pop("x", {})}}
    job = query(text.replace("{}", length), inputs=inputs, key=[part("m", "hour")])
    return {**job, **more}


@pytest.mark.parametrize("text", sliced([pytest.param(text) for text in BY_HOUR], 2))
def test_windows_give_for_many_keys_what_they_give_for_each(lake: Lake, text: str) -> None:
    job = windowed(lake, text, "10 minutes")
    starts = [datetime(1969, 12, 31, 22, tzinfo=UTC), datetime(2013, 7, 4, 6, tzinfo=UTC)]
    minutes = (0.01, 9.99, 59.99, 60, 119.99)
    times = [start + timedelta(minutes=minute) for start in starts for minute in minutes]
    at = pa.array([*times, *times, None], pa.timestamp("us", "UTC"))
    files = lake.table(pa.table({"at": at, "v": pa.array(range(len(at)), pa.int32())}))
    keys = ["1969-12-31T22", "1969-12-31T23", "2013-07-04T06", "2013-07-04T07", "2013-07-04T08"]
    tasks = [{"partition": key, "slots": {"x": files}} for key in ["k", *(f"k={k}" for k in keys)]]
    single, together = (
        lake.run("transform", {**job, **more}, tasks) for more in ({}, {"together": True})
    )
    assert [done(r)["content"] for r in together] == [done(r)["content"] for r in single]
    assert [len(lake.rows(r)) > 0 for r in together] == [False, True, True, True, True, False]


def test_windows_are_proven_by_hour_in_the_form_that_spark_gives_them(lake: Lake) -> None:
    for text in BY_HOUR:
        assert is_together(lake, windowed(lake, text, "10 minutes")), text
    starts, windows = BY_HOUR[0], BY_HOUR[1]
    ntz = {"x": {"schema": schema_of(lake.spark, "at TIMESTAMP_NTZ, v INT")}}
    assert is_together(lake, windowed(lake, starts, "1 hour", **ntz))
    for length in ("90 minutes", "7 minutes", "1 day", "10 minutes', '5 minutes"):
        assert not is_together(lake, windowed(lake, windows, length)), length
    # The same length, and another first start
    assert not is_together(lake, windowed(lake, windows, "1 hour', '1 hour', '5 minutes"))
    berlin = {"ansi": True, "case_sensitive": False, "timezone": "Europe/Berlin"}
    texts = {"x": {"schema": schema_of(lake.spark, "at STRING, v INT")}}
    reach = {"x": {"reach": [3600, 0]}}
    for other in ({"spark": berlin}, texts, reach):
        assert not is_together(lake, windowed(lake, starts, "1 hour", **other)), other
    for text in (
        starts.replace("start AS", "end AS").replace("start,", "end,"),
        "SELECT session_window(at, '{}').start AS m FROM x GROUP BY session_window(at, '{}')",
        "SELECT window.start AS m, count(*) FROM (SELECT *, struct(at) AS s FROM x) GROUP BY "
        "window(s.at, '{}')",
    ):
        assert not is_together(lake, windowed(lake, text, "1 hour")), text


def test_the_key_is_proven_through_all_of_its_parts_and_in_its_unit(lake: Lake) -> None:
    job = by_key(lake, python("return x.groupBy('k', 'd').count()"))
    both = [part("k"), part("d", "month", name="d")]
    for own, read, expected in [
        (both, both, True),
        (both, [part("k"), part("d", "year", name="d")], False),
        ([part("k")], both, False),
    ]:
        x = {**job["inputs"]["x"], "key": read}
        assert is_proven(lake, {**job, "key": own, "inputs": {**job["inputs"], "x": x}}) is expected
    alone = python("return x.groupBy('k').agg(F.max('d').alias('d'))")
    x = {**job["inputs"]["x"], "key": both}
    assert not is_proven(lake, {**job, **alone, "key": both, "inputs": {**job["inputs"], "x": x}})


def test_keys_are_those_of_the_zone_of_the_dataflow_whatever_python_sets(lake: Lake) -> None:
    code = python("x.sparkSession.conf.set('spark.sql.session.timeZone', 'Asia/Tokyo')", "return x")
    times = [TIME, datetime(2013, 7, 5, 1, tzinfo=UTC)]
    table = pa.table({"t": pa.array(times, pa.timestamp("us", "UTC")), "n": [1, 2]})
    files, day = lake.table(table), [part("t", "day")]
    x = {"view": "x", "mode": "by", "schema": schema_of(lake.spark, "t TIMESTAMP, n BIGINT")}
    job = {**query(""), **code, "inputs": {"x": {**x, "key": day}}, "key": day, "together": True}
    tasks = [{"partition": f"k=2013-07-0{n}", "slots": {"x": files}} for n in (4, 5)]
    rows = [lake.rows(result) for result in lake.run("transform", job, tasks)]
    assert [[row["n"] for row in of_task] for of_task in rows] == [[1], [2]]


def test_one_bad_key_of_python_fails_alone(lake: Lake) -> None:
    bad = python("return x.select('k', F.expr('1 / (k - 2)').alias('v'))")
    right, wrong = two_keys(lake, together=True, **bad)
    assert lake.rows(right) == [{"k": 1, "v": -1.0}]
    assert failed(wrong)["condition"] == "DIVIDE_BY_ZERO"
    foreign = python("return x.withColumn('k', F.expr('if(k = 2, 7, k)'))")
    right, wrong = two_keys(lake, together=True, **foreign)
    assert lake.rows(right) == [{"k": 1, "v": 1}]
    assert failed(wrong)["condition"] == "KEY_MISMATCH"


def test_many_keys_of_python_are_one_call_and_few_jobs(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = range(20)
    table = pa.table({"k": pa.array(keys, pa.int32()), "v": pa.array(keys, pa.int32())})
    job = by_key(
        lake, python("print('called')", "return x.groupBy('k').agg(F.sum('v').alias('v'))")
    )
    files = lake.table(table)
    claim = lake.claim(
        "transform",
        {**job, "shared": {"y": []}, "together": True},
        [{"partition": f"k={n}", "slots": {"x": files}} for n in keys],
    )
    results = lake.executor.run(claim)
    assert counts(lake.spark, claim["attempt"])["spark_jobs"] < 8
    assert capsys.readouterr().out.count("called") == 1
    assert [lake.rows(r) for r in results] == [[{"k": n, "v": n}] for n in keys]


def test_rows_that_fail_a_condition_are_counted_for_each_of_many_keys(lake: Lake) -> None:
    kept, dropped = two_keys(lake, together=True, **dropping("v < 2"))
    assert (lake.rows(kept), lake.rows(dropped)) == ([{"k": 1, "v": 1}], [])
    assert done(kept)["metrics"] == {}
    assert done(dropped)["metrics"]["dropped_rows"] == 1
