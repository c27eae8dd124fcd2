"""Queries taken apart by parts of an input: their texts, and where a text leaves a doubt.
tests.spark runs them."""

from __future__ import annotations

import pytest

from controlplane.core.sql import Unproven, analyse, apply_edits

pytestmark = pytest.mark.unit

TYPES = {"_p0": "decimal(20,2)", "_p0n": "long", "_p1": "long", "_p2": "double"}


def test_the_texts() -> None:
    text = """
WITH big AS (SELECT * FROM f WHERE v > :least), last AS (SELECT 1 AS one)
SELECT q.* FROM (
  SELECT B.k, year(d) AS y, sum(v) AS total, count(*) FILTER (WHERE x > 1) AS n -- the end
  FROM big b JOIN h USING (k) WHERE z < 3 GROUP BY B.k, 2 HAVING sum(v) > 7 ORDER BY n, b.k
) q"""
    split = analyse(text).split("f")
    assert apply_edits(text, split.partial) == (
        "WITH big AS (SELECT * FROM f WHERE v > :least), last AS (SELECT 1 AS one)"
        "SELECT B.k AS _g0, year(d) AS _g1, sum(v) AS _p0, count(*) FILTER (WHERE x > 1) AS _p1 "
        "FROM big b JOIN h USING (k) WHERE z < 3 GROUP BY 1, 2"
    )
    assert (
        apply_edits(text, split.second_query(TYPES))
        == """
WITH big AS (SELECT * FROM f WHERE v > :least), last AS (SELECT 1 AS one)
SELECT q.* FROM (
  SELECT _g0 AS k, _g1 AS y, CAST(sum(_p0) AS decimal(20,2)) AS total, coalesce(sum(_p1), 0) AS n -- the end
  FROM _headgate_parts GROUP BY _g0, _g1 HAVING CAST(sum(_p0) AS decimal(20,2)) > 7 ORDER BY n, _g0
) q"""
    )
    assert split.labelled is None  # a star would have to carry the label


def test_the_label_of_many_parts_at_once_goes_through_subqueries() -> None:
    text = "SELECT n, max(v) AS m FROM (SELECT k AS n, v FROM f a JOIN h USING (k)) q GROUP BY n"
    labelled = analyse(text).split("f").labelled
    assert labelled is not None
    assert apply_edits(text, labelled) == (
        "SELECT n AS _g0, max(v) AS _p0, `q`._fragment AS _fragment "
        "FROM (SELECT k AS n, v, `a`._fragment AS _fragment FROM f a JOIN h USING (k)) q GROUP BY 1, `q`._fragment"
    )


def test_what_is_selected_without_aggregates_are_the_groups_of_all() -> None:
    text = "SELECT k, v % 2 AS odd, k + sum(v) AS t FROM f GROUP BY ALL HAVING count(*) > 1 ORDER BY odd"
    split = analyse(text).split("f")
    assert apply_edits(text, split.partial) == (
        "SELECT k AS _g0, v % 2 AS _g1, sum(v) AS _p0, count(*) AS _p1 FROM f GROUP BY 1, 2"
    )
    assert apply_edits(text, split.second_query({"_p0": "long", "_p1": "long"})) == (
        "SELECT _g0 AS k, _g1 AS odd, _g0 + CAST(sum(_p0) AS BIGINT) AS t FROM _headgate_parts "
        "GROUP BY _g0, _g1 HAVING coalesce(sum(_p1), 0) > 1 ORDER BY odd"
    )


def test_parts_are_merged_to_parts() -> None:
    text = "SELECT k, sum(v) AS t, avg(v) AS a, count(*) AS n, min(x) AS m, sum(v) + 1 AS u FROM f GROUP BY k"
    split = analyse(text).split("f")
    amount, mean = (
        {"_p0": "decimal(20,2)"},
        {"_p1": "decimal(20,2)", "_p1n": "long", "_p1m": "decimal(10,2)"},
    )
    types = {**amount, **mean, "_p2": "long", "_p3": "double"}
    assert split.between(types) == (
        "SELECT _g0, CAST(sum(_p0) AS decimal(20,2)) AS _p0, CAST(sum(_p1) AS decimal(20,2)) AS _p1, "
        "CAST(sum(_p1n) AS BIGINT) AS _p1n, max(_p1m) AS _p1m, CAST(sum(_p2) AS BIGINT) AS _p2, min(_p3) AS _p3 "
        "FROM _headgate_parts GROUP BY _g0",
        "SELECT _g0, CAST(sum(_p0) AS decimal(20,2)) AS _p0, CAST(sum(_p1) AS decimal(20,2)) AS _p1, "
        "CAST(sum(_p1n) AS BIGINT) AS _p1n, max(_p1m) AS _p1m, CAST(sum(_p2) AS BIGINT) AS _p2, min(_p3) AS _p3, "
        "_headgate_parts._fragment AS _fragment FROM _headgate_parts GROUP BY _g0, _headgate_parts._fragment",
    )
    assert split.depends_on_types
    assert not analyse("SELECT k, max(v) AS m FROM f GROUP BY k").split("f").depends_on_types


