"""What the columns of a query's result are made of, read off the query as sqlglot resolves it
(`resolution`).

    a table that is an input   -> its columns
    a query                    -> each item of its list, over what FROM gives; WHERE, ON, GROUP BY ... decide on rows
    UNION                      -> column by column
    LATERAL VIEW, explode      -> all that the function is given

A column of unknown origin comes of all columns of all inputs, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from sqlglot import exp
from sqlglot.errors import SqlglotError

from controlplane.core.sql.functions import AGGREGATES
from controlplane.core.sql.references import TableRef
from controlplane.core.sql.resolution import InputTypes, resolved_tree, table_names
from dataplane.contract.transform_lineage import (
    EVERY,
    NOTHING,
    ColumnLineage,
    Indirect,
    Subtype,
    Tracing,
    Value,
    all_columns,
    merged,
)

if TYPE_CHECKING:  # with an optimizer that few commands need
    from sqlglot.optimizer.scope import Scope

# Of the columns of a relation in order, by their lower case
Values: TypeAlias = Mapping[str, Value]

UNTOLD: Final = (
    "sqlglot cannot tell where {} comes from: all columns of all inputs are named for it"
)
_MOST_REPORTED: Final = 3  # names of unresolved columns in a message
USING: Final = "RIGHT JOIN with USING: a column that both sides have is said to come of both"
_DECIDING: Final[Mapping[str, Indirect]] = {
    "where": "FILTER", "having": "FILTER", "qualify": "FILTER", "group": "GROUP_BY", "order": "SORT", "sort": "SORT",
    "cluster": "SORT",
}  # fmt: skip
# What sqlglot counts as aggregates and Spark computes row by row, within a window.
_OF_ROWS: Final = (
    exp.Lag,
    exp.Lead,
    exp.NthValue,
    exp.Explode,
    exp.RowNumber,
    exp.Rank,
    exp.DenseRank,
    exp.Ntile,
)


def of_query(
    tree: exp.Expr, refs: tuple[TableRef, ...], inputs: InputTypes, columns: Sequence[str] = ()
) -> ColumnLineage | None:
    """None where sqlglot cannot resolve the query. `columns`: the names that the output's columns
    have in fact, in order; where there are not as many, those of the text stand. The tree that is
    given is changed."""
    from sqlglot.optimizer.scope import build_scope

    if any(clause.args.get("recursive") for clause in tree.find_all(exp.With)):
        return None  # it would read itself
    is_either, has_right = _has_full(tree), _has_right(tree)
    resolved = resolved_tree(tree, refs, inputs)
    if resolved is None:
        return None
    try:
        scope = build_scope(resolved)
        if scope is None:
            return None
        walk = _LineageWalk(table_names(refs), inputs, is_either)
        outputs = walk.of(scope)
    except (SqlglotError, RecursionError, LookupError, AttributeError, ValueError):
        return None  # a tree of a kind that is not known here
    if has_right:
        walk.tracing.over_reported.add(USING)
    if walk.untold:
        unresolved = ", ".join(walk.untold[:_MOST_REPORTED]) + (
            ", ..." if len(walk.untold) > _MOST_REPORTED else ""
        )
        walk.tracing.over_reported.add(UNTOLD.format(unresolved))
    pairs = _with_stars(outputs, len(columns))
    names = columns if len(columns) == len(pairs) else [name for name, _ in pairs]
    origins = (origin for _, origin in pairs)
    return walk.tracing.lineage(dict(zip(names, origins, strict=True)))


def _with_stars(outputs: Values, count: int) -> list[tuple[str, Value]]:
    """The output's columns. The star of a struct, of whose fields the text says nothing, stands for
    as many as the output has besides the others."""
    others = len(outputs) - (EVERY in outputs)
    return [
        (name, origin)
        for name, origin in outputs.items()
        for _ in range(count - others if name == EVERY and count > others else 1)
    ]


def _has_right(tree: exp.Expr) -> bool:
    """Whether a column that USING or NATURAL makes of two may be that of the right side."""
    joins = [
        join
        for join in tree.find_all(exp.Join)
        if join.args.get("using") or join.args.get("method")
    ]
    return any((join.args.get("side") or "").upper() == "RIGHT" for join in joins)


def _has_full(tree: exp.Expr) -> bool:
    return any(
        (join.args.get("side") or "").upper() in ("RIGHT", "FULL")
        for join in tree.find_all(exp.Join)
    )


@dataclass(slots=True)
class _LineageWalk:
    names: Mapping[str, str]  # of inputs, by what they are called in the tree
    inputs: InputTypes
    is_either: bool  # a column that USING makes of two may be that of the second
    tracing: Tracing = field(default_factory=Tracing)
    untold: list[str] = field(default_factory=list)
    _by_scope: dict[int, Values] = field(default_factory=dict)  # by scope

    def of(self, scope: Scope) -> Values:
        """The columns of a scope's result."""
        key = id(scope)
        if key not in self._by_scope:
            self._by_scope[key] = self._values_of(scope)
        return self._by_scope[key]

    def _values_of(self, scope: Scope) -> Values:
        tree = scope.expression
        if isinstance(tree, exp.SetOperation):
            return self._together(scope, tree)
        if isinstance(tree, exp.Subquery):
            return self.of(scope.subquery_scopes[0])
        if isinstance(tree, exp.UDTF):
            return self._of_function(scope, tree)
        assert isinstance(tree, exp.Select)
        return self._of_select(scope, tree)

    def _together(self, scope: Scope, tree: exp.SetOperation) -> Values:
        sides = [self.of(side) for side in scope.set_operation_scopes]
        if not isinstance(tree, exp.Union):
            self.tracing.note("FILTER", (value for side in sides for value in side.values()))
        if isinstance(tree, exp.Except):
            return sides[0]
        if isinstance(tree, exp.Union) and tree.args.get("distinct"):
            self.tracing.note("GROUP_BY", (value for side in sides for value in side.values()))
        if tree.args.get("by_name"):
            names = dict.fromkeys(name for side in sides for name in side)
            return {name: merged(side[name] for side in sides if name in side) for name in names}
        columns = [
            merged(values) for values in zip(*(side.values() for side in sides), strict=True)
        ]
        return dict(zip(sides[0], columns, strict=True))

    def _of_function(self, scope: Scope, tree: exp.Expr) -> Values:
        """The values of a function in FROM: a name stands for all that the function takes. A query
        in its place has columns."""
        if scope.subquery_scopes:
            return self.of(scope.subquery_scopes[0])
        made = merged(self._column(scope, column) for column in tree.find_all(exp.Column)).through(
            "TRANSFORMATION"
        )
        return _Any(made)

    def _of_select(self, scope: Scope, tree: exp.Select) -> Values:
        # A join decides on rows, also without a column read
        for _, source in scope.selected_sources.values():
            if not isinstance(source, exp.Table):
                self.of(source)
        columns: dict[str, Value] = {}
        for at, item in enumerate(tree.expressions):
            for name in _names(item, at):
                columns[name] = self._item(scope, item)
        self._note_rows(scope, tree, columns)
        return columns

    def _item(self, scope: Scope, item: exp.Expr) -> Value:
        if item.is_star:
            return self._untold("*")
        return self.value(scope, item.unalias())

    def _note_rows(self, scope: Scope, tree: exp.Select, columns: Values) -> None:
        for part, step in _DECIDING.items():
            clause = tree.args.get(part)
            if isinstance(clause, exp.Expr):
                self.tracing.note(step, self._each(scope, clause, columns))
        for join in tree.args.get("joins") or ():
            if isinstance(join.args.get("on"), exp.Expr):
                self.tracing.note("JOIN", [self.value(scope, join.args["on"])])
        for window in tree.find_all(exp.Window):
            if window.find_ancestor(exp.Query) is tree:
                self.tracing.note(
                    "WINDOW", self._each(scope, _specification(window, tree), columns)
                )
        if tree.args.get("distinct"):
            self.tracing.note("GROUP_BY", columns.values())
        group = tree.args.get("group")
        if isinstance(group, exp.Group) and group.args.get("all"):
            plain = [
                item
                for item in tree.expressions
                if not any(map(_is_aggregate, item.find_all(exp.Func)))
            ]
            self.tracing.note("GROUP_BY", (self._item(scope, item) for item in plain))

    def _each(
        self, scope: Scope, clause: exp.Expr | Iterable[exp.Expr], columns: Values
    ) -> Iterator[Value]:
        """The expressions of a clause, which may name columns of the result."""
        parts = clause.iter_expressions() if isinstance(clause, exp.Expr) else clause
        for part in parts:
            yield self.value(scope, part, columns)

    # --- expressions ------------------------------------------------------------------------------

    def value(self, scope: Scope, node: exp.Expr, columns: Values | None = None) -> Value:
        """`columns`: of the result, where they may be named."""
        match node:
            case exp.Column():
                return self._column(scope, node, columns)
            case exp.Coalesce() if _is_merged(node) and not self.is_either:
                return self.value(scope, node.this, columns)
            case exp.Grouping() | exp.GroupingId():
                return NOTHING
            case exp.Paren() | exp.Alias():
                return self.value(scope, node.this, columns)
            case exp.Struct():
                return self._struct(scope, node, columns)
            case exp.Dot():
                return self._member(scope, node, columns)
            case exp.Case() | exp.If():
                return self._conditional(scope, node, columns)
            case exp.Filter():
                condition = self.value(scope, node.expression, columns).through("CONDITIONAL")
                return merged([self.value(scope, node.this, columns), condition])
            case exp.Window():
                return self._window(scope, node, columns)
            case exp.Exists():  # what decides is noted within
                self._queries(scope, node)
                return NOTHING
            case exp.Query():
                return self._query(scope, node)
        step: Subtype = "AGGREGATION" if _is_aggregate(node) else "TRANSFORMATION"
        parts = [self.value(scope, part, columns) for part in node.iter_expressions()]
        return merged(parts).through(step)

    def _column(self, scope: Scope, column: exp.Column, columns: Values | None = None) -> Value:
        name, table = column.name.lower(), column.table
        if not table:
            origin = (columns or {}).get(name)
            return self._untold(column.name) if origin is None else origin
        source = _source(scope, table)
        if source is None:
            return self._untold(f"{table}.{column.name}")
        if isinstance(source, exp.Table):
            return self._of_input(source, name)
        origin = self.of(source).get(name)
        return self._untold(f"{table}.{column.name}") if origin is None else origin

    def _of_input(self, table: exp.Table, name: str) -> Value:
        of = self.names.get(table.name, table.name)
        columns = {column.lower(): column for column in self.inputs.get(of, {})}
        if name not in columns:
            return self._untold(f"{of}.{name}")
        return Value({(of, columns[name]): frozenset({"IDENTITY"})})

    def _untold(self, name: str) -> Value:
        self.untold.append(name[:100])
        return all_columns(self.inputs)

    def _struct(self, scope: Scope, node: exp.Struct, columns: Values | None) -> Value:
        parts: dict[str, Value] = {}
        for at, part in enumerate(node.expressions):
            is_named = isinstance(part, exp.PropertyEQ | exp.Alias | exp.Column)
            name = part.alias_or_name.lower() if is_named else f"col{at + 1}"
            value = part.expression if isinstance(part, exp.PropertyEQ) else part.unalias()
            parts[name] = self.value(scope, value, columns)
        together = merged(parts.values()).through("TRANSFORMATION")
        return Value(together.origins, parts)

    def _member(self, scope: Scope, node: exp.Dot, columns: Values | None) -> Value:
        of = self.value(scope, node.this, columns)
        member = of.members.get(node.name.lower())
        return of.through("TRANSFORMATION") if member is None else member

    def _conditional(self, scope: Scope, node: exp.Case | exp.If, columns: Values | None) -> Value:
        branches = node.args.get("ifs") or [] if isinstance(node, exp.Case) else [node]
        operand = [node.this] if isinstance(node, exp.Case) and node.this else []
        conditions = [*operand, *(branch.this for branch in branches)]
        results = [branch.args.get("true") for branch in branches]
        results.append(node.args.get("default" if isinstance(node, exp.Case) else "false"))
        return merged(
            [
                *(
                    self.value(scope, operand_node, columns).through("CONDITIONAL")
                    for operand_node in conditions
                ),
                *(
                    self.value(scope, operand_node, columns).through("TRANSFORMATION")
                    for operand_node in results
                    if operand_node is not None
                ),
            ]
        )

    def _window(self, scope: Scope, node: exp.Window, columns: Values | None) -> Value:
        function = self.value(scope, node.this, columns).through("TRANSFORMATION")
        select = node.find_ancestor(exp.Select)
        spec = merged(self._each(scope, _specification(node, select), columns or {}))
        return merged([function, spec.through("WINDOW")])

    def _query(self, scope: Scope, node: exp.Expr) -> Value:
        """A query within an expression gives one column."""
        inner = node.unnest() if isinstance(node, exp.Subquery) else node
        for subquery in scope.subquery_scopes:
            if subquery.expression is inner or subquery.expression is node:
                return merged(self.of(subquery).values()).through("TRANSFORMATION")
        return self._untold("a query within an expression")

    def _queries(self, scope: Scope, node: exp.Expr) -> None:
        for part in node.iter_expressions():
            if isinstance(part, exp.Query):
                self._query(scope, part)


