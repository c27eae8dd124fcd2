"""Addresses in a query's text become names in quotes, and nothing else changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.query.duckdb_addresses import quoted


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("FROM a.b@2", 'FROM a."b@2"'),
        ("FROM a.b@2, c.d@30 x", 'FROM a."b@2", c."d@30" x'),
        ('FROM "my-b".a.b@2', 'FROM "my-b".a."b@2"'),
        ('FROM a."b"@2', 'FROM a."b@2"'),
        ("FROM a.b@2026-11-24T07:00Z WHERE", 'FROM a."b@2026-11-24T07:00Z" WHERE'),
        ("FROM a.b@2026-11-24T07:00:01.5+01:00", 'FROM a."b@2026-11-24T07:00:01.5+01:00"'),
    ],
)
def test_quoted(sql: str, expected: str) -> None:
    assert quoted(sql).text == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'a.b@2'",
        "SELECT '''a.b@2'",
        r"SELECT E'\'a.b@2'",
        'SELECT "a.b@2"',
        "SELECT $$ a.b@2 $$",
        "SELECT $x$ a.b@2 $$ a.b@2 $x$",
        "-- a.b@2\nSELECT 1",
        "/* /* a.b@2 */ a.b@2 */ SELECT 1",
        "/* a.b@2",
        "SELECT @ -2, b@2",
        "SELECT a.b@c",
        "SELECT a.b@2x",
    ],
)
def test_left_alone(sql: str) -> None:
    assert quoted(sql).text == sql


def test_places_are_those_of_the_written_text() -> None:
    sql = "FROM a.b@2, ü.c@3 JOIN here"
    text = quoted(sql)
    assert text.origin(text.text.index("here")) == sql.index("here")
    assert text.origin_of_byte(text.text.encode().index(b"here")) == sql.index("here")
    assert text.origin(5) == 5


@given(st.text(alphabet="ab.@\"'-/*$ \n2E\\", max_size=40))
def test_any_text_loses_nothing(sql: str) -> None:
    text = quoted(sql)
    assert text.text.replace('"', "") == sql.replace('"', "")
    assert 0 <= text.origin(len(text.text)) <= len(text.text)
