"""How an aggregate is computed in parts, and merged from them to exactly the result over the whole.

Integers, decimals and all that has an order come out equal. Doubles are added in the order of their
values, so that the same parts always give the same sum; it may differ in its last digits from that
of a query over everything, which Spark adds up in the order in which tasks end. Types and rounding
follow Spark's Sum and Average.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from controlplane.core.sql.function_calls import Unproven

_COUNTS: Final = frozenset({"count", "count_if"})
_SUMS: Final = frozenset({"sum", "avg", "mean"})
_THEMSELVES: Final = frozenset(
    {"min", "max", "bool_and", "bool_or", "every", "some", "bit_and", "bit_or", "bit_xor"}
)
# Spark adds doubles for averages: these never overflow a long
_NARROW: Final = frozenset({"byte", "short", "integer"})
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_WIDEST: Final = 38  # digits of a decimal
_SUM_GROWS: Final = 10  # digits by which the type of a sum is wider than that of its argument
_AVG_GROWS: Final = 4


@dataclass(frozen=True, slots=True)
class Partial:
    """`columns` of a part: their names, and the expressions selected as them. Types are named as in
    Spark's JSON schemas."""

    name: str
    columns: tuple[tuple[str, str], ...]

    def merged(self, types: Mapping[str, str], offset: int) -> str:
        """The result over the parts of one group. Raises Unproven for types that are not merged
        exactly."""
        first = self.columns[0][0]
        if self.name in _THEMSELVES:
            return f"{self.name}({first})"
        if self.name in _COUNTS:
            return f"coalesce(sum({first}), 0)"
        if self.name == "sum":
            return _sum(first, types[first], offset)
        count, greatest = (column for column, _ in self.columns[1:])
        if types[first] == "long" and types[greatest] not in _NARROW:
            raise Unproven(
                "an average of BIGINT, whose sum may overflow where its average does not", offset
            )
        return _average(first, types[first], count, offset)

    @property
    def has_sum(self) -> bool:
        """Whether it can be merged depends on types."""
        return self.name in _SUMS

    def combined(self, types: Mapping[str, str], offset: int) -> Iterator[tuple[str, str]]:
        """Some of the parts of one group, combined to a part again: columns and the expressions
        selected as them. Raises Unproven for sums that depend on the order in which parts meet."""
        first, *others = (name for name, _ in self.columns)
        if self.name in _THEMSELVES:
            yield first, f"{self.name}({first})"
        elif types[first] == "double":
            raise Unproven(
                "a sum of doubles, which are added in the order of all their values", offset
            )
        else:
            yield first, _sum(first, types[first], offset)
        if others:
            count, greatest = others
            yield count, _sum(count, types[count], offset)
            yield greatest, f"max({greatest})"


def partial_of(name: str, argument: str, condition: str, number: int, offset: int) -> Partial:
    """The parts of a call with this argument, and FILTER (...) as `condition`. Raises Unproven for
    a function with no parts."""
    column = f"_p{number}"
    if name in ("avg", "mean"):
        # The last one for its type: the argument's
        made = {column: "sum", f"{column}n": "count", f"{column}m": "max"}
        return Partial(
            name, tuple((name, f"{of}({argument}){condition}") for name, of in made.items())
        )
    if name in _COUNTS | _THEMSELVES | {"sum"}:
        return Partial(name, ((column, f"{name}({argument}){condition}"),))
    raise Unproven(f"{name} has no parts", offset)


def _sum(column: str, type: str, offset: int) -> str:
    if type == "double":
        return _ordered(column)
    if type == "long" or _DECIMAL.fullmatch(type):
        return f"CAST(sum({column}) AS {'BIGINT' if type == 'long' else type})"
    raise Unproven(f"a sum of type {type}", offset)


def _ordered(column: str) -> str:
    """The sum of doubles in the order of their values; NULL if there is none."""
    folded = f"aggregate(array_sort(collect_list({column})), CAST(0 AS DOUBLE), (a, x) -> a + x)"
    return f"CASE WHEN count({column}) > 0 THEN {folded} END"


def _average(column: str, type: str, count: str, offset: int) -> str:
    if type in ("long", "double"):
        total = _ordered(column) if type == "double" else f"CAST(sum({column}) AS DOUBLE)"
        return f"try_divide({total}, CAST(sum({count}) AS DOUBLE))"
    if match := _DECIMAL.fullmatch(type):
        return _exact_average(column, int(match[1]), int(match[2]), count, offset)
    raise Unproven(f"an average over a sum of type {type}", offset)


def _exact_average(column: str, precision: int, scale: int, count: str, offset: int) -> str:
    """Half up at the last digit, by whole numbers: (2 |S| 10^k + N) div 2 N, with a sum S, its
    count N, k digits.

    Spark's division would round to a type of its own first. All intermediate results have to fit
    into 38 digits.
    """
    digits = precision - _SUM_GROWS
    if precision >= _WIDEST or precision + scale + 6 > _WIDEST:
        raise Unproven(f"an average over a sum of type decimal({precision},{scale})", offset)
    places = scale + _AVG_GROWS
    n = f"CAST(sum({count}) AS DECIMAL(20,0))"
    twice = f"CAST(2 * sum({count}) AS DECIMAL(20,0))"
    scaled = f"CAST(CAST(abs(sum({column})) AS DECIMAL({precision},{scale})) * {2 * 10**places}BD AS DECIMAL(38,0))"
    rest = f"({scaled} + {n}) % {twice}"
    quotient = f"CAST(({scaled} + {n} - {rest}) / {twice} AS DECIMAL({digits + _AVG_GROWS},0))"
    result = f"DECIMAL({digits + _AVG_GROWS},{places})"
    signed = f"CAST(CASE WHEN sum({column}) < 0 THEN -1 ELSE 1 END * {quotient} * {_unit(places)} AS {result})"
    return f"CASE WHEN sum({count}) > 0 THEN {signed} END"


def _unit(places: int) -> str:
    return f"0.{'0' * (places - 1)}1BD"
