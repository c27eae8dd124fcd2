"""Refused constructs of a query, by its tokens alone, with the messages for users."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise, takewhile
from typing import Final, TypeAlias

from controlplane.core.sql import functions
from controlplane.core.sql.scan import Lexeme
from controlplane.core.sql.sql_problem import SqlProblem, line_column, problem_at
from controlplane.core.sql.syntax import keyword_hint
from dataplane.contract.sql_words import (
    SQL_CONFIGURED,
    SQL_DEFAULT,
    SQL_DESCRIBED,
    SQL_FORBIDDEN,
    SQL_PATH_OPTIONS,
)

Refusal: TypeAlias = tuple[str, str, str]  # code, message, hint

_QUERY_WORDS: Final = frozenset({"SELECT", "WITH", "FROM"})
_HIDDEN: Final = frozenset({"_metadata", "_fragment"})
_BARE_CLOCK: Final = frozenset(
    {
        "current_date",
        "current_time",
        "current_timestamp",
        "localtimestamp",
        "current_user",
        "session_user",
    }
)
_MOVING: Final = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_SESSION: Final = functions.AMBIENT - functions.CLOCK
_DATED: Final = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"})
# Spark replaces these by settings and environment
_SUBSTITUTED: Final = re.compile(r"\$\{[A-Za-z][^}\s]*\}")
_JOINTS: Final = re.compile(r"['\"]")  # literals that touch are one text
_AFTER_TABLE: Final = frozenset(
    {"WHERE", "GROUP", "ORDER", "JOIN", "LEFT", "INNER", "CROSS", "LIMIT", "HAVING", "UNION"}
)
_HINT: Final = "a column of the input, or a parameter in `params:`, is part of what is computed"
_CLOCK_HINT: Final = (
    "write `current_date()` or `current_timestamp()`: the time of the plan stands in for it"
)


def refuse(text: str, lexemes: tuple[Lexeme, ...]) -> None:
    """Raise SqlProblem for the first thing in the text that no query of a transform may hold."""
    if not lexemes:
        raise SqlProblem("empty-sql", "the query is empty")
    _refuse_statements(text, lexemes)
    problems = sorted(_problems(text, lexemes), key=lambda p: (p.line, p.column))
    if problems:
        raise problems[0]


def _refuse_statements(text: str, lexemes: tuple[Lexeme, ...]) -> None:
    first = next((x for x in lexemes if not x.is_symbol("(")), lexemes[0])
    if first.upper not in _QUERY_WORDS:
        message = f"a transform is one query; this begins with {first.token.text!r}"
        hint = keyword_hint(first.token.text, _QUERY_WORDS) or "begin with SELECT or WITH"
        raise problem_at(text, first.token.start, "not-a-query", message, hint)
    for lexeme, following in pairwise(lexemes):
        if lexeme.is_symbol(";") and not following.is_symbol(";"):
            message = "a transform is one query; a second statement begins here"
            raise problem_at(text, following.token.start, "several-statements", message)


def _problems(text: str, lexemes: tuple[Lexeme, ...]) -> Iterator[SqlProblem]:
    for at, lexeme in enumerate(lexemes):
        before = lexemes[at - 1] if at else None
        after = lexemes[at + 1] if at + 1 < len(lexemes) else None
        problem = _problem(lexeme, before, after)
        problem = problem or _call_problem(lexemes, at)
        if problem is not None:
            yield problem_at(text, lexeme.token.start, *problem)
        if (match := _SUBSTITUTED.search(lexeme.token.text)) and lexeme.token.kind in (
            "string",
            "quoted",
        ):
            yield _substitution(text, lexeme.token.start + match.start(), match[0])
    yield from _loose_substitutions(text, lexemes)
    yield from _trailing_commas(text, lexemes)


def _problem(lexeme: Lexeme, before: Lexeme | None, after: Lexeme | None) -> Refusal | None:
    if lexeme.token.kind in ("word", "quoted"):
        return _name_problem(lexeme, before, after) or _phrase_problem(lexeme, before, after)
    if lexeme.is_symbol("?"):
        return (
            "not-supported",
            "parameters have names",
            "write `:name`, and give its value in `params:`",
        )
    if lexeme.token.kind == "string" and SQL_DEFAULT in lexeme.token.text.lower():
        return (
            "direct-read",
            "a default in a schema is SQL of its own, and may read anything",
            "use coalesce()",
        )
    is_dated = lexeme.token.kind == "string" and before is not None and before.upper in _DATED
    if is_dated and _MOVING.match(lexeme.token.text[1:]):
        return "not-supported", f"{lexeme.token.text} means another time in each run", _CLOCK_HINT
    return None


def _name_problem(lexeme: Lexeme, before: Lexeme | None, after: Lexeme | None) -> Refusal | None:
    name = lexeme.token.name.lower()
    if name in _HIDDEN or (lexeme.is_call and name in functions.SOURCE_FILE):
        message = f"{lexeme.token.text} is not for queries: it says where a row is stored"
        return (
            "reserved-name",
            message,
            "`metadata:` of the read connector adds the source's name as a column",
        )
    if lexeme.is_call and name in _SESSION:
        return (
            "not-supported",
            f"{name} is not part of any input, so its value cannot be followed",
            _HINT,
        )
    if _is_bare_clock(lexeme, before, after):
        hint = f"write {name}()" if name in functions.CLOCK else _HINT
        return (
            "not-supported",
            f"{name} may be a column or a function, depending on the input",
            hint,
        )
    if lexeme.is_call and name == "identifier":
        return "not-supported", "IDENTIFIER() hides what a query reads", "write the name itself"
    if lexeme.is_call and name in SQL_FORBIDDEN:
        return (
            "direct-read",
            f"{name}() reaches past the query's inputs",
            "declare a read connector",
        )
    return None


def _call_problem(lexemes: tuple[Lexeme, ...], at: int) -> Refusal | None:
    """A function whose options could name a file."""
    name = lexemes[at].token.name.lower()
    if not lexemes[at].is_call or name not in SQL_CONFIGURED:
        return None
    return _option_problem(_arguments(lexemes, at), name)


def _arguments(lexemes: tuple[Lexeme, ...], at: int) -> tuple[Lexeme, ...]:
    """What stands in a call's parentheses after its first argument, at any depth."""
    depth = lexemes[at].depth
    inside = tuple(takewhile(lambda x: x.depth > depth, lexemes[at + 2 :]))
    comma = next(
        (i for i, x in enumerate(inside) if x.depth == depth + 1 and x.is_symbol(",")), len(inside)
    )
    return inside[comma + 1 :]


