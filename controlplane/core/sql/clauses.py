"""Where the clauses of one SELECT stand among the lexemes of a query, checked against the parser's
tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlglot import exp

from controlplane.core.sql.function_calls import Unproven
from controlplane.core.sql.relations import QueryScope
from controlplane.core.sql.scan import Lexeme

Span: TypeAlias = tuple[int, int]  # of lexemes, [start, end)

_PARTS: Final = {
    "FROM": "from_", "WHERE": "where", "GROUP BY": "group", "HAVING": "having", "WINDOW": "windows",
    "QUALIFY": "qualify", "ORDER BY": "order", "SORT BY": "sort", "CLUSTER BY": "cluster",
    "DISTRIBUTE BY": "distribute", "LIMIT": "limit", "OFFSET": "offset",
}  # fmt: skip
_SOURCE: Final = frozenset({"FROM", "WHERE"})
_SETS: Final = ("UNION", "EXCEPT", "INTERSECT", "MINUS")


@dataclass(frozen=True, slots=True)
class Clauses:
    """`items` are those of the select list, with their names; `source` to `source_end` is FROM with
    WHERE; `commons` are the common table expressions that can be seen from here, the word WITH left
    out."""

    items: tuple[Span, ...]
    source: int
    source_end: int
    group_items: tuple[Span, ...]
    commons: tuple[Span, ...]


def clauses_of(lexemes: tuple[Lexeme, ...], scope: QueryScope) -> Clauses:
    """Raises Unproven where text and tree do not agree."""
    opening = _select(lexemes, scope)
    end = _end(lexemes, opening)
    depth = lexemes[opening].depth
    positions: dict[str, int] = {}
    for at in range(opening + 1, end):
        phrase = lexemes[at].phrase
        if lexemes[at].depth == depth and phrase in _PARTS:
            positions.setdefault(phrase, at)
    _check(scope, positions)
    after = min((at for phrase, at in positions.items() if phrase not in _SOURCE), default=end)
    items = _items(
        lexemes, opening + len(lexemes[opening].phrase.split()), positions["FROM"], depth
    )
    if len(items) != len(scope.select.expressions):
        raise Unproven("a select list that is not followed", scope.offset)
    group = _group(lexemes, positions, depth, end)
    return Clauses(items, positions["FROM"], after, group, tuple(_commons(lexemes, scope, opening)))


def _select(lexemes: tuple[Lexeme, ...], scope: QueryScope) -> int:
    """The word SELECT before the list of the scope."""
    at = next((i for i, x in enumerate(lexemes) if x.token.start >= scope.offset), 0)
    level = 0
    for i in range(at, -1, -1):
        if lexemes[i].phrase.startswith("SELECT") and level == 0:
            return i
        level += lexemes[i].is_symbol(")") - (lexemes[i].is_symbol("(") and level > 0)
    raise Unproven("SELECT that cannot be found", scope.offset)


def _end(lexemes: tuple[Lexeme, ...], opening: int) -> int:
    depth = lexemes[opening].depth
    for at in range(opening + 1, len(lexemes)):
        lexeme = lexemes[at]
        if lexeme.depth < depth or (lexeme.depth == depth and lexeme.phrase.startswith(_SETS)):
            return at
    return len(lexemes)


def _check(scope: QueryScope, positions: dict[str, int]) -> None:
    for phrase, part in _PARTS.items():
        if bool(scope.select.args.get(part)) != (phrase in positions):
            raise Unproven(f"{phrase} that cannot be followed", scope.offset)
    if "FROM" not in positions:
        raise Unproven("no FROM", scope.offset)
    others = [at for phrase, at in positions.items() if phrase not in _SOURCE]
    if any(at < max(positions[p] for p in _SOURCE & positions.keys()) for at in others):
        raise Unproven("clauses in an order that is not followed", scope.offset)


def _items(lexemes: tuple[Lexeme, ...], start: int, end: int, depth: int) -> tuple[Span, ...]:
    """Between commas."""
    commas = [
        at for at in range(start, end) if lexemes[at].depth == depth and lexemes[at].is_symbol(",")
    ]
    return tuple(zip([start, *(at + 1 for at in commas)], [*commas, end], strict=True))


def _group(
    lexemes: tuple[Lexeme, ...], positions: dict[str, int], depth: int, end: int
) -> tuple[Span, ...]:
    if "GROUP BY" not in positions:
        return ()
    start = positions["GROUP BY"]
    return _items(
        lexemes, start + 2, min((at for at in positions.values() if at > start), default=end), depth
    )


def _commons(lexemes: tuple[Lexeme, ...], scope: QueryScope, opening: int) -> Iterator[Span]:
    """Outer ones first."""
    clauses = []
    node: exp.Expr | None = scope.select
    while node is not None:
        if isinstance(clause := node.args.get("with_"), exp.With):
            clauses.append(clause)
        node = node.parent
    names: set[str] = set()
    for clause in reversed(clauses):
        for common in clause.expressions:
            start = next(
                i
                for i, x in enumerate(lexemes)
                if x.token.start == common.args["alias"].this.meta["start"]
            )
            end = _closing(lexemes, start)
            if end <= opening:
                if common.alias.lower() in names:
                    raise Unproven(
                        f"two common table expressions called {common.alias}", scope.offset
                    )
                names.add(common.alias.lower())
                yield start, end


def _closing(lexemes: tuple[Lexeme, ...], start: int) -> int:
    """After the parenthesis that ends the common table expression."""
    depth = lexemes[start].depth
    at = next(
        i
        for i in range(start, len(lexemes))
        if lexemes[i].depth == depth and lexemes[i].upper == "AS"
    )
    opening = next(i for i in range(at, len(lexemes)) if lexemes[i].is_symbol("("))
    return 1 + next(i for i in range(opening + 1, len(lexemes)) if lexemes[i].depth == depth)
