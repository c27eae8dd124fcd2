"""What the columns of a result are made of, by Spark's analysed plan; and that sqlglot says the
same of SQL.

Does not belong here: what sqlglot says, query by query (tests/unit/sql/test_sql_lineage.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from controlplane.core import sql
from dataplane.contract.results import SchemaAnswer
from dataplane.contract.transform_lineage import ColumnLineage, InputField
from dataplane.fragments.spark.input_frames import empty
from dataplane.spark.plan_lineage import column_lineage
from tests.spark.conftest import Lake, done, query, schema_of
from tests.unit.sql.piecewise import small_tables
from tests.unit.sql.queries import TPCH, VERDICTS
from tests.unit.sql.tpch import tpch_tables

KINDS = {"VARCHAR": "STRING", "INT[]": "ARRAY<INT>"}
TYPES = {
    name: {column: KINDS.get(kind, kind) for column, kind in table.columns.items()}
    for name, table in {**tpch_tables(1), **small_tables(1)}.items()
}
CODE = """
def transform(part, other):
    both = part.join(other, 'n')
    return both.groupBy('n').applyInPandas(lambda rows: rows, 'n INT, m INT')
"""


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    return spark.newSession()


@pytest.fixture
def inputs(session: SparkSession) -> Mapping[str, DataFrame]:
    found: dict[str, DataFrame] = {}
    for name, columns in TYPES.items():
        ddl = ", ".join(f"{column} {kind}" for column, kind in columns.items())
        found[name] = empty(session, schema_of(session, ddl))
        found[name].createTempView(name)
    return found


def told(fields: list[InputField], *, is_cast: bool = False) -> set[tuple[str, str, str]]:
    """`is_cast`: UNION casts to a common type, which only Spark's plan shows."""
    plain = {"IDENTITY": "VALUE", "TRANSFORMATION": "VALUE"} if is_cast else {}
    return {
        (f["name"], f["field"], plain.get(t["subtype"], t["subtype"]))
        for f in fields
        for t in f["transformations"]
    }


def test_spark_and_sqlglot_agree(session: SparkSession, inputs: Mapping[str, DataFrame]) -> None:
    compared = 0
    for text in [entry["sql"] for entry in (*VERDICTS, *TPCH)]:
        parsed = sql.analyse(text)
        names = {ref.name for ref in parsed.references}
        try:
            rows = session.sql(text)
        except AnalysisException:  # one calls a function that there is not
            continue
        by_spark = column_lineage(rows, {name.lower(): inputs[name.lower()] for name in names})
        by_sqlglot = parsed.lineage({name: TYPES[name.lower()] for name in names}, rows.columns)
        assert by_spark is not None, text
        assert by_sqlglot is not None, text
        assert list(by_spark["fields"]) == list(by_sqlglot["fields"]), text
        is_cast = "UNION" in text.upper()
        for name, of in by_spark["fields"].items():
            other = by_sqlglot["fields"][name]["inputFields"]
            assert told(of["inputFields"], is_cast=is_cast) == told(other, is_cast=is_cast), (
                text,
                name,
            )
        assert told(by_spark["dataset"]) == told(by_sqlglot["dataset"]), text
        compared += 1
    assert compared > 150


