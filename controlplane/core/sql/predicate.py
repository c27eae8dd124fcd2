"""One condition on a row, as expectations have it: its identity and the columns that it names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from controlplane.core.sql.analysed_query import AnalysedQuery, analyse
from controlplane.core.sql.scan import Lexeme, scan
from controlplane.core.sql.sql_problem import SqlProblem, problem_at
from dataplane.contract.encoding import digest

_QUERIES = frozenset({"FROM", "SELECT", "TABLE", "VALUES", "WITH"})
_AROUND_OBSTACLE = re.compile(r"^`\w+`: |,? at line \d+$")
_OPENING = "SELECT 1 WHERE (\n"  # a line of its own: places are counted from the next one


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition that can be evaluated for each row by itself."""

    text: str
    digest: bytes
    _query: AnalysedQuery

    def named_columns(self, names: Iterable[str]) -> tuple[str, ...] | None:
        """Which of these columns it names; None: all of them, or unknown."""
        return self._query.named_columns(names)

    def mentioned_columns(self) -> Iterator[tuple[str, int, int, bool]]:
        """As of a query, with places in the condition's own text."""
        for name, line, column, is_all in self._query.mentioned_columns():
            yield name, line - 1, column, is_all


def predicate(text: str) -> Predicate:
    """Raises SqlProblem, and nothing else, for text that is no condition on one row."""
    lexemes = scan(text)
    if not lexemes:
        raise SqlProblem("empty-sql", "the condition is empty")
    _refuse(text, lexemes)
    try:
        query = analyse(f"{_OPENING}{text}\n)")
    except SqlProblem as e:
        message = e.message.replace("the query", "the condition")
        raise SqlProblem(e.code, message, *_place(text, e), e.hint) from None
    if query.references:
        first = query.references[0]
        place = max(first.line - 1, 1), first.column
        raise SqlProblem(
            "not-a-condition",
            "a condition looks at one row, and reads no other",
            *place,
            "use a transform",
        )
    if query.volatile:
        construct = query.volatile[0]
        message = f"{construct.construct} may give another answer for the same row"
        raise SqlProblem(
            "not-supported",
            message,
            max(construct.line - 1, 1),
            1,
            "compare columns with each other",
        )
    return Predicate(text, digest("sql/1", tokens=[x.folded for x in lexemes]), query)


def row_predicate(text: str) -> Predicate:
    """As `predicate`, for a condition that is put into a query over many rows: refused unless it is
    proven to look at each row by itself."""
    condition = predicate(text)
    try:
        mode = analyse(f"SELECT 1 FROM t WHERE\n{text}\n").mode("t")
    except SqlProblem as e:
        raise SqlProblem(e.code, e.message, *_place(text, e), e.hint) from None
    if mode.mode != "each":
        obstacle = _AROUND_OBSTACLE.sub("", mode.reason)
        message = f"the condition is not proven to look at one row by itself: {obstacle}"
        hint = "make a column of it in a transform before"
        raise SqlProblem("not-a-condition", message, hint=hint)
    return condition


def _place(text: str, problem: SqlProblem) -> tuple[int, int]:
    """Line and column in the condition; its end where the problem is what follows it."""
    lines = text.split("\n")
    if problem.line - 1 > len(lines):
        return len(lines), len(lines[-1]) + 1
    return max(problem.line - 1, 1), problem.column


def _refuse(text: str, lexemes: tuple[Lexeme, ...]) -> None:
    """What would make more, or other, of the text than one expression over one row."""
    depth = 0
    for at, lexeme in enumerate(lexemes):
        depth += lexeme.is_symbol("(") - lexeme.is_symbol(")")
        if depth < 0:
            raise problem_at(
                text, lexeme.token.start, "invalid-sql", "a bracket is closed that was not opened"
            )
        if lexeme.is_symbol(";"):
            raise problem_at(
                text, lexeme.token.start, "not-a-condition", "a condition is one expression"
            )
        if depth == 0 and (lexeme.is_symbol(",") or lexeme.upper == "AS"):
            message = "a condition is one expression without a name"
            raise problem_at(text, lexeme.token.start, "not-a-condition", message)
        if lexeme.upper in _QUERIES and (at == 0 or lexemes[at - 1].is_symbol("(")):
            message = "a condition looks at one row, and reads no other"
            raise problem_at(
                text, lexeme.token.start, "not-a-condition", message, "use a transform"
            )
        if lexeme.is_symbol(":") and _is_parameter(lexemes, at):
            message = "a condition has no parameters"
            raise problem_at(
                text, lexeme.token.start, "not-a-condition", message, "write the value itself"
            )
    if depth:
        raise problem_at(text, len(text), "invalid-sql", "a bracket is not closed")


def _is_parameter(lexemes: tuple[Lexeme, ...], at: int) -> bool:
    return at == 0 or lexemes[at - 1].role == "open"
