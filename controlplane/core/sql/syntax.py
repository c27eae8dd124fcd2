"""Messages for a query that cannot be parsed: our words for the parser's complaints, and the word
at fault."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Final

from sqlglot.errors import ParseError

from controlplane.core.sql import spark_keywords
from controlplane.core.sql.lexer import SqlToken
from controlplane.core.sql.scan import Lexeme
from controlplane.core.sql.sql_problem import SqlProblem, line_column, problem_at

CODE: Final = "invalid-sql"
NESTED: Final = "the query is nested too deeply"
UNKNOWN: Final = "the query cannot be parsed"
# Words that begin a clause or go on with it: those that people mistype.
_KEYWORDS: Final = (
    *(
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP",
        "ORDER",
        "HAVING",
        "LIMIT",
        "JOIN",
        "LEFT",
        "RIGHT",
        "INNER",
        "UNION",
    ),
    *(
        "DISTINCT",
        "BETWEEN",
        "USING",
        "WITH",
        "OVER",
        "PARTITION",
        "OFFSET",
        "WHEN",
        "THEN",
        "ELSE",
    ),
)
_LIKENESS: Final = 0.7
_TYPES: Final = tuple(sorted(spark_keywords.TYPES))
_MISSING: Final = re.compile(r"Expect(?:ing|ed) (\S+)(?: after (\w+))?$")
# BY follows
_LONE: Final = frozenset({"GROUP", "ORDER", "PARTITION", "SORT", "CLUSTER", "DISTRIBUTE"})
_CLOSING: Final = {")": "(", "]": "["}
_OPERAND: Final = re.compile(r"Required keyword: '(\w+)' missing for <class '[\w.]*?(\w+)'>")
_CLAUSES: Final = frozenset({"FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT"})
_ORDER: Final = "clauses stand in the order SELECT, FROM, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT"


def syntax_problem(text: str, lexemes: Sequence[Lexeme], error: Exception) -> SqlProblem:
    """The problem behind an error of the parser, which may be anything."""
    if isinstance(error, RecursionError):
        return SqlProblem(CODE, NESTED)
    complaint = error.errors[0] if isinstance(error, ParseError) and error.errors else None
    tokens = [x.token for x in lexemes]
    if complaint is None or not tokens:
        return SqlProblem(CODE, UNKNOWN)
    at = _token_at(text, tokens, complaint)
    return _Complaint(text, tokens, at, str(complaint.get("description"))).problem()


def check_brackets(text: str, lexemes: Sequence[Lexeme]) -> None:
    """Raise SqlProblem for a bracket without its other half, which the parser passes over in some
    calls."""
    open_at: list[SqlToken] = []
    for token in (x.token for x in lexemes if x.is_symbol(*_CLOSING, *_CLOSING.values())):
        if token.text in _CLOSING.values():
            open_at.append(token)
        elif not open_at or open_at.pop().text != _CLOSING[token.text]:
            raise problem_at(text, token.start, CODE, f"{token.text!r} closes nothing", "remove it")
    if open_at:
        closing = next(c for c, opening in _CLOSING.items() if opening == open_at[-1].text)
        message = f"{open_at[-1].text!r} is never closed"
        raise problem_at(text, open_at[-1].start, CODE, message, f"add {closing!r}")


def keyword_hint(word: str, keywords: Collection[str] = _KEYWORDS) -> str:
    """The keyword that a word may have been meant to be, as a hint; nothing where none is near."""
    near = get_close_matches(word.upper(), keywords, n=1, cutoff=_LIKENESS)
    return f"did you mean {near[0]}?" if near and near[0] != word.upper() else ""


def _token_at(text: str, tokens: Sequence[SqlToken], complaint: dict[str, object]) -> int:
    """The index of the token that the parser names by line and column of its last character."""
    line, column = int(str(complaint.get("line") or 1)), int(str(complaint.get("col") or 1))
    lines = text.split("\n")
    offset = sum(len(line_text) + 1 for line_text in lines[: line - 1]) + column - 1
    covering = (i for i, token in enumerate(tokens) if token.end > offset)
    return next(covering, len(tokens) - 1)


class _Complaint:
    """One complaint of the parser about the token at an index, or about the end of the text behind
    it."""

    def __init__(self, text: str, tokens: Sequence[SqlToken], at: int, description: str) -> None:
        self.text, self.tokens, self.at, self.description = text, tokens, at, description

    def problem(self) -> SqlProblem:
        if slip := self._mistyped() or self._lone_word():
            return slip
        if match := _MISSING.match(self.description):
            return self._missing(match[1], match[2] or "")
        if "missing for" in self.description:
            return self._without_operand()
        if self.description.startswith("Expected table name"):
            return self._behind("the name of a table is missing", "name a dataset")
        return self._unexpected()

    def _mistyped(self) -> SqlProblem | None:
        """A word that is nearly a keyword, here or just before: the parser took it for a name."""
        for index in (self.at, self.at - 1):
            token = self.tokens[index] if index >= 0 else None
            if token is None or token.kind != "word":
                continue
            if hint := keyword_hint(token.text):
                return self._problem(index, f"{token.text!r} is not expected here", hint)
        return None

    def _lone_word(self) -> SqlProblem | None:
        """GROUP, ORDER and the like without BY."""
        before = self.tokens[self.at - 1] if self.at else None
        if before is None or before.upper not in _LONE or self.tokens[self.at].upper == "BY":
            return None
        return self._problem(self.at - 1, f"{before.text} without BY", f"write {before.upper} BY")

    def _missing(self, what: str, after: str) -> SqlProblem:
        token = self.tokens[self.at]
        if what == "TYPE":
            near = get_close_matches(token.text.upper(), _TYPES, n=1)
            hint = f"did you mean {near[0]}?" if near else "for example STRING, INT, DOUBLE, DATE"
            return self._problem(self.at, f"{token.text!r} is no type", hint)
        if what == "END" and (index := self._last("CASE")) is not None:
            return self._problem(index, "CASE without END", "add END behind its last branch")
        behind = f" after {after}" if after else ""
        return self._behind(f"{what!r} is missing{behind}", f"add {what!r}")

    def _last(self, word: str) -> int | None:
        """The last of this word up to the token."""
        return next((i for i in range(self.at, -1, -1) if self.tokens[i].upper == word), None)

    def _without_operand(self) -> SqlProblem:
        token = self.tokens[self.at]
        operand = _OPERAND.match(self.description)
        if (
            operand
            and operand[1] == "this"
            and (index := self._last(operand[2].upper())) not in (None, self.at)
        ):
            word = self.tokens[index or 0].text
            return self._problem(
                index or 0,
                f"an expression is missing before {word!r}",
                "write it, or remove the word",
            )
        if self.at == len(self.tokens) - 1:
            message = f"the query ends after {token.text!r}, where an expression is expected"
            return self._problem(
                self.at, message, "write the expression, or remove what asks for it"
            )
        return self._problem(
            self.at,
            f"an expression is missing before {token.text!r}",
            "write it, or remove the word",
        )

    def _unexpected(self) -> SqlProblem:
        token = self.tokens[self.at]
        hint = "is a comma, an operator or a bracket missing before it?"
        if token.upper in _CLAUSES:
            hint = _ORDER
        return self._problem(self.at, f"{token.text[:40]!r} is not expected here", hint)

    def _behind(self, message: str, hint: str) -> SqlProblem:
        """At the token before which something is missing; or at the last one, if the text ends
        there."""
        token = self.tokens[self.at]
        is_end = self.at == len(self.tokens) - 1
        return self._problem(
            self.at, f"{message}, {'behind' if is_end else 'before'} {token.text[:40]!r}", hint
        )

    def _problem(self, index: int, message: str, hint: str) -> SqlProblem:
        line, column = line_column(self.text, self.tokens[index].start)
        return SqlProblem(CODE, message, line, column, hint)
