"""A query as relations: what each scope reads, with common table expressions put in place of their
names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlglot import exp

from controlplane.core.sql.references import TableRef, folded

# Parts of a table or a subquery that stand for its rows as they are
_BARE: Final = frozenset({"this", "alias"})
_UNION_PARTS: Final = frozenset({"this", "expression", "distinct", "order", "with_"})
_NAMES: Final = {
    "limit": "LIMIT", "offset": "OFFSET", "sample": "TABLESAMPLE", "pivots": "PIVOT", "joins": "a join in parentheses",
    "with_": "WITH", "sort": "SORT BY", "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Mention:
    """An input where the text names it."""

    ref: TableRef
    reads: frozenset[TableRef]
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class FromItem:
    """A relation in FROM. `join` says how it meets those before it; `columns` are other names for
    its own; `alias` is its name folded."""

    relation: Relation
    name: str
    alias: str
    columns: tuple[str, ...]
    join: exp.Join | None


@dataclass(frozen=True, slots=True, eq=False)
class QueryScope:
    """One SELECT. `inner` are the queries within its expressions."""

    select: exp.Select
    sources: tuple[FromItem, ...]
    inner: tuple[Relation, ...]
    reads: frozenset[TableRef]
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Union:
    """UNION ALL."""

    sides: tuple[Relation, Relation]
    reads: frozenset[TableRef]
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class Other:
    """A relation that is not taken apart, and its parts: `what` names it."""

    what: str
    parts: tuple[Relation, ...]
    reads: frozenset[TableRef]
    offset: int


Relation: TypeAlias = Mention | QueryScope | Union | Other
Names: TypeAlias = Mapping[str, Relation]  # common table expressions that can be seen


def relation_of(tree: exp.Expr, refs: tuple[TableRef, ...]) -> Relation:
    """The whole query."""
    return _Builder({ref.start: ref for ref in refs}).query(tree, {})


def is_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query)


def expressions_of(select: exp.Select) -> Iterator[exp.Expr]:
    """All that is computed in a scope: everything but what FROM and WITH name."""
    for part, value in select.args.items():
        if part in ("from_", "with_") or not value:
            continue
        for expression in value if isinstance(value, list) else [value]:
            yield from _computed(expression)


def _computed(node: object) -> Iterator[exp.Expr]:
    match node:
        case exp.Join():
            if node.args.get("on"):
                yield node.args["on"]
        case exp.Expr():
            yield node
        case _:  # a flag
            return


def all_nodes(select: exp.Select) -> Iterator[exp.Expr]:
    """Every node of the scope's own expressions. Queries within them are given, but not entered."""
    left = list(expressions_of(select))
    while left:
        node = left.pop()
        yield node
        if not is_query(node):
            left += node.iter_expressions()


