"""What no transform may run, with the place and the code that a user is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.sql import AnalysedQuery, SqlProblem, analyse
from tests.unit.sql.queries import soup

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("", "empty-sql", 1, 1),
        (" -- nothing\n;", "empty-sql", 1, 1),
        ("SELECT a FRM f x y", "invalid-sql", 1, 10),
        ("SELECT a\nFROM f WHERE (", "invalid-sql", 2, 14),
        ("SELECT 'abc FROM f", "invalid-sql", 1, 8),
        ("SELECT a FROM `f", "invalid-sql", 1, 15),
        ("SELECT a /* FROM f", "invalid-sql", 1, 10),
        ("SELECT " + "(" * 300 + "1" + ")" * 300, "invalid-sql", 1, 208),
        ("SELECT " + "NOT " * 5000 + "a FROM f", "invalid-sql", 1, 1),
        ("SELECT a FROM f;\nSELECT b FROM g", "several-statements", 2, 1),
        ("CREATE TABLE x AS SELECT 1", "not-a-query", 1, 1),
        ("  INSERT INTO x SELECT 1", "not-a-query", 1, 3),
        ("WITH a AS (SELECT 1) INSERT INTO x SELECT * FROM a", "not-a-query", 1, 1),
        ("BEGIN SELECT 1; END", "not-a-query", 1, 1),
        ("SET x = 1", "not-a-query", 1, 1),
        ("TABLE f", "not-a-query", 1, 1),
        ("VALUES (1)", "not-a-query", 1, 1),
        ("SELECT _metadata.file_path FROM f", "reserved-name", 1, 8),
        ("SELECT a,\n  f.`_METADATA` FROM f", "reserved-name", 2, 5),
        ("SELECT input_file_name() FROM f", "reserved-name", 1, 8),
        ("SELECT Input_File_Block_Start ( ) FROM f", "reserved-name", 1, 8),
        ("SELECT _fragment FROM f", "reserved-name", 1, 8),
        ("SELECT a FROM f WHERE d > current_date - 7", "not-supported", 1, 27),
        ("SELECT current_time() FROM f", "not-supported", 1, 8),
        ("SELECT current_user() FROM f", "not-supported", 1, 8),
        ("SELECT DATE 'today' FROM f", "not-supported", 1, 13),
        ("SELECT a FROM IDENTIFIER(:t)", "not-supported", 1, 15),
        ("SELECT a FROM f WHERE a > ?", "not-supported", 1, 27),
        ("SELECT '${env:HOME}' FROM f", "not-supported", 1, 9),
        ("SELECT ${spark.x} FROM f", "not-supported", 1, 8),
        ("SELECT a FROM f VERSION AS OF 3", "not-supported", 1, 25),
        ("SELECT TRANSFORM(a) USING 'cat' FROM f", "not-supported", 1, 21),
        ("SELECT a FROM f UNION ALL TABLE g", "not-supported", 1, 27),
        ("SELECT * FROM read_files('/data')", "direct-read", 1, 15),
        ("SELECT * FROM f JOIN my_tvf(1)", "direct-read", 1, 22),
        ("SELECT * FROM f, LATERAL read_csv('x')", "direct-read", 1, 26),
        ("SELECT * FROM LATERAL `read_csv`('x') t", "direct-read", 1, 23),
        ("SELECT * FROM f JOIN LATERAL text('x') ON true", "direct-read", 1, 30),
        ("SELECT * FROM f, LATERAL spark_catalog.default.read_csv('x')", "direct-read", 1, 48),
        ("SELECT * FROM f, LATERAL TABLE(read_csv('x'))", "direct-read", 1, 26),
        ("SELECT * FROM f LATERAL VIEW OUTER read_csv('x') t", "direct-read", 1, 36),
        ("SELECT * FROM csv.`/data/x`", "direct-read", 1, 15),
        ("SELECT * FROM f JOIN parquet.`s3://b/x` USING (k)", "direct-read", 1, 22),
        ("SELECT * FROM `/data/x`", "direct-read", 1, 15),
    ],
)  # fmt: skip
def test_refused(text: str, code: str, line: int, column: int) -> None:
    with pytest.raises(SqlProblem) as caught:
        analyse(text)
    assert (caught.value.code, caught.value.line, caught.value.column) == (code, line, column)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT t.current_date, `now`, a AS current_timestamp FROM f t",
        "SELECT user, now FROM f",
        "SELECT unix_timestamp(a), '$x', 'a{1}$' FROM f",
        "SELECT a FROM csv.x JOIN json USING (k)",
        "SELECT '_metadata', 'now()' FROM f -- _metadata",
        "SELECT a FROM f JOIN range(3) r ON f.a = r.id",
        "SELECT " + " + ".join(["a"] * 3000) + " FROM f",
    ],
)  # fmt: skip
def test_accepted(text: str) -> None:
    assert analyse(text).references


def test_a_reserved_name_points_to_metadata() -> None:
    with pytest.raises(SqlProblem) as caught:
        analyse("SELECT _metadata.file_name FROM f")
    assert "metadata:" in caught.value.hint


def _analysed(text: str) -> AnalysedQuery | None:
    try:
        return analyse(text)
    except SqlProblem:
        return None


@given(st.one_of(st.text(), soup()))
def test_any_text_is_a_query_or_a_problem(text: str) -> None:
    query = _analysed(text)
    if query is not None:
        for ref in query.references:
            assert query.mode(ref.name).reason
            query.label_edits(ref.name)
        query.rename_edits({ref.name: "x" for ref in query.references})
        query.named_columns(["a"])
