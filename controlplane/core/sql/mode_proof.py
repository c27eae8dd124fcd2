"""Which input of a query may be read partition by partition, by proof; everything unproven is read
whole.

Row-wise scopes: projection, filter, lateral views, and joins from the input to others that keep
each of its rows to itself; one of them, or several with UNION ALL between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from sqlglot import exp

from controlplane.core.sql import functions
from controlplane.core.sql.references import TableRef
from controlplane.core.sql.scan import Lexeme
from controlplane.core.sql.sql_problem import line_column

# Of a UNION ALL: far more than people write, far less than exhausts the stack
MOST_SIDES: Final = 100
_ROW_WISE: Final = functions.ROW_WISE | functions.GENERATORS | functions.CLOCK
_SELECT_PARTS: Final = frozenset({"expressions", "from_", "joins", "laterals", "where"})
_UNION_PARTS: Final = frozenset({"this", "expression", "distinct"})
_PARENTHESIS_PARTS: Final = frozenset({"this"})
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
        *(
            "CLUSTER",
            "DISTINCT",
            "DISTRIBUTE",
            "EXCEPT",
            "GROUP",
            "HAVING",
            "INTERSECT",
            "LIMIT",
            "MINUS",
            "OFFSET",
        ),
        *("ORDER", "OVER", "PIVOT", "QUALIFY", "SORT", "TABLESAMPLE", "UNION", "UNPIVOT", "WITHIN"),
    }
)
_SETS: Final = ("UNION", "EXCEPT", "INTERSECT", "MINUS")
_QUERY_STARTS: Final = ("SELECT", "WITH", "FROM", "VALUES")
_JOIN_KINDS: Final = {
    "": ("", "INNER", "CROSS", "SEMI", "ANTI"),
    "LEFT": ("", "OUTER", "SEMI", "ANTI"),
}


@dataclass(frozen=True, slots=True)
class Mode:
    """`at`: where in the text the words stand that the reason is about, where they are known."""

    mode: Literal["each", "all"]
    reason: str
    at: int | None = None


@dataclass(frozen=True, slots=True)
class RowScope:
    """A row-wise scope at [start, end) of the text; `driver` is the reference that it reads row by
    row."""

    driver: TableRef
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Shape:
    """The query as row-wise scopes, several if UNION ALL stands between them; none: `reason` says
    why not, by the words at `at`."""

    scopes: tuple[RowScope, ...]
    reason: str
    at: int | None = None

    @property
    def driver(self) -> TableRef | None:
        """The driving table of the only scope."""
        return self.scopes[0].driver if len(self.scopes) == 1 else None

    def mode(self, refs: tuple[TableRef, ...], name: str) -> Mode:
        """How the input of this name may be read."""
        mentions = [ref for ref in refs if ref.name.lower() == name.lower()]
        if not mentions:
            return Mode("all", f"`all`: the query does not read {name}")
        if not self.scopes:
            return Mode("all", self.reason, self.at)
        if any(mentions[0] == scope.driver for scope in self.scopes):
            return Mode("each", self.reason)
        place = mentions[0]
        driver = next(s.driver for s in self.scopes if s.start <= place.start < s.end)
        reason = f"`all`: any row may meet any row of {driver.name}, at line {place.line}"
        return Mode("all", reason, place.start)


class _DependenceError(Exception):
    """Rows of the input depend on each other: what says so, and where in the text."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(what)
        self.what, self.offset = what, offset


def shape(
    text: str, lexemes: tuple[Lexeme, ...], tree: exp.Expr | None, refs: tuple[TableRef, ...]
) -> Shape:
    if tree is None:
        return Shape((), "`all`: the query holds a construct that only Spark can read")
    try:
        scopes = tuple(_scope(run, select, refs) for run, select in _sides(lexemes, tree))
        _check_apart(scopes, refs)
    except _DependenceError as dependence:
        line = line_column(text, dependence.offset)[0]
        return Shape((), f"`all`: {dependence.what} at line {line}", dependence.offset)
    names = dict.fromkeys(scope.driver.name for scope in scopes)
    return Shape(scopes, f"`each`: every row comes from one row of {' or of '.join(names)}")


