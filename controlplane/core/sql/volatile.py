"""What in a query may give another result over the same rows: chance, the clock, and the order in
which rows arrive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from controlplane.core.sql import clock, functions
from controlplane.core.sql.scan import Lexeme
from controlplane.core.sql.sql_problem import line_column

_VOLATILE = functions.CHANCE | functions.ORDER_DEPENDENT


@dataclass(frozen=True, slots=True)
class VolatileCall:
    construct: str
    line: int


def volatile(text: str, lexemes: tuple[Lexeme, ...]) -> tuple[VolatileCall, ...]:
    """In the order of the text, each mention."""
    return tuple(
        VolatileCall(construct, line_column(text, lexemes[at].token.start)[0])
        for at in range(len(lexemes))
        if (construct := _construct(lexemes, at))
    )


def _construct(lexemes: tuple[Lexeme, ...], at: int) -> str:
    lexeme = lexemes[at]
    name = lexeme.token.name.lower()
    if (lexeme.is_call and name in _VOLATILE) or clock.is_read(lexemes, at):
        return f"{name}()"
    # words and not phrases: what merely looks like one of these is flagged as well
    if (
        lexeme.upper in ("LIMIT", "OFFSET")
        and _takes_count(lexemes, at)
        and not _is_ordered(lexemes, at)
    ):
        return f"{lexeme.upper} without ORDER BY"
    if lexeme.upper == "TABLESAMPLE":
        return "TABLESAMPLE"
    if lexeme.upper == "ROWS" and (lexeme.phrase or _is_bound(lexemes, at + 1)):
        return "ROWS frame"
    if clock.is_moving(lexeme):
        return f"{lexeme.token.text}, which may be read as a time,"
    return ""


def _is_bound(lexemes: tuple[Lexeme, ...], at: int) -> bool:
    """Is a single bound of a frame here, such as UNBOUNDED PRECEDING or 3 PRECEDING?"""
    depth = lexemes[at].depth if at < len(lexemes) else 0
    ends = (
        i
        for i in range(at, len(lexemes))
        if lexemes[i].depth < depth or _goes_on(lexemes[i], depth)
    )
    bound = lexemes[at : next(ends, len(lexemes))]
    return any(x.depth == depth and x.upper in ("PRECEDING", "FOLLOWING") for x in bound)


def _goes_on(lexeme: Lexeme, depth: int) -> bool:
    """Something else begins: the next of several, or a clause."""
    return lexeme.depth == depth and (bool(lexeme.phrase) or lexeme.is_symbol(","))


def _takes_count(lexemes: tuple[Lexeme, ...], at: int) -> bool:
    is_part = at > 0 and (lexemes[at - 1].is_symbol(".") or lexemes[at - 1].folded == "AS")
    after = lexemes[at + 1] if at + 1 < len(lexemes) else None
    return (
        not is_part
        and after is not None
        and (after.token.kind != "symbol" or after.is_symbol("(", ":"))
    )


def _is_ordered(lexemes: tuple[Lexeme, ...], at: int) -> bool:
    """Is there an ORDER BY before `at` in the same parenthesis and after its last SELECT?"""
    for lexeme in _same_level(lexemes, at):
        if lexeme.phrase == "ORDER BY":
            return True
        if lexeme.phrase.startswith("SELECT"):
            return False
    return False


def _same_level(lexemes: tuple[Lexeme, ...], at: int) -> Iterator[Lexeme]:
    depth = lexemes[at].depth
    for lexeme in reversed(lexemes[:at]):
        if lexeme.depth < depth:
            return
        if lexeme.depth == depth and not lexeme.is_symbol("(", ")"):
            yield lexeme
