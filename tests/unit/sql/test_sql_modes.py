"""Modes beyond the corpus: lines in reasons, names in any case, and functions that hide."""

from __future__ import annotations

import pytest

from controlplane.core.sql import PARTS, Unproven, analyse, apply_edits
from controlplane.core.sql.functions import (
    AGGREGATES,
    CHANCE,
    GENERATORS,
    ORDER_DEPENDENT,
    ROW_WISE,
    WINDOWS,
)

pytestmark = pytest.mark.unit


def test_a_reason_names_the_line() -> None:
    mode = analyse("SELECT a, count(*)\nFROM f\nGROUP BY a").mode("f")
    assert (mode.mode, mode.reason) == ("all", "`all`: GROUP BY at line 3")


def test_an_unknown_function_is_not_row_wise() -> None:
    reason = analyse("SELECT a,\n  mystery(a) FROM f").mode("f").reason
    assert reason == "`all`: function mystery is not known to be row-wise, at line 2"


@pytest.mark.parametrize(
    "call", ["`count`(a)", "t.count(a)", "COUNT(a)", "any_value (a)", "schema_of_variant_agg(a)"]
)
def test_aggregates_in_any_spelling(call: str) -> None:
    assert analyse(f"SELECT {call} FROM f t").mode("f").mode == "all"


@pytest.mark.parametrize("name", sorted(AGGREGATES | WINDOWS))
def test_no_aggregate_is_row_wise(name: str) -> None:
    assert analyse(f"SELECT {name}(a) FROM f").mode("f").mode == "all"


@pytest.mark.parametrize("window", ["window(a, '1 hour')", "WINDOW (a, '2 hours', '1 hour')"])
def test_a_window_of_time_is_row_wise_and_no_clause(window: str) -> None:
    assert analyse(f"SELECT *, {window}.start AS b FROM f").mode("f").mode == "each"
    grouped = analyse(f"SELECT count(*) AS n FROM f GROUP BY {window}, c WINDOW w AS (ORDER BY c)")
    assert grouped.parsed
    assert grouped.mode("f").reason == "`all`: GROUP BY at line 1"


def test_windows_are_split_by_their_start() -> None:
    text = "SELECT window(a, '1 hour').start AS h, sum(v) AS v FROM f GROUP BY window(a, '1 hour')"
    split = analyse(text).split("f")
    first = "SELECT window(a, '1 hour').start AS _g0, sum(v) AS _p0 FROM f GROUP BY 1"
    assert apply_edits(text, split.partial).strip() == first
    whole = f"SELECT _g0 AS h, max(_p0) AS v FROM {PARTS} GROUP BY _g0"
    assert apply_edits(text, split.outline) == whole
    with pytest.raises(Unproven, match="a is none of the groups"):
        analyse(text.replace("start", "end")).split("f")


def test_chance_does_not_change_the_mode() -> None:
    query = analyse("SELECT a, rand() FROM f")
    assert query.mode("f").mode == "each"
    assert [(v.construct, v.line) for v in query.volatile] == [("rand()", 1)]


@pytest.mark.parametrize(
    "frame",
    [
        "ROWS BETWEEN 3 PRECEDING AND CURRENT ROW",
        "ROWS UNBOUNDED PRECEDING",
        "rows 3 preceding",
        "ROWS (:n + 1) PRECEDING",
    ],
)
def test_frames_of_rows_depend_on_the_order_of_equal_ones(frame: str) -> None:
    query = analyse(f"SELECT sum(a) OVER (PARTITION BY b ORDER BY c\n{frame}), d FROM f")
    assert [(v.construct, v.line) for v in query.volatile] == [("ROWS frame", 2)]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT sum(a) OVER (ORDER BY b RANGE UNBOUNDED PRECEDING) FROM f",
        "SELECT sum(a) OVER (ORDER BY b ROWS CURRENT ROW), preceding FROM f",
        "SELECT rows, preceding FROM f",
        "SELECT f.rows FROM f WHERE (rows > 3) AND following",
    ],
)
def test_other_frames_and_columns_of_such_names_do_not(text: str) -> None:
    assert not analyse(text).volatile


def test_names_of_datasets_are_found_in_any_case() -> None:
    assert analyse("SELECT a FROM Flights").mode("flights").mode == "each"


