"""Operands of a condition with their types: which column a name means, and which types can be
compared.

A literal becomes a value of the type that it is compared with, exactly, or is refused at its place.
Does not belong here: the grammar (`where`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from typing import Final, Literal, TypeAlias

from controlplane.core.records.condition_error import bad_condition
from controlplane.core.records.literals import date_text, instant_text, local_text
from dataplane.contract.predicates import (
    Column,
    Condition,
    Kind,
    Name,
    PredicateCall,
    PredicateValue,
)
from dataplane.contract.schemas import Field, Schema, Type
from dataplane.contract.types import in_words

Family: TypeAlias = Literal[
    "number", "text", "boolean", "date", "timestamp", "timestamp_ntz", "other"
]
DIGITS: Final = 38  # of a decimal
LONG: Final = 2**63
INTEGERS: Final = ("byte", "short", "integer", "long")
FLOATS: Final = ("float", "double")
_INTEGER_DIGITS: Final = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_NUMBER: Final = re.compile(r"(-?)(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?([A-Za-z]*)")
_ON_TEXT: Final = ("lower", "upper", "trim", "length")
_ON_TIMES: Final = ("year", "month", "day")
FUNCTIONS: Final[dict[str, Name]] = {
    "lower": "lower", "upper": "upper", "trim": "trim", "length": "length", "abs": "abs",
    "year": "year", "month": "month", "day": "day",
}  # fmt: skip
_FORMS: Final = {
    "number": "a number",
    "text": "a text in quotes",
    "boolean": "TRUE or FALSE",
    "date": "a date such as '2013-02-28'",
    "timestamp": "a time with its zone such as '2013-02-28T07:00Z'",
    "timestamp_ntz": "a time without a zone such as '2013-02-28T07:00'",
}


@dataclass(frozen=True, slots=True)
class Operand:
    """`start`: where it begins in the condition's text."""

    condition: Condition
    type: Type
    start: int

    @property
    def literal(self) -> PredicateValue | None:
        return self.condition if isinstance(self.condition, PredicateValue) else None


class ConditionColumns:
    """Those that a condition can name."""

    def __init__(self, text: str, schema: Schema) -> None:
        self._text, self._schema = text, schema

    def column(self, path: Sequence[str], start: int) -> Operand:
        """The column, or the field of a struct, that a path of names means: as it is spelled, or
        the only one that differs in case alone."""
        fields, spelled = self._schema["fields"], list[str]()
        kind: Type = self._schema
        for name in path:
            field = _field(fields, name)
            if field is None:
                where = f" in {'.'.join(spelled)}" if spelled else ""
                raise bad_condition(
                    self._text, start, f"there is no column {name}{where}", _column_names(fields)
                )
            spelled.append(field["name"])
            kind = field["type"]
            fields = (
                kind["fields"] if not isinstance(kind, str) and kind["type"] == "struct" else []
            )
        return Operand(Column(tuple(spelled)), kind, start)


