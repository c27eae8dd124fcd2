"""Addresses in a query of Spark's: ``flights.delays@2`` becomes ``flights.`delays@2` ``, which
Spark reads as a name.

Nothing else of the text is touched: strings, quoted names and comments are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from controlplane.core.sql.edits import Edit, apply_edits, original_offset
from controlplane.core.sql.lexer import SqlToken, tokenize
from controlplane.core.sql.sql_problem import SqlProblem

_POINT = re.compile(
    r"@(?P<point>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)|\d+)(?![\w.])"
)


@dataclass(frozen=True, slots=True)
class Addressed:
    """`text` is Spark's, `written` the user's."""

    written: str
    text: str
    edits: tuple[Edit, ...]

    def origin(self, at: int) -> int:
        """The character of the written text for one of Spark's."""
        return original_offset(self.edits, at)

    def origin_of(self, line: int, column: int) -> int:
        """The same for a place that counts from 1."""
        lines = self.text.split("\n")[: line - 1]
        return self.origin(sum(len(text) + 1 for text in lines) + column - 1)


def addressed(sql: str) -> Addressed:
    """The query with each address as a quoted name. What cannot be read as tokens stays as it
    is."""
    try:
        edits = tuple(_edits(sql, tokenize(sql)))
    except SqlProblem:
        edits = ()
    return Addressed(sql, apply_edits(sql, edits), edits)


def _edits(sql: str, tokens: Sequence[SqlToken]) -> Iterator[Edit]:
    """A name behind a dot, and a point right behind it."""
    end = 0
    for at, token in enumerate(tokens[2:], 2):
        is_name = (
            token.kind in ("word", "quoted") and tokens[at - 1].text == "." and token.start >= end
        )
        point = _POINT.match(sql, token.end) if is_name else None
        if point is not None:
            name = token.text[1:-1] if token.kind == "quoted" else token.text
            end = point.end()
            yield Edit(token.start, end, f"`{name}@{point['point']}`")
