"""The columns of a query's result, each with its place in the text, as far as text and known
schemas determine them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from controlplane.core.sql.column_origins import KnownNames, is_named
from controlplane.core.sql.references import folded
from controlplane.core.sql.relations import Other, QueryScope, Relation, Union
from controlplane.core.sql.sql_problem import line_column

_SETS: Final = frozenset({"UNION", "EXCEPT", "INTERSECT"})
# Joins of which only the left side's columns are shown
_UNSEEN: Final = frozenset({"SEMI", "ANTI"})


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """`name` is empty where Spark makes one up. The place is that of the alias, or of the star that
    it comes from."""

    name: str
    line: int
    column: int
    is_written: bool


@dataclass(frozen=True, slots=True)
class OutputColumns:
    """`is_whole`: there are no others."""

    columns: tuple[OutputColumn, ...]
    is_whole: bool

    @property
    def names(self) -> tuple[str, ...] | None:
        """None where one of them is unknown."""
        names = tuple(column.name for column in self.columns)
        return names if self.is_whole and all(names) else None


NOTHING_KNOWN: Final = OutputColumns((), is_whole=False)


def output_columns(text: str, relation: Relation, inputs: KnownNames) -> OutputColumns:
    scope = _leading(relation)
    if scope is None:
        return NOTHING_KNOWN
    columns: list[OutputColumn] = []
    is_whole = True
    for item in scope.select.expressions:
        names = _names(scope, item, inputs)
        line, column = line_column(text, _offset(item, scope))
        columns += (OutputColumn(name, line, column, not item.is_star) for name in names or ())
        is_whole = is_whole and names is not None
    return OutputColumns(tuple(columns), is_whole)


def _leading(relation: Relation) -> QueryScope | None:
    """The SELECT that names the columns: the first branch of a set operation."""
    while not isinstance(relation, QueryScope):
        match relation:
            case Union(sides=(first, _)):
                relation = first
            case Other(what=what, parts=(first, *_)) if what in _SETS:
                relation = first
            case _:
                return None
    return relation


def _names(scope: QueryScope, item: exp.Expr, inputs: KnownNames) -> tuple[str, ...] | None:
    """What an item of the SELECT list is called; None where it is unknown."""
    if isinstance(item, exp.Aliases):
        return tuple(alias.name for alias in item.expressions)
    if not item.is_star:
        return (item.alias_or_name if is_named(item) else "",)
    star = item if isinstance(item, exp.Star) else item.this
    if (
        not isinstance(star, exp.Star)
        or any(star.args.values())
        or scope.select.args.get("laterals")
    ):
        return None
    if isinstance(item, exp.Column):
        sources = [s for s in scope.sources if s.alias == folded(item.table)]
        return inputs.of_source(sources[0]) if len(sources) == 1 else None
    return _joined(scope, inputs)


def _joined(scope: QueryScope, inputs: KnownNames) -> tuple[str, ...] | None:
    """The columns of a star: those of USING and NATURAL once and first, then the others of each
    side."""
    columns: tuple[str, ...] = ()
    for source in scope.sources:
        join = source.join
        if join is not None and (join.args.get("kind") or "").upper() in _UNSEEN:
            continue
        names = inputs.of_source(source)
        if names is None:
            return None
        merged = () if join is None else _merged(join, columns, names, inputs)
        left = tuple(name for name in columns if name not in merged)
        right = tuple(name for name in names if name not in merged)
        columns = (*merged, *left, *right)
    return columns or None


def _merged(
    join: exp.Join, left: tuple[str, ...], right: tuple[str, ...], inputs: KnownNames
) -> tuple[str, ...]:
    if (join.args.get("method") or "").upper() == "NATURAL":
        return tuple(name for name in left if name in right)
    return tuple(inputs.fold(column.name) for column in join.args.get("using") or ())


def _offset(item: exp.Expr, scope: QueryScope) -> int:
    """Where the name of an item stands; where it has none, its beginning."""
    named = item.args.get("alias") if isinstance(item, exp.Alias) else None
    if isinstance(item, exp.Column) and not item.is_star:
        named = item.this
    if isinstance(named, exp.Identifier) and "start" in named.meta:
        return int(named.meta["start"])
    places = [int(node.meta["start"]) for node in item.walk() if "start" in node.meta]
    return min(places, default=scope.offset)


def mentioned_columns(tree: exp.Expr) -> Iterator[tuple[str, int, bool]]:
    """Columns that an expression names: name, offset, and whether it is all of the name.

    For `a.b` it is `a`, which may be a struct or a table. Parameters of lambdas are left out.
    """
    bound = {p.name for function in tree.find_all(exp.Lambda) for p in function.expressions}
    for column in tree.find_all(exp.Column):
        first = column.parts[0] if column.parts else None
        if isinstance(first, exp.Identifier) and "start" in first.meta and first.name not in bound:
            yield first.name, int(first.meta["start"]), len(column.parts) == 1
