"""Laws of contents: equal for equal multisets of rows whatever their order and files, different for
all else."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from dataplane.contract.identity import EMPTY, Content
from dataplane.contract.results import LABEL
from dataplane.contract.schemas import HEADERS, field_of, struct_of
from dataplane.fragments.arrow import arrow_type
from dataplane.fragments.content import content_of, content_query, unsupported
from dataplane.fragments.content_local import content, is_simple
from dataplane.fragments.spark.observing import ObservedRows
from dataplane.fragments.spark.writing import write_many, write_one
from dataplane.fragments.written import Written
from dataplane.spark.spark_schemas import schema_of
from dataplane.spark.spark_session import reading_session, task_session
from tests.spark.conftest import Lake, done, label, query

pytestmark = pytest.mark.usefixtures("compiled")  # as production runs

DOUBLE_ZERO = "CAST('-0.0' AS DOUBLE)"


def contents(spark: SparkSession, columns: str, **rows: str) -> dict[str, Content]:
    """Content of each named `VALUES` list, all under one schema."""
    session = reading_session(spark)
    parts = [
        f"SELECT '{name}' AS _fragment, t.* FROM VALUES {values} AS t({columns})"
        for name, values in rows.items()
    ]
    table = session.sql(" UNION ALL ".join(parts))
    table.createTempView("rows")
    schema = schema_of(table.drop("_fragment"))
    return {
        row[0]: content_of(*row[1:]) for row in session.sql(content_query(schema, "rows")).collect()
    }


def assert_all_differ(found: dict[str, Content]) -> None:
    assert (
        len({c.sum1 for c in found.values()}) == len({c.sum2 for c in found.values()}) == len(found)
    ), found


def test_contents_add_and_count_duplicates(spark: SparkSession) -> None:
    found = contents(
        spark,
        "a, b",
        one="(1, 'x')",
        two="(2, 'y')",
        both="(2, 'y'), (1, 'x')",
        twice="(1, 'x'), (1, 'x')",
    )
    assert found["both"] == found["one"].plus(found["two"])
    assert found["twice"] == found["one"].plus(found["one"])
    assert found["both"].minus(found["two"]).minus(found["one"]) == EMPTY
    assert_all_differ(found)


def test_order_and_files_of_rows_do_not_matter(spark: SparkSession) -> None:
    session = reading_session(spark)
    numbers = session.range(5000).selectExpr(
        "id % 3 AS a", "CAST(id AS STRING) AS b", "'f' AS _fragment"
    )
    schema = schema_of(numbers.drop("_fragment"))
    found = set()
    for number, rows in enumerate(
        [numbers.repartition(1), numbers.repartition(7, "a"), numbers.orderBy("b")]
    ):
        rows.createTempView(f"rows{number}")
        found |= {
            content_of(*r[1:])
            for r in session.sql(content_query(schema, f"rows{number}")).collect()
        }
    assert len(found) == 1


def test_both_sums_are_64_bits_wide(spark: SparkSession) -> None:
    found = contents(spark, "a", **{f"n{i}": f"({i})" for i in range(64)})
    assert (
        max(c.sum1 for c in found.values()) >> 63 == max(c.sum2 for c in found.values()) >> 63 == 1
    )
    assert all(c.sum1 != c.sum2 for c in found.values())


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        (
            "a, b",
            {
                "left": "(1, CAST(NULL AS INT))",
                "right": "(CAST(NULL AS INT), 1)",
                "none": "(NULL, NULL)",
            },
        ),
        ("a, b", {"empty": "('', 'x')", "null": "(NULL, 'x')", "moved": "('x', '')"}),
        (
            "a",
            {
                "zero": "(0.0D)",
                "negative": f"({DOUBLE_ZERO})",
                "nan": "(DOUBLE('NaN'))",
                "null": "(NULL)",
            },
        ),
        ("a", {"zero": "(FLOAT(0))", "negative": "(CAST('-0.0' AS FLOAT))", "one": "(FLOAT(1))"}),
        (
            "a",
            {
                "zero": "(array(0.0D))",
                "negative": f"(array({DOUBLE_ZERO}))",
                "nan": "(array(DOUBLE('NaN')))",
            },
        ),
        (
            "a",
            {
                "split": "(array(array(1), array(2)))",
                "joined": "(array(array(1, 2)))",
                "empty": "(array(array()))",
            },
        ),
        (
            "a, b",
            {
                "null": "(CAST(NULL AS STRUCT<x: INT>), 1)",
                "of_null": "(struct(CAST(NULL AS INT) AS x), 1)",
            },
        ),
        ("a", {"null": "(array(1, NULL))", "none": "(array(1))", "first": "(array(NULL, 1))"}),
        (
            "a",
            {
                "one": "(map(1, 2))",
                "other": "(map(2, 1))",
                "null": "(map(1, NULL))",
                "empty": "(map())",
            },
        ),
        (
            "a",
            {
                "in": "(array(map('k', map(1, 2))))",
                "other": "(array(map('k', map(1, 3))))",
                "no": "(array())",
            },
        ),
        (
            "a, b",
            {
                "null": "(struct(CAST(NULL AS MAP<INT, INT>) AS m), 1)",
                "empty": "(struct(map() AS m), 1)",
            },
        ),
        (
            "a",
            {
                "micro": "(array(timestamp'2020-01-01 00:00:00.000001'))",
                "zero": "(array(timestamp'2020-01-01'))",
            },
        ),
        ("a", {"small": "(1.10BD)", "other": "(1.11BD)", "null": "(NULL)"}),
        ("a", {"wide": "(12345678901234567890.1BD)", "other": "(12345678901234567890.2BD)"}),
        ("a", {"bytes": "(X'00')", "more": "(X'0000')", "none": "(X'')"}),
        ("a", {"far": "(date'9999-12-31')", "before": "(date'0001-01-01')", "null": "(NULL)"}),
    ],
)
def test_rows_that_can_be_told_apart_differ(
    spark: SparkSession, columns: str, rows: dict[str, str]
) -> None:
    assert_all_differ(contents(spark, columns, **rows))


def test_rows_of_other_columns_differ(spark: SparkSession) -> None:
    """Under a read schema with all of these columns, a row of each of them is another row."""
    columns = ("k, v", "k, x", "v, k", "k, `v, x`")
    assert_all_differ({name: contents(spark, name, only="(1, 2)")["only"] for name in columns})


def test_equal_maps_and_every_nan_are_equal(spark: SparkSession) -> None:
    found = contents(
        spark,
        "m, n",
        one="(map('a', array(map(1, 2, 3, 4)), 'b', NULL), DOUBLE('NaN'))",
        other="(map('b', NULL, 'a', array(map(3, 4, 1, 2))), -DOUBLE('NaN'))",
    )
    assert found["one"] == found["other"]


def test_more_columns_than_bits_in_a_number(spark: SparkSession) -> None:
    names = ", ".join(f"c{i}" for i in range(130))
    rows = {
        f"n{k}": f"({', '.join('1' if i != k else 'NULL' for i in range(130))})"
        for k in (0, 59, 60, 61, 129)
    }
    assert_all_differ(contents(spark, names, **rows))


def test_names_with_backticks_and_dots(spark: SparkSession) -> None:
    columns = "`a.b`, `c``d`, ` e`, `日本 🎉`, `F`, `f`"
    found = contents(spark, columns, one="(1, 2, 3, 4, 5, 6)", other="(1, 2, 3, 4, 6, 5)")
    assert_all_differ(found)


def test_types_that_no_fragment_holds_are_named() -> None:
    interval = {"type": "array", "elementType": "interval day to second", "containsNull": True}
    assert (
        unsupported({"type": "map", "keyType": "string", "valueType": interval})
        == "interval day to second"
    )
    assert unsupported("decimal(38,2)") is None


# --- without Spark --------------------------------------------------------------------------------

NAMES = (
    *(
        "byte",
        "short",
        "integer",
        "long",
        "float",
        "double",
        "boolean",
        "date",
        "timestamp",
        "timestamp_ntz",
    ),
    *("decimal(18,4)", "decimal(5,0)", "string", "binary"),
)
KINDS = {**{name: arrow_type(name) for name in NAMES}, "headers": arrow_type(HEADERS)}
EDGES: dict[str, list[Any]] = {
    "float": [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1.5],
    "double": [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 5e-324],
    "boolean": [True, False],
}


def values_of(kind: str, random: Random, count: int) -> pa.Array:
    """Each edge of the type, NULLs, and anything between."""
    arrow = KINDS[kind]
    if kind in ("string", "binary"):
        texts = [
            "".join(random.choices("aß日🎉 \0", k=random.choice((0, 1, 3, 4, 7, 8, 9, 31, 70))))
            for _ in range(count)
        ]
        found: list[Any] = [
            t if kind == "string" else t.encode()[: random.randrange(100)] for t in texts
        ]
    elif kind == "headers":
        found = [random_headers(random) for _ in range(count)]
    elif kind in EDGES:
        found = random.choices(EDGES[kind], k=count)
    elif "decimal" in kind:
        digits = arrow.precision
        found = [
            Decimal(random.randrange(-(10**digits) + 1, 10**digits)).scaleb(-arrow.scale)
            for _ in range(count)
        ]
    elif kind.startswith("timestamp"):
        found = [
            random.randrange(-62_135_596_800_000_000, 253_402_300_799_999_999) for _ in range(count)
        ]
    else:
        low, high = (
            (-719_162, 2_932_896)
            if kind == "date"
            else (-(1 << arrow.bit_width - 1), (1 << arrow.bit_width - 1) - 1)
        )
        found = [low, high, 0, -1, *(random.randrange(low, high + 1) for _ in range(count))][:count]
    found = [None if random.random() < 0.2 else value for value in found]
    storage = {"date": pa.int32(), "timestamp": pa.int64(), "timestamp_ntz": pa.int64()}.get(
        kind, arrow
    )
    return pa.array(found, storage).cast(arrow)


def random_headers(random: Random) -> list[Any]:
    names, values = (
        [None, "", "aß日🎉", '"\\/', "\x7f\u2028\u0085"],
        [None, b"", b"\0\xff\xfe", b"ab"],
    )
    header = [{"key": key, "value": value} for key in names for value in values]
    return random.choices([None, *header], k=random.randrange(4))


def test_headers_with_control_characters_take_spark() -> None:
    schema = struct_of([field_of("h", HEADERS)])
    rows = [[{"key": "a\nb", "value": b""}], None]
    assert content(schema, pa.table({"h": pa.array(rows, arrow_type(HEADERS))})) is None


def test_few_rows_have_the_content_that_spark_gives_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """All types at once and each by itself, in fragments of no, one and many rows."""
    random, count = Random(7), 1500
    columns = {kind: values_of(kind, random, count) for kind in KINDS}
    for number, names in enumerate([list(KINDS), *([kind] for kind in KINDS)]):
        labels = [f"{random.choice((0, 0, 0, *range(1, 40))):032x}" for _ in range(count)]
        table = pa.table(
            {**{f"c{i} {name}": columns[name] for i, name in enumerate(names)}, LABEL: labels}
        )
        pyarrow.parquet.write_table(table, tmp_path / f"{number}.parquet")
        session = reading_session(spark)
        rows = session.read.parquet(str(tmp_path / f"{number}.parquet"))
        rows.createTempView(f"rows{number}")
        schema = schema_of(rows.drop(LABEL))
        by_spark = {
            row[0]: content_of(*row[1:])
            for row in session.sql(content_query(schema, f"rows{number}")).collect()
        }
        assert is_simple(schema)
        of_rows = {
            label: table.filter(pc.equal(table[LABEL], label)).drop_columns(LABEL)
            for label in by_spark
        }
        assert {label: content(schema, of_label) for label, of_label in of_rows.items()} == by_spark
        assert content(schema, table.drop_columns(LABEL).slice(0, 0)) == EMPTY


@pytest.mark.parametrize("kind", ["decimal(19,0)", "variant", {"type": "array"}])
def test_other_types_take_spark(kind: Any) -> None:
    assert not is_simple(
        {
            "type": "struct",
            "fields": [{"name": "c", "type": kind, "nullable": True, "metadata": {}}],
        }
    )


def test_rows_that_are_not_as_they_should_be_take_spark() -> None:
    schema = struct_of([field_of("c", "long")])
    assert content(schema, pa.table({"c": pa.array([1], pa.int64())})) is not None
    assert content(schema, pa.table({"c": pa.array([1], pa.int32())})) is None
    assert content(schema, pa.table({"d": pa.array([1], pa.int64())})) is None


@pytest.mark.parametrize(("column", "jobs"), [("id AS n", 1), ("array(id) AS n", 2)])
def test_a_small_result_takes_one_job_of_spark(lake: Lake, column: str, jobs: int) -> None:
    """It is written by one; measuring it takes another only where a type is not simple."""
    claim = lake.claim("transform", query(f"SELECT {column} FROM range(10)"), [{}])
    assert done(lake.executor.run(claim)[0])["content"][0] == 10
    assert len(lake.spark.sparkContext.statusTracker().getJobIdsForGroup(claim["attempt"])) == jobs


# --- while rows are written -----------------------------------------------------------------------


def table_of_all_types(rows: int) -> pa.Table:
    """Names are hostile as well. More bytes than few rows have."""
    random = Random(11)
    columns = {f"c{i} `{name}._h": values_of(name, random, 1500) for i, name in enumerate(KINDS)}
    few = pa.table({**columns, "_mark": values_of("string", random, 1500)})
    return pa.concat_tables([few] * (rows // 1500))


def stored(lake: Lake, rows: DataFrame, **job: Any) -> Written:
    """One task's rows, as a batch with labels if they have any."""
    claim: Any = lake.claim("transform", query("", **job), [{}])
    with lake.executor.attempt(claim) as attempt:
        if LABEL in rows.columns:
            return write_many(attempt, rows, [label(0)])[label(0)]
        return write_one(attempt, rows, label(0))


