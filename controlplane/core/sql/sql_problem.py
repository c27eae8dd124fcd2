"""What can be wrong with a query, and where in its text."""

from __future__ import annotations

from controlplane.core.errors import HeadgateError


class SqlProblem(HeadgateError):
    """A query that is refused. `line` and `column` count from 1 in the query's own text."""

    def __init__(
        self, code: str, message: str, line: int = 1, column: int = 1, hint: str = ""
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.line, self.column, self.hint = (
            code,
            message,
            line,
            column,
            hint,
        )


def line_column(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def problem_at(text: str, offset: int, code: str, message: str, hint: str = "") -> SqlProblem:
    return SqlProblem(code, message, *line_column(text, offset), hint)