_Side: TypeAlias = tuple[tuple[Lexeme, ...], exp.Select]


def _sides(lexemes: tuple[Lexeme, ...], tree: exp.Expr) -> Iterator[_Side]:
    """The scopes that UNION ALL puts one after the other, each with its own part of the text."""
    match tree:
        case exp.Select():
            yield lexemes, tree
        case exp.Union() if not tree.args.get("distinct"):
            _check_clauses(lexemes, tree, _UNION_PARTS)
            at = _last_union(lexemes)
            yield from _side(lexemes[:at], tree.left)
            yield from _side(lexemes[at + 2 :], tree.right)
        case _:
            others = tuple(x for x in lexemes if x.phrase != "UNION ALL")
            raise _DependenceError(*_first_word(others, *_SETS, other="a set operation"))


def _side(lexemes: tuple[Lexeme, ...], tree: exp.Expr) -> Iterator[_Side]:
    if isinstance(tree, exp.Subquery):
        _check_clauses(lexemes, tree, _PARENTHESIS_PARTS)
        lexemes, tree = lexemes[1:-1], tree.this
    return _sides(lexemes, tree)


def _last_union(lexemes: tuple[Lexeme, ...]) -> int:
    """Where the last UNION ALL outside of parentheses stands."""
    unions = [
        i for i, x in enumerate(lexemes) if x.phrase == "UNION ALL" and x.depth == lexemes[0].depth
    ]
    if not unions or len(unions) > MOST_SIDES:
        raise _DependenceError(*_first_word(lexemes, "UNION", other="a set operation"))
    return unions[-1]


def _scope(lexemes: tuple[Lexeme, ...], select: exp.Select, refs: tuple[TableRef, ...]) -> RowScope:
    start, end = lexemes[0].token.start, lexemes[-1].token.end
    own = tuple(ref for ref in refs if start <= ref.start < end)
    return RowScope(_driver(lexemes, select, own), start, end)


def _check_apart(scopes: tuple[RowScope, ...], refs: tuple[TableRef, ...]) -> None:
    """What one scope reads row by row no other may read in another way."""
    drivers = [scope.driver for scope in scopes]
    names = {driver.name.lower() for driver in drivers}
    for ref in refs:
        if ref.name.lower() in names and ref not in drivers:
            raise _DependenceError(f"{ref.name} is read again", ref.start)


def _driver(
    lexemes: tuple[Lexeme, ...], select: exp.Select, refs: tuple[TableRef, ...]
) -> TableRef:
    _check_parts(lexemes, select)
    driver = _from(select, refs)
    inner = _subqueries(lexemes)
    _check_uses(refs, driver, inner)
    outer = tuple(
        x for x in lexemes if not any(start <= x.token.start < end for start, end in inner)
    )
    _check_words(outer)
    _check_calls(outer)
    _check_joins(outer, select)
    return driver


def _check_parts(lexemes: tuple[Lexeme, ...], select: exp.Select) -> None:
    if lexemes[0].upper == "FROM" or any(x.is_symbol("|>") for x in lexemes):
        raise _DependenceError("a pipeline", lexemes[0].token.start)
    _check_clauses(lexemes, select, _SELECT_PARTS)


def _check_clauses(lexemes: tuple[Lexeme, ...], tree: exp.Expr, allowed: frozenset[str]) -> None:
    for part, value in tree.args.items():
        if value and part not in allowed:
            name = _CLAUSES.get(part, part)
            raise _DependenceError(*_first_word(lexemes, name.split()[0], other=name, name=name))


def _from(select: exp.Select, refs: tuple[TableRef, ...]) -> TableRef:
    clause = select.args.get("from_")
    table = clause.this if isinstance(clause, exp.From) else None
    if not isinstance(table, exp.Table):
        raise _DependenceError("FROM without a table", refs[0].start if refs else 0)
    if extra := {part for part, value in table.args.items() if value} - _TABLE_PARTS:
        names = sorted(_CLAUSES.get(part, part) for part in extra)
        raise _DependenceError(f"{names[0]} after the table", table.parts[0].meta.get("start", 0))
    start = table.parts[0].meta.get("start", -1)
    driver = next((ref for ref in refs if ref.start == start), None)
    if driver is None:
        raise _DependenceError("FROM is not a table", max(start, 0))
    return driver


