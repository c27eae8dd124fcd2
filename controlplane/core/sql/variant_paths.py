"""Paths into variants, as in `v:a.b[0]`, which the parser cannot read: where they are among the
lexemes of a query.

Without them the rest of the query is one that the parser reads, and says the same about tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from controlplane.core.sql.scan import Lexeme

_NESTING: Final = frozenset({"ARRAY", "MAP", "STRUCT"})


def has_path(lexemes: tuple[Lexeme, ...]) -> bool:
    return next(_starts(lexemes), None) is not None


def without_paths(lexemes: tuple[Lexeme, ...]) -> tuple[Lexeme, ...]:
    """The lexemes of the query but those of paths."""
    left = set(range(len(lexemes)))
    for start in _starts(lexemes):
        left -= set(range(start, _end(lexemes, start)))
    return tuple(lexeme for at, lexeme in enumerate(lexemes) if at in left)


def _starts(lexemes: tuple[Lexeme, ...]) -> Iterator[int]:
    """Colons that have an operand before them, and are not within the type of a structure:
    STRUCT<a: INT>."""
    nested = 0
    for at, lexeme in enumerate(lexemes):
        before = lexemes[at - 1] if at else None
        if before is not None and lexeme.is_symbol("<") and before.upper in _NESTING:
            nested += 1
        elif nested and lexeme.is_symbol(">", ">>", ">>>"):
            nested = max(0, nested - len(lexeme.token.text))
        elif not nested and before is not None and before.role == "end" and lexeme.is_symbol(":"):
            yield at


def _end(lexemes: tuple[Lexeme, ...], start: int) -> int:
    """After the path: a name or a bracket, and then names after dots and brackets. A bracket holds
    one constant."""
    at = _step(lexemes, start + 1, is_first=True)
    while (after := _step(lexemes, at, is_first=False)) > at:
        at = after
    return at


def _step(lexemes: tuple[Lexeme, ...], at: int, *, is_first: bool) -> int:
    if _is_bracket(lexemes[at : at + 3]):
        return at + 3
    if is_first:
        return at + 1 if _is_name(lexemes[at : at + 1]) else at
    return (
        at + 2
        if lexemes[at : at + 1]
        and lexemes[at].is_symbol(".")
        and _is_name(lexemes[at + 1 : at + 2])
        else at
    )


def _is_name(lexemes: tuple[Lexeme, ...]) -> bool:
    return bool(lexemes) and lexemes[0].token.kind in ("word", "quoted")


def _is_bracket(lexemes: tuple[Lexeme, ...]) -> bool:
    if len(lexemes) < 3 or not lexemes[0].is_symbol("[") or not lexemes[2].is_symbol("]"):
        return False
    return lexemes[1].token.kind in ("number", "string") or lexemes[1].is_symbol("*")
