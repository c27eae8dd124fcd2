"""Which edits of a query keep its digest. A false "same" is a wrong result; a false "other" only
costs."""

from __future__ import annotations

import pytest
from hypothesis import given

from controlplane.core.sql import analyse
from tests.unit.sql.queries import respaced

pytestmark = pytest.mark.unit


def same(a: str, b: str) -> bool:
    return analyse(a).digest == analyse(b).digest


@given(respaced())
def test_gaps_between_tokens_do_not_count(pair: tuple[str, str]) -> None:
    text, rewritten = pair
    assert same(text, rewritten)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("SELECT a FROM f", "select a from f"),
        ("SELECT a FROM f", "  SELECT a -- note\n FROM f /* end */ ;"),
        ("SELECT a FROM f", "SELECT a -- it's\\\n still a comment\nFROM f"),
        ("SELECT a FROM f", "SELECT /* /* nested */ */ a FROM f"),
        ("SELECT count(*), Sum(a) FROM f GROUP BY b", "SELECT COUNT( * ), sum(a)\nFROM f group\n/**/by b"),
        ("SELECT coalesce(a, NULL) FROM f", "select COALESCE(a, null) from f"),
        ("SELECT cast(a AS INT), b::date FROM f", "SELECT CAST(a as int), b::DATE FROM f"),
        ("SELECT CASE WHEN a IS NOT NULL THEN 1 END x FROM f", "select case when a is not null then 1 end x from f"),
        ("SELECT a FROM f WHERE a NOT IN (1) AND b < 2", "select a from f where a not in (1) and b < 2"),
        ("SELECT a FROM f WHERE b BETWEEN 1 AND :b", "select a from f where b between 1 and :b"),
        ("SELECT a FROM f LEFT OUTER JOIN g USING (k)", "SELECT a FROM f left outer join g using (k)"),
        ("SELECT a FROM f ORDER BY a DESC NULLS LAST LIMIT 1", "SELECT a FROM f order by a desc nulls last limit 1"),
        ("SELECT sum(a) OVER (PARTITION BY b) FROM f", "SELECT SUM(a) over (partition by b) FROM f"),
        ("WITH t AS (SELECT DISTINCT 1) SELECT * FROM t", "with t as (select distinct 1) select * from t"),
        ("SELECT a FROM f LATERAL VIEW explode(b) t AS k", "SELECT a FROM f lateral view EXPLODE(b) t as k"),
        ("SELECT a FROM f UNION ALL SELECT a FROM g", "SELECT a FROM f union all select a from g"),
        ("SELECT DATE '2013-01-01' FROM f", "SELECT date'2013-01-01' FROM f"),
        ("SELECT a FROM f, g WHERE a > :x", "SELECT a FROM f , g WHERE a > : x"),
    ],
)  # fmt: skip
def test_same(a: str, b: str) -> None:
    assert same(a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        # names: of columns, map keys, variant paths, struct fields, aliases, tables, parameters
        ("SELECT a FROM f", "SELECT A FROM f"),
        ("SELECT a AS x FROM f", "SELECT a AS X FROM f"),
        ("SELECT a AS date FROM f", "SELECT a AS Date FROM f"),
        ("SELECT a AS sum FROM f", "SELECT a AS SUM FROM f"),
        ("SELECT m.Foo FROM f", "SELECT m.foo FROM f"),
        ("SELECT m.Count FROM f", "SELECT m.count FROM f"),
        ("SELECT m['Foo'] FROM f", "SELECT m['foo'] FROM f"),
        ("SELECT m.Null FROM f", "SELECT m.NULL FROM f"),
        ("SELECT 1 FROM f AS t(a, Null)", "SELECT 1 FROM f AS t(a, NULL)"),
        ("SELECT a.Order FROM f a", "SELECT a.ORDER FROM f a"),
        ("SELECT v:Foo FROM f", "SELECT v:foo FROM f"),
        ("SELECT v:From FROM f", "SELECT v:from FROM f"),
        ("SELECT struct(a AS Foo) FROM f", "SELECT struct(a AS foo) FROM f"),
        ("SELECT struct(a AS Sum) FROM f", "SELECT struct(a AS sum) FROM f"),
        ("SELECT struct(Date) FROM f", "SELECT struct(date) FROM f"),
        ("SELECT Year, Count FROM f", "SELECT year, count FROM f"),
        ("SELECT extract(Year FROM a) FROM f", "SELECT extract(year FROM a) FROM f"),
        ("SELECT a Desc, b FROM f", "SELECT a DESC, b FROM f"),
        ("SELECT 1 FROM f LATERAL VIEW inline(m) t AS k, Row", "SELECT 1 FROM f LATERAL VIEW inline(m) t AS k, ROW"),
        ("SELECT explode(m) AS (Key, Null) FROM f", "SELECT explode(m) AS (Key, NULL) FROM f"),
        ("SELECT transform(x, Sum -> Sum + 1) FROM f", "SELECT transform(x, Sum -> SUM + 1) FROM f"),
        ("SELECT cast(a AS STRUCT<Int: INT>) FROM f", "SELECT cast(a AS STRUCT<INT: INT>) FROM f"),
        ("WITH x AS (SELECT 1), Max(b) AS (SELECT 2) SELECT 3", "WITH x AS (SELECT 1), MAX(b) AS (SELECT 2) SELECT 3"),
        ("SELECT a FROM f", "SELECT `a` FROM f"),
        ("SELECT a FROM f WHERE a > :x", "SELECT a FROM f WHERE a > :X"),
        ("SELECT ſum FROM f", "SELECT SUM FROM f"),
        # literals
        ("SELECT 'it''s' FROM f", "SELECT 'it' 's' FROM f"),
        ("SELECT 'a''b' FROM f", "SELECT 'a' 'b' FROM f"),
        ("SELECT 'a' FROM f", 'SELECT "a" FROM f'),
        ("SELECT r'a' FROM f", "SELECT 'a' FROM f"),
        ("SELECT 'a ' FROM f", "SELECT 'a' FROM f"),
        ("SELECT '--x' FROM f", "SELECT '--y' FROM f"),
        ("SELECT '/*x*/' FROM f", "SELECT '/*y*/' FROM f"),
        ("SELECT r'\\', '--x' FROM f", "SELECT r'\\', '--y' FROM f"),
        ("SELECT 1 FROM f", "SELECT 1. FROM f"),
        ("SELECT 1.0 FROM f", "SELECT 1.00 FROM f"),
        ("SELECT 1 FROM f", "SELECT 1L FROM f"),
        ("SELECT 10L FROM f", "SELECT 10 L FROM f"),
        ("SELECT 1e3 FROM f", "SELECT 1 e3 FROM f"),
        ("SELECT 1e-3 x FROM f", "SELECT 1e - 3 x FROM f"),
        # structure
        ("SELECT a b FROM f", "SELECT a, b FROM f"),
        ("SELECT ab FROM f", "SELECT a b FROM f"),
        ("SELECT a -- x\r+ 2 FROM f", "SELECT a -- x\r+ 3 FROM f"),
        ("SELECT /* /*+ */ 1 AS a, '*/ 2 AS b, ' AS c FROM f", "SELECT /* /*+ */ 9 AS a, '*/ 2 AS b, ' AS c FROM f"),
        ("SELECT a FROM f JOIN g USING (k)", "SELECT /*+ BROADCAST(g) */ a FROM f JOIN g USING (k)"),
        ("SELECT a = b FROM f", "SELECT a == b FROM f"),
        ("SELECT count(*) FROM f", "SELECT count(1) FROM f"),
    ],
)  # fmt: skip
def test_different(a: str, b: str) -> None:
    assert not same(a, b)