def test_sums_of_doubles_are_not_merged_by_steps() -> None:
    split = analyse("SELECT sum(x) AS t FROM f").split("f")
    with pytest.raises(Unproven, match="the order of all their values"):
        split.between({"_p0": "double"})


def test_whether_types_come_together_is_known_before_anything_is_computed() -> None:
    split = analyse("SELECT k, avg(v) AS t FROM f GROUP BY k").split("f")
    more = {"_p0n": "long", "_p0m": "decimal(10,2)"}
    assert split.comes_together({"_p0": "decimal(20,2)", **more})
    assert not split.comes_together({"_p0": "decimal(38,4)", **more})


@pytest.mark.parametrize("call", ["avg(v)", "mean(v) FILTER (WHERE x > 1)"])
def test_averages_whose_sums_may_overflow_are_those_of_the_plain_query(call: str) -> None:
    """Spark adds doubles for them: the average of sixteen times in nanoseconds is one, and their
    sum is no BIGINT."""
    split = analyse(f"SELECT k, {call} AS t FROM f GROUP BY k").split("f")
    for kind, is_safe in {"byte": True, "short": True, "integer": True, "long": False}.items():
        assert split.comes_together({"_p0": "long", "_p0n": "long", "_p0m": kind}) == is_safe


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT k, sum(v) AS t FROM f GROUP BY ROLLUP (k)", "ROLLUP"),
        ("SELECT sum(v) AS t FROM f GROUP BY k WITH ROLLUP", "ROLLUP"),
        ("SELECT sum(v) AS t FROM f GROUP BY CUBE (k)", "CUBE"),
        ("SELECT k, sum(v) AS t FROM f GROUP BY GROUPING SETS ((k), ())", "GROUPING SETS"),
        ("SELECT sum(v) AS t FROM f GROUP BY ALL", "which may be a column"),
        ("SELECT 1 AS one, sum(v) AS t FROM f GROUP BY ALL", "which may be a column"),
        ("SELECT k, length(all) AS l, sum(v) AS t FROM f GROUP BY ALL", "which may be a column"),
        ("SELECT k + sum(v) AS t, z FROM f GROUP BY ALL", "none of the groups"),
        ("SELECT k, rank() OVER (ORDER BY k) AS n, sum(v) AS t FROM f GROUP BY ALL", "in a form"),
        ("SELECT k, sum(v) FROM f GROUP BY k", "without a name"),
        ("SELECT k % 2 AS k, sum(v) AS t FROM f GROUP BY k", "also the name of something computed"),
        ("SELECT k + 1 AS more, sum(v) AS t FROM f GROUP BY k % 2, k % 3", "none of the groups"),
        (
            "SELECT k, sum(v) AS t, (SELECT max(z) FROM h) AS m FROM f GROUP BY k",
            "a subquery beside",
        ),
        (
            "SELECT k, sum(v) AS t FROM f GROUP BY k HAVING sum(v) > (SELECT max(z) FROM h)",
            "a subquery beside",
        ),
        ("SELECT k, sum(v) AS t, t + 1 AS u FROM f GROUP BY k", "none of the groups"),
        ("SELECT k, rand() AS r FROM f GROUP BY k", "rand()"),
    ],
)
def test_doubts(text: str, what: str) -> None:
    with pytest.raises(Unproven) as refused:
        analyse(text).split("f")
    assert what in refused.value.what


@pytest.mark.parametrize(
    ("call", "type"),
    [
        ("sum(v)", "interval day to second"),
        ("avg(v)", "decimal(38,4)"),
        ("avg(v)", "decimal(30,10)"),
        ("avg(v)", "x"),
    ],
)
def test_types_whose_parts_do_not_come_together_exactly(call: str, type: str) -> None:
    split = analyse(f"SELECT k, {call} AS t FROM f GROUP BY k").split("f")
    with pytest.raises(Unproven, match="of type"):
        split.second_query({"_p0": type, "_p0n": "long", "_p0m": type})
