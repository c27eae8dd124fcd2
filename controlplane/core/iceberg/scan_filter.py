"""A reader's filter, as files are pruned by it. Pure.

https://iceberg.apache.org/spec/#appendix-c-json-serialization

A filter only leaves out files: readers filter rows themselves. So a part that is not understood
leaves all in.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from operator import attrgetter
from typing import Final

from controlplane.core.records.literals import date_text, instant_text, local_text
from dataplane.contract.predicates import (
    Column,
    Condition,
    Kind,
    Name,
    PredicateCall,
    PredicateValue,
)
from dataplane.contract.schemas import Json, Schema, Type, field_types

DEEPEST: Final = 100
MOST_VALUES: Final = 200  # of `in` that are compared one by one
_EVERY: Final = PredicateCall("same", ())  # which prunes nothing, negated or not
_COMPARISONS: Final[dict[str, Name]] = {
    "eq": "eq", "not-eq": "ne", "lt": "lt", "lt-eq": "le", "gt": "gt", "gt-eq": "ge",
}  # fmt: skip
_NEGATED: Final = {
    "eq": "not-eq", "not-eq": "eq", "lt": "gt-eq", "gt-eq": "lt", "gt": "lt-eq", "lt-eq": "gt",
    "is-null": "not-null", "not-null": "is-null", "not-in": "in",
}  # fmt: skip
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER: Final = re.compile(r"-?\d{1,40}(\.\d{1,40})?", re.ASCII)


def condition_of(expression: Json, schema: Schema) -> Condition:
    """A condition that is true wherever the filter is."""
    return _condition(expression, field_types(schema), 0, negated=False)


def _condition(node: Json, types: dict[str, Type], depth: int, *, negated: bool) -> Condition:
    """Negations are pushed down to predicates: Iceberg's are true or false of NULL as well."""
    if not isinstance(node, dict) or depth > DEEPEST:
        return _EVERY
    match node:
        case {"type": "and" | "or" as name, "left": left, "right": right}:
            sides = (_condition(side, types, depth + 1, negated=negated) for side in (left, right))
            return PredicateCall("and" if (name == "and") is not negated else "or", tuple(sides))
        case {"type": "not", "child": child}:
            return _condition(child, types, depth + 1, negated=not negated)
        case {"type": str(name), "term": str(column), **rest}:
            kind, own = types.get(column), _NEGATED.get(name, "") if negated else name
            return _predicate(own, column, kind, rest) if isinstance(kind, str) else _EVERY
    return _EVERY


def _predicate(name: str, column: str, kind: str, rest: Json) -> Condition:
    term = Column((column,))
    is_null = PredicateCall("is_null", (term,))
    if name == "is-null":
        return is_null
    if name == "not-null":
        return PredicateCall("not", (is_null,))
    if name in _COMPARISONS:
        bound = _literal(rest.get("value"), kind)
        if bound is None:
            return _EVERY
        comparison = PredicateCall(_COMPARISONS[name], (term, bound))
        return PredicateCall("or", (is_null, comparison)) if name == "not-eq" else comparison
    if name == "in" and isinstance(rest.get("values"), list):
        constants = [_literal(text, kind) for text in rest["values"]]
        certain = [constant for constant in constants if constant is not None]
        return _among(term, certain) if len(certain) == len(constants) else _EVERY
    if name == "starts-with" and kind == "string" and isinstance(rest.get("value"), str):
        return PredicateCall("like", (term, PredicateValue("string", rest["value"])))
    return _EVERY


def _among(term: Column, constants: list[PredicateValue]) -> Condition:
    """Whether a column has one of these; of many, whether it is between the least and greatest."""
    if len(constants) <= MOST_VALUES:
        return PredicateCall("in", (term, *constants))
    ordered = sorted(constants, key=attrgetter("plain"))  # all are of one type
    ends = PredicateCall("ge", (term, ordered[0])), PredicateCall("le", (term, ordered[-1]))
    return PredicateCall("and", ends)


def _literal(literal: Json, kind: str) -> PredicateValue | None:
    """None for a value that is not of the column's type."""
    family: Kind
    if isinstance(literal, bool):
        text, family = str(literal).lower(), "boolean"
        return PredicateValue(family, text) if kind == "boolean" else None
    if kind in ("byte", "short", "integer", "long") and isinstance(literal, int):
        return PredicateValue("long", str(literal))
    if kind.startswith("decimal(") and _NUMBER.fullmatch(str(literal)):
        return PredicateValue("decimal", str(literal))
    if kind == "string" and isinstance(literal, str):
        return PredicateValue("string", literal)
    return _time(literal, kind)


def _time(literal: Json, kind: str) -> PredicateValue | None:
    """Dates and times are texts, or numbers of days or microseconds since 1970."""
    try:
        match kind:
            case "date":
                text = _days(literal) if isinstance(literal, int) else date_text(str(literal))
                return None if text is None else PredicateValue("date", text)
            case "timestamp":
                text = instant_text(
                    _instant(literal) + "Z" if isinstance(literal, int) else str(literal)
                )
                return None if text is None else PredicateValue("timestamp", text)
            case "timestamp_ntz":
                text = local_text(_instant(literal) if isinstance(literal, int) else str(literal))
                return None if text is None else PredicateValue("timestamp_ntz", text)
    except (ValueError, OverflowError):
        return None
    return None


def _days(days: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=days)).isoformat()


def _instant(microseconds: int) -> str:
    return (_EPOCH + timedelta(microseconds=microseconds)).replace(tzinfo=None).isoformat()
