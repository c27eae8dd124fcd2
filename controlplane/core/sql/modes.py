"""Which input of a query may be read partition by partition, by proof; everything unproven is read whole.

One row-wise scope: projection, filter, lateral views, and joins from the input to others that keep each of its rows
to itself. Does not belong here: hints of users, which are declarations and not proofs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from sqlglot import exp

from controlplane.core.sql import functions
from controlplane.core.sql.problems import line_column
from controlplane.core.sql.references import TableRef
from controlplane.core.sql.scan import Lexeme

_ROW_WISE: Final = functions.ROW_WISE | functions.GENERATORS
_SELECT_PARTS: Final = frozenset({"expressions", "from_", "joins", "laterals", "where"})
_TABLE_PARTS: Final = frozenset({"this", "db", "catalog", "alias"})
_CLAUSES: Final = {
    "with_": "WITH", "distinct": "DISTINCT", "group": "GROUP BY", "having": "HAVING", "windows": "WINDOW",
    "qualify": "QUALIFY", "order": "ORDER BY", "sort": "SORT BY", "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY", "limit": "LIMIT", "offset": "OFFSET", "sample": "TABLESAMPLE",
    "pivots": "PIVOT",
}  # fmt: skip
# Words that make rows depend on each other, wherever the parser puts them.
_GLOBAL: Final = frozenset(
    {
        *("CLUSTER", "DISTINCT", "DISTRIBUTE", "EXCEPT", "GROUP", "HAVING", "INTERSECT", "LIMIT", "MINUS", "OFFSET"),
        *("ORDER", "OVER", "PIVOT", "QUALIFY", "SORT", "TABLESAMPLE", "UNION", "UNPIVOT", "WITHIN"),
    }
)
_QUERY_STARTS: Final = ("SELECT", "WITH", "FROM", "VALUES")
_JOIN_KINDS: Final = {
    "": ("", "INNER", "CROSS", "SEMI", "ANTI"),
    "LEFT": ("", "OUTER", "SEMI", "ANTI"),
}


@dataclass(frozen=True, slots=True)
class Mode:
    mode: Literal["each", "all"]
    reason: str


@dataclass(frozen=True, slots=True)
class Shape:
    """`driver` is the reference that is read row by row, if there is one; `reason` says why, or why not."""

    driver: TableRef | None
    reason: str


class _DependenceError(Exception):
    """Rows of the input depend on each other: what says so, and where in the text."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(what)
        self.what, self.offset = what, offset


def shape(text: str, lexemes: tuple[Lexeme, ...], tree: exp.Expr | None, refs: tuple[TableRef, ...]) -> Shape:
    if tree is None:
        return Shape(None, "`all`: the query holds a construct that only Spark can read")
    try:
        driver = _driver(lexemes, tree, refs)
    except _DependenceError as found:
        line = line_column(text, found.offset)[0]
        return Shape(None, f"`all`: {found.what} at line {line}")
    return Shape(driver, f"`each`: every row comes from one row of {driver.name}")


def _driver(lexemes: tuple[Lexeme, ...], tree: exp.Expr, refs: tuple[TableRef, ...]) -> TableRef:
    if not isinstance(tree, exp.Select):
        raise _DependenceError(*_first_word(lexemes, "UNION", "EXCEPT", "INTERSECT", "MINUS", other="a set operation"))
    _check_parts(lexemes, tree)
    driver = _from(tree, refs)
    inner = _subqueries(lexemes)
    _check_uses(refs, driver, inner)
    outer = tuple(x for x in lexemes if not any(start <= x.token.start < end for start, end in inner))
    _check_words(outer)
    _check_calls(outer)
    _check_joins(outer, tree)
    return driver


def _check_parts(lexemes: tuple[Lexeme, ...], select: exp.Select) -> None:
    if lexemes[0].upper == "FROM" or any(x.is_symbol("|>") for x in lexemes):
        raise _DependenceError("a pipeline", lexemes[0].token.start)
    for part, value in select.args.items():
        if value and part not in _SELECT_PARTS:
            name = _CLAUSES.get(part, part)
            raise _DependenceError(*_first_word(lexemes, name.split()[0], other=name, name=name))