@dataclass(frozen=True, slots=True)
class _Builder:
    refs: Mapping[int, TableRef]

    def query(self, node: exp.Expr, names: Names) -> Relation:
        clause = node.args.get("with_")
        if isinstance(clause, exp.With):
            if clause.args.get("recursive"):
                return self._other("WITH RECURSIVE", node, names)
            for common in clause.expressions:
                names = {
                    **names,
                    folded(common.alias): self._renamed(self.query(common.this, names), common),
                }
        match node:
            case exp.Select():
                return self._scope(node, names)
            case exp.Subquery():
                return self._bare(node, names)
            case exp.Union() if not node.args.get("distinct"):
                return self._union(node, names)
            case exp.SetOperation():
                name = "UNION" if isinstance(node, exp.Union) else node.key.upper()
                return self._parts(
                    name, node, [self.query(node.left, names), self.query(node.right, names)]
                )
            case exp.Table():
                return self._table(node, names)
            case _:
                return self._other(f"a part that is not a query ({node.key})", node, names)

    def _renamed(self, relation: Relation, common: exp.Expr) -> Relation:
        """A common table expression with a list of columns: opaque, for who wants to follow a
        column."""
        alias = common.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.columns:
            return Other(
                "a list of columns after WITH", (relation,), relation.reads, relation.offset
            )
        return relation

    def _scope(self, select: exp.Select, names: Names) -> Relation:
        clause = select.args.get("from_")
        first = [self._source(clause.this, None, names)] if isinstance(clause, exp.From) else []
        joined = [self._source(join.this, join, names) for join in select.args.get("joins") or ()]
        sources, inner = (*first, *joined), tuple(self._inner(select, names))
        reads = _reads([*(s.relation for s in sources), *inner])
        return QueryScope(select, sources, inner, reads, _offset(select))

    def _source(self, node: exp.Expr, join: exp.Join | None, names: Names) -> FromItem:
        alias = node.args.get("alias")
        columns = tuple(c.name for c in alias.columns) if isinstance(alias, exp.TableAlias) else ()
        return FromItem(
            self.query(node, names), node.alias_or_name, folded(node.alias_or_name), columns, join
        )

    def _inner(self, select: exp.Select, names: Names) -> Iterator[Relation]:
        for node in all_nodes(select):
            if is_query(node) or isinstance(node, exp.Table):
                yield self.query(node, names)

    def _bare(self, node: exp.Subquery, names: Names) -> Relation:
        relation = self.query(node.this, names)
        extra = _unknown_part(node, _BARE | {"with_"})
        return (
            self._parts(extra, node, [relation, *self._joined(node, names)]) if extra else relation
        )

    def _union(self, node: exp.Union, names: Names) -> Relation:
        sides = self.query(node.left, names), self.query(node.right, names)
        if extra := _unknown_part(node, _UNION_PARTS):
            return self._parts(extra, node, list(sides))
        return Union(sides, _reads(sides), _offset(node))

    def _table(self, node: exp.Table, names: Names) -> Relation:
        relation = self._named(node, names)
        extra = _unknown_part(node, _BARE | {"db", "catalog"})
        return (
            self._parts(extra, node, [relation, *self._joined(node, names)]) if extra else relation
        )

    def _named(self, node: exp.Table, names: Names) -> Relation:
        if not node.args.get("db") and folded(node.name) in names:
            return names[folded(node.name)]
        ref = self.refs.get(node.parts[0].meta.get("start", -1)) if node.parts else None
        if ref is None:
            return self._other("a table function", node, names)
        return Mention(ref, frozenset({ref}), ref.start)

    def _joined(self, node: exp.Expr, names: Names) -> list[Relation]:
        return [self.query(join.this, names) for join in node.args.get("joins") or ()]

    def _parts(self, what: str, node: exp.Expr, parts: list[Relation]) -> Other:
        return Other(what, tuple(parts), _reads(parts), _offset(node))

    def _other(self, what: str, node: exp.Expr, names: Names) -> Other:
        """Reads all that it holds, by the names that are visible here."""
        tables = [t for t in node.find_all(exp.Table) if t is not node]
        parts = tuple(self._named(t, names) for t in tables)
        return Other(what, parts, _reads(parts), _offset(node))


def _unknown_part(node: exp.Expr, allowed: frozenset[str]) -> str:
    """A part of the node that is not among the known ones, in words."""
    extra = next((part for part, value in node.args.items() if value and part not in allowed), "")
    return _NAMES.get(extra, extra)


def _reads(
    relations: Iterator[Relation] | list[Relation] | tuple[Relation, ...],
) -> frozenset[TableRef]:
    return frozenset(ref for relation in relations for ref in relation.reads)


def _offset(node: exp.Expr) -> int:
    """Near where the node begins: the first place that the parser kept of it; for a SELECT, of its
    list."""
    within = node.expressions if isinstance(node, exp.Select) else []
    places = [
        n.meta["start"] for part in within or [node] for n in part.walk() if "start" in n.meta
    ]
    return min(
        places, default=_offset(node.args["from_"]) if within and node.args.get("from_") else 0
    )
