"""Laws of contents: equal for equal multisets of rows whatever their order and files, different for all else."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from dataplane.content import content_of, content_query, unsupported
from dataplane.contract import EMPTY, Content, canonical_schema
from dataplane.session import reading_session
from tests.spark.conftest import Lake, done, query

DOUBLE_ZERO = "CAST('-0.0' AS DOUBLE)"


def contents(spark: SparkSession, columns: str, **rows: str) -> dict[str, Content]:
    """Content of each named `VALUES` list, all under one schema."""
    session = reading_session(spark)
    parts = [f"SELECT '{name}' AS _fragment, t.* FROM VALUES {values} AS t({columns})" for name, values in rows.items()]
    table = session.sql(" UNION ALL ".join(parts))
    table.createTempView("rows")
    schema = canonical_schema(table.drop("_fragment").schema.jsonValue())
    return {row[0]: content_of(*row[1:]) for row in session.sql(content_query(schema, "rows")).collect()}


def assert_all_differ(found: dict[str, Content]) -> None:
    assert len({c.sum1 for c in found.values()}) == len({c.sum2 for c in found.values()}) == len(found), found


def test_contents_add_and_count_duplicates(spark: SparkSession) -> None:
    found = contents(
        spark, "a, b", one="(1, 'x')", two="(2, 'y')", both="(2, 'y'), (1, 'x')", twice="(1, 'x'), (1, 'x')"
    )
    assert found["both"] == found["one"].plus(found["two"])
    assert found["twice"] == found["one"].plus(found["one"])
    assert found["both"].minus(found["two"]).minus(found["one"]) == EMPTY
    assert_all_differ(found)


def test_order_and_files_of_rows_do_not_matter(spark: SparkSession) -> None:
    session = reading_session(spark)
    numbers = session.range(5000).selectExpr("id % 3 AS a", "CAST(id AS STRING) AS b", "'f' AS _fragment")
    schema = canonical_schema(numbers.drop("_fragment").schema.jsonValue())
    found = set()
    for number, rows in enumerate([numbers.repartition(1), numbers.repartition(7, "a"), numbers.orderBy("b")]):
        rows.createTempView(f"rows{number}")
        found |= {content_of(*r[1:]) for r in session.sql(content_query(schema, f"rows{number}")).collect()}
    assert len(found) == 1


def test_both_sums_are_64_bits_wide(spark: SparkSession) -> None:
    found = contents(spark, "a", **{f"n{i}": f"({i})" for i in range(64)})
    assert max(c.sum1 for c in found.values()) >> 63 == max(c.sum2 for c in found.values()) >> 63 == 1
    assert all(c.sum1 != c.sum2 for c in found.values())


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ("a, b", {"left": "(1, CAST(NULL AS INT))", "right": "(CAST(NULL AS INT), 1)", "none": "(NULL, NULL)"}),
        ("a, b", {"empty": "('', 'x')", "null": "(NULL, 'x')", "moved": "('x', '')"}),
        ("a", {"zero": "(0.0D)", "negative": f"({DOUBLE_ZERO})", "nan": "(DOUBLE('NaN'))", "null": "(NULL)"}),
        ("a", {"zero": "(FLOAT(0))", "negative": "(CAST('-0.0' AS FLOAT))", "one": "(FLOAT(1))"}),
        ("a", {"zero": "(array(0.0D))", "negative": f"(array({DOUBLE_ZERO}))", "nan": "(array(DOUBLE('NaN')))"}),
        ("a", {"split": "(array(array(1), array(2)))", "joined": "(array(array(1, 2)))", "empty": "(array(array()))"}),
        ("a, b", {"null": "(CAST(NULL AS STRUCT<x: INT>), 1)", "of_null": "(struct(CAST(NULL AS INT) AS x), 1)"}),
        ("a", {"null": "(array(1, NULL))", "none": "(array(1))", "first": "(array(NULL, 1))"}),
        ("a", {"one": "(map(1, 2))", "other": "(map(2, 1))", "null": "(map(1, NULL))", "empty": "(map())"}),
        ("a", {"in": "(array(map('k', map(1, 2))))", "other": "(array(map('k', map(1, 3))))", "no": "(array())"}),
        ("a, b", {"null": "(struct(CAST(NULL AS MAP<INT, INT>) AS m), 1)", "empty": "(struct(map() AS m), 1)"}),
        ("a", {"micro": "(array(timestamp'2020-01-01 00:00:00.000001'))", "zero": "(array(timestamp'2020-01-01'))"}),
        ("a", {"small": "(1.10BD)", "other": "(1.11BD)", "null": "(NULL)"}),
        ("a", {"wide": "(12345678901234567890.1BD)", "other": "(12345678901234567890.2BD)"}),
        ("a", {"bytes": "(X'00')", "more": "(X'0000')", "none": "(X'')"}),
        ("a", {"far": "(date'9999-12-31')", "before": "(date'0001-01-01')", "null": "(NULL)"}),
    ],
)
def test_rows_that_can_be_told_apart_differ(spark: SparkSession, columns: str, rows: dict[str, str]) -> None:
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
    rows = {f"n{k}": f"({', '.join('1' if i != k else 'NULL' for i in range(130))})" for k in (0, 59, 60, 61, 129)}
    assert_all_differ(contents(spark, names, **rows))


def test_names_with_backticks_and_dots(spark: SparkSession) -> None:
    columns = "`a.b`, `c``d`, ` e`, `日本 🎉`, `F`, `f`"
    found = contents(spark, columns, one="(1, 2, 3, 4, 5, 6)", other="(1, 2, 3, 4, 6, 5)")
    assert_all_differ(found)


def test_variants_are_told_apart_by_type(lake: Lake) -> None:
    variants = ["date'2020-01-01'", "'2020-01-01'", "CAST(NULL AS INT)", "map('k', '2020-01-01')"]
    texts = [f"SELECT array(to_variant_object(named_struct('a', {v}))) AS v" for v in (variants[0], *variants)]
    found = [done(lake.run("transform", query(t), [{}])[0])["content"] for t in texts]
    assert found[0] == found[1]
    assert len({tuple(c) for c in found}) == len(variants)


def test_types_that_no_fragment_holds_are_named() -> None:
    interval = {"type": "array", "elementType": "interval day to second", "containsNull": True}
    assert unsupported({"type": "map", "keyType": "string", "valueType": interval}) == "interval day to second"
    assert unsupported("decimal(38,2)") is None
