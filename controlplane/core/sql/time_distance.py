"""How far apart in time a query lets rows of an input lie from those of others, as its conditions
say.

A condition counts if it compares times of two inputs with a constant interval at most between them,
in ON or in WHERE: `i.at BETWEEN c.at - INTERVAL 1 HOUR AND c.at`. Conditions are followed from input
to input: a row that is an hour before a row that is an hour before `c` is two hours before `c`.
What else a query says is not read. Then a distance is not known, which proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from sqlglot import exp

from controlplane.core.sql.references import TableRef, folded
from controlplane.core.sql.relations import (
    FromItem,
    Mention,
    Other,
    QueryScope,
    Relation,
    Union,
    relation_of,
)

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


UNKNOWN: Final = TimeDistance(None, None)


@dataclass(frozen=True, slots=True)
class TimeColumns:
    """The time column of each input, by its name in the text; `anchors` are the inputs from which
    distances count."""

    by_input: Mapping[str, str]
    anchors: Collection[str]
    case_sensitive: bool = False


class _Bound(NamedTuple):
    """`early` is at most `seconds` later than `late`. `holds_for`: the inputs of which each row that
    meets others fulfils it."""

    early: str
    late: str
    seconds: float
    holds_for: frozenset[str]


def time_distance(
    tree: exp.Expr, refs: tuple[TableRef, ...], name: str, columns: TimeColumns
) -> TimeDistance:
    """The distance of rows of the input `name` from those of the anchors."""
    distances = [
        _Scope.of(scope, columns).distance(alias)
        for scope, alias in _readings(relation_of(tree, refs), name.lower())
    ]
    return TimeDistance(
        _greatest([distance.before_s for distance in distances]),
        _greatest([distance.after_s for distance in distances]),
    )


def _greatest(bounds: list[float | None]) -> float | None:
    finite = [bound for bound in bounds if bound is not None]
    return max(finite) if finite and len(finite) == len(bounds) else None


def _readings(relation: Relation, name: str) -> Iterator[tuple[QueryScope, FromItem]]:
    """Each scope that reads the input, with its place there."""
    match relation:
        case QueryScope(sources=sources, inner=inner):
            for source in sources:
                if _input(source) == name:
                    yield relation, source
                yield from _readings(source.relation, name)
            for query in inner:
                yield from _readings(query, name)
        case Union(sides=parts) | Other(parts=parts):
            for part in parts:
                yield from _readings(part, name)
        case Mention():
            return


def _input(source: FromItem) -> str | None:
    """The input that stands there, in lower case."""
    return source.relation.ref.name.lower() if isinstance(source.relation, Mention) else None


@dataclass(frozen=True, slots=True)
class _Scope:
    """`times`: the time column of each alias; `anchors` are aliases. All are folded as the session
    folds names."""

    scope: QueryScope
    times: Mapping[str, str]
    anchors: frozenset[str]
    fold: Callable[[str], str]

    @staticmethod
    def of(scope: QueryScope, columns: TimeColumns) -> _Scope:
        fold = str if columns.case_sensitive else folded
        column_of = {name.lower(): fold(column) for name, column in columns.by_input.items()}
        anchors = {name.lower() for name in columns.anchors}
        inputs = {
            fold(source.name): name
            for source in scope.sources
            if (name := _input(source)) in column_of and not source.columns
        }
        return _Scope(
            scope,
            {alias: column_of[name] for alias, name in inputs.items() if name is not None},
            frozenset(alias for alias, name in inputs.items() if name in anchors),
            fold,
        )

    def distance(self, source: FromItem) -> TimeDistance:
        alias = self.fold(source.name)
        bounds = list(self._bounds())
        later = [(b.late, b.early, b.seconds, b.holds_for) for b in bounds]
        earlier = [(b.early, b.late, b.seconds, b.holds_for) for b in bounds]
        return TimeDistance(self._shortest(alias, later), self._shortest(alias, earlier))

    def _shortest(
        self, alias: str, steps: list[tuple[str, str, float, frozenset[str]]]
    ) -> float | None:
        """The shortest way to an anchor, by steps that hold for the alias at which they begin."""
        length = {alias: 0.0}
        for _ in self.times:
            for start, end, seconds, holds_for in steps:
                if start in length and start in holds_for:
                    length[end] = min(length.get(end, float("inf")), length[start] + seconds)
        return min((length[a] for a in self.anchors if a in length), default=None)

    def _bounds(self) -> Iterator[_Bound]:
        for condition, holds_for in self._conditions():
            for early, late in _comparisons(condition):
                first, second = self._moment(early), self._moment(late)
                if first is None or second is None or first[0] == second[0]:
                    continue
                yield _Bound(first[0], second[0], second[1] - first[1], holds_for)

    def _conditions(self) -> Iterator[tuple[exp.Expr, frozenset[str]]]:
        """Conditions, and the aliases whose rows fulfil them wherever they meet others."""
        where = self.scope.select.args.get("where")
        if where:
            yield from ((condition, frozenset(self.times)) for condition in _conjuncts(where.this))
        for at, source in enumerate(self.scope.sources):
            on = source.join.args.get("on") if source.join is not None else None
            if on:
                holds_for = self._holds_for(at)
                yield from ((condition, holds_for) for condition in _conjuncts(on))

    def _holds_for(self, at: int) -> frozenset[str]:
        """The aliases for whose rows ON of this source holds. An outer join also keeps rows that do
        not fulfil ON, so it holds for rows of the side that may be missing."""
        sources = self.scope.sources
        join = sources[at].join
        assert join is not None
        side, kind = (join.args.get("side") or "").upper(), (join.args.get("kind") or "").upper()
        if side == "LEFT" or kind in ("SEMI", "ANTI"):
            return frozenset({self.fold(sources[at].name)})
        if side == "RIGHT":
            return frozenset(self.fold(source.name) for source in sources[:at])
        return frozenset() if side else frozenset(self.times)

    def _moment(self, expression: exp.Expr) -> _Moment | None:
        """`alias.column` of a time column, plus or minus constant intervals."""
        match expression:
            case exp.Paren(this=within):
                return self._moment(within)
            case exp.Column():
                alias = self.fold(expression.table)
                is_time = self.times.get(alias) == self.fold(expression.name)
                return (alias, 0.0) if is_time else None
            case exp.Add() | exp.Sub():
                moment, shift = self._moment(expression.left), _seconds(expression.right)
                if moment is None or shift is None:
                    return None
                sign = 1 if isinstance(expression, exp.Add) else -1
                return moment[0], moment[1] + sign * shift
        return None


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    """Those that all have to hold."""
    pending = [condition]
    while pending:
        match pending.pop():
            case exp.And() as both:
                pending += (both.left, both.right)
            case exp.Paren(this=within):
                pending.append(within)
            case other:
                yield other


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
