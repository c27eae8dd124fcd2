"""Which tables a query names, where, and under which alias.

The parser distinguishes tables and common table expressions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from controlplane.core.sql.sql_problem import SqlProblem, line_column, problem_at
from dataplane.contract.sql_words import SQL_TABLE_FUNCTIONS

_FORMATS: Final = frozenset(
    {
        *(
            "avro",
            "binaryfile",
            "csv",
            "delta",
            "hudi",
            "iceberg",
            "image",
            "jdbc",
            "json",
            "kafka",
            "orc",
            "parquet",
        ),
        *("rate", "socket", "text", "xml"),
    }
)
_INTERNAL: Final = frozenset(name.replace("_", "") for name in SQL_TABLE_FUNCTIONS)


@dataclass(frozen=True, slots=True)
class TableRef:
    """One mention of a table: `parts` without quotes, [start, end) its place in the text, `alias`
    empty if none."""

    parts: tuple[str, ...]
    start: int
    end: int
    line: int
    column: int
    alias: str = ""

    @property
    def name(self) -> str:
        return ".".join(self.parts)

    @property
    def is_plain(self) -> bool:
        """Could this be the name of a dataset?"""
        return all(part.isidentifier() and part.isascii() for part in self.parts)


def from_tree(text: str, tree: exp.Expr) -> tuple[TableRef, ...]:
    """External tables in order. Raises SqlProblem where a table function reads from outside."""
    for lateral in tree.find_all(exp.Lateral):
        if (call := _call(_node(lateral.this))) is not None:
            _check_function(text, call)
    tables = [table for table in tree.find_all(exp.Table) if not _is_common(table)]
    refs = [ref for table in tables if (ref := _reference(text, table)) is not None]
    return tuple(sorted(refs, key=lambda ref: ref.start))


def below(text: str, query: exp.Expr, tree: exp.Expr) -> frozenset[str]:
    """The names of the external tables that a query of this tree reads, also through common table
    expressions."""
    common = {folded(definition.alias): definition for definition in tree.find_all(exp.CTE)}
    names: set[str] = set()
    waiting = [query]
    while waiting:
        part = waiting.pop()
        names.update(ref.name for ref in from_tree(text, part))
        read = {folded(table.name) for table in part.find_all(exp.Table) if _is_common(table)}
        waiting += [common.pop(name) for name in read & common.keys()]
    return frozenset(names)


def _reference(text: str, table: exp.Table) -> TableRef | None:
    if isinstance(table.this, exp.Func):
        _check_function(text, table.this)
        return None
    parts = [part for part in table.parts if isinstance(part, exp.Identifier)]
    if (
        not parts
        or len(parts) != len(table.parts)
        or not all("start" in part.meta for part in parts)
    ):
        raise SqlProblem(
            "invalid-sql",
            f"cannot tell which table {table.name!r} is",
            hint="quote the name: `name`",
        )
    start, end = parts[0].meta["start"], parts[-1].meta["end"] + 1
    return TableRef(
        tuple(p.name for p in parts), start, end, *line_column(text, start), table.alias
    )


def _call(lateral: exp.Expr) -> exp.Func | None:
    """The function of a LATERAL, which may have a catalog and a schema before its name."""
    while isinstance(lateral, exp.Dot):
        lateral = _node(lateral.expression)
    return lateral if isinstance(lateral, exp.Func) else None


def _check_function(text: str, call: exp.Func) -> None:
    name = (
        call.name if isinstance(call, exp.Anonymous) else call.meta.get("name") or call.sql_name()
    ).lower()
    if name.replace("_", "") not in _INTERNAL:
        message = f"{name}() reads from outside of the dataflow, or is not known to read only its arguments"
        raise problem_at(
            text, call.meta.get("start", 0), "direct-read", message, "declare a read connector"
        )


def _is_common(table: exp.Table) -> bool:
    """Does this name a common table expression that is visible where it stands?"""
    if table.args.get("db") or not isinstance(table.this, exp.Identifier):
        return False
    name, inside, node = folded(table.name), _node(table), table.parent
    while node is not None:
        if isinstance(node, exp.With):
            # The owner lists all of them: pass it
            visible, inside = list(_before(node, inside)), _node(node.parent)
        else:
            clause = node.args.get("with_")
            visible, inside = clause.expressions if clause else [], node
        if any(folded(common.alias) == name for common in visible):
            return True
        node = inside.parent
    return False


def _node(node: object) -> exp.Expr:
    assert isinstance(node, exp.Expr)
    return node


def _before(clause: exp.With, inside: exp.Expr) -> Iterator[exp.Expr]:
    """What a common table expression sees of its own list: those before it, and itself only if
    recursive."""
    for common in clause.expressions:
        if common is inside:
            if clause.args.get("recursive"):
                yield common
            return
        yield common


def folded(name: str) -> str:
    return name.upper().casefold()


def check_direct(text: str, refs: tuple[TableRef, ...]) -> None:
    """Raise SqlProblem for a path in place of a table: FROM csv.`/data/x`; and for a stream."""
    for ref in refs:
        if ref.alias and text[ref.start : ref.end].upper() == "STREAM":
            message = f"Spark reads this as a stream of {ref.alias}, which a query cannot"
            raise SqlProblem(
                "not-supported",
                message,
                ref.line,
                ref.column,
                "a dataset of this name needs backquotes",
            )
        is_path = len(ref.parts) == 2 and ref.parts[0].lower() in _FORMATS and not ref.is_plain
        if is_path or "/" in ref.name or ":" in ref.name:
            message = f"{text[ref.start : ref.end]} reads files past the dataflow"
            raise SqlProblem(
                "direct-read",
                message,
                ref.line,
                ref.column,
                "declare a read connector with this path",
            )
