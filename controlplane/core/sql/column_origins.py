"""Which source a column comes from, and which columns an output column is made of, as far as text
and known schemas determine it.

Inside of a scope a column is known by the number of its source; `MERGED` stands for what USING made
of two. None always means unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from sqlglot import exp

from controlplane.core.sql import time_windows
from controlplane.core.sql.references import folded
from controlplane.core.sql.relations import FromItem, Mention, Other, QueryScope, Relation, Union

MERGED: Final = "using"
MOST_COLUMNS: Final = 10_000
Outputs: TypeAlias = tuple[str, ...] | None

# What a key may be made of: values of the same row, the same each time.
_PURE: Final = (
    *(
        exp.Column,
        exp.Identifier,
        exp.Literal,
        exp.Cast,
        exp.DataType,
        exp.DataTypeParam,
        exp.Paren,
        exp.Var,
    ),
    *(
        exp.Add,
        exp.Sub,
        exp.Mul,
        exp.IntDiv,
        exp.Mod,
        exp.Neg,
        exp.Abs,
        exp.Floor,
        exp.Coalesce,
        exp.Upper,
        exp.Lower,
    ),
    *(
        exp.Year,
        exp.Quarter,
        exp.Month,
        exp.Day,
        exp.DateTrunc,
        exp.TimestampTrunc,
        exp.TsOrDsToDate,
        exp.Date,
    ),
    *(exp.Substring, exp.Left, exp.Trim, exp.Concat),
)


@dataclass(frozen=True, slots=True)
class KnownNames:
    """Columns of inputs by the lower case of their names; an input that is not there may have
    any."""

    columns: Mapping[str, tuple[str, ...]]
    case_sensitive: bool = False
    _outputs: dict[Relation, Outputs] = field(default_factory=dict)

    def fold(self, name: str) -> str:
        return name if self.case_sensitive or not name.isascii() else name.lower()

    def outputs(self, relation: Relation) -> Outputs:
        """Names of a relation's columns in order; empty where only Spark knows them. None: not even
        how many."""
        if relation not in self._outputs:
            self._outputs[relation] = self._computed(relation)
        return self._outputs[relation]

    def _computed(self, relation: Relation) -> Outputs:
        match relation:
            case Mention(ref=ref):
                columns = self.columns.get(ref.name.lower())
                return None if columns is None else tuple(map(self.fold, columns))
            case Union(sides=(first, _)):
                return self.outputs(first)
            case QueryScope():
                return self._of_scope(relation)
            case Other():
                return None

    def _of_scope(self, scope: QueryScope) -> Outputs:
        names: list[str] = []
        for item in scope.select.expressions:
            item_names = self._of_item(scope, item)
            if item_names is None or len(names) + len(item_names) > MOST_COLUMNS:
                return None
            names += item_names
        return tuple(names)

    def _of_item(self, scope: QueryScope, item: exp.Expr) -> Outputs:
        if not item.is_star:
            return tuple(map(self.fold, _names_of(item)))
        by_source = [self.of_source(scope.sources[at]) for at in star_sources(scope, item)]
        if (
            _is_edited(item)
            or _merges(scope)
            or not by_source
            or any(names is None for names in by_source)
        ):
            return None
        return tuple(name for names in by_source for name in names or ())

    def of_source(self, source: FromItem) -> Outputs:
        return tuple(map(self.fold, source.columns)) or self.outputs(source.relation)


def _names_of(item: exp.Expr) -> tuple[str, ...]:
    if isinstance(item, exp.Aliases):
        return tuple(alias.name for alias in item.expressions)
    return (item.alias_or_name,) if is_named(item) else ("",)


def is_named(item: exp.Expr) -> bool:
    return isinstance(item, exp.Alias | exp.Column)


def star_sources(scope: QueryScope, item: exp.Expr) -> list[int]:
    """The sources whose columns a star stands for."""
    visible = list(visible_sources(scope))
    if isinstance(item, exp.Column):
        return [at for at in visible if scope.sources[at].alias == folded(item.table)]
    return visible


def visible_sources(scope: QueryScope) -> Iterator[int]:
    """A semi join shows nothing of its right side."""
    for at, source in enumerate(scope.sources):
        if source.join is None or (source.join.args.get("kind") or "").upper() not in (
            "SEMI",
            "ANTI",
        ):
            yield at


def _is_edited(item: exp.Expr) -> bool:
    star = item if isinstance(item, exp.Star) else item.this
    return not isinstance(star, exp.Star) or any(star.args.values())


def _merges(scope: QueryScope) -> bool:
    joins = [source.join for source in scope.sources if source.join is not None]
    return bool(scope.select.args.get("laterals")) or any(
        j.args.get("using") or j.args.get("method") for j in joins
    )


def column(name: str, source: str = "") -> exp.Column:
    table = exp.to_identifier(source, quoted=True) if source else None
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=table)


def replaced(
    expression: exp.Expr, change: Callable[[exp.Column], exp.Expr | None]
) -> exp.Expr | None:
    """The expression with each of its columns changed; None if one of them cannot be, or it is no
    pure value."""
    if not all(isinstance(node, _PURE) or time_windows.is_pure(node) for node in expression.walk()):
        return None
    copy = expression.copy()
    if isinstance(copy, exp.Column):
        return change(copy)
    for old in list(copy.find_all(exp.Column)):
        new = change(old)
        if new is None:
            return None
        old.replace(new.copy())
    return copy


@dataclass(frozen=True, slots=True)
class Inside:
    """Columns as one scope sees them."""

    scope: QueryScope
    columns: KnownNames

    def value(
        self, expression: exp.Expr, sources: list[int], aliases: frozenset[str] = frozenset()
    ) -> exp.Expr | None:
        """An expression of the scope over numbered sources. `aliases` of the SELECT list could be
        meant as well."""
        return replaced(expression, lambda c: self._column(c, sources, aliases))

    def output(self, name: str) -> exp.Expr | None:
        """What the output column of this name is, over numbered sources."""
        visible = list(visible_sources(self.scope))
        items = [i for i in self.scope.select.expressions if not i.is_star]
        if any(isinstance(item, exp.Aliases) for item in items):
            return None
        own = [i for i in items if is_named(i) and self.columns.fold(i.alias_or_name) == name]
        if own:
            earlier = self.aliases(self.scope.select.expressions.index(own[0]))
            return self.value(own[0].unalias(), visible, earlier) if len(own) == 1 else None
        stars = [i for i in self.scope.select.expressions if i.is_star]
        if len(stars) != 1 or not all(map(is_named, items)) or _is_edited(stars[0]):
            return None
        return self._among(name, star_sources(self.scope, stars[0]))

    def aliases(self, before: int | None = None) -> frozenset[str]:
        """Aliases of the SELECT list, up to an item: later ones may name them."""
        items = self.scope.select.expressions[:before]
        return frozenset(self.columns.fold(i.alias) for i in items if isinstance(i, exp.Alias))

    def _column(
        self, node: exp.Column, sources: list[int], aliases: frozenset[str]
    ) -> exp.Expr | None:
        name = self.columns.fold(node.name)
        if node.args.get("db") or isinstance(node.this, exp.Star):
            return None
        if node.table:
            at = [i for i in sources if self.scope.sources[i].alias == folded(node.table)]
            return self._of(name, at[0]) if len(at) == 1 else None
        if name in aliases:
            return self._surely(name, sources)
        return self._among(name, sources)

    def _surely(self, name: str, sources: list[int]) -> exp.Expr | None:
        """A name that an alias has too: the column wins, if there is one."""
        value = self._among(name, sources)
        return value if any(name in (self._names(at) or ()) for at in sources) else None

    def _names(self, at: int) -> Outputs:
        return self.columns.of_source(self.scope.sources[at])

    def _of(self, name: str, at: int) -> exp.Column | None:
        names = self._names(at)
        return column(name, str(at)) if names is None or names.count(name) == 1 else None

    def _among(self, name: str, sources: list[int]) -> exp.Column | None:
        """The source of a column that is named alone."""
        if self._is_generated(name):
            return None
        if any(name in self.using(at) for at in sources if at):
            return column(name, MERGED)
        having = [at for at in sources if name in (self._names(at) or ())]
        unknown = [at for at in sources if self._names(at) is None]
        candidates = having + unknown
        return self._of(name, candidates[0]) if len(candidates) == 1 else None

    def _is_generated(self, name: str) -> bool:
        """May it come from a LATERAL VIEW?"""
        for lateral in self.scope.select.args.get("laterals") or ():
            alias = lateral.args.get("alias")
            columns = (
                [self.columns.fold(c.name) for c in alias.columns]
                if isinstance(alias, exp.TableAlias)
                else []
            )
            if not columns or name in columns:
                return True
        return False

    def using(self, at: int) -> tuple[str, ...]:
        join = self.scope.sources[at].join
        return tuple(
            self.columns.fold(c.name) for c in (join.args.get("using") if join else None) or ()
        )
