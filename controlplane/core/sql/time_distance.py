"""How far apart in time a query lets rows of two inputs meet, as its conditions say.

A condition counts if it compares a time of each with a constant interval at most between them, in
ON or in WHERE, and holds for all rows that meet: `i.at BETWEEN c.at - INTERVAL 1 HOUR AND c.at`.
What else a query says is not read. Then a distance is not known, which proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlglot import exp

from controlplane.core.sql.references import TableRef
from controlplane.core.sql.relations import Mention, Other, QueryScope, Relation, Union, relation_of

_UNITS: Final = {
    "SECOND": 1.0, "MINUTE": 60.0, "HOUR": 3_600.0, "DAY": 86_400.0, "WEEK": 604_800.0,
}  # fmt: skip
_QUANTITY: Final = re.compile(r"\s*([+-]?[0-9]+(?:[.][0-9]+)?)\s*([A-Za-z]+)\s*")

# A time of the input called so, and the seconds that are added to it
_Moment: TypeAlias = tuple[str, float]


@dataclass(frozen=True, slots=True)
class TimeDistance:
    """The most seconds by which rows of an input lie before those that they meet, and after them;
    None where no condition says so."""

    before_s: float | None
    after_s: float | None


def time_distance(
    tree: exp.Expr, refs: tuple[TableRef, ...], name: str, columns: Mapping[str, str]
) -> TimeDistance:
    """The distance of rows of the input `name` from those of the others. `columns`: the time column
    of each input, by the names in the text."""
    folded = {of.lower(): column.lower() for of, column in columns.items()}
    distances = [
        _distance(scope, alias, folded)
        for scope, alias in _readings(relation_of(tree, refs), name.lower())
    ]
    return TimeDistance(
        _greatest([distance.before_s for distance in distances]),
        _greatest([distance.after_s for distance in distances]),
    )


def _greatest(bounds: list[float | None]) -> float | None:
    finite = [bound for bound in bounds if bound is not None]
    return max(finite) if finite and len(finite) == len(bounds) else None


def _readings(relation: Relation, name: str) -> Iterator[tuple[QueryScope, str]]:
    """Each scope that reads the input, with its alias there."""
    match relation:
        case QueryScope(sources=sources, inner=inner):
            for source in sources:
                if (
                    isinstance(source.relation, Mention)
                    and source.relation.ref.name.lower() == name
                ):
                    yield relation, source.alias
                yield from _readings(source.relation, name)
            for query in inner:
                yield from _readings(query, name)
        case Union(sides=parts) | Other(parts=parts):
            for part in parts:
                yield from _readings(part, name)
        case Mention():
            return


def _distance(scope: QueryScope, alias: str, columns: Mapping[str, str]) -> TimeDistance:
    """The least distances that the conditions of a scope say."""
    times = {
        source.alias: columns[source.relation.ref.name.lower()]
        for source in scope.sources
        if isinstance(source.relation, Mention)
        and not source.columns
        and source.relation.ref.name.lower() in columns
    }
    before: list[float] = []
    after: list[float] = []
    for early, late in _ordered(scope, times):
        if early[0] == late[0]:
            continue
        if early[0] == alias:  # it is earlier than the other one plus a constant
            after.append(late[1] - early[1])
        if late[0] == alias:
            before.append(late[1] - early[1])
    return TimeDistance(min(before, default=None), min(after, default=None))


def _ordered(scope: QueryScope, times: Mapping[str, str]) -> Iterator[tuple[_Moment, _Moment]]:
    """Pairs of moments of which the first is not later than the second."""
    for condition in _conditions(scope):
        for early, late in _comparisons(condition):
            first, second = _moment(early, times), _moment(late, times)
            if first is not None and second is not None:
                yield first, second


def _conditions(scope: QueryScope) -> Iterator[exp.Expr]:
    """Those that hold for all rows that meet."""
    where = scope.select.args.get("where")
    pending = [where.this] if where else []
    pending += [
        source.join.args["on"]
        for source in scope.sources
        if source.join is not None and source.join.args.get("on")
    ]
    while pending:
        match pending.pop():
            case exp.And() as both:
                pending += (both.left, both.right)
            case exp.Paren(this=within):
                pending.append(within)
            case condition:
                yield condition


def _comparisons(condition: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    match condition:
        case exp.Between(this=moment) if not condition.args.get("symmetric"):
            yield condition.args["low"], moment
            yield moment, condition.args["high"]
        case exp.GT() | exp.GTE():
            yield condition.right, condition.left
        case exp.LT() | exp.LTE():
            yield condition.left, condition.right
        case exp.EQ():
            yield condition.left, condition.right
            yield condition.right, condition.left


def _moment(expression: exp.Expr, times: Mapping[str, str]) -> _Moment | None:
    """`alias.column` of a time column, plus or minus constant intervals."""
    match expression:
        case exp.Paren(this=within):
            return _moment(within, times)
        case exp.Column():
            alias = expression.table.upper().casefold()
            is_time = times.get(alias) == expression.name.lower()
            return (alias, 0.0) if is_time else None
        case exp.Add() | exp.Sub():
            moment, shift = _moment(expression.left, times), _seconds(expression.right)
            if moment is None or shift is None:
                return None
            sign = 1 if isinstance(expression, exp.Add) else -1
            return moment[0], moment[1] + sign * shift
    return None


def _seconds(expression: exp.Expr) -> float | None:
    """A constant interval; None of months, which have no length, and of all other expressions."""
    match expression:
        case exp.Paren(this=within):
            return _seconds(within)
        case exp.Add():
            parts = _seconds(expression.left), _seconds(expression.right)
            return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
        case exp.Interval(this=exp.Literal() as amount):
            unit = expression.args.get("unit")
            if unit is not None and not isinstance(unit, exp.Var):
                return None
            return _parsed(f"{amount.name} {unit.name}" if unit else amount.name)
    return None


def _parsed(text: str) -> float | None:
    """The seconds of a text such as `1 day 2 hours`."""
    total, at = 0.0, 0
    while at < len(text):
        match = _QUANTITY.match(text, at)
        unit_s = _UNITS.get(match[2].upper().removesuffix("S")) if match else None
        if match is None or unit_s is None:
            return None
        total += float(match[1]) * unit_s
        at = match.end()
    return total if text else None
