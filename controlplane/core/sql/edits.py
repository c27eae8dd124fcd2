"""Edits of a query's own text: other names for its tables, and a label carried through its select
list.

The rest of the text stays as the user wrote it, so that Spark's positions can be mapped back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from controlplane.core.sql.named_columns import is_star
from controlplane.core.sql.references import TableRef
from controlplane.core.sql.scan import Lexeme
from dataplane.contract.results import LABEL


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Replaces the characters [start, end) by `text`."""

    start: int
    end: int
    text: str


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Edits refer to the original text, must not overlap, and may come in any order."""
    out, at = [], 0
    for edit in sorted(edits):
        if edit.start < at:
            raise ValueError(f"{edit} overlaps the edit before it")
        out += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*out, text[at:]])


def original_offset(edits: Iterable[Edit], offset: int) -> int:
    """Where a character of the edited text stood; for one inside new text, where that text was
    put."""
    shift = 0  # edited minus original, before the edit at hand
    for edit in sorted(edits):
        if offset < edit.start + shift:
            break
        if offset < edit.start + shift + len(edit.text):
            return edit.start
        shift += len(edit.text) - (edit.end - edit.start)
    return offset - shift


def rename(
    text: str, lexemes: tuple[Lexeme, ...], refs: tuple[TableRef, ...], names: Mapping[str, str]
) -> Iterator[Edit]:
    """Each reference gets its new name; one without an alias keeps its old last part as alias."""
    for ref in refs:
        if (new := names.get(ref.name, names.get(ref.name.lower()))) is None:
            continue
        last = _last_part(text, lexemes, ref)
        yield Edit(ref.start, ref.end, new)
        if not ref.alias:
            place = _alias_place(lexemes, ref)
            yield Edit(place, place, f" AS {last}")
            yield from _requalify(lexemes, ref, last)


def _last_part(text: str, lexemes: tuple[Lexeme, ...], ref: TableRef) -> str:
    token = next(x.token for x in lexemes if x.token.end == ref.end)
    return text[token.start : token.end]


def _alias_place(lexemes: tuple[Lexeme, ...], ref: TableRef) -> int:
    """After the reference, and after a TABLESAMPLE (...) [REPEATABLE (...)] that belongs to it."""
    at = next(i for i, x in enumerate(lexemes) if x.token.end == ref.end) + 1
    end = ref.end
    while at + 1 < len(lexemes) and lexemes[at].upper in ("TABLESAMPLE", "REPEATABLE"):
        depth = lexemes[at + 1].depth
        at = next(
            (i for i in range(at + 2, len(lexemes)) if lexemes[i].depth == depth), len(lexemes) - 1
        )
        end, at = lexemes[at].token.end, at + 1
    return end


def _requalify(lexemes: tuple[Lexeme, ...], ref: TableRef, last: str) -> Iterator[Edit]:
    """`other.ds.column` becomes `ds.column`: an alias has one part."""
    length = 2 * len(ref.parts) - 1
    if length == 1:
        return
    for at in range(len(lexemes) - length):
        run = lexemes[at : at + length]
        names, dots = run[::2], run[1::2]
        is_name = tuple(x.token.name.lower() for x in names) == tuple(p.lower() for p in ref.parts)
        is_start = at == 0 or not lexemes[at - 1].is_symbol(".")
        if is_name and is_start and all(x.is_symbol(".") for x in (*dots, lexemes[at + length])):
            yield Edit(run[0].token.start, run[-1].token.end, last)


def label(text: str, lexemes: tuple[Lexeme, ...], ref: TableRef) -> tuple[Edit, ...] | None:
    """What carries the label of `ref`, the row-wise input, through the one select list; None:
    cannot be done safely."""
    places = [i for i, x in enumerate(lexemes) if x.depth == 0 and x.phrase == "FROM"]
    if not places or lexemes[0].phrase != "SELECT" or any(x.upper == "NATURAL" for x in lexemes):
        return None
    items = lexemes[1 : places[0]]
    qualifier = _qualifier(text, lexemes, ref)
    covering = [_covers(items, i, qualifier) for i in range(len(items)) if is_star(items, i)]
    match [c for c in covering if c is not False]:
        case []:
            end = items[-1].token.end
            return (Edit(end, end, f", {qualifier}.{LABEL}"),)
        case [True]:
            return ()
        case _:
            return None


def _qualifier(text: str, lexemes: tuple[Lexeme, ...], ref: TableRef) -> str:
    """The alias as it is written, else the last part of the name."""
    if not ref.alias:
        return _last_part(text, lexemes, ref)
    after = (x.token for x in lexemes if x.token.start >= ref.end)
    return next(token.text for token in after if token.name == ref.alias)


def _covers(items: tuple[Lexeme, ...], at: int, qualifier: str) -> bool | None:
    """Does this star hold the label? None: in some other form than as a column of its own."""
    if items[at].depth > 0 or (at + 1 < len(items) and not items[at + 1].is_symbol(",")):
        return None
    if at == 0 or not items[at - 1].is_symbol("."):
        return True
    return items[at - 2].token.name.lower() == qualifier.strip("`").lower()
