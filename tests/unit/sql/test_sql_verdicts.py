"""Verdicts on many queries, each as the rules say, and each carried out piece by piece against the
whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.sql import OutputKeyPart, SqlProblem, Verdict, analyse
from tests.unit.sql.piecewise import Database, assert_piecewise, small_tables, tree_of
from tests.unit.sql.queries import TEXTS, TPCH, VERDICTS, parts_of, soup
from tests.unit.sql.random_queries import Writer
from tests.unit.sql.tpch import tpch_tables

pytestmark = pytest.mark.unit

RANDOM = 100  # queries


def _verdicts(
    known: Mapping[str, Any], columns: Mapping[str, tuple[str, ...]]
) -> Mapping[str, Verdict]:
    return analyse(known["sql"]).verdicts(
        parts_of(known), columns if known.get("columns", True) else None
    )


@pytest.fixture(scope="module")
def small() -> Iterator[Database]:
    database = Database(small_tables(1))
    yield database
    database.close()


@pytest.fixture(scope="module")
def tpch() -> Iterator[Database]:
    database = Database(tpch_tables(7))
    yield database
    database.close()


def _assert_as_expected(known: Mapping[str, Any], verdicts: Mapping[str, Verdict]) -> None:
    modes = known.get("modes", "all")
    assert {n: v.mode for n, v in verdicts.items()} == (
        modes if isinstance(modes, dict) else dict.fromkeys(verdicts, modes)
    )
    assert {n: list(v.merge.aggregates) for n, v in verdicts.items() if v.merge} == known.get(
        "merge", {}
    )
    for name, words in known.get("because", {}).items():
        assert words in f"{verdicts[name].reason} {verdicts[name].unmerged}"


@pytest.mark.parametrize(
    "known", VERDICTS, ids=lambda known: f"{known['sql'][:70]} {known.get('by', '')}"
)
def test_verdict(small: Database, known: dict[str, Any]) -> None:
    verdicts = _verdicts(known, small.columns)
    _assert_as_expected(known, verdicts)
    if known.get("runs", True):
        assert_piecewise(small, known["sql"], verdicts)


@pytest.mark.parametrize("known", TPCH, ids=lambda known: known["name"])
def test_verdict_on_tpch(tpch: Database, known: dict[str, Any]) -> None:
    verdicts = _verdicts(known, tpch.columns)
    _assert_as_expected(known, verdicts)
    assert tpch.run(tree_of(known["sql"])), "the tables give no answer to compare"
    assert_piecewise(tpch, known["sql"], verdicts)


def test_the_table_is_large_and_its_queries_give_rows(small: Database) -> None:
    assert len({str(known) for known in VERDICTS + TPCH}) == len(VERDICTS + TPCH) >= 80
    assert [known["name"] for known in TPCH] == [f"Q{n}" for n in range(1, 23)]
    empty = [k["sql"] for k in VERDICTS if k.get("runs", True) and not small.run(tree_of(k["sql"]))]
    assert empty == []


def _assert_random(database: Database, seed: int) -> None:
    chosen = Writer(seed).query()
    parts = [OutputKeyPart(chosen.partition_by)] if chosen.partition_by else []
    try:
        database.run(tree_of(chosen.text))
    except duckdb.BinderException:
        return  # it names a side of a semi join later on
    assert_piecewise(database, chosen.text, analyse(chosen.text).verdicts(parts, database.columns))


@pytest.mark.parametrize("seed", range(RANDOM))
def test_a_random_query_comes_piecewise_to_the_whole(small: Database, seed: int) -> None:
    _assert_random(small, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(RANDOM, 20 * RANDOM))
def test_many_random_queries_come_piecewise_to_the_whole(small: Database, seed: int) -> None:
    _assert_random(small, seed)


def test_random_queries_meet_every_rule(small: Database) -> None:
    modes = Counter[str]()
    for seed in range(RANDOM):
        chosen = Writer(seed).query()
        parts = [OutputKeyPart(chosen.partition_by)] if chosen.partition_by else []
        verdicts = analyse(chosen.text).verdicts(parts, small.columns).values()
        modes.update(v.mode for v in verdicts)
        modes["merge"] += any(v.merge is not None for v in verdicts)
    assert min(modes[name] for name in ("each", "by", "all", "merge")) > RANDOM // 20


@given(soup(), st.sampled_from(["a", "b", "x"]))
def test_any_text_has_a_verdict_or_is_refused(text: str, name: str) -> None:
    try:
        query = analyse(text)
    except SqlProblem:
        return
    assert set(query.verdicts([OutputKeyPart(name)])) == {ref.name for ref in query.references}
    assert query.outputs() is None or query.outputs()


@pytest.mark.parametrize("text", TEXTS)
def test_every_query_of_the_corpus_has_verdicts(text: str) -> None:
    query = analyse(text)
    columns = {ref.name: ("a", "b", "k", "x") for ref in query.references}
    for name in ("a", "k", "nothing"):
        for known in (None, columns):
            found = query.verdicts([OutputKeyPart(name)], known)
            assert set(found) == {ref.name for ref in query.references}
            assert all((v.mode == "by") == bool(v.keys) for v in found.values())
    assert all(
        query.verdicts()[ref.name].planned.mode == query.mode(ref.name).mode
        for ref in query.references
    )
    assert query.outputs(columns) is None or query.outputs(columns)


# --- words and names -------------------------------------------------------------------------------


def _only(text: str, *by: str, **more: Any) -> Verdict:
    (verdict,) = analyse(text).verdicts([OutputKeyPart(name) for name in by], **more).values()
    return verdict


def test_what_is_planned_is_shown_with_what_more_is_known() -> None:
    verdict = _only("SELECT k,\n  sum(v) AS t, count(*) AS n\nFROM f\nGROUP BY k")
    assert verdict.planned.mode == "all"
    assert (
        verdict.planned.reason
        == "`all`: GROUP BY at line 4; decomposable: sum, count of parts can be merged"
    )
    assert verdict.merge is not None
    assert (verdict.merge.line, verdict.merge.start) == (1, 7)
    by = _only("SELECT k, sum(v) AS t FROM f GROUP BY k", "k")
    assert (by.planned.mode, by.mode) == ("all", "by")
    assert by.planned.reason.startswith("`all`: it could be read `by` k: rows with one key")


def test_a_key_is_told_over_the_columns_of_the_input() -> None:
    text = "SELECT month(day) AS m, day FROM (SELECT d AS day, x FROM f) q GROUP BY day"
    verdict = _only(text, "m", "day")
    assert [(k.expression, k.column) for k in verdict.keys] == [("MONTH(`d`)", ""), ("d", "d")]
    granules = analyse(text).verdicts([OutputKeyPart("day", "month")])["f"]
    assert granules.reason.startswith("`by` month of d:")


def test_the_scope_that_aggregates_is_named_by_its_place() -> None:
    text = "WITH c AS (\n  SELECT k, sum(v) AS t\n  FROM f GROUP BY k)\nSELECT max(t) AS m FROM c"
    merge = _only(text).merge
    assert merge is not None
    assert (text[merge.start :].split(",")[0], merge.line, merge.aggregates) == ("k", 2, ("sum",))


@pytest.mark.parametrize(
    ("text", "columns", "names"),
    [
        ("SELECT a, b AS `Odd Name`, a + 1 FROM f", None, ("a", "odd name", "")),
        ("SELECT stack(1, a, b) AS (c, D), a FROM f", None, ("c", "d", "a")),
        ("SELECT * FROM f", None, None),
        ("SELECT *, 1 AS n FROM f", {"F": ("a", "B")}, ("a", "b", "n")),
        ("SELECT g.*, f.a FROM f JOIN g ON f.a = g.b", {"g": ("b", "c")}, ("b", "c", "a")),
        ("SELECT * FROM f LEFT SEMI JOIN g ON f.a = g.b", {"f": ("a",)}, ("a",)),
        ("SELECT * EXCEPT (a) FROM f", {"f": ("a", "b")}, None),
        (
            "WITH q AS (SELECT a AS z FROM f) SELECT * FROM q UNION ALL SELECT b FROM g",
            None,
            ("z",),
        ),
        ("SELECT y.* FROM (SELECT a, b FROM f) AS y (c, d)", None, ("c", "d")),
    ],
)
def test_output_columns(
    text: str, columns: dict[str, tuple[str, ...]] | None, names: tuple[str, ...] | None
) -> None:
    assert analyse(text).outputs(columns) == names


def test_names_that_differ_by_case_where_case_counts() -> None:
    text = "SELECT `K`, sum(v) OVER (PARTITION BY k) AS s FROM f"
    assert _only(text, "K").mode == "by"
    assert _only(text, "K", case_sensitive=True).mode == "all"
    assert _only("SELECT K, v FROM f", "k", case_sensitive=True).mode == "all"


@pytest.mark.slow
def test_a_query_that_is_too_large_is_read_whole() -> None:
    one = "SELECT a AS k, sum(b) AS b FROM f GROUP BY a"
    assert "more than 50 times SELECT" in _only(" UNION ALL ".join([one] * 60), "k").reason
    doubled = "".join(
        f", c{n} AS (SELECT l.k FROM c{n - 1} l JOIN c{n - 1} r ON l.k = r.k)" for n in range(1, 40)
    )
    text = f"WITH c0 AS (SELECT k FROM f){doubled} SELECT k FROM c39"
    assert "too large to follow" in _only(text, "k").reason


def test_what_only_spark_can_read_is_read_whole() -> None:
    verdict = _only("SELECT v:a.b AS k FROM f", "k")
    assert (verdict.mode, verdict.reason) == (
        "all",
        "`all`: the query holds a construct that only Spark can read",
    )
