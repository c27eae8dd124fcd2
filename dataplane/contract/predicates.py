"""Conditions on rows, checked and typed, as they go to the process that reads records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Literal, TypeAlias, get_args

from dataplane.contract.schemas import Json

Kind: TypeAlias = Literal[
    "long", "decimal", "double", "string", "boolean", "date", "timestamp", "timestamp_ntz"
]
Name: TypeAlias = Literal[
    "and", "or", "not",
    "eq", "ne", "lt", "le", "gt", "ge", "same",
    "in", "is_null", "like", "ilike",
    "lower", "upper", "trim", "length", "abs", "year", "month", "day",
]  # fmt: skip
NAMES = frozenset(get_args(Name))
PlainValue: TypeAlias = int | float | Decimal | str | bool | date | datetime


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field of a struct in it."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PredicateValue:
    """`text`: a number as SQL writes it, true or false, a date or time as ISO 8601 has it (instants
    in UTC, with Z)."""

    kind: Kind
    text: str

    @property
    def plain(self) -> PlainValue:
        """The value that the text stands for, as values are compared."""
        match self.kind:
            case "long":
                return int(self.text)
            case "decimal":
                return Decimal(self.text)
            case "double":
                return float(self.text)
            case "boolean":
                return self.text == "true"
            case "date":
                return date.fromisoformat(self.text)
            case "timestamp" | "timestamp_ntz":
                return datetime.fromisoformat(self.text)
        return self.text


@dataclass(frozen=True, slots=True)
class PredicateCall:
    """NULL is neither true nor false, as in SQL; `same` is `<=>`. All arguments of `in` but the
    first are values."""

    name: Name
    arguments: tuple[Condition, ...]


Condition: TypeAlias = Column | PredicateValue | PredicateCall


def as_json(condition: Condition) -> Json:
    match condition:
        case Column(path):
            return ["column", list(path)]
        case PredicateValue(kind, text):
            return ["value", kind, text]
        case PredicateCall(name, arguments):
            return ["call", name, list(map(as_json, arguments))]


def of_json(value: Json) -> Condition:
    """ValueError for what `as_json` does not make."""
    match value:
        case ["column", [*path]]:
            return Column(tuple(path))
        case ["value", kind, text] if kind in get_args(Kind):
            return PredicateValue(kind, text)
        case ["call", name, [*arguments]] if name in NAMES:
            return PredicateCall(name, tuple(map(of_json, arguments)))
    raise ValueError("no such condition")


def columns_of(condition: Condition) -> Iterator[str]:
    """The columns whose values decide it."""
    match condition:
        case Column(path):
            yield path[0]
        case PredicateCall(_, arguments):
            for argument in arguments:
                yield from columns_of(argument)
        case PredicateValue():
            return
