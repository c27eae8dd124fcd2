"""Paths into variants, as in `v:a.b[0]`: the construct of Spark that the parser does not know.

Does not belong here: what a path gives.
"""

from __future__ import annotations

from controlplane.core.sql.scan import Lexeme

_NESTED = ("STRUCT", "ARRAY", "MAP")


def scan_paths(lexemes: tuple[Lexeme, ...]) -> frozenset[int]:
    """The places, among the lexemes, of all that belongs to a path, from its colon on."""
    found: set[int] = set()
    brackets = 0  # of types, as in STRUCT<a: INT>: a colon there is none of a path
    for at, lexeme in enumerate(lexemes):
        before = lexemes[at - 1] if at else None
        if lexeme.is_symbol("<") and (brackets or (before is not None and before.upper in _NESTED)):
            brackets += 1
        elif brackets and lexeme.is_symbol(">", ">>", ">>>"):
            brackets = max(0, brackets - len(lexeme.token.text))
        elif lexeme.is_symbol(":") and not brackets and before is not None and before.role == "end":
            found.update(range(at, _end(lexemes, at)))
    return frozenset(found)


def _end(lexemes: tuple[Lexeme, ...], colon: int) -> int:
    """Where the path ends that begins at this colon."""
    at = colon + 1
    if _is_name(lexemes, at):
        at += 1
    while True:
        if _is_symbol(lexemes, at, ".") and _is_name(lexemes, at + 1):
            at += 2
        elif _is_symbol(lexemes, at, "[") and _is_symbol(lexemes, at + 2, "]"):
            at += 3  # [0], ['name'] or [*]
        else:
            return at


def _is_name(lexemes: tuple[Lexeme, ...], at: int) -> bool:
    return at < len(lexemes) and lexemes[at].token.kind in ("word", "quoted")


def _is_symbol(lexemes: tuple[Lexeme, ...], at: int, text: str) -> bool:
    return at < len(lexemes) and lexemes[at].is_symbol(text)
