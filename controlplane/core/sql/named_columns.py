"""Which columns of an input a query names. Doubt always means: all of them."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.core.sql.references import TableRef, folded
from controlplane.core.sql.scan import Lexeme

_IMPLICIT = frozenset({"NATURAL", "PIVOT", "UNPIVOT", "TABLE"})


def named_columns(
    lexemes: tuple[Lexeme, ...], refs: tuple[TableRef, ...], columns: Iterable[str]
) -> tuple[str, ...] | None:
    """The given columns that occur anywhere in the text; None: all, for the text takes columns
    without naming them."""
    if _takes_unnamed(lexemes) or _takes_rows(lexemes, refs):
        return None
    named = {folded(name) for lexeme in lexemes for name in _names(lexeme)}
    return tuple(column for column in columns if folded(column) in named)


def _names(lexeme: Lexeme) -> tuple[str, ...]:
    text = lexeme.token.text
    match lexeme.token.kind:
        case "word" | "number":
            return (text,)
        case "quoted":
            return (lexeme.token.name,)
        case "string":  # some settings make a double-quoted text a name
            return (text[1:-1],)
        case _:
            return ()


def _takes_unnamed(lexemes: tuple[Lexeme, ...]) -> bool:
    starts_with_from = next((x.upper == "FROM" for x in lexemes if not x.is_symbol("(")), False)
    implicit = any(x.upper in _IMPLICIT or x.is_symbol("|>") for x in lexemes)
    return (
        starts_with_from
        or implicit
        or any(is_star(lexemes, at) and not _counts(lexemes, at) for at in range(len(lexemes)))
    )


def is_star(lexemes: tuple[Lexeme, ...], at: int) -> bool:
    """A star that stands for columns, not a product."""
    return lexemes[at].is_symbol("*") and lexemes[at].role == "end"


def _counts(lexemes: tuple[Lexeme, ...], at: int) -> bool:
    around = [x.folded for x in lexemes[max(at - 2, 0) : at + 2]]
    return around == ["COUNT", "(", "*", ")"] and lexemes[at - 2].is_call


def _takes_rows(lexemes: tuple[Lexeme, ...], refs: tuple[TableRef, ...]) -> bool:
    """Does a table's name or alias stand anywhere as a value, such as `to_json(f)`?"""
    tables = {folded(name) for ref in refs for name in (ref.alias, ref.parts[-1]) if name}
    for at, lexeme in enumerate(lexemes):
        is_name = lexeme.token.kind in ("word", "quoted") and not lexeme.in_hint
        if not is_name or folded(lexeme.token.name) not in tables:
            continue
        qualifies = at + 1 < len(lexemes) and lexemes[at + 1].is_symbol(".")
        if not qualifies and not _introduces(lexemes, at, refs):
            return True
    return False


def _introduces(lexemes: tuple[Lexeme, ...], at: int, refs: tuple[TableRef, ...]) -> bool:
    """Is this the mention of a table itself, or the alias right after it?"""
    start = lexemes[at].token.start
    if any(ref.start <= start < ref.end for ref in refs):
        return True
    before = at - 1 - (at > 0 and lexemes[at - 1].folded == "AS")
    return before >= 0 and any(ref.alias and lexemes[before].token.end == ref.end for ref in refs)
