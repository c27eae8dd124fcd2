"""Queries taken apart by parts of an input, on Spark: merged, they come to what the query gives as
a whole.

Does not belong here: which queries may be taken apart (tests.unit.sql), and what becomes of parts
(plan).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from controlplane.core.plan.transform.transform_jobs import Divided, key_of_parts
from controlplane.core.sql import PARTS, OutputKeyPart, Split, Unproven, analyse, apply_edits
from dataplane.contract.results import LABEL
from tests.slices import sliced
from tests.unit.sql.piecewise import Table, small_tables
from tests.unit.sql.queries import TPCH, VERDICTS, parts_of
from tests.unit.sql.tpch import tpch_tables

TYPES = {"VARCHAR": "STRING", "INT[]": "ARRAY<INT>"}
DEALT = 3  # parts of an input
COLUMNS = {name: tuple(table.columns) for name, table in small_tables(1).items()}


class Views:
    """Tables as views of one session; one of them may be cut to parts."""

    def __init__(self, spark: SparkSession, tables: Mapping[str, Table]) -> None:
        self.spark = spark.newSession()
        self.rows: dict[str, DataFrame] = {}
        for name, table in tables.items():
            columns = ", ".join(f"{c} {TYPES.get(kind, kind)}" for c, kind in table.columns.items())
            labelled = [(*row, str(at * 5 % DEALT)) for at, row in enumerate(table.rows)]
            self.rows[name] = self.spark.createDataFrame(
                labelled, f"{columns}, {LABEL} STRING"
            ).cache()
            self.restore(name)

    def restore(self, name: str) -> None:
        self.rows[name].drop(LABEL).createOrReplaceTempView(name)

    def part(self, name: str, part: int) -> None:
        self.rows[name].where(f"{LABEL} = '{part}'").drop(LABEL).createOrReplaceTempView(name)

    def label(self, name: str) -> None:
        self.rows[name].createOrReplaceTempView(name)

    def empty(self, name: str) -> None:
        self.rows[name].where("false").drop(LABEL).createOrReplaceTempView(name)


def types_of(rows: DataFrame) -> dict[str, str]:
    return {f.name: f.dataType.simpleString() for f in rows.schema.fields}


def json_types(rows: DataFrame) -> dict[str, str]:
    return {f["name"]: str(f["type"]) for f in rows.schema.jsonValue()["fields"]}


def counted(rows: DataFrame) -> Counter[str]:
    return Counter(repr(tuple(map(told, row))) for row in rows.collect())


def told(value: Any) -> Any:
    return f"{value:.12g}" if isinstance(value, float) else value


def by_steps(views: Views, parts: DataFrame, split: Split) -> DataFrame:
    """Parts merged to fewer parts, by two lots at once, and once more."""
    alone, labelled = split.between(json_types(parts))
    parts.withColumn(
        LABEL, F.expr("string(monotonically_increasing_id() % 2)")
    ).createOrReplaceTempView(PARTS)
    first = views.spark.sql(labelled).drop(LABEL).localCheckpoint()
    first.createOrReplaceTempView(PARTS)
    second = views.spark.sql(alone).localCheckpoint()
    assert types_of(first) == types_of(second) == types_of(parts)
    return second


def merged(views: Views, text: str, name: str, parts: DataFrame, split: Split) -> DataFrame:
    """The second query, over the rows of the first."""
    views.empty(name)
    parts.createOrReplaceTempView(PARTS)
    return views.spark.sql(apply_edits(text, split.second_query(json_types(parts))))


def check(views: Views, text: str, name: str) -> None:
    split = analyse(text).split(name)
    plain = views.spark.sql(text)
    expected, types = counted(plain), types_of(plain)
    if split.labelled is not None:
        views.label(name)
        parts = views.spark.sql(apply_edits(text, split.labelled)).localCheckpoint()
        views.part(name, 0)
        alone = views.spark.sql(apply_edits(text, split.partial))
        assert types_of(alone) == {n: t for n, t in types_of(parts).items() if n != LABEL}
        assert counted(alone) == counted(parts.where(f"{LABEL} = '0'").drop(LABEL))
    else:
        several = []
        for part in range(DEALT):
            views.part(name, part)
            several.append(views.spark.sql(apply_edits(text, split.partial)).localCheckpoint())
        parts = several[0].unionAll(several[1]).unionAll(several[2])
    found = merged(views, text, name, parts, split)
    assert (types_of(found), counted(found)) == (types, expected)
    if not is_ordered(parts, split):
        found = merged(views, text, name, by_steps(views, parts.drop(LABEL), split), split)
        assert (types_of(found), counted(found)) == (types, expected)
    views.restore(name)


def is_ordered(parts: DataFrame, split: Split) -> bool:
    """Doubles are added up, all at once."""
    try:
        split.between(json_types(parts))
    except Unproven:
        return True
    return False


@pytest.fixture(scope="module")
def small(spark: SparkSession) -> Views:
    return Views(spark, small_tables(1))


@pytest.fixture(scope="module")
def orders(spark: SparkSession) -> Views:
    return Views(spark, tpch_tables(7))


def cases(queries: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for known in queries:
        if not known.get("by") and known.get("runs", True):
            yield from ((known["sql"], name) for name in known.get("merge", {}))


STRUCTS = (
    "SELECT k AS id, max(struct(x, v)).v + 1 AS last, min(struct(v, s)) AS first FROM f GROUP BY k"
)
BY_ALL = [
    (STRUCTS, "f"),
    ("SELECT k, v % 3 AS rest, sum(v) AS t, count(*) AS n FROM f GROUP BY ALL", "f"),
    (
        "SELECT upper(string(k)) AS u, 'x' AS x, k % 2 AS odd, avg(v) AS a, max(v) - 1 AS w FROM f GROUP BY ALL",
        "f",
    ),
]


# unit/sql/test_sql_verdicts asks DuckDB at each commit which queries have parts, and that these come
# together.
@pytest.mark.parametrize(
    ("text", "name"), sliced([pytest.param(*c) for c in (*cases(VERDICTS), *BY_ALL)], 4)
)
def test_parts_come_together_to_the_whole(small: Views, text: str, name: str) -> None:
    check(small, text, name)


AROUND = {
    "sql": "WITH sums AS (SELECT d, k, sum(v) AS t, count(*) AS n FROM f GROUP BY k, d) "
    "SELECT d AS day, t / n AS mean, rank() OVER (PARTITION BY d ORDER BY t) AS place FROM sums WHERE n > 0",
    "by": [{"day": "month"}],
}


def keyed_cases() -> Iterator[tuple[str, str, str, str]]:
    """Text, input, column of the output, and that of parts that stands for it."""
    for known in (*VERDICTS, {"sql": STRUCTS, "by": ["id"]}, AROUND):
        if not known.get("by") or not known.get("runs", True):
            continue
        analysed, key = analyse(known["sql"]), parts_of(known)[0].name
        for name, verdict in analysed.verdicts([OutputKeyPart(key)], COLUMNS).items():
            try:
                query = Divided(known["sql"], b"", analysed.split(name), is_renamed=False)
            except Unproven:
                continue
            columns = key_of_parts(query, (key,))
            if verdict.mode == "by" and columns is not None:
                yield known["sql"], name, key, columns[0]


KEYED = list(keyed_cases())


def test_many_queries_are_merged_by_key() -> None:
    assert len(KEYED) >= 10


@pytest.mark.parametrize(
    ("text", "name", "key", "column"), sliced([pytest.param(*case) for case in KEYED], 4)
)
def test_a_key_comes_from_the_parts_of_its_key(
    small: Views, text: str, name: str, key: str, column: str
) -> None:
    split = analyse(text).split(name)
    plain = small.spark.sql(text).localCheckpoint()
    several = []
    for part in range(DEALT):
        small.part(name, part)
        several.append(small.spark.sql(apply_edits(text, split.partial)).localCheckpoint())
    parts = several[0].unionAll(several[1]).unionAll(several[2]).localCheckpoint()
    for (value,) in plain.select(key).distinct().collect():
        own = parts.where(F.col(column).eqNullSafe(F.lit(value)))
        found = counted(merged(small, text, name, own, split))
        assert found == counted(plain.where(F.col(key).eqNullSafe(F.lit(value)))), value
    small.restore(name)


def test_an_average_of_what_adds_up_to_no_bigint_is_not_made_of_sums(spark: SparkSession) -> None:
    text = "SELECT k, avg(at) AS mean FROM f GROUP BY k"
    views = Views(
        spark,
        {
            "f": Table(
                {"k": "INT", "at": "BIGINT"}, [(1, 1_700_000_000_000_000_000 + n) for n in range(3)]
            )
        },
    )
    assert counted(views.spark.sql(text)) == Counter(["(1, '1.7e+18')"])
    split = analyse(text).split("f")
    views.empty("f")
    with pytest.raises(Unproven, match="may overflow"):
        split.second_query(json_types(views.spark.sql(apply_edits(text, split.partial))))


LARGEST = ("lineitem", "orders", "partsupp", "customer")


@pytest.mark.parametrize(
    "known", sliced([pytest.param(q, id=q["name"]) for q in TPCH if q.get("merge")], 4)
)
def test_tpch(orders: Views, known: dict[str, Any]) -> None:
    check(orders, known["sql"], next(n for n in (*LARGEST, *known["merge"]) if n in known["merge"]))