PYTHON: list[tuple[Callable[[Any, Any], DataFrame], dict[str, set[str]], set[str], str]] = [
    (  # a function of one value has its arguments; a struct that is taken apart, the member
        lambda f, g: f.select(
            F.udf(lambda a, b: 1, "int")("k", "v").alias("u"), F.struct("k", "x").alias("s")
        ).select("u", "s.x"),
        {"u": {"f.k", "f.v"}, "x": {"f.x"}},
        set(),
        "",
    ),
    (  # the same input twice
        lambda f, g: (
            f.alias("a").join(f.alias("b"), F.col("a.k") == F.col("b.x")).select("a.v", "b.s")
        ),
        {"v": {"f.v"}, "s": {"f.s"}},
        {"f.k JOIN", "f.x JOIN"},
        "",
    ),
    (
        lambda f, g: f.select("k", F.rank().over(Window.partitionBy("d").orderBy("v")).alias("r")),
        {"k": {"f.k"}, "r": {"f.d", "f.v"}},
        {"f.d WINDOW", "f.v WINDOW"},
        "",
    ),
    (
        lambda f, g: g.mapInPandas(lambda parts: parts, "a INT, b INT"),
        {name: {"g.k", "g.d", "g.y", "g.w"} for name in ("a", "b")},
        set(),
        "MapInPandas: each column that it gives is said to come of all that it is given",
    ),
    (
        lambda f, g: g.groupBy("k").applyInPandas(lambda rows: rows, "a INT"),
        {"a": {"g.k", "g.d", "g.y", "g.w"}},
        {"g.k GROUP_BY"},
        "FlatMapGroupsInPandas: each column that it gives is said to come of all that it is given",
    ),
    (
        lambda f, g: g.rdd.toDF(StructType.fromDDL("a INT, b DATE, c INT, e INT")).select("a"),
        {"a": {"f.*", "g.*"}},
        set(),
        "rows that the code made itself (of an RDD, or a list) may be of any input",
    ),
]


@pytest.mark.parametrize(("transform", "columns", "rows", "reason"), PYTHON)
def test_python(
    inputs: Mapping[str, DataFrame],
    transform: Callable[[Any, Any], DataFrame],
    columns: dict[str, set[str]],
    rows: set[str],
    reason: str,
) -> None:
    f, g = inputs["f"], inputs["g"]
    found = column_lineage(transform(f, g), {"f": f, "g": g})
    assert found is not None
    assert {
        n: {f"{i['name']}.{i['field']}" for i in of["inputFields"]}
        for n, of in found["fields"].items()
    } == columns
    assert {
        f"{i['name']}.{i['field']} {t['subtype']}"
        for i in found["dataset"]
        for t in i["transformations"]
    } == rows
    assert found["over_reported"] == ([reason] if reason else [])


def test_recursion_ends(session: SparkSession, inputs: Mapping[str, DataFrame]) -> None:
    text = "WITH RECURSIVE r(a, b) AS (SELECT k, 1 FROM f UNION ALL SELECT b, a + 1 FROM r WHERE a < 5) SELECT * FROM r"
    found = column_lineage(session.sql(text), {"f": inputs["f"]})
    assert found is not None
    assert [{i["field"] for i in of["inputFields"]} for of in found["fields"].values()] == [
        {"k"},
        {"k"},
    ]


def lineage_of(lake: Lake, job: Mapping[str, Any]) -> ColumnLineage:
    [result] = lake.run("analyse", job, [{}])
    return cast("SchemaAnswer", done(result)["result"])["lineage"]


def test_an_analysis_tells_it_by_the_names_of_inputs(lake: Lake, spark: SparkSession) -> None:
    part = {"view": "flow__part", "mode": "all", "schema": schema_of(spark, "n INT, m INT")}
    found = lineage_of(
        lake, query("SELECT n, sum(m) AS t FROM flow__part GROUP BY n", inputs={"flow.part": part})
    )
    assert told(found["fields"]["t"]["inputFields"]) == {("flow.part", "m", "AGGREGATION")}
    other = {**part, "view": "other", "schema": schema_of(spark, "n INT, o INT")}
    job = {
        "language": "python",
        "modules": {"main.py": CODE},
        "main": "main.py",
        "entrypoint": "transform",
        "params": {},
        "spark": {"ansi": True, "case_sensitive": False, "timezone": "UTC"},
        "inputs": {"part": {**part, "view": "part"}, "other": other},
        "shared": {},
    }
    by_python = lineage_of(lake, job)
    assert told(by_python["dataset"]) == {
        ("part", "n", "JOIN"),
        ("other", "n", "JOIN"),
        ("part", "n", "GROUP_BY"),
    }
    assert by_python["over_reported"] != []
