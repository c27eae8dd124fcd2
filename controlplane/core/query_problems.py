"""Problems at a character of a query's text."""

from __future__ import annotations

from controlplane.core.errors import Problem

FILE = "query"  # stands for a file in messages


def problem_at(sql: str, at: int | None, code: str, message: str, hint: str = "") -> Problem:
    """`at` counts characters from 0; None where there is no place."""
    if at is None:
        return Problem("", 0, 0, code, message, hint)
    before = sql[:at]
    column = at - (before.rfind("\n") + 1) + 1
    return Problem(FILE, before.count("\n") + 1, column, code, message, hint)
