"""What the columns of a query are made of, by sqlglot: a table of queries, and the 22 of TPC-H.

Does not belong here: whether Spark says the same (tests/spark/test_lineage.py).
"""

from __future__ import annotations

import pytest

from controlplane.core import sql
from dataplane.contract.transform_lineage import EVERY, ColumnLineage, InputField
from tests.unit.sql.queries import TPCH
from tests.unit.sql.tpch import tpch_tables

TABLES = {
    "f": {"k": "INT", "d": "DATE", "x": "INT", "v": "INT", "s": "STRING", "tags": "ARRAY<STRING>"},
    "g": {"k": "INT", "y": "INT", "w": "INT"},
}

# Columns, then what decides on the rows.
CASES = [
    (
        "SELECT k, v + x AS t FROM f",
        "k: f.k IDENTITY; t: f.v TRANSFORMATION, f.x TRANSFORMATION",
        "",
    ),
    ("SELECT f.K AS Key FROM f", "key: f.k IDENTITY", ""),
    ("SELECT count(*) AS n, 1 AS one FROM f", "n: ; one: ", ""),
    (
        "SELECT sum(v) / count(x) AS r FROM f GROUP BY d",
        "r: f.v AGGREGATION, f.x AGGREGATION",
        "f.d GROUP_BY",
    ),
    (
        "SELECT sum(v) FILTER (WHERE d IS NULL) AS t FROM f",
        "t: f.d CONDITIONAL, f.v AGGREGATION",
        "",
    ),
    ("SELECT every(x > 0) AS e FROM f", "e: f.x AGGREGATION", ""),
    (
        "SELECT if(v > 1, x, k) AS i FROM f",
        "i: f.k TRANSFORMATION, f.v CONDITIONAL, f.x TRANSFORMATION",
        "",
    ),
    ("SELECT CASE k WHEN 1 THEN v END AS c FROM f", "c: f.k CONDITIONAL, f.v TRANSFORMATION", ""),
    (
        "SELECT k, w FROM f JOIN g USING (k) WHERE y > 1 ORDER BY x",
        "k: f.k IDENTITY; w: g.w IDENTITY",
        "f.k JOIN, f.x SORT, g.k JOIN, g.y FILTER",
    ),
    ("SELECT DISTINCT k FROM f", "k: f.k IDENTITY", "f.k GROUP_BY"),
    (
        "SELECT k, v FROM f UNION ALL SELECT y, w FROM g",
        "k: f.k IDENTITY, g.y IDENTITY; v: f.v IDENTITY, g.w IDENTITY",
        "",
    ),
    ("SELECT k FROM f EXCEPT SELECT y FROM g", "k: f.k IDENTITY", "f.k FILTER, g.y FILTER"),
    (
        "SELECT sum(v) OVER (PARTITION BY d ORDER BY x) AS w FROM f",
        "w: f.d WINDOW, f.v AGGREGATION, f.x WINDOW",
        "f.d WINDOW, f.x WINDOW",
    ),
    (
        "SELECT k, t FROM f LATERAL VIEW explode(tags) e AS t",
        "k: f.k IDENTITY; t: f.tags TRANSFORMATION",
        "",
    ),
    (
        "SELECT (SELECT max(w) FROM g WHERE g.k = f.k) AS m FROM f",
        "m: g.w AGGREGATION",
        "f.k FILTER, g.k FILTER",
    ),
    ("SELECT x FROM f WHERE k IN (SELECT y FROM g)", "x: f.x IDENTITY", "f.k FILTER, g.y FILTER"),
    # A struct that is made and taken apart again: the member alone.
    (
        "WITH c AS (SELECT struct(v AS a, x AS b) AS p FROM f) SELECT p.b FROM c",
        "b: f.x IDENTITY",
        "",
    ),
    (
        "WITH c AS (SELECT k AS a FROM f), q AS (SELECT a + 1 AS b FROM c) SELECT * FROM q",
        "b: f.k TRANSFORMATION",
        "",
    ),
]


def told(fields: list[InputField]) -> str:
    return ", ".join(
        f"{f['name']}.{f['field']} {t['subtype']}" for f in fields for t in f["transformations"]
    )