def _option_problem(arguments: tuple[Lexeme, ...], name: str) -> Refusal | None:
    """As the driver has it: constants, and maps of constants, written out."""
    hint = "options are texts written out: map('mode', 'FAILFAST')"
    unclear = (
        "not-supported",
        f"it cannot be told whether {name}() would read a file by its schema or options",
        hint,
    )
    file = "direct-read", f"{name}() would read a file that is no input", "declare a read connector"
    if not all(map(_is_constant, arguments)):
        return unclear
    texts = [x for x in arguments if x.token.kind == "string"]
    direct = [x for x in texts if x.depth == arguments[0].depth]
    if any("\\" in x.token.text for x in texts if x not in direct) or any(
        map(_is_joined, pairwise(arguments))
    ):
        return unclear
    names_file = any(
        option in _JOINTS.sub("", x.token.text.lower())
        for x in texts
        for option in SQL_PATH_OPTIONS
    )
    return file if names_file or (name in SQL_DESCRIBED and len(direct) > 1) else None


def _is_constant(lexeme: Lexeme) -> bool:
    is_known_call = lexeme.is_call and (
        lexeme.upper == "MAP" or lexeme.upper.startswith("SCHEMA_OF_")
    )
    is_sign = lexeme.is_symbol("(", ")", ",", "-") or lexeme.upper in ("X", "NULL", "TRUE", "FALSE")
    return is_known_call or is_sign or lexeme.token.kind in ("string", "number")


def _is_joined(two: tuple[Lexeme, Lexeme]) -> bool:
    """Two literals make one text, unless the first is no literal but the X of bytes."""
    return all(lexeme.token.kind == "string" for lexeme in two)


def _phrase_problem(lexeme: Lexeme, before: Lexeme | None, after: Lexeme | None) -> Refusal | None:
    if before is None or after is None:
        return None
    if lexeme.upper == "USING" and after.token.kind == "string":
        return "not-supported", "a query cannot run a script", "use a Python transform"
    if lexeme.upper == "AS" and after.upper == "OF" and before.upper in ("VERSION", "TIMESTAMP"):
        return "not-supported", "time travel: a query reads the datasets of its own plan", ""
    follows = (
        before.upper in ("UNION", "ALL", "DISTINCT", "EXCEPT", "INTERSECT", "MINUS")
        and before.role == "open"
    )
    if lexeme.upper == "TABLE" and follows and after.token.kind in ("word", "quoted"):
        return "not-supported", "TABLE in place of a query", "write SELECT * FROM"
    return None


def _is_bare_clock(lexeme: Lexeme, before: Lexeme | None, after: Lexeme | None) -> bool:
    if lexeme.token.kind != "word" or lexeme.token.text.lower() not in _BARE_CLOCK:
        return False
    is_part = before is not None and (before.is_symbol(".", ":") or before.folded == "AS")
    return not is_part and not (after is not None and after.is_symbol(".", "("))


def _loose_substitutions(text: str, lexemes: tuple[Lexeme, ...]) -> Iterator[SqlProblem]:
    for dollar, brace in pairwise(lexemes):
        if dollar.is_symbol("$") and brace.is_symbol("{") and dollar.token.end == brace.token.start:
            yield _substitution(text, dollar.token.start, "${...}")


def _trailing_commas(text: str, lexemes: tuple[Lexeme, ...]) -> Iterator[SqlProblem]:
    """`SELECT a, FROM t`: the parser passes over the comma, and Spark takes FROM for a column."""
    for at in range(len(lexemes) - 2):
        comma, word, table = lexemes[at : at + 3]
        if (
            not comma.is_symbol(",")
            or word.upper != "FROM"
            or table.token.kind not in ("word", "quoted")
        ):
            continue
        after = next((x for x in lexemes[at + 3 :] if x.depth <= comma.depth), None)
        if after is None or after.is_symbol(")") or after.upper in _AFTER_TABLE:
            yield problem_at(
                text, comma.token.start, "invalid-sql", "a comma before FROM", "remove it"
            )


def _substitution(text: str, offset: int, reference: str) -> SqlProblem:
    message = f"{reference} would be replaced by a setting or an environment variable"
    return SqlProblem(
        "not-supported",
        message,
        *line_column(text, offset),
        "write `:name`, and give it in `params:`",
    )
