"""Which aggregate may be computed from one input a part at a time, and the parts merged: by proof,
else not.

There has to be one scope that aggregates, whose FROM is linear in the input: over two lots of its
rows it gives the rows that it gives over either. All else that the query does is done to merged
groups and never sees the input.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from controlplane.core.sql import functions
from controlplane.core.sql.function_calls import (
    Calls,
    FunctionCall,
    Unproven,
    is_aggregated,
    windows,
)
from controlplane.core.sql.relations import FromItem, Mention, Other, QueryScope, Relation, Union
from controlplane.core.sql.volatile import VolatileCall

# Merged by themselves, or (avg) made of such aggregates.
MERGED: Final = frozenset(
    {
        *(
            "avg",
            "bit_and",
            "bit_or",
            "bit_xor",
            "bool_and",
            "bool_or",
            "count",
            "count_if",
            "every",
        ),
        *("max", "mean", "min", "some", "sum"),
    }
)
_ROW_PARTS: Final = frozenset(
    {"expressions", "from_", "joins", "laterals", "where", "with_", "hint"}
)
_GROUP_PARTS: Final = _ROW_PARTS | {
    *(
        "group",
        "having",
        "windows",
        "qualify",
        "order",
        "limit",
        "offset",
        "distinct",
        "sort",
        "cluster",
        "distribute",
    )
}
_SETS: Final[dict[type[exp.Expr], str]] = {
    exp.Rollup: "ROLLUP", exp.Cube: "CUBE", exp.GroupingSets: "GROUPING SETS"
}  # fmt: skip
_FROM_LEFT: Final = {
    "": ("", "INNER", "CROSS", "SEMI", "ANTI"),
    "LEFT": ("", "OUTER", "SEMI", "ANTI"),
}
_FROM_RIGHT: Final = {"": ("", "INNER", "CROSS"), "RIGHT": ("", "OUTER")}


@dataclass(frozen=True, slots=True)
class Decomposition:
    """`scope` is the one that aggregates; `aggregates` are its functions, each once."""

    aggregates: tuple[str, ...]
    scope: QueryScope


def decompose(
    query: Relation, calls: Calls, volatile: tuple[VolatileCall, ...], name: str
) -> Decomposition:
    """Decompose by this input. Raises Unproven with the obstacle."""
    folded = name.lower()
    if volatile:
        raise Unproven(f"{volatile[0].construct} may give another result each time", query.offset)
    scopes = [s for s in _scopes(query, set()) if is_aggregated(s, calls.aggregates(s))]
    scopes = [s for s in scopes if any(_reads(source.relation, folded) for source in s.sources)]
    if not scopes:
        raise Unproven("no scope with aggregates reads it", query.offset)
    scope = scopes[-1]  # the innermost: the scopes around it run on its groups
    if other := _reader_besides(query, scope, folded, set()):
        raise Unproven(f"{name} is read outside of the scope that aggregates", other.offset)
    _check_parts(scope, _GROUP_PARTS)
    _check_groups(scope)
    for call in calls.aggregates(scope):
        _check_aggregate(call)
    _Linear(calls, folded).check_from(scope)
    aggregates = dict.fromkeys(call.name for call in calls.aggregates(scope))
    return Decomposition(tuple(aggregates), scope)


def _scopes(relation: Relation, visited: set[Relation]) -> Iterator[QueryScope]:
    """Outer ones first, each once. Queries within expressions are left out: they may look at the
    row around them."""
    if relation in visited:
        return
    visited.add(relation)
    if isinstance(relation, QueryScope):
        yield relation
    for part in _parts(relation):
        yield from _scopes(part, visited)


def _parts(relation: Relation) -> tuple[Relation, ...]:
    match relation:
        case QueryScope(sources=sources):
            return tuple(source.relation for source in sources)
        case Union(sides=sides):
            return sides
        case Other(parts=parts):
            return parts
        case Mention():
            return ()


def _reads(relation: Relation, name: str) -> bool:
    return any(ref.name.lower() == name for ref in relation.reads)


def _reader_besides(
    relation: Relation, scope: QueryScope, name: str, visited: set[Relation]
) -> Relation | None:
    """What reads the input although it is not part of the scope."""
    if relation is scope or relation in visited or not _reads(relation, name):
        return None
    visited.add(relation)
    if isinstance(relation, Mention):
        return relation
    inner = relation.inner if isinstance(relation, QueryScope) else ()
    readers = (_reader_besides(part, scope, name, visited) for part in (*_parts(relation), *inner))
    return next((part for part in readers if part is not None), None)


def _check_aggregate(call: FunctionCall) -> None:
    if call.name not in MERGED:
        raise Unproven(f"{call.name} cannot be merged", call.offset)
    if isinstance(call.node.this, exp.Distinct) or call.node.find(exp.Distinct):
        raise Unproven(f"DISTINCT within {call.name}", call.offset)


def _check_groups(scope: QueryScope) -> None:
    """Sets of groups would need a part query of each: `split` takes none of them apart."""
    group = scope.select.args.get("group")
    sets = (
        group.find(exp.Rollup, exp.Cube, exp.GroupingSets) if isinstance(group, exp.Group) else None
    )
    if sets is not None:
        raise Unproven(f"GROUP BY {_SETS[type(sets)]}", scope.offset)


def _check_parts(scope: QueryScope, allowed: frozenset[str]) -> None:
    for part, value in scope.select.args.items():
        if value and part not in allowed:
            raise Unproven(part.strip("_").upper(), scope.offset)


@dataclass(slots=True)
class _Linear:
    """Whether two lots of rows in come to their two results out, none of none. `checked` was found
    to be so."""

    calls: Calls
    name: str
    checked: set[Relation] = field(default_factory=set)

    def check(self, relation: Relation) -> None:
        if relation in self.checked:
            return
        match relation:
            case Union(sides=sides):
                for side in sides:
                    if not _reads(side, self.name):
                        raise Unproven(f"a side of UNION ALL without {self.name}", side.offset)
                    self.check(side)
            case Other(what=what, offset=offset):
                raise Unproven(what, offset)
            case QueryScope():
                _check_parts(relation, _ROW_PARTS)
                self.check_rows(relation)
                self.check_from(relation)
            case Mention():
                pass
        self.checked.add(relation)

    def check_rows(self, scope: QueryScope) -> None:
        for call in self.calls.of(scope):
            if call.name in functions.AGGREGATES | functions.WINDOWS:
                raise Unproven(f"{call.name} below the scope that aggregates", call.offset)
        if windows(scope):
            raise Unproven("a window below the scope that aggregates", scope.offset)

    def check_from(self, scope: QueryScope) -> None:
        """Exactly one source reads the input, and no other row can take the place of its rows."""
        if inner := next((i for i in scope.inner if _reads(i, self.name)), None):
            raise Unproven(f"{self.name} is read in a subquery", inner.offset)
        readers = [
            at for at, source in enumerate(scope.sources) if _reads(source.relation, self.name)
        ]
        if len(readers) != 1:
            raise Unproven(f"{self.name} meets itself", scope.sources[readers[-1]].relation.offset)
        for at, source in enumerate(scope.sources):
            if source.join is not None and at >= readers[0]:
                _check_join(source, source.join, _FROM_RIGHT if at == readers[0] else _FROM_LEFT)
        self.check(scope.sources[readers[0]].relation)


def _check_join(source: FromItem, join: exp.Join, kinds: dict[str, tuple[str, ...]]) -> None:
    side, kind = (join.args.get("side") or "").upper(), (join.args.get("kind") or "").upper()
    if kind not in kinds.get(side, ()):
        raise Unproven(
            f"{side or kind} JOIN may keep rows that meet none of the input", source.relation.offset
        )
