"""Numbers as texts: which of them a type holds without another value coming out of it.

A text is a number if it is written as one: without zeros before another digit (`02134` is a code),
without letters but an exponent's (`1d`). It is held if no digit of it is lost: whole numbers by the
integers and decimals that they fit in, all others by DOUBLE, unless they have more than 17 digits
or are out of its range. Whole numbers beyond 2^53 are not held by DOUBLE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TypeGuard

from pyspark.sql import Column
from pyspark.sql import functions as F

from dataplane.connectors.files.reader_options import users_options
from dataplane.contract.joins import DIGITS, STRING, has_numbers, join
from dataplane.contract.schemas import Json, Type
from dataplane.contract.types import NOTHING

WHOLE = r"^[+-]?(?:0|[1-9][0-9]*)$"
NUMBER = r"^[\x00-\x20]*[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[\x00-\x20]*$"
EXACT = 2**53  # whole numbers up to it are doubles
PRECISION = 17  # digits that a double distinguishes
NUMBER_NOT_HELD = "number-not-held"
NOT_HELD = "which does not hold "  # of a message of this condition
_INT = 2**31
_INFINITE = r"^[+-]?(?:NaN|Infinity)$"


@dataclass(frozen=True, slots=True)
class NumberFacts:
    """The types of a column's values, and whether there are whole numbers that DOUBLE does not
    hold. Facts of several files are merged without regard to their order."""

    kinds: tuple[Type, ...] = ()
    is_beyond: bool = False

    def plus(self, other: NumberFacts) -> NumberFacts:
        return NumberFacts((*self.kinds, *other.kinds), self.is_beyond or other.is_beyond)

    @property
    def type(self) -> Type:
        joined: Type = NOTHING
        for kind in self.kinds:
            joined = join(joined, kind, is_text=True)
        return STRING if joined == "double" and self.is_beyond else joined


def is_number(kind: Type) -> TypeGuard[str]:
    """Whether values of this type are written as numbers."""
    return isinstance(kind, str) and has_numbers(kind)


def is_held(text: Column, kind: str, options: Mapping[str, Json]) -> Column:
    """Whether a text of a column is a value of this type, and that value is exact."""
    if kind in ("float", "double"):
        return _is_double(text, options) | (text.rlike(WHOLE) & _is_exact(text))
    plain = text.try_cast(kind)
    return plain.isNotNull() & (plain.cast("string").eqNullSafe(text) | text.rlike(WHOLE))


def value_of(text: Column, kind: str, options: Mapping[str, Json]) -> Column:
    """The value of a text that is held."""
    value = text.try_cast(kind)
    for literal, number in _literals(options).items() if kind in ("float", "double") else ():
        value = F.when(text == literal, F.lit(number).cast(kind)).otherwise(value)
    return value


def facts_of(text: Column, options: Mapping[str, Json]) -> list[Column]:
    """Aggregates over the texts of a column, as `read_facts` takes them."""
    long = text.try_cast("bigint")
    is_whole = text.rlike(WHOLE)
    digits = F.length(F.regexp_replace(text, "^[+-]", ""))
    is_int = long.between(-_INT, _INT - 1)
    is_other = (text != "") & ~(is_whole | _is_double(text, options))
    return [
        F.max(is_whole & long.isNotNull() & is_int),
        F.max(is_whole & long.isNotNull() & ~is_int),
        F.max(F.when(is_whole & long.isNull(), digits)),
        F.max(is_whole & ~_is_exact(text)),
        F.max(~is_whole & _is_double(text, options)),
        F.max(is_other),
    ]


def read_facts(row: Sequence[Json]) -> NumberFacts:
    """The facts in a row of `facts_of`."""
    has_int, has_long, digits, is_beyond, has_fraction, has_other = row
    kinds = [
        name
        for name, has in (("integer", has_int), ("long", has_long), ("double", has_fraction))
        if has
    ]
    if digits is not None:
        kinds.append(f"decimal({digits},0)" if digits <= DIGITS else STRING)
    return NumberFacts((*kinds, *([STRING] if has_other else [])), bool(is_beyond))


def is_inexact(text: Column) -> Column:
    """Whether a number of JSON has another value as a double."""
    return text.rlike(NUMBER) & ~(
        F.when(text.rlike(WHOLE), _is_exact(text)).otherwise(_is_precise(text))
    )


def _is_double(text: Column, options: Mapping[str, Json]) -> Column:
    """Whether it is a number that is written with a point or an exponent, or is none by its
    name."""
    literals = [text == literal for literal in _literals(options)]
    return reduce(
        or_, literals, text.rlike(NUMBER) & ~text.rlike(WHOLE) & _is_precise(text)
    ) | text.rlike(_INFINITE)


def _is_exact(text: Column) -> Column:
    number = text.try_cast("bigint")
    return number.isNotNull() & number.between(-EXACT, EXACT)


def _is_precise(text: Column) -> Column:
    """Whether a double distinguishes a number from all others with as many digits."""
    number = text.try_cast("double")
    digits = F.regexp_replace(F.regexp_replace(text, r"[eE].*|[^0-9]", ""), "^0+|0+$", "")
    is_short = (F.length(text) <= PRECISION) | (F.length(digits) <= PRECISION)
    is_in_range = (F.abs(number) != float("inf")) & ((number != 0) | ~text.rlike("^[^eE]*[1-9]"))
    return number.isNotNull() & is_short & is_in_range


def _literals(options: Mapping[str, Json]) -> dict[str, float]:
    """The texts for NaN and for infinite numbers, with their values."""
    mine = users_options(options)
    return {
        mine.get("nanvalue", "NaN"): float("nan"),
        mine.get("positiveinf", "Inf"): float("inf"),
        mine.get("negativeinf", "-Inf"): float("-inf"),
    }
