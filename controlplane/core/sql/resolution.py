"""A query with its columns resolved under known columns: where it uses those of an input, and the
types that it gives.

The answer is sqlglot's: it knows most of Spark's rules and not all. None always means unknown. Does
not belong here: the consequences for a reader (review), and anything that an identity or a mode is
made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlglot import exp
from sqlglot.errors import SqlglotError

from controlplane.core.sql.references import TableRef
from controlplane.core.sql.sql_problem import line_column

# Of each input: its columns with their types as DDL
InputTypes: TypeAlias = Mapping[str, Mapping[str, str]]

OutputTypes: TypeAlias = tuple[tuple[str, str], ...]

UNKNOWN: Final = "UNKNOWN"
_DIALECT: Final = "spark"
_MADE_UP: Final = "_col_"  # what sqlglot names a column without an alias


@dataclass(frozen=True, slots=True, order=True)
class ColumnUse:
    """One mention of an input's column. `call`: the function around it, or USING."""

    line: int
    column: int
    input: str
    name: str
    call: str = ""


def column_uses(
    text: str, tree: exp.Expr, refs: tuple[TableRef, ...], inputs: InputTypes
) -> tuple[ColumnUse, ...]:
    """Every mention of a column of these inputs, in order of the text. A star mentions none."""
    joined = list(_joined_by_name(tree))
    resolved = resolved_tree(tree, refs, inputs)
    if resolved is None:
        return ()
    names = table_names(refs)
    uses = {
        _use(text, ident, names[table], call)
        for ident, table, call in _columns(resolved)
        if table in names
    }
    for ident in joined:
        uses |= {_use(text, ident, name, "USING") for name in inputs}
    return tuple(sorted(use for use in uses if _has(inputs.get(use.input, {}), use.name)))


def output_types(
    tree: exp.Expr, refs: tuple[TableRef, ...], inputs: InputTypes
) -> OutputTypes | None:
    """The output's columns in order: name and type as DDL, UNKNOWN for an unknown type. Names are
    in lower case. None as well where Spark makes up a name."""
    # With an optimizer that few commands need
    from sqlglot.optimizer.annotate_types import annotate_types

    resolved = resolved_tree(tree, refs, inputs)
    if resolved is None:
        return None
    try:
        typed = annotate_types(resolved, schema=_schema(refs, inputs), dialect=_DIALECT)
    except (SqlglotError, RecursionError):
        return None
    if not isinstance(typed, exp.Query) or typed.is_star:
        return None
    columns = tuple((column.alias_or_name, _type(column)) for column in typed.selects)
    return None if any(_is_made_up(name) for name, _ in columns) else columns


def resolved_tree(
    tree: exp.Expr, refs: tuple[TableRef, ...], inputs: InputTypes
) -> exp.Expr | None:
    """The tree with every column under its table, stars written out; inputs have the names of
    `table_names`. The tree that is given is changed."""
    from sqlglot.optimizer.qualify import qualify

    renamed = _with_plain_tables(tree, refs)
    try:
        return qualify(
            renamed,
            dialect=_DIALECT,
            schema=_schema(refs, inputs),
            validate_qualify_columns=False,
            quote_identifiers=False,
            identify=False,
        )
    except (SqlglotError, RecursionError):
        return None


def _with_plain_tables(tree: exp.Expr, refs: tuple[TableRef, ...]) -> exp.Expr:
    """Each input under a name of one part: sqlglot wants all of them to have as many parts."""
    names = {ref.start: _plain(ref.name) for ref in refs}
    for table in tree.find_all(exp.Table):
        first = table.parts[0]
        start = first.meta.get("start") if isinstance(first, exp.Identifier) else None
        if start not in names:
            continue
        alias = table.alias or table.name
        table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
        table.set("db", None)
        table.set("this", exp.to_identifier(names[start]))
    return tree


def _plain(name: str) -> str:
    return name.lower().replace(".", "__")


def table_names(refs: tuple[TableRef, ...]) -> dict[str, str]:
    """From the plain names of inputs to those in the text."""
    return {_plain(ref.name): ref.name for ref in refs}


def _schema(refs: tuple[TableRef, ...], inputs: InputTypes) -> dict[str, object]:
    return {_plain(ref.name): dict(inputs[ref.name]) for ref in refs if ref.name in inputs}


def _columns(resolved: exp.Expr) -> Iterator[tuple[exp.Identifier, str, str]]:
    """Mentions with a place in the text, each with its table and the function around it."""
    from sqlglot.optimizer.scope import traverse_scope

    for scope in traverse_scope(resolved):
        for column in scope.columns:
            source = scope.sources.get(column.table)
            ident = column.this
            if (
                isinstance(source, exp.Table)
                and isinstance(ident, exp.Identifier)
                and "start" in ident.meta
            ):
                yield ident, source.name, _call(column)


def _call(column: exp.Column) -> str:
    around = column.parent
    while isinstance(around, exp.Paren | exp.Distinct):
        around = around.parent
    return around.sql_name().lower() if isinstance(around, exp.Func) else ""


def _joined_by_name(tree: exp.Expr) -> Iterator[exp.Identifier]:
    for join in tree.find_all(exp.Join):
        for ident in join.args.get("using") or ():
            if isinstance(ident, exp.Identifier) and "start" in ident.meta:
                yield ident


def _use(text: str, ident: exp.Identifier, table: str, call: str) -> ColumnUse:
    line, column = line_column(text, ident.meta["start"])
    return ColumnUse(line, column, table, ident.name, call)


def _has(columns: Mapping[str, str], name: str) -> bool:
    return name.lower() in {column.lower() for column in columns}


def _is_made_up(name: str) -> bool:
    return not name or name.startswith(_MADE_UP)


def _type(column: exp.Expr) -> str:
    kind = column.type
    return kind.sql(dialect=_DIALECT) if isinstance(kind, exp.DataType) else UNKNOWN