@pytest.mark.parametrize(
    "settings",
    [
        {"ansi": True, "case_sensitive": True, "timezone": "UTC"},
        {"ansi": False, "case_sensitive": False, "timezone": "America/St_Johns"},
    ],
    ids=["as we read", "as users may"],
)
def test_observed_contents_are_those_of_rows_that_are_read_back(
    lake: Lake, settings: dict[str, Any]
) -> None:
    table = table_of_all_types(45_000)
    source = lake.sources / "all.parquet"
    pyarrow.parquet.write_table(table, source, use_dictionary=False, compression="none")
    rows = task_session(lake.spark, settings).read.parquet(str(source))
    for df in (rows, rows.withColumn(LABEL, F.lit(label(0))), rows.repartition(3)):
        written = stored(lake, df)
        assert written.observed == content(schema_of(rows), table)


def test_no_row_is_observed_that_a_limit_leaves_out(lake: Lake) -> None:
    session = reading_session(lake.spark)
    written = stored(lake, session.range(0, 1_000_000, 1, 4).orderBy("id").limit(1000))
    ids = pa.table({"id": pa.array(range(1000), pa.int64())})
    assert written.observed == content(struct_of([field_of("id", "long")]), ids)


def test_what_cannot_be_certain_is_read_back(lake: Lake) -> None:
    session = reading_session(lake.spark)
    many = session.range(0, 1_000_000)
    for df, job in (
        (session.range(10), {}),
        (many.selectExpr("array(id) AS a"), {}),
        (many.selectExpr("CAST(id AS DECIMAL(38,0)) AS d"), {}),
        (many, {"language": "python"}),
    ):
        assert stored(lake, df, **job).observed is None


def test_an_observation_without_its_metrics_is_none(lake: Lake) -> None:
    claim: Any = lake.claim("transform", query(""), [{}])
    rows = reading_session(lake.spark).range(0, 1_000_000)
    with lake.executor.attempt(claim) as attempt:
        observed = ObservedRows.of(attempt, rows, schema_of(rows))
        assert observed.observation is not None
        assert observed.content(attempt) is None, "nothing was written"


@pytest.mark.parametrize("profile", ["off", "full"])
def test_a_large_result_takes_one_job_of_spark(lake: Lake, profile: str) -> None:
    sql = "SELECT id, id / 2 AS half FROM range(0, 600000, 1, 2)"
    claim = lake.claim("transform", query(sql, profile=profile), [{}])
    result = done(lake.executor.run(claim)[0])
    assert len(lake.spark.sparkContext.statusTracker().getJobIdsForGroup(claim["attempt"])) == 1
    schema, files = result["schema"], [lake.root / file["path"] for file in result["files"]]
    tables = pa.concat_tables(pyarrow.parquet.read_table(file) for file in files)
    assert tuple(result["content"]) == content(schema, tables)
