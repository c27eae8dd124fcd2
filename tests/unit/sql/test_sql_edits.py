"""Edits of a query's text: tables renamed, the label carried, positions mapped back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.sql import Edit, analyse, apply_edits, original_offset

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a FROM f", "SELECT a FROM v0 AS f"),
        ("SELECT f.a FROM f x", "SELECT f.a FROM v0 x"),
        ("SELECT f.a FROM F -- end", "SELECT f.a FROM v0 AS F -- end"),
        ("SELECT o.ds.a, o.ds.* FROM o.ds", "SELECT ds.a, ds.* FROM v1 AS ds"),
        ("SELECT o.ds.a FROM `o` . `ds` JOIN f USING (k)", "SELECT `ds`.a FROM v1 AS `ds` JOIN v0 AS f USING (k)"),
        ("SELECT a FROM f TABLESAMPLE (10 ROWS)", "SELECT a FROM v0 TABLESAMPLE (10 ROWS) AS f"),
        (
            "SELECT a FROM f TABLESAMPLE (10 ROWS) REPEATABLE (1) WHERE a",
            "SELECT a FROM v0 TABLESAMPLE (10 ROWS) REPEATABLE (1) AS f WHERE a",
        ),
        ("SELECT 1 FROM f, o.ds d, (SELECT 2 FROM f) x", "SELECT 1 FROM v0 AS f, v1 d, (SELECT 2 FROM v0 AS f) x"),
        ("WITH f AS (SELECT * FROM f) SELECT * FROM f", "WITH f AS (SELECT * FROM v0 AS f) SELECT * FROM f"),
        ("SELECT v:a.b FROM f JOIN o.ds", "SELECT v:a.b FROM v0 AS f JOIN v1 AS ds"),
        ("SELECT a FROM other", "SELECT a FROM other"),
    ],
)  # fmt: skip
def test_rename(text: str, expected: str) -> None:
    edits = analyse(text).rename_edits({"f": "v0", "o.ds": "v1"})
    assert apply_edits(text, edits) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a\n-- last column\nFROM f", "SELECT a, f._fragment\n-- last column\nFROM f"),
        ("SELECT extract(YEAR FROM d), a FROM f AS x", "SELECT extract(YEAR FROM d), a, x._fragment FROM f AS x"),
        ("SELECT r.* FROM f JOIN r USING (k)", "SELECT r.*, f._fragment FROM f JOIN r USING (k)"),
        ("SELECT r.*, f.* FROM f JOIN r USING (k)", None),
        ("SELECT a * 2 FROM f", "SELECT a * 2, f._fragment FROM f"),
        ("SELECT f.* FROM `f`", "SELECT f.* FROM `f`"),
    ],
)  # fmt: skip
def test_label(text: str, expected: str | None) -> None:
    edits = analyse(text).label_edits("f")
    assert edits is not None
    assert apply_edits(text, edits) == (text if expected is None else expected)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT *, f.* FROM f",
        "SELECT * EXCEPT (a) FROM f",
        "SELECT to_json(struct(*)) FROM f",
        "SELECT array(f.*) FROM f",
        "SELECT * FROM f NATURAL JOIN r",
        "SELECT sum(a) FROM f",
        "SELECT a FROM r JOIN f USING (k)",
    ],
)
def test_label_is_refused_where_it_is_not_safe(text: str) -> None:
    assert analyse(text).label_edits("f") is None


def test_both_kinds_of_edits_go_together() -> None:
    query = analyse("SELECT flights.a FROM flights")
    edits = (*(query.label_edits("flights") or ()), *query.rename_edits({"flights": "v7"}))
    assert (
        apply_edits(query.text, edits) == "SELECT flights.a, flights._fragment FROM v7 AS flights"
    )


def test_overlapping_edits_are_an_error() -> None:
    with pytest.raises(ValueError, match="overlaps"):
        apply_edits("abcdef", [Edit(0, 3, "x"), Edit(2, 4, "y")])


@st.composite
def edited(draw: st.DrawFn) -> tuple[str, list[Edit]]:
    text = draw(st.text(alphabet="abc", min_size=1, max_size=20))
    marks = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8, unique=True)))
    spans = list(zip(marks[::2], marks[1::2], strict=False))
    return text, [
        Edit(start, end, draw(st.text(alphabet="XYZ", max_size=4))) for start, end in spans
    ]


@given(edited())
def test_kept_characters_map_back_to_themselves(case: tuple[str, list[Edit]]) -> None:
    text, edits = case
    result = apply_edits(text, edits)
    for offset, character in enumerate(result):
        back = original_offset(edits, offset)
        assert 0 <= back <= len(text)
        assert character in "XYZ" or text[back] == character
    kept = [original_offset(edits, i) for i, c in enumerate(result) if c in "abc"]
    assert kept == [i for i in range(len(text)) if not any(e.start <= i < e.end for e in edits)]