def _from(select: exp.Select, refs: tuple[TableRef, ...]) -> TableRef:
    clause = select.args.get("from_")
    table = clause.this if isinstance(clause, exp.From) else None
    if not isinstance(table, exp.Table):
        raise _DependenceError("FROM without a table", refs[0].start if refs else 0)
    if more := {part for part, value in table.args.items() if value} - _TABLE_PARTS:
        names = sorted(_CLAUSES.get(part, part) for part in more)
        raise _DependenceError(f"{names[0]} after the table", table.parts[0].meta.get("start", 0))
    start = table.parts[0].meta.get("start", -1)
    driver = next((ref for ref in refs if ref.start == start), None)
    if driver is None:
        raise _DependenceError("FROM is not a table", max(start, 0))
    return driver


def _check_uses(refs: tuple[TableRef, ...], driver: TableRef, inner: tuple[tuple[int, int], ...]) -> None:
    uses = [ref for ref in refs if ref.name.lower() == driver.name.lower()]
    if len(uses) > 1:
        raise _DependenceError(f"{driver.name} is read again", uses[1].start)
    if any(start <= driver.start < end for start, end in inner):
        raise _DependenceError(f"{driver.name} is read in a subquery", driver.start)


def _check_words(outer: tuple[Lexeme, ...]) -> None:
    for before, lexeme in zip((None, *outer), outer, strict=False):
        is_exclusion = lexeme.phrase == "EXCEPT" and before is not None and before.is_symbol("*")
        is_comparison = lexeme.phrase.startswith("IS ")
        if _GLOBAL.intersection(lexeme.phrase.split()) and not is_exclusion and not is_comparison:
            raise _DependenceError(lexeme.phrase, lexeme.token.start)


def _check_calls(outer: tuple[Lexeme, ...]) -> None:
    for before, lexeme in zip((None, *outer), outer, strict=False):
        if not lexeme.is_call:
            continue
        name = lexeme.token.name.lower()
        if name in functions.AGGREGATES:
            raise _DependenceError(f"aggregate {name}", lexeme.token.start)
        is_member = before is not None and before.is_symbol(".")
        if name not in _ROW_WISE or is_member:
            raise _DependenceError(f"function {name} is not known to be row-wise,", lexeme.token.start)


def _check_joins(outer: tuple[Lexeme, ...], select: exp.Select) -> None:
    for join in select.args.get("joins") or ():
        side, kind = (join.args.get("side") or "").upper(), (join.args.get("kind") or "").upper()
        if kind not in _JOIN_KINDS.get(side, ()):
            name = f"{side or kind} JOIN"
            raise _DependenceError(*_first_word(outer, side or kind, other=name, name=name))
        if not isinstance(join.this, exp.Table | exp.Subquery | exp.Values | exp.Lateral):
            raise _DependenceError(*_first_word(outer, "JOIN", other="a join"))
        if join.this.args.get("sample") or join.this.args.get("pivots"):
            raise _DependenceError(*_first_word(outer, "TABLESAMPLE", "PIVOT", other="a sample or pivot"))


def _first_word(lexemes: tuple[Lexeme, ...], *words: str, other: str, name: str = "") -> tuple[str, int]:
    found = next((x for x in lexemes if x.upper in words), None)
    if found is None:
        return other, lexemes[0].token.start
    return name or found.phrase or found.upper, found.token.start


def _subqueries(lexemes: tuple[Lexeme, ...]) -> tuple[tuple[int, int], ...]:
    """The places [start, end) of parentheses that hold a query."""
    return tuple(_spans(lexemes))


def _spans(lexemes: tuple[Lexeme, ...]) -> Iterator[tuple[int, int]]:
    for at, lexeme in enumerate(lexemes[:-1]):
        if lexeme.is_symbol("(") and lexemes[at + 1].phrase.startswith(_QUERY_STARTS):
            depth = lexeme.depth
            closing = next((x for x in lexemes[at + 1 :] if x.is_symbol(")") and x.depth == depth), lexemes[-1])
            yield lexeme.token.start, closing.token.end