class _Any(dict[str, Value]):
    """The columns of a function in FROM: each is made of all that the function is given."""

    def __init__(self, made: Value) -> None:
        super().__init__()
        self._made = made

    def get(self, _name: str, _default: object = None) -> Value:  # a table of any name
        return self._made


def _names(item: exp.Expr, at: int) -> list[str]:
    """Names of an item of the SELECT list: a generator may have several."""
    if isinstance(item, exp.Aliases):
        return [alias.name.lower() for alias in item.expressions]
    return [item.alias_or_name.lower() or f"_col_{at}"]


def _source(scope: Scope, table: str) -> exp.Table | Scope | None:
    """What a table's name stands for, here or in a query around."""
    around: Scope | None = scope
    while around is not None:
        if table in around.sources:
            source: exp.Table | Scope = around.sources[table]
            return source
        around = around.parent
    return None


def _is_merged(node: exp.Coalesce) -> bool:
    """Whether sqlglot wrote it for a column of USING: then it has no place in the text."""
    parts = [node.this, *node.expressions]
    return all(isinstance(part, exp.Column) and "start" not in part.this.meta for part in parts)


def _is_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in AGGREGATES
    return isinstance(node, exp.AggFunc) and not isinstance(node, _OF_ROWS)


def _specification(window: exp.Window, select: exp.Expr | None) -> list[exp.Expr]:
    """What rows are partitioned and ordered by; of a window with a name, as WINDOW says."""
    named = window
    for definition in (
        (select.args.get("windows") or ()) if select is not None and window.alias else ()
    ):
        if definition.name == window.alias:
            named = definition
    order = named.args.get("order")
    return [
        *(named.args.get("partition_by") or ()),
        *(order.expressions if isinstance(order, exp.Order) else ()),
    ]