def _check_uses(
    refs: tuple[TableRef, ...], driver: TableRef, inner: tuple[tuple[int, int], ...]
) -> None:
    uses = [ref for ref in refs if ref.name.lower() == driver.name.lower()]
    if len(uses) > 1:
        raise _DependenceError(f"{driver.name} is read again", uses[1].start)
    if any(start <= driver.start < end for start, end in inner):
        raise _DependenceError(f"{driver.name} is read in a subquery", driver.start)


def _check_words(outer: tuple[Lexeme, ...]) -> None:
    for at, lexeme in enumerate(outer):
        is_exclusion = lexeme.phrase == "EXCEPT" and at > 0 and outer[at - 1].is_symbol("*")
        is_comparison = lexeme.phrase.startswith("IS ")
        if _GLOBAL.intersection(lexeme.phrase.split()) and not is_exclusion and not is_comparison:
            raise _DependenceError(_window(outer, at) or lexeme.phrase, lexeme.token.start)


def _window(outer: tuple[Lexeme, ...], at: int) -> str:
    """What kind of window OVER opens; empty for other words."""
    if outer[at].phrase != "OVER":
        return ""
    is_partitioned = not outer[at + 1].is_symbol("(") or outer[at + 2].phrase == "PARTITION BY"
    return "window" if is_partitioned else "window without PARTITION BY"


def _check_calls(outer: tuple[Lexeme, ...]) -> None:
    for before, lexeme in zip((None, *outer), outer, strict=False):
        if not lexeme.is_call:
            continue
        name = lexeme.token.name.lower()
        if name in functions.AGGREGATES:
            raise _DependenceError(f"aggregate {name}", lexeme.token.start)
        is_member = before is not None and before.is_symbol(".")
        if name not in _ROW_WISE or is_member:
            raise _DependenceError(
                f"function {name} is not known to be row-wise,", lexeme.token.start
            )


def _check_joins(outer: tuple[Lexeme, ...], select: exp.Select) -> None:
    for join in select.args.get("joins") or ():
        side, kind = (join.args.get("side") or "").upper(), (join.args.get("kind") or "").upper()
        if kind not in _JOIN_KINDS.get(side, ()):
            name = f"{side or kind} JOIN"
            raise _DependenceError(*_first_word(outer, side or kind, other=name, name=name))
        if not isinstance(join.this, exp.Table | exp.Subquery | exp.Values | exp.Lateral):
            raise _DependenceError(*_first_word(outer, "JOIN", other="a join"))
        if join.this.args.get("sample") or join.this.args.get("pivots"):
            raise _DependenceError(
                *_first_word(outer, "TABLESAMPLE", "PIVOT", other="a sample or pivot")
            )


def _first_word(
    lexemes: tuple[Lexeme, ...], *words: str, other: str, name: str = ""
) -> tuple[str, int]:
    lexeme = next((x for x in lexemes if x.upper in words), None)
    if lexeme is None:
        return other, lexemes[0].token.start
    return name or lexeme.phrase or lexeme.upper, lexeme.token.start


def _subqueries(lexemes: tuple[Lexeme, ...]) -> tuple[tuple[int, int], ...]:
    """The places [start, end) of parentheses that hold a query."""
    return tuple(_spans(lexemes))


def _spans(lexemes: tuple[Lexeme, ...]) -> Iterator[tuple[int, int]]:
    for at, lexeme in enumerate(lexemes[:-1]):
        if lexeme.is_symbol("(") and lexemes[at + 1].phrase.startswith(_QUERY_STARTS):
            depth = lexeme.depth
            closing = next(
                (x for x in lexemes[at + 1 :] if x.is_symbol(")") and x.depth == depth), lexemes[-1]
            )
            yield lexeme.token.start, closing.token.end
