"""Which functions each scope calls, by the text, and whether the parser's tree agrees with the
text.

A proof over the tree holds only if the tree is what Spark will read. So each call is looked up by
its place in the text, and clauses that make rows depend on each other are counted in both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from controlplane.core.sql import functions
from controlplane.core.sql.relations import QueryScope, all_nodes
from controlplane.core.sql.scan import Lexeme

# Proofs recurse: these limits, unlike that of the stack, do not depend on who asks
MOST_SCOPES: Final = 50
MOST_JOINS: Final = 60
_KNOWN: Final = functions.ROW_WISE | functions.GENERATORS | functions.AGGREGATES | functions.WINDOWS
_PASSED: Final = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)
_COUNTED: Final[tuple[tuple[str, type[exp.Expr]], ...]] = (
    ("SELECT", exp.Select), ("GROUP", exp.Group), ("HAVING", exp.Having), ("QUALIFY", exp.Qualify),
    ("LIMIT", exp.Limit), ("OFFSET", exp.Offset), ("DISTINCT", exp.Distinct), ("UNION", exp.Union),
    ("INTERSECT", exp.Intersect), ("WITH", exp.With), ("OVER", exp.Window), ("TABLESAMPLE", exp.TableSample),
    ("LATERAL", exp.Lateral),
)  # fmt: skip


class Unproven(Exception):
    """Something is in the way of a proof: what, and where in the text."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(what)
        self.what, self.offset = what, offset


@dataclass(frozen=True, slots=True)
class FunctionCall:
    name: str
    node: exp.Expr
    offset: int

    @property
    def is_windowed(self) -> bool:
        """Is it what a window computes, and not what the scope aggregates?"""
        node = self.node.parent
        while isinstance(node, _PASSED):
            node = node.parent
        return isinstance(node, exp.Window)


class Calls:
    """The calls of one query by their place. Raises Unproven where the tree and the text do not
    agree."""

    def __init__(self, lexemes: tuple[Lexeme, ...], tree: exp.Expr) -> None:
        check_size(tree)
        lists = {
            alias.this.meta.get("start")
            for alias in tree.find_all(exp.TableAlias)
            if alias.this is not None
        }
        self._names = {start: name for start, name in _called(lexemes) if start not in lists}
        placed = {node.meta["start"] for node in tree.find_all(exp.Func) if "start" in node.meta}
        for start, name in self._names.items():
            if name not in _KNOWN:
                raise Unproven(f"function {name} is not known", start)
            if name in functions.AGGREGATES | functions.WINDOWS and start not in placed:
                raise Unproven(f"{name} in a form that is not followed", start)
        _check_counts(lexemes, tree)

    def of(self, scope: QueryScope) -> Iterator[FunctionCall]:
        for node in all_nodes(scope.select):
            start = node.meta.get("start")
            if isinstance(node, exp.Func) and start in self._names:
                yield FunctionCall(self._names[start], node, start)

    def aggregates(self, scope: QueryScope) -> list[FunctionCall]:
        """In the order of the text."""
        calls = (c for c in self.of(scope) if c.name in functions.AGGREGATES and not c.is_windowed)
        return sorted(calls, key=lambda call: call.offset)


def check_size(tree: exp.Expr) -> None:
    """Raises Unproven for a query that is too large to be taken apart."""
    counts = Counter[type[exp.Expr]](type(node) for node in tree.walk())
    if counts[exp.Select] > MOST_SCOPES or counts[exp.Join] > MOST_JOINS:
        raise Unproven(f"more than {MOST_SCOPES} times SELECT, or than {MOST_JOINS} joins,", 0)


def is_aggregated(scope: QueryScope, aggregates: list[FunctionCall]) -> bool:
    return bool(aggregates or scope.select.args.get("group") or scope.select.args.get("having"))


def windows(scope: QueryScope) -> list[exp.Window]:
    """What the scope computes over windows."""
    return [n for n in all_nodes(scope.select) if isinstance(n, exp.Window) and n.args.get("over")]


def _called(lexemes: tuple[Lexeme, ...]) -> Iterator[tuple[int, str]]:
    for at, lexeme in enumerate(lexemes):
        if not lexeme.is_call:
            continue
        is_member = at > 0 and lexemes[at - 1].is_symbol(".")
        name = lexeme.token.name.lower()
        yield lexeme.token.start, f"{lexemes[at - 2].token.name}.{name}" if is_member else name


def _check_counts(lexemes: tuple[Lexeme, ...], tree: exp.Expr) -> None:
    counts = Counter[type[exp.Expr]](type(node) for node in tree.walk() if _is_written(node))
    for word, kind in _COUNTED:
        places = [x.token.start for at, x in enumerate(lexemes) if _is_clause(lexemes, at, word)]
        if len(places) != counts[kind]:
            raise Unproven(f"{word} that cannot be followed", places[0] if places else 0)


def _is_written(node: exp.Expr) -> bool:
    """A named window is defined without the word that uses one."""
    return not isinstance(node, exp.Window) or bool(node.args.get("over"))


def _is_clause(lexemes: tuple[Lexeme, ...], at: int, word: str) -> bool:
    phrase = lexemes[at].phrase
    return (
        word in phrase.split()
        and not phrase.startswith("IS ")
        and phrase not in ("WITH ROLLUP", "WITH CUBE")
    )
