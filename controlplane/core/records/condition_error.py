"""The fault of a condition, as an error with its place."""

from __future__ import annotations

from controlplane.core.errors import BadCondition, Problem
from controlplane.core.sql.sql_problem import line_column


def bad_condition(text: str, offset: int, message: str, hint: str = "") -> BadCondition:
    """`offset`: in the condition's own text."""
    line, column = line_column(text, min(offset, len(text)))
    return BadCondition(Problem("where", line, column, BadCondition.code, message, hint))
