"""Equal expressions in the rows of a join or a filter, and their consequences for the parts of a
key.

A part is a set of expressions that are equal in each row that matters; see keyed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from sqlglot import exp

from controlplane.core.sql.column_origins import replaced

Part: TypeAlias = frozenset[exp.Expr]
Key: TypeAlias = tuple[Part, ...]
Pairs: TypeAlias = tuple[tuple[exp.Expr, exp.Expr], ...]  # expressions that are equal


def exchanged(expression: exp.Expr, old: exp.Expr, new: exp.Expr) -> exp.Expr | None:
    return replaced(expression, lambda c: new if c == old else c.copy())


def holds(expression: exp.Expr, column: exp.Expr) -> bool:
    return any(c == column for c in expression.find_all(exp.Column))


def equalities(condition: exp.Expr) -> Iterator[exp.EQ | exp.NullSafeEQ]:
    """Equalities that hold wherever the condition does."""
    left = [condition]
    while left:
        match left.pop():
            case exp.And() as both:
                left += (both.left, both.right)
            case exp.Paren(this=within):
                left.append(within)
            case exp.EQ() | exp.NullSafeEQ() as equal:
                yield equal


def closed(key: Key, pairs: Pairs) -> Key:
    """With all that is equal to a member."""
    return tuple(_closure(part, pairs) for part in key)


def _closure(part: Part, pairs: Pairs) -> Part:
    while equals := {
        b for a, b in [*pairs, *((b, a) for a, b in pairs)] if a in part and b not in part
    }:
        part |= equals
    return part


def coalesced(key: Key, pairs: Pairs) -> Key:
    """In an outer join, the first of two equal ones that is not NULL is the preserved side's."""
    out = []
    for part in key:
        equal = [
            (a, b) for a, b in pairs for m in part if is_coalesce(m, a, b) or is_coalesce(m, b, a)
        ]
        out.append(part | {side for pair in equal for side in pair})
    return tuple(out)


def is_coalesce(expression: exp.Expr, first: exp.Expr, second: exp.Expr) -> bool:
    return (
        isinstance(expression, exp.Coalesce)
        and expression.this == first
        and list(expression.expressions) == [second]
    )


def same_name(first: exp.Expr, second: exp.Expr) -> bool:
    return first.name.lower() == second.name.lower()