def test_the_other_inputs_of_a_row_wise_query_are_read_whole() -> None:
    query = analyse("SELECT f.a FROM f\nJOIN g USING (k)\nWHERE f.x IN (SELECT x FROM h)")
    assert [query.mode(name).mode for name in ("f", "g", "h")] == ["each", "all", "all"]
    assert query.mode("h").reason == "`all`: any row may meet any row of f, at line 3"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM f UNION ALL SELECT b FROM g WHERE b > 1",
        "SELECT a FROM f UNION ALL SELECT a FROM g UNION ALL SELECT b FROM f",
        "SELECT a FROM f JOIN h USING (k)\nUNION ALL (SELECT a FROM g UNION ALL SELECT explode(x) FROM f)",
        "(SELECT a FROM f) UNION ALL (SELECT (SELECT max(b) FROM h) FROM g)",
    ],
)
def test_a_union_keeps_the_partitions_of_all_its_sides(text: str) -> None:
    query = analyse(text)
    assert [query.mode(name).mode for name in ("f", "g")] == ["each", "each"]
    assert query.mode("f").reason == "`each`: every row comes from one row of f or of g"
    assert query.mode("h").mode == "all"
    assert query.label_edits("f") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT a FROM f\nUNION\nSELECT a FROM g", "UNION at line 2"),
        ("SELECT a FROM f UNION SELECT a FROM g UNION ALL SELECT a FROM h", "UNION at line 1"),
        ("SELECT a FROM f\nUNION ALL SELECT 1", "FROM without a table at line 1"),
        ("SELECT a FROM f UNION ALL\nSELECT sum(a) FROM g", "aggregate sum at line 2"),
        ("SELECT a FROM f UNION ALL SELECT a FROM g\nORDER BY a", "ORDER BY at line 2"),
        ("SELECT a FROM f UNION ALL SELECT a FROM g\nLIMIT 3", "LIMIT at line 2"),
        ("SELECT a FROM f UNION ALL\n(SELECT a FROM g LIMIT 3)", "LIMIT at line 2"),
        ("WITH x AS (SELECT 1)\nSELECT a FROM f UNION ALL SELECT a FROM g", "WITH at line 1"),
        (
            "SELECT a FROM f UNION ALL SELECT a FROM g\nJOIN f USING (a)",
            "f is read again at line 2",
        ),
        (
            "SELECT a FROM f UNION ALL SELECT a FROM g\nWHERE a IN (SELECT a FROM F)",
            "F is read again at line 2",
        ),
        (
            "SELECT a FROM f INTERSECT SELECT a FROM h UNION ALL SELECT a FROM g",
            "INTERSECT at line 1",
        ),
        ("SELECT a FROM f UNION ALL SELECT a FROM g\nEXCEPT SELECT a FROM h", "EXCEPT at line 2"),
    ],
)
def test_a_union_is_read_whole_where_one_side_must_be(text: str, reason: str) -> None:
    query = analyse(text)
    assert {query.mode(ref.name).mode for ref in query.references} == {"all"}
    assert query.mode("f").reason == f"`all`: {reason}"


def test_another_input_of_a_side_meets_the_rows_of_that_side() -> None:
    query = analyse("SELECT a FROM f UNION ALL\nSELECT a FROM g\nJOIN h USING (k)")
    assert query.mode("h").reason == "`all`: any row may meet any row of g, at line 3"


def test_a_name_that_is_not_read() -> None:
    assert analyse("SELECT a FROM f").mode("g").reason == "`all`: the query does not read g"


def test_references_have_places() -> None:
    text = "SELECT a\nFROM `other`.ds d JOIN f"
    refs = analyse(text).references
    assert [(r.parts, text[r.start : r.end], r.line, r.column, r.alias) for r in refs] == [
        (("other", "ds"), "`other`.ds", 2, 6, "d"),
        (("f",), "f", 2, 24, ""),
    ]


def test_columns_are_named_in_any_case_and_any_quotes() -> None:
    query = analyse("SELECT ABC, `x y`, count(*) FROM f WHERE t.Q = 1")
    assert query.named_columns(["abc", "X Y", "q", "n", "z.w"]) == ("abc", "X Y", "q")


def test_tables_of_functions_do_not_overlap() -> None:
    assert not ROW_WISE & (AGGREGATES | WINDOWS | GENERATORS)
    assert CHANCE <= ROW_WISE
    assert not ORDER_DEPENDENT & ROW_WISE