def lineage(text: str) -> ColumnLineage:
    query = sql.analyse(text)
    found = query.lineage({ref.name: TABLES[ref.name] for ref in query.references})
    assert found is not None
    return found


@pytest.mark.parametrize(("text", "columns", "rows"), CASES)
def test_columns(text: str, columns: str, rows: str) -> None:
    found = lineage(text)
    assert (
        "; ".join(f"{name}: {told(of['inputFields'])}" for name, of in found["fields"].items())
        == columns
    )
    assert told(found["dataset"]) == rows
    assert found["over_reported"] == []


def test_what_cannot_be_told_is_said_to_come_of_everything_with_the_reason() -> None:
    found = lineage("SELECT * FROM f PIVOT (sum(v) FOR k IN (1 AS one))")
    assert {f["field"] for f in found["fields"]["one"]["inputFields"]} == {EVERY}
    assert "cannot tell" in found["over_reported"][0]


def test_a_recursive_query_is_left_to_spark() -> None:
    text = "WITH RECURSIVE r(n) AS (SELECT k FROM f UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r"
    assert sql.analyse(text).lineage({"f": TABLES["f"]}) is None


def test_a_right_join_by_name_names_both_sides_and_says_so() -> None:
    found = lineage("SELECT k FROM f RIGHT JOIN g USING (k)")
    assert told(found["fields"]["k"]["inputFields"]) == "f.k TRANSFORMATION, g.k TRANSFORMATION"
    assert "RIGHT JOIN" in found["over_reported"][0]


def test_columns_have_the_names_that_spark_gave_them() -> None:
    found = sql.analyse("SELECT K, v + 1 FROM f").lineage({"f": TABLES["f"]}, ["K", "(v + 1)"])
    assert found is not None
    assert list(found["fields"]) == ["K", "(v + 1)"]


GOLDENS = {
    "Q1": {
        "sum_base_price": "lineitem.l_extendedprice AGGREGATION",
        "sum_disc_price": "lineitem.l_discount AGGREGATION, lineitem.l_extendedprice AGGREGATION",
    },
    "Q8": {
        "o_year": "orders.o_orderdate TRANSFORMATION",
        "mkt_share": "lineitem.l_discount AGGREGATION, lineitem.l_extendedprice AGGREGATION, nation.n_name CONDITIONAL",
    },
    "Q13": {"c_count": "orders.o_orderkey AGGREGATION", "custdist": ""},
    "Q15": {
        "total_revenue": "lineitem.l_discount AGGREGATION, lineitem.l_extendedprice AGGREGATION"
    },
    "Q22": {
        "cntrycode": "customer.c_phone TRANSFORMATION",
        "totacctbal": "customer.c_acctbal AGGREGATION",
    },
}


def test_tpch() -> None:
    """Each column comes of something, but counts of rows; the goldens were read off the queries by
    hand."""
    tables = {
        name: {column: kind.replace("VARCHAR", "STRING") for column, kind in table.columns.items()}
        for name, table in tpch_tables(1).items()
    }
    without: set[tuple[str, str]] = set()
    for entry in TPCH:
        query = sql.analyse(entry["sql"])
        found = query.lineage({ref.name: tables[ref.name] for ref in query.references})
        assert found is not None, entry["name"]
        assert found["over_reported"] == [], entry["name"]
        without |= {
            (entry["name"], name) for name, of in found["fields"].items() if not of["inputFields"]
        }
        for name, golden in GOLDENS.get(entry["name"], {}).items():
            assert told(found["fields"][name]["inputFields"]) == golden, (entry["name"], name)
    counts = {
        ("Q1", "n"),
        ("Q4", "order_count"),
        ("Q13", "custdist"),
        ("Q21", "numwait"),
        ("Q22", "numcust"),
    }
    assert without == counts


def test_the_star_of_a_struct_is_as_many_columns_as_the_output_has_besides() -> None:
    text = "WITH r AS (SELECT k, struct(v, x) AS s FROM f) SELECT k, s.*, k AS z FROM r"
    lineage = sql.analyse(text).lineage({"f": TABLES["f"]}, ("k", "v", "x", "z"))
    assert lineage is not None
    fields = lineage["fields"]
    assert list(fields) == ["k", "v", "x", "z"]
    assert fields["k"] == fields["z"]
    assert fields["v"] == fields["x"] != fields["k"]