def _field(fields: Sequence[Field], name: str) -> Field | None:
    exact = [field for field in fields if field["name"] == name]
    alike = exact or [field for field in fields if field["name"].lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _column_names(fields: Sequence[Field]) -> str:
    names = [field["name"] for field in fields]
    return f"there are {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}" if names else ""


# --- literals


def literal(kind: Kind, text: str, start: int) -> Operand:
    return Operand(PredicateValue(kind, text), kind, start)


def number(text: str, written: str, start: int) -> Operand:
    """A whole number, a decimal, or a double where it has an exponent or says so (`1e3`, `2D`)."""
    match = _NUMBER.fullmatch(written)
    suffix = match[4].upper() if match else "?"
    if match is None or suffix not in ("", "L", "S", "Y", "D", "F", "BD"):
        raise bad_condition(text, start, f"{written[:40]} is no number")
    digits = match[1] + (match[2].lstrip("0") or "0")
    if match[3] or suffix in ("D", "F"):
        return literal("double", _double(text, digits + (match[3] or ""), start), start)
    if digits.lstrip("-").isdigit() and suffix != "BD":
        integer = int(digits[: DIGITS + 2])
        if -LONG <= integer < LONG:
            return literal("long", str(integer), start)
    if len(re.sub(r"\D", "", digits)) > DIGITS:
        raise bad_condition(text, start, f"{written[:50]} has more than {DIGITS} digits")
    return literal("decimal", format(Decimal(digits), "f"), start)


def _double(text: str, digits: str, start: int) -> str:
    value = float(digits)
    if not isfinite(value):
        raise bad_condition(text, start, f"{digits[:40]} is no number that a double holds")
    return repr(value)


def timed(text: str, word: str, written: str, start: int) -> Operand:
    """`DATE '...'` and the like. A TIMESTAMP without a zone is a local one."""
    if word == "TIMESTAMP" and local_text(written) is not None:
        word = "TIMESTAMP_NTZ"
    kinds: dict[str, Kind] = {
        "DATE": "date",
        "TIMESTAMP": "timestamp",
        "TIMESTAMP_NTZ": "timestamp_ntz",
    }
    kind = kinds[word]
    return literal(kind, _time(text, kind, written, start), start)


def _time(text: str, kind: str, written: str, start: int) -> str:
    read = {"date": date_text, "timestamp": instant_text, "timestamp_ntz": local_text}[kind]
    normalised = read(written)
    if normalised is None:
        raise bad_condition(text, start, f"{written[:60]!r} is not {_FORMS[kind]}")
    return normalised


# --- what may stand together


def truth(text: str, operand: Operand) -> Condition:
    """The condition in a boolean operand."""
    if operand.type != "boolean" or operand.literal is not None:
        words = "a value" if operand.literal is not None else _words(operand.type)
        raise bad_condition(
            text, operand.start, f"{words} alone is no condition", "compare it with something"
        )
    return operand.condition


def column_of(text: str, operand: Operand) -> Condition:
    """What may be NULL."""
    if operand.literal is not None:
        raise bad_condition(text, operand.start, "a value is never NULL; name a column")
    return operand.condition


def compared(text: str, name: Name, left: Operand, right: Operand) -> Condition:
    if left.literal is not None and right.literal is not None:
        raise bad_condition(text, left.start, "both sides are values; compare a column")
    family = family_of(left.type if left.literal is None else right.type)
    if family == "other":
        odd = left if left.literal is None else right
        raise bad_condition(
            text, odd.start, f"{_words(odd.type)} is not compared; only IS NULL is told of it"
        )
    if family == "boolean" and name not in ("eq", "ne", "same"):
        raise bad_condition(text, left.start, "booleans have no order; use = or <>")
    if left.literal is not None:
        return PredicateCall(name, (_as(text, left, right.type), right.condition))
    if right.literal is not None:
        return PredicateCall(name, (left.condition, _as(text, right, left.type)))
    if family_of(right.type) != family:
        raise bad_condition(
            text, right.start, f"{_words(left.type)} is not compared with {_words(right.type)}"
        )
    _check_digits(text, left.type, right.type, right.start)
    return PredicateCall(name, (left.condition, right.condition))


def among(text: str, left: Operand, values: Sequence[Operand]) -> Condition:
    if left.literal is not None:
        raise bad_condition(text, left.start, "a column is expected before IN")
    if family_of(left.type) == "other":
        raise bad_condition(
            text, left.start, f"{_words(left.type)} is not compared; only IS NULL is told of it"
        )
    for value in values:
        if value.literal is None:
            raise bad_condition(text, value.start, "IN takes values; compare columns by = and OR")
    return PredicateCall(
        "in", (left.condition, *(_exactly(text, value, left.type) for value in values))
    )


def liked(text: str, name: Name, left: Operand, pattern: Operand) -> Condition:
    if family_of(left.type) != "text" or left.literal is not None:
        raise bad_condition(
            text, left.start, f"LIKE is for columns of text; this is {_words(left.type)}"
        )
    if pattern.literal is None or pattern.literal.kind != "string":
        raise bad_condition(text, pattern.start, "a pattern is expected, such as 'A%'")
    if re.search(r"(?<!\\)(?:\\\\)*\\(?![%_\\])", pattern.literal.text):
        raise bad_condition(
            text, pattern.start, "a backslash in a pattern stands before %, _ or another one"
        )
    return PredicateCall(name, (left.condition, pattern.condition))


def called(text: str, name: str, argument: Operand, start: int) -> Operand:
    family = family_of(argument.type)
    fits = {
        "text": name in _ON_TEXT,
        "number": name == "abs",
        "date": name in _ON_TIMES,
        "timestamp": name in _ON_TIMES,
        "timestamp_ntz": name in _ON_TIMES,
    }.get(family, False)
    if not fits or argument.literal is not None:
        words = "a value" if argument.literal is not None else _words(argument.type)
        raise bad_condition(text, argument.start, f"{name}(...) does not take {words}")
    kind = argument.type if name in ("lower", "upper", "trim", "abs") else "long"
    return Operand(PredicateCall(FUNCTIONS[name], (argument.condition,)), kind, start)


def family_of(kind: Type) -> Family:
    if not isinstance(kind, str):
        return "other"
    if kind in INTEGERS or kind in FLOATS or _DECIMAL.fullmatch(kind):
        return "number"
    match kind:
        case "string":
            return "text"
        case "boolean" | "date" | "timestamp" | "timestamp_ntz":
            return kind
    return "other"


def _as(text: str, operand: Operand, kind: Type) -> PredicateValue:
    """A literal as a value that is compared with this type."""
    value, family = operand.literal, family_of(kind)
    assert value is not None
    if family in ("date", "timestamp", "timestamp_ntz"):
        if value.kind == family:
            return value
        if value.kind == "string":
            return PredicateValue(family, _time(text, family, value.text, operand.start))
    elif family == family_of(value.kind if value.kind != "decimal" else "decimal(1,0)"):
        return _number_as(text, value, kind, operand.start) if family == "number" else value
    shown = f"{value.text[:40]!r} is {value.kind}"
    message = f"{shown}; it is compared with {_words(kind)}"
    raise bad_condition(text, operand.start, message, f"write {_FORMS[family]}")


def _number_as(text: str, value: PredicateValue, kind: Type, start: int) -> PredicateValue:
    if kind in FLOATS:
        return PredicateValue("double", _double(text, value.text, start))
    if value.kind == "double":
        return value
    if value.kind == "long" and kind in INTEGERS:
        return value
    digits = Decimal(value.text)
    scale = max(0, -int(digits.as_tuple().exponent))
    _check_digits(
        text, kind, f"decimal({max(len(digits.as_tuple().digits), scale)},{scale})", start
    )
    return PredicateValue("decimal", value.text)


def _exactly(text: str, operand: Operand, kind: Type) -> PredicateValue:
    """A literal as a value of this type, which it can equal."""
    value = _as(text, operand, kind)
    if family_of(kind) != "number" or kind in FLOATS:
        return value
    exact = Decimal(value.text)
    scale = _scale(kind)
    if exact != round(exact, scale):
        raise bad_condition(text, operand.start, f"{value.text} never equals {_words(kind)}")
    if kind in INTEGERS and not -LONG <= exact < LONG:
        raise bad_condition(text, operand.start, f"{value.text} never equals {_words(kind)}")
    return (
        PredicateValue("long", str(int(exact)))
        if kind in INTEGERS
        else PredicateValue("decimal", format(exact, "f"))
    )


def _check_digits(text: str, left: Type, right: Type, start: int) -> None:
    """Two exact numbers are compared as decimals that hold both."""
    if (
        family_of(left) != "number"
        or left in FLOATS
        or right in FLOATS
        or (left in INTEGERS and right in INTEGERS)
    ):
        return
    scale = max(_scale(left), _scale(right))
    if max(_whole_digits(left), _whole_digits(right)) + scale > DIGITS:
        message = f"no decimal of {DIGITS} digits holds {_words(left)} and {_words(right)}"
        raise bad_condition(text, start, message, "write fewer digits")


def _scale(kind: Type) -> int:
    decimal = _DECIMAL.fullmatch(kind) if isinstance(kind, str) else None
    return int(decimal[2]) if decimal else 0


def _whole_digits(kind: Type) -> int:
    decimal = _DECIMAL.fullmatch(kind) if isinstance(kind, str) else None
    if decimal is not None:
        return int(decimal[1]) - int(decimal[2])
    return _INTEGER_DIGITS.get(kind, 0) if isinstance(kind, str) else 0


def _words(kind: Type) -> str:
    return in_words(kind)
