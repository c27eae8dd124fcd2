"""Conditions on one row: what they are known by, which columns they name, and what is none."""

from __future__ import annotations

import pytest

from controlplane.core.sql import SqlProblem, predicate

NAMES = ("carrier", "delay", "tags", "v")


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("carrier IS NOT NULL", ("carrier",)),
        ("Delay > 0 AND (`carrier` IN ('UA', 'AA') OR delay IS NULL)", ("carrier", "delay")),
        ("exists(tags, t -> t > delay) -- of any", ("delay", "tags")),
        ("v:a.b > 1", None),
        ("1 = 1", ()),
    ],
)
def test_the_columns_that_are_named(text: str, columns: tuple[str, ...] | None) -> None:
    assert predicate(text).named_columns(NAMES) == columns


def test_identity_is_of_tokens() -> None:
    plain = predicate("carrier is not null and delay > 0").digest
    assert predicate("carrier IS NOT  NULL\n /* known */ AND delay > 0").digest == plain
    for other in (
        "Carrier IS NOT NULL AND delay > 0",
        "carrier IS NOT NULL AND delay > 0.0",
        "carrier IS NOT NULL",
    ):
        assert predicate(other).digest != plain


@pytest.mark.parametrize(
    ("text", "code", "line", "column"),
    [
        ("-- nothing", "empty-sql", 1, 1),
        ("a > 1) OR (b", "invalid-sql", 1, 6),
        ("(a > 1", "invalid-sql", 1, 7),
        ("a >\n  'x", "invalid-sql", 2, 3),
        ("a > 1; b", "not-a-condition", 1, 6),
        ("a IN\n (SELECT 1)", "not-a-condition", 2, 3),
        ("SELECT true", "not-a-condition", 1, 1),
        ("a > :least", "not-a-condition", 1, 5),
        ("a > 1\n AND b > rand()", "not-supported", 2, 1),
        ("a <\n current_date()", "not-supported", 2, 1),
        ("_metadata.file_name = 'a'", "reserved-name", 1, 1),
    ],
)
def test_what_is_no_condition_on_a_row(text: str, code: str, line: int, column: int) -> None:
    with pytest.raises(SqlProblem) as found:
        predicate(text)
    assert (found.value.code, found.value.line, found.value.column) == (code, line, column)
